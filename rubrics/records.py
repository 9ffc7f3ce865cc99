"""Base classes of everything a rubric produces or reads.

Owns the distinction between a *decoding model* (what a judge may write), a *record* (what the service
publishes, derived by code) and a *human label*. Knows no rubric in particular and no backend.
"""

from enum import StrEnum
from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, field_validator

Order = Literal["AB", "BA"]
"""Presentation order of a pair: `AB` shows the caller's A first, `BA` shows the caller's B first."""

Slot = Literal["first", "second", "tie"]
"""A raw pairwise verdict, named by the position shown, not by the caller's answer."""

Elicitation = Literal["reasoned", "direct"]
"""`reasoned`: JSON with rationale and evidence before the verdict. `direct`: the bare verdict label."""


class Outcome(StrEnum):
    """How a judgment ended. Only `scored` carries a number."""

    SCORED = "scored"
    NOT_APPLICABLE = "not_applicable"
    INCONSISTENT = "inconsistent"
    JUDGE_ERROR = "judge_error"


class NotApplicableReason(StrEnum):
    """Why a case had nothing to judge."""

    NO_CLAIMS = "no_claims"
    EMPTY_ANSWER = "empty_answer"
    EMPTY_CONTEXT = "empty_context"
    NO_CITATIONS = "no_citations"
    NO_STATEMENTS = "no_statements"


def unicode_only(value: Any) -> Any:
    """`value` unchanged. Raises ValueError for a text with half of a surrogate pair, which no UTF-8 can carry."""
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"character {error.start} is half of a surrogate pair and no valid Unicode") from None
    return value


class CaseInput(BaseModel):
    """Base of a rubric's case model: what the judge is given. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=False)

    @field_validator("*", mode="after")
    @classmethod
    def _is_unicode(cls, value: Any) -> Any:
        return unicode_only(value)

    @classmethod
    def accepted_fields(cls) -> frozenset[str]:
        """Every field name a case may use, other spellings included."""
        names = set(cls.model_fields)
        for field in cls.model_fields.values():
            if isinstance(field.validation_alias, AliasChoices):
                names.update(choice for choice in field.validation_alias.choices if isinstance(choice, str))
        return frozenset(names)


class DecodingModel(BaseModel):
    """Base of the shape a judge's reply must have.

    Flat, closed, every property required, rationale and evidence before the verdict, keys equal to the ids
    that were sent. Strict: a string is never read as a number or a boolean.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Record(BaseModel):
    """Base of a public record. Derived by code from a reply and validated again.

    Raw fields only: scores are read with the rubric's score rule, so that a dumped record loads again.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)


class HumanLabel(BaseModel):
    """Base of what a person answers to one case under one rubric version."""

    model_config = ConfigDict(extra="forbid", frozen=True)
