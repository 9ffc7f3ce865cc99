"""Finds a quote in a text: tolerant to how characters are written, strict on letters and digits.

Owns what counts as the same character. Offsets always cut the original text.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_SAME = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u2035\u02b9\u02bc\u02bb`\u00b4\u2039\u203a\uff07", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u2036\u00ab\u00bb\u301d\u301e\u301f\uff02", '"'),
    **dict.fromkeys("\u2212\ufe58\ufe63\uff0d\u2043", "-"),
    "\u2026": "...",
    "\ufb00": "ff",
    "\ufb01": "fi",
    "\ufb02": "fl",
    "\ufb03": "ffi",
    "\ufb04": "ffl",
    "\ufb05": "st",
    "\ufb06": "st",
}
# What may change when folded: white space, controls, back quotes, and other characters with the one they may combine
# with.
_ODD = re.compile(r"[\s\x00-\x1f\x7f`]+|[\x00-\x7f]?[^\x00-\x7f]+")

_ASCII = dict.fromkeys((*range(32), 127)) | dict.fromkeys((*range(9, 14), *range(28, 32)), " ") | {96: "'"}
_SPACES = re.compile(r" {2,}")


def _is_plain(ascii_text: str) -> bool:
    """Whether folding changes nothing but spaces at the ends."""
    return ascii_text.isprintable() and "`" not in ascii_text and "  " not in ascii_text


@dataclass(frozen=True, slots=True)
class Span:
    """`text[start:end]` in code points of the original."""

    start: int
    end: int


def _clusters(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for position in range(1, len(text)):
        if not unicodedata.combining(text[position]):
            yield start, position
            start = position
    if text:
        yield start, len(text)


def _fold_cluster(cluster: str) -> str:
    folded = []
    for char in unicodedata.normalize("NFD", cluster):
        if char.isspace():
            folded.append(" ")
        elif char in _SAME:
            folded.append(_SAME[char])
        elif (category := unicodedata.category(char)) == "Pd":
            folded.append("-")
        elif category not in ("Cf", "Cc"):  # soft hyphens, zero-width and direction marks show nothing
            folded.append(char)
    return "".join(folded)


def fold(text: str) -> str:
    """`text` in one spelling: canonical decomposition, plain quotes, dashes and ligatures, single spaces, no
    zero-width characters. Letters, digits and case stay (`x²` is not `x2`).
    """
    if text.isascii():
        # Most texts: the same result without a step a character (a property test compares the two).
        if _is_plain(text):
            return text.strip(" ")
        return _SPACES.sub(" ", text.translate(_ASCII)).strip(" ")
    return Folded(text).folded.strip(" ")


@dataclass(slots=True)
class Folded:
    """A text prepared for many look-ups; the work is done at the first quote that is not there literally."""

    text: str
    _folded: str | None = field(default=None, init=False, repr=False)
    _starts: Sequence[int] = field(default=(), init=False, repr=False)
    _ends: Sequence[int] = field(default=(), init=False, repr=False)

    @property
    def folded(self) -> str:
        """The text in one spelling."""
        if self._folded is None:
            self._fold()
        return self._folded or ""

    def _fold(self) -> None:
        if self.text.isascii() and _is_plain(self.text):
            self._folded = self.text
            self._starts, self._ends = range(len(self.text)), range(1, len(self.text) + 1)
        else:
            self._fold_slowly()

    def _fold_slowly(self) -> None:
        starts: list[int] = []
        ends: list[int] = []
        out: list[str] = []
        last = ""
        position = 0
        for match in (*_ODD.finditer(self.text), None):
            # Plain stretches are taken as they are: folding costs a microsecond a character.
            end = len(self.text) if match is None else match.start()
            if end > position:
                out.append(self.text[position:end])
                starts.extend(range(position, end))
                ends.extend(range(position + 1, end + 1))
                last = self.text[end - 1]
            if match is None:
                break
            position = match.end()
            for left, right in _clusters(match[0]):
                for char in _fold_cluster(match[0][left:right]):
                    if char == " " == last:
                        ends[-1] = match.start() + right
                        continue
                    out.append(char)
                    last = char
                    starts.append(match.start() + left)
                    ends.append(match.start() + right)
        self._folded, self._starts, self._ends = "".join(out), starts, ends

    def find(self, quote: str, *, cut: bool = False) -> Span | None:
        """Where `quote` first stands, or None. It may not begin or end inside a word, a number or a character;
        with `cut` its end may be inside a word or a number, because the quote was cut at its length limit.
        """
        wanted = fold(quote)
        if not wanted:
            return None
        literal = quote.strip()
        at = self.text.find(literal) if literal else -1
        if at >= 0 and self._whole(at, at + len(literal), cut=cut):
            return Span(at, at + len(literal))
        folded, position = self.folded, -1
        while (position := folded.find(wanted, position + 1)) >= 0:
            last = position + len(wanted) - 1
            inside = (position > 0 and self._starts[position - 1] == self._starts[position]) or (
                last + 1 < len(folded) and self._starts[last + 1] == self._starts[last]
            )
            span = Span(self._starts[position], self._ends[last])
            if not inside and self._whole(span.start, span.end, cut=cut):
                return span
        return None

    def _whole(self, start: int, end: int, *, cut: bool) -> bool:
        if end < len(self.text) and unicodedata.combining(self.text[end]):
            return False
        before, after = _visible(self.text, start - 1, -1), _visible(self.text, end, 1)
        first, last = self.text[start], self.text[end - 1]
        if _joined(before, first, self.text[max(0, start - 2) : start - 1]):
            return False
        return cut or not _joined(last, after, self.text[end + 1 : end + 2], forward=True)


def _visible(text: str, position: int, step: int) -> str:
    while 0 <= position < len(text):
        char = text[position]
        if unicodedata.category(char) != "Cf" and not unicodedata.combining(char):
            return char
        position += step
    return ""


def _joined(left: str, right: str, beyond: str, *, forward: bool = False) -> bool:
    """Do two neighbours belong to one word or number? `beyond` is the next character on the side cut off."""
    if not left or not right:
        return False
    if left.isdecimal() and right.isdecimal():
        return True
    # 5 in 3.5 and 900 in 1,900 or 900.5 are parts of another number.
    inner, outer = (left, right) if forward else (right, left)
    if inner.isdecimal() and outer in ".," and beyond.isdecimal():
        return True
    # Scripts without upper and lower case are written without spaces between words, so a cut there is fine.
    return _cased(left) and _cased(right)


def _cased(char: str) -> bool:
    return char.isalpha() and char.lower() != char.upper()


def find_quote(text: str, quote: str, *, cut: bool = False) -> Span | None:
    """Where `quote` stands in `text`, or None; see `Folded.find`."""
    return Folded(text).find(quote, cut=cut)
