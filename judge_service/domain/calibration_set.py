"""A calibration set: cases with the labels people gave them, each case in one split; its versions, its uses.

Owns the words and what counts as the content of a set. Knows no database, no file format and no statistics.
"""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from functools import cached_property, partial
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from judge_service.domain.canonical import content_hash
from judge_service.domain.case import Case, CaseId
from judge_service.domain.identifier import ordered_id
from rubrics.records import Order

SET_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
SetName = Annotated[str, Field(pattern=rf"^{SET_NAME}$")]
Annotator = Annotated[str, Field(min_length=1, max_length=256)]
LabelText = Annotated[str, Field(min_length=1, max_length=256)]

Slot = tuple[str, str, str, str, str, bool]
"""Case, rubric, annotator, condition, kind, adjudicated."""

SOMETIMES = ("items", "probability")
"""Parts of an answer that most labels do not have: absent then, so that hashes of sets without them stay."""

INCLUSION_PROBABILITY = "inclusion_probability"
"""Key of a case's metadata that holds the probability with which it was drawn into the set."""


GIVEN_CLAIMS = "claims"
"""Key of a case's metadata that holds the claims which the case came with: a JSON list of texts, as text."""


def claims_of(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """The claims that a case of this metadata came with, without blank ones; none where it holds no list of texts."""
    try:
        found = json.loads(str(metadata.get(GIVEN_CLAIMS) or "[]"))
    except ValueError:
        return ()
    if not isinstance(found, list) or not all(isinstance(claim, str) for claim in found):
        return ()
    return tuple(dict.fromkeys(claim.strip() for claim in found if claim.strip()))


def drawn_with(metadata: Mapping[str, Any]) -> float | None:
    """The probability with which a case of this metadata was drawn, in (0, 1]; None where it was not drawn."""
    value = metadata.get(INCLUSION_PROBABILITY)
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1
    return float(value) if usable and isinstance(value, int | float) else None


_REFERENCE = re.compile(rf"({SET_NAME})(?:@([1-9][0-9]{{0,8}}))?")


class Split(StrEnum):
    """What a case may be used for.

    `development`: prompts, policies, thresholds. `calibration`: maps and the judge report. `release`: scored once per
    judge configuration. `monitoring`: anchors that are judged again and again.
    """

    DEVELOPMENT = "development"
    CALIBRATION = "calibration"
    RELEASE = "release"
    MONITORING = "monitoring"


class LabelCondition(StrEnum):
    """Whether a model's verdict was visible: `assisted` labels never enter a headline number."""

    BLIND = "blind"
    ASSISTED = "assisted"


class UsePurpose(StrEnum):
    """What a split was used for.

    `scored`: a judge was measured on it. `tuned`: a prompt, threshold, map or choice was made with it. `viewed`: a
    person saw its cases. `exported`: it was written to a file, which by itself shows it to nobody.
    """

    SCORED = "scored"
    TUNED = "tuned"
    VIEWED = "viewed"
    EXPORTED = "exported"


class SpentBy(StrEnum):
    """Why a case is no test any more, in whatever set or version it stands.

    `tuned`, `viewed`: it stood in a release split that was used so, or was looked at in a copy of one.
    `other_split`: it stands in another split than release of a frozen version. `group`: another case of its group is
    spent.
    """

    TUNED = "tuned"
    VIEWED = "viewed"
    OTHER_SPLIT = "other_split"
    GROUP = "group"


class SetVersion(BaseModel):
    """One version of a calibration set: `open` while cases and labels may be added, `frozen` once it has its hash.

    `parent` is the version it was made from. `rubric` is the rubric that its labels answer, when there is one only.
    `release_demoted_at`: since then this version's release split guided a choice or was looked at, and counts as
    development. Single cases may be spent through other versions and sets: see `Spent`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    name: SetName
    version: int = Field(ge=1)
    rubric: str | None = None
    status: Literal["open", "frozen"] = "open"
    content_hash: str | None = None
    n_cases: int = Field(default=0, ge=0)
    n_labels: int = Field(default=0, ge=0)
    created_at: datetime
    frozen_at: datetime | None = None
    parent: str | None = None
    note: str = ""
    release_demoted_at: datetime | None = None


class SetCase(BaseModel):
    """A case in a set. `case.group` is the unit of independence; without one the case stands for itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    case: Case
    split: Split = Split.DEVELOPMENT
    source_line: int | None = Field(default=None, ge=1)

    @property
    def group(self) -> str:
        """The unit of independence: the case's group, else a name that no group of another case can have."""
        return self.case.group if self.case.group is not None else f"case\x1f{self.case.id}"

    @cached_property
    def imported_hash(self) -> str:
        """Hash of what a file says about the case: everything but the split, which is decided here."""
        return content_hash([self.case.input, self.case.group, self.case.metadata])

    @cached_property
    def digest(self) -> str:
        """Hash of everything about the case that a frozen set's hash covers."""
        case = self.case
        return case_digest(case.id, case.input, case.group, case.metadata, self.split.value)


class Label(BaseModel):
    """One annotator's answer to one case under one rubric version.

    `label` None: skipped or cannot be said, which is missing data. `detail` is the rubric's own label, dumped.
    `kind` `model` marks labels that no person made. `adjudicated`: the final word after others disagreed; the other
    labels stay beside it. `seconds` is the time it took. `items` is the answer item by item (claims, statements,
    criteria) where a person gave it so; `probability` that with which the case was chosen for labelling, when drawn.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(default_factory=partial(ordered_id, "label"), min_length=1, max_length=64)
    set_id: str
    case_id: CaseId
    rubric: str
    annotator: Annotator
    label: LabelText | None = None
    detail: dict[str, Any] = Field(default_factory=dict)
    condition: LabelCondition = LabelCondition.BLIND
    kind: Literal["human", "model"] = "human"
    order_shown: Order | None = None
    seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    note: str | None = None
    adjudicated: bool = False
    items: dict[str, Any] | None = None
    probability: float | None = Field(default=None, gt=0, le=1)
    created_at: datetime

    @property
    def slot(self) -> "Slot":
        """What makes it one label of its set: an annotator answers a case once per rubric and condition."""
        return (self.case_id, self.rubric, self.annotator, self.condition.value, self.kind, self.adjudicated)

    def answer(self) -> dict[str, Any]:
        """What it says: all that may differ between two imports of one label. What few labels have only where there."""
        said: dict[str, Any] = {
            "label": self.label,
            "detail": self.detail,
            "order_shown": self.order_shown,
            "seconds": self.seconds,
            "note": self.note,
        }
        return said | {name: getattr(self, name) for name in SOMETIMES if getattr(self, name) is not None}

    @cached_property
    def digest(self) -> str:
        """Hash of everything about the label that a frozen set's hash covers: not its id, set and time of storing."""
        return label_digest(self.slot, self.answer())


class SetUse(BaseModel):
    """One use of a split of a frozen set. `judge_hash` and `judge` are null where no judge had a part."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    set_id: str
    split: Split
    purpose: UsePurpose
    judge_hash: str | None = None
    judge: str | None = None
    at: datetime
    note: str = ""


class SpentCase(BaseModel):
    """A case of a release split that counts as development, and where and when its content was spent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    case_id: str
    why: SpentBy
    set_id: str
    split: Split
    at: datetime


class Spent(BaseModel):
    """The cases of a version's release split that count as development: how many, and the first of them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    n: int = Field(default=0, ge=0)
    cases: tuple[SpentCase, ...] = ()


class ToldVersion(SetVersion):
    """A version with what of its release split is no test any more."""

    spent: Spent = Spent()


class Difference(BaseModel):
    """One field in which what is given differs from what is stored under the same id."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    case_id: str
    field: str
    stored: Any
    given: Any
    annotator: str | None = None


class ImportResult(BaseModel):
    """What an import did. `unjoined` lists ids that belong to no case of the set; they are stored nowhere."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    added: int = 0
    unchanged: int = 0
    unjoined: tuple[str, ...] = ()

    def __add__(self, other: "ImportResult") -> "ImportResult":
        """Both together; an id that joins nothing is listed once."""
        return ImportResult(
            added=self.added + other.added,
            unchanged=self.unchanged + other.unchanged,
            unjoined=tuple(dict.fromkeys(self.unjoined + other.unjoined)),
        )


def set_id(name: str, version: int) -> str:
    """`name@version`."""
    return f"{name}@{version}"


def parse_reference(reference: str) -> tuple[str, int | None]:
    """Name and version of `name` or `name@version`. Raises ValueError for anything else."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise ValueError(
            f"{reference!r} names no set: write `name` or `name@version`; a name has letters, digits, dots, "
            "underscores and hyphens."
        )
    return match[1], None if match[2] is None else int(match[2])


def case_digest(
    case_id: str, fields: Mapping[str, Any], group: str | None, metadata: Mapping[str, Any], split: str
) -> str:
    """Hash of a case as the hash of a frozen set covers it."""
    return content_hash(["case", case_id, fields, group, metadata, split])


def label_digest(slot: Slot, answer: Mapping[str, Any]) -> str:
    """Hash of a label as the hash of a frozen set covers it."""
    return content_hash(["label", *slot, answer])
