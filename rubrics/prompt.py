"""Renders prompts and fences untrusted text.

Owns the fence: every piece of case text stands between markers that its author cannot know, chat-control tokens
in it are disarmed in the copy that is sent, and case text is never used as a template. Knows no rubric.
"""

import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template, meta

_CONTROL = re.compile(
    r"<\|[^<>|\n]{1,64}\|>"  # <|im_start|>, <|eot_id|>, <|endoftext|> and kin
    r"|<\uff5c[^<>\n]{1,64}\uff5c>"  # the same with full-width bars
    r"|</?(?:s|bos|eos|pad|unk|mask|sop|eop|start_of_turn|end_of_turn|start_of_image|think|system|assistant|user|human"
    r"|tool_call|tool_response|tools|repo_name|reponame|filename|file_sep|gh_stars|issue_(?:start|comment|closed)"
    r"|jupyter_(?:start|text|code|output|script)|empty_output|extra_id_\d+|unused\d+|0x[0-9a-f]{2})>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|IMG|THINK)\]"
    r"|\[(?:CLS|SEP|MASK|PAD|UNK|gMASK|sMASK)\]"
    r"|<</?SYS>>",
    re.IGNORECASE,
)
_SUSPICIOUS = re.compile(
    r"<</?[^\W\d][\w .-]{0,60}>>"  # this service's own fence, whatever its marker
    r"|^[ \t]*(?:SYSTEM|ASSISTANT|DEVELOPER)[ \t]*:"
    r"|[{,]\s*\"(?:verdict|winner|score|label|rating|passed|refusal|support)\"\s*:"
    r"|</(?:think|thinking|reasoning|context|answer|question|data|instructions?)>"
    r"|^[-=#]{3,}[ \t]*(?:END|BEGIN|STOP)\b[^\n]{0,60}$",
    re.MULTILINE | re.IGNORECASE,
)
_WORD_JOINER = "\u2060"
_CONSONANTS = "bdfgjklmnprstvwz"
_VOWELS = "aeio"
_SYLLABLES = 7
"""42 bits. Syllables cost a judge model half the tokens of as many bits in digits, six times in a prompt."""


def disarm(text: str) -> str:
    """The text with chat-control tokens broken by an invisible word joiner; everything else byte for byte.

    A model's tokenizer may turn such strings into control tokens wherever they stand, which would let data
    close its own message. The stored case is never changed.
    """
    if not _may_control(text):
        return text
    return _CONTROL.sub(lambda match: match[0][0] + _WORD_JOINER + match[0][1:], text)


def _may_control(text: str) -> bool:
    # Every control token begins with one of these, and most texts hold neither.
    return "<" in text or "[" in text


def control_tokens(text: str) -> tuple[str, ...]:
    """The chat-control tokens in `text`, each once, in order: a reason to mark a case as suspicious."""
    return tuple(dict.fromkeys(match[0] for match in _CONTROL.finditer(text)))


def suspicious(text: str) -> bool:
    """Whether `text` imitates a part of a prompt or of a reply: a reason to mark a judgment, never to change one.

    Chat-control tokens, fence markers, end markers, a verdict as JSON, a line in the voice of the system. Honest texts
    about such things are marked too.
    """
    if _may_control(text) and _CONTROL.search(text) is not None:
        return True
    return any(sign in text for sign in "<:-=#") and _SUSPICIOUS.search(text) is not None


@dataclass(frozen=True, slots=True)
class Fence:
    """Marks where untrusted text begins and ends in one prompt.

    The marker is a keyed hash of what is judged: an author of case text cannot know it, both orders of a pair
    share it (so that a prefix cache helps), and the same case gives the same prompt again.
    """

    marker: str

    @classmethod
    def derive(cls, key: bytes, subject: str, texts: Iterable[str]) -> "Fence":
        """A marker for `subject` under the installation's secret `key` that occurs in none of `texts`."""
        pool = "\n".join(texts)
        for counter in range(1_000):
            digest = hmac.digest(key, f"{counter}|{subject}".encode(), "sha256")
            marker = "".join(_CONSONANTS[byte % 16] + _VOWELS[byte // 64] for byte in digest[:_SYLLABLES])
            if marker not in pool:
                return cls(marker)
        raise ValueError("no fence marker is free of collisions with the case text")

    def block(self, name: str, text: str) -> str:
        """`text` disarmed and fenced as the data item `name`."""
        return f"<<{name} {self.marker}>>\n{disarm(text)}\n<</{name} {self.marker}>>"


@lru_cache(maxsize=64)
def _environment(package: str) -> Environment:
    # Markdown prompts are not HTML; escaping would change the data that the judge must see byte for byte.
    return Environment(
        loader=PackageLoader(package, ""),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
        autoescape=False,  # noqa: S701
        # A released template never changes, so no file is looked at again after the first use.
        auto_reload=False,
    )


@lru_cache(maxsize=256)
def _template(package: str, template: str) -> Template:
    found = _environment(package).get_template(template)
    # A plain dict: every rendering copies it, and the chain of maps that it comes as is slow to copy.
    found.globals = dict(found.globals)
    return found


@lru_cache(maxsize=256)
def _fixed(package: str, template: str) -> str:
    return _template(package, template).render().strip()


def render(package: str, template: str, **values: Any) -> str:
    """Render the packaged `template` of a rubric folder. Case text enters as values only, never as a template."""
    return _template(package, template).render(**values).strip() if values else _fixed(package, template)


def placeholders(package: str, template: str) -> frozenset[str]:
    """The names that the packaged `template` needs. Raises jinja2.TemplateSyntaxError for a broken template."""
    environment = _environment(package)
    loader = environment.loader
    if loader is None:
        raise ValueError(f"{package} has no templates")
    source, _, _ = loader.get_source(environment, template)
    return frozenset(meta.find_undeclared_variables(environment.parse(source)))


def check_template(package: str, template: str, names: Iterable[str]) -> None:
    """Raises ValueError naming the placeholders of `template` that no value exists for, and values it never uses."""
    needed, offered = placeholders(package, template), frozenset(names)
    problems = []
    if unknown := sorted(needed - offered):
        problems.append(f"unknown placeholders: {', '.join(unknown)}")
    if unused := sorted(offered - needed):
        problems.append(f"unused placeholders: {', '.join(unused)}")
    if problems:
        raise ValueError(f"{template}: {'; '.join(problems)}")
