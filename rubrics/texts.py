"""Small facts about text that several rubrics need: is it empty, on one line, the same statement?

Owns passages as callers give them. Knows no rubric.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from rubrics.records import unicode_only

# Characters of other categories that draw nothing: fillers of Hangul and Khmer, the empty Braille cell.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_BREAKS = re.compile(r"[\s\x00-\x1f\x7f\x85\u2028\u2029]*[\n\r\t\v\f\x1c-\x1e\x85\u2028\u2029][\s\x00-\x1f]*")


def is_blank(text: str | None) -> bool:
    """True when nothing in `text` can be seen: None, white space, controls, zero-width characters."""
    # Most texts begin with a letter: one look decides.
    if text and text[0].isalnum() and text[0] not in _INVISIBLE:
        return False
    return text is None or all(
        char in _INVISIBLE or char.isspace() or unicodedata.category(char)[0] in "ZC" for char in text
    )


def says_nothing(text: str) -> bool:
    """True when `text` holds no letter and no digit of any script, so it can state nothing."""
    # Most texts begin with a letter: one look decides.
    return not text[:1].isalnum() and not any(unicodedata.category(char)[0] in "LN" for char in text)


def one_line(text: str) -> str:
    """`text` with every run of line breaks and tabs made one space, for lists with one item a line."""
    # What can be printed holds none of them.
    return (text if text.isprintable() else _BREAKS.sub(" ", text)).strip()


class Passage(BaseModel):
    """A text that an answer is held against. A plain string is read as a passage without id and title."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str
    id: str | None = Field(default=None, description="The caller's own id of the passage.")
    title: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"text": value} if isinstance(value, str) else value

    @field_validator("*", mode="after")
    @classmethod
    def _is_unicode(cls, value: Any) -> Any:
        return unicode_only(value)

    @property
    def shown(self) -> str:
        """What a judge reads: the title, if any, above the text."""
        return self.text if is_blank(self.title) else f"Title: {self.title}\n{self.text}"


def numbered(prefix: str, passages: Iterable[Passage]) -> dict[str, Passage]:
    """The passages that hold text, by the id under which they are sent: `prefix` and the position from 1."""
    return {
        f"{prefix}{position}": passage
        for position, passage in enumerate(passages, start=1)
        if not is_blank(passage.text)
    }
