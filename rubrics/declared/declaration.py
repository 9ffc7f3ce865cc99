"""What a declared rubric states, and why a declaration is refused.

Owns the declaration and its rules; every refusal has the path of the field. Knows no prompt and no reply.
"""

import json
from collections.abc import Iterable
from itertools import pairwise
from math import isfinite
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictInt,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from rubrics.records import DecodingModel, unicode_only
from rubrics.texts import is_blank

Input = Literal["question", "contexts", "answer", "reference"]
CANNOT_SAY = "cannot_say"
"""What a person answers who cannot decide; no label of a criterion may be called so."""

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,47}$", description="Small letters, digits, underscores.")]
Text = Annotated[str, Field(min_length=1, max_length=2_000)]
LABEL_LENGTH = 64


def _refusal(problems: Iterable[tuple[tuple[str | int, ...], str]]) -> ValidationError:
    # A plain ValueError of a validator names the field it stands on only; this names the part of the field.
    details = [
        InitErrorDetails(type=PydanticCustomError("declaration", "{reason}", {"reason": reason}), loc=where, input=None)
        for where, reason in problems
    ]
    return ValidationError.from_exception_data("Declaration", details)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    @field_validator("*", mode="after")
    @classmethod
    def _is_unicode(cls, value: Any) -> Any:
        return unicode_only(value)


class Level(_Part):
    """One level of an ordered scale."""

    value: Annotated[StrictInt, Field(ge=-1_000, le=1_000)]
    description: Text

    @property
    def shown(self) -> str:
        """The level as a judge writes it."""
        return str(self.value)


class DeclaredLabel(_Part):
    """One named label; a text alone is read as its name. `score` (0 to 1) is what the label is worth."""

    name: Annotated[str, Field(min_length=1, max_length=LABEL_LENGTH)]
    description: Annotated[str, Field(max_length=2_000)] = ""
    score: Annotated[float | None, Field(ge=0, le=1, allow_inf_nan=False)] = None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @field_validator("name")
    @classmethod
    def _every_judge_can_write_it(cls, name: str) -> str:
        if not (name.isascii() and name.isprintable()):
            raise ValueError(
                "a label is printable ASCII, which every judge can be held to; describe it in any language"
            )
        if name == CANNOT_SAY:
            raise ValueError(f"{CANNOT_SAY} is what people answer who cannot decide")
        return name

    @property
    def shown(self) -> str:
        """The label as a judge writes it, in quotation marks."""
        return json.dumps(self.name)


class Criterion(_Part):
    """One thing to decide: by `levels` of an ordered scale, or by named `labels`.

    Weights are relative and never negative; a criterion of weight 0 is reported, not scored.
    """

    name: Name
    text: Text
    weight: float = Field(default=1.0, description="Finite, 0 or more. 0: reported, not scored.")
    levels: Annotated[tuple[Level, ...] | None, Field(description="2 to 10 levels, lowest first.")] = None
    labels: Annotated[tuple[DeclaredLabel, ...] | None, Field(description="2 to 50 labels.")] = None

    @field_validator("name")
    @classmethod
    def _no_reserved_name(cls, name: str) -> str:
        if hasattr(DecodingModel, name) or name.startswith("model_"):
            raise ValueError(f"{name!r} is a reserved name")
        return name

    @field_validator("weight")
    @classmethod
    def _weighs(cls, weight: float, info: ValidationInfo) -> float:
        if not isfinite(weight) or weight < 0:
            name = info.data.get("name", "of this place")
            raise ValueError(f"the weight of criterion {name} must be finite and not negative")
        return weight

    @field_validator("levels")
    @classmethod
    def _levels_rise(cls, levels: tuple[Level, ...] | None) -> tuple[Level, ...] | None:
        if levels is None:
            return None
        if not 2 <= len(levels) <= 10:
            raise ValueError(f"a scale has 2 to 10 levels, not {len(levels)}")
        problems = [
            ((place, "value"), f"level {level.value} does not lie above {below.value}: levels rise strictly")
            for place, (below, level) in enumerate(pairwise(levels), start=1)
            if level.value <= below.value
        ]
        if problems:
            raise _refusal(problems)
        return levels

    @field_validator("labels")
    @classmethod
    def _labels_differ(cls, labels: tuple[DeclaredLabel, ...] | None) -> tuple[DeclaredLabel, ...] | None:
        if labels is None:
            return None
        if not 2 <= len(labels) <= 50:
            raise ValueError(f"there must be at least two labels and at most 50, not {len(labels)}")
        if problems := _repeated((label.name for label in labels), "label"):
            raise _refusal(problems)
        scored = sum(label.score is not None for label in labels)
        if 0 < scored < len(labels):
            raise _refusal(
                ((place, "score"), "either every label of a criterion has a score or none has")
                for place, label in enumerate(labels)
                if label.score is None
            )
        return labels

    @model_validator(mode="after")
    def _one_kind_of_answer(self) -> "Criterion":
        if (self.levels is None) == (self.labels is None):
            raise ValueError(f"criterion {self.name} needs either levels or labels")
        if self.labels is not None and self.labels[0].score is None and self.weight > 0:
            reason = "labels without scores carry no number: give each one a score (0 to 1), or the criterion weight 0"
            raise _refusal([(("labels",), reason)])
        return self

    @property
    def choices(self) -> tuple[Level | DeclaredLabel, ...]:
        """What it may be answered, in declared order."""
        return self.levels or self.labels or ()

    @property
    def values(self) -> tuple[int, ...] | tuple[str, ...]:
        """The values a reply may hold: integers of levels, names of labels."""
        if self.levels is not None:
            return tuple(level.value for level in self.levels)
        return tuple(label.name for label in self.labels or ())

    def normalised(self, value: int | str) -> float | None:
        """The score of an answer from 0 to 1: `(x - min) / (max - min)` of a level, the score a label has, if any."""
        if self.levels is not None:
            low, high = self.levels[0].value, self.levels[-1].value
            return (int(value) - low) / (high - low)
        return next(label.score for label in self.labels or () if label.name == value)


class Declaration(_Part):
    """A rubric version as data. `pass_at` is for several criteria: from that overall score on the label is `pass`."""

    name: Name
    version: Annotated[StrictInt, Field(ge=1, le=1_000_000)]
    title: Annotated[str, Field(max_length=200)] = ""
    inputs: Annotated[tuple[Input, ...], Field(description="The fields of a case; `answer` is one of them.")] = (
        "question",
        "answer",
    )
    criteria: Annotated[tuple[Criterion, ...], Field(description="1 to 20 criteria.")]
    pass_at: Annotated[float | None, Field(ge=0, le=1, allow_inf_nan=False)] = None

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"

    @field_validator("inputs")
    @classmethod
    def _inputs_differ(cls, inputs: tuple[Input, ...]) -> tuple[Input, ...]:
        if len(set(inputs)) != len(inputs):
            raise ValueError("an input stands here twice")
        if "answer" not in inputs:
            raise ValueError("the answer is what is judged and must be among the inputs")
        return inputs

    @field_validator("criteria")
    @classmethod
    def _criteria_fit_together(cls, criteria: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
        if not 1 <= len(criteria) <= 20:
            raise ValueError(f"a rubric has 1 to 20 criteria, not {len(criteria)}")
        if problems := _repeated((criterion.name for criterion in criteria), "criterion", "name"):
            raise _refusal(problems)
        if not any(criterion.weight > 0 for criterion in criteria):
            raise _refusal(
                ((place, "weight"), f"the weights sum to zero: criterion {criterion.name} has weight 0, like all")
                for place, criterion in enumerate(criteria)
            )
        return criteria

    @model_validator(mode="after")
    def _labels_once(self) -> "Declaration":
        if self.pass_at is not None and len(self.criteria) == 1:
            raise _refusal([(("pass_at",), "a rubric with one criterion has that criterion's labels, no threshold")])
        return self


def _repeated(names: Iterable[str], noun: str, *field: str) -> list[tuple[tuple[str | int, ...], str]]:
    seen: dict[str, str] = {}
    problems: list[tuple[tuple[str | int, ...], str]] = []
    for place, name in enumerate(names):
        first = seen.setdefault(name.strip().casefold(), name)
        if len(seen) + len(problems) <= place:
            problems.append(((place, *field), f"{noun} {name!r} equals {first!r} after trimming and case folding"))
    return problems


def visible(text: str) -> str:
    """`text` unchanged. Raises ValueError when nothing in it can be seen."""
    if is_blank(text):
        raise ValueError("is blank, and the rubric reads it")
    return text
