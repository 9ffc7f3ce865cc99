"""A case: one thing to judge, with the caller's id, its slices and a content hash."""

from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from judge_service.domain.canonical import content_hash

CaseId = Annotated[str, Field(min_length=1, max_length=512)]
Scalar = str | int | float | bool | None
_READING = "_reading"


class Case(BaseModel):
    """One case before a rubric reads it.

    `input` holds the fields of the rubric's case model; `metadata` are keys to slice by and never reach a judge;
    `group` is the unit of independence (source document, conversation). The content hash covers `input` only.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: CaseId
    input: dict[str, Any]
    group: str | None = None
    metadata: dict[str, Scalar] = Field(default_factory=dict)

    def __copy__(self) -> Self:
        """A copy that inherits neither hash nor reading: `model_copy(update=...)` may change what they cover."""
        copied = super().__copy__()
        copied.__dict__.pop("content_hash", None)
        copied.__dict__.pop(_READING, None)
        return copied

    def reading_of(self, reader: object) -> object | None:
        """What `reader` kept with this case; None where it kept nothing, or another one did since."""
        kept = self.__dict__.get(_READING)
        return kept[1] if kept is not None and kept[0] is reader else None

    def keep_reading(self, reader: object, reading: object) -> None:
        """Keep what `reader` made of this case for as long as the case lives; it is no part of the case."""
        self.__dict__[_READING] = (reader, reading)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over the canonical JSON of `input`."""
        return content_hash(self.input)
