"""Text of a model or a person as a page shows it: what has no shape of its own is written out.

Owns which characters mislead a reader: those that turn the direction of text or show nothing at all. Pages only: stored
and exported text is never changed. Joiners stay where a script or an emoji needs them.
"""

import re
import unicodedata

from markupsafe import Markup, escape

_MISLEADING = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # controls except tab and line ends
    "\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # direction, zero width, separators
    "\U000e0000-\U000e0fff]"  # tags and variation selectors beyond those of emoji: text that nobody sees
    "|[\u200c\u200d]"
)
_JOINERS = "\u200c\u200d"


def visible(text: str) -> str:
    """`text` with every misleading character as `[U+XXXX]`; equal to `text` where it has none."""
    return _MISLEADING.sub(_written, text)


def pieces(text: str) -> list[tuple[str, str | None]]:
    """The text cut up: each piece with None, each misleading character with how `visible` writes it out."""
    found: list[tuple[str, str | None]] = []
    at = 0
    for match in _MISLEADING.finditer(text):
        written = _written(match)
        if written != match.group():
            found += [(text[at : match.start()], None), (match.group(), written)]
            at = match.end()
    return [*found, (text[at:], None)]


def _written(match: re.Match[str]) -> str:
    character = match.group()
    if character in _JOINERS and _joins(match.string, match.start()):
        return character
    return f"[U+{ord(character):04X}]"


def _joins(text: str, at: int) -> bool:
    """True where a joiner stands after a letter of a script that uses it, or inside an emoji."""
    before = text[at - 1] if at else ""
    after = text[at + 1 : at + 2]
    if before == "\ufe0f" or _emoji(before):
        return text[at] == "\u200d" and _emoji(after)
    return _cursive(before) and (not after or not after.isascii() or not after.isalnum())


def _emoji(character: str) -> bool:
    return bool(character) and unicodedata.category(character) in ("So", "Sk")


def _cursive(character: str) -> bool:
    """Scripts whose letters join: Arabic, Syriac and their kin, and those of South and South-East Asia."""
    code = ord(character) if character else 0
    return 0x0600 <= code <= 0x109F or 0x1780 <= code <= 0x18AF or 0xA800 <= code <= 0xABFF or 0xFB50 <= code <= 0xFEFC


def code(text: str) -> Markup:
    """`text` escaped and visible; what stands between backticks is code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(visible(str(text))))))  # noqa: S704  # escaped just now


def shown(value: object) -> object:
    """What templates do with every value they print. Markup stays: `{{ text|e }}` in a field keeps a text exact."""
    return visible(value) if type(value) is str else value
