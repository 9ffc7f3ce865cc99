"""Labelling projects: who labels which cases of a set, what each was offered, saved, skipped and undid.

Owns the words. Knows no database, no form and no HTTP.
"""

import hashlib
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from judge_service.domain.calibration_set import LabelCondition, Split
from rubrics.records import Order

PersonId = Annotated[str, Field(pattern=r"^(?:user|key):[a-z0-9]{12}$")]
"""`user:<id>` or `key:<id>`: the id of a principal."""
ProjectName = Annotated[str, Field(min_length=1, max_length=120, pattern=r"^[^\x00-\x1f\x7f]+$")]


class State(StrEnum):
    """Of one case for one person. `open`: offered, not saved. `saved`: labelled. `skipped`: not to be offered again."""

    OPEN = "open"
    SAVED = "saved"
    SKIPPED = "skipped"


class Action(StrEnum):
    """What happened to a person's case. Kept for ever, in order."""

    SAVED = "saved"
    CHANGED = "changed"
    UNDONE = "undone"
    SKIPPED = "skipped"
    FLAGGED = "flagged"


class Project(BaseModel):
    """A set version opened for labelling under one rubric.

    Every case wants `labels_wanted` labels of different people in the share `overlap` of cases (drawn once), and one in
    the others. `condition`: `assisted` labels never enter a headline number. A lease of `lease_minutes` holds a place
    for the person who was offered a case. `selection`: `random`, or `sampled` with stored probabilities.
    `drawn_from`: how many cases the draw chose from, null where every case of the splits is labelled.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[a-z0-9]{12}$")
    name: ProjectName
    set_id: str
    rubric: str
    rubric_hash: str
    labels_wanted: int = Field(ge=1, le=20)
    overlap: float = Field(ge=0, le=1)
    condition: LabelCondition = LabelCondition.BLIND
    splits: tuple[Split, ...] = ()
    lease_minutes: float = Field(default=60.0, gt=0, le=10_080)
    selection: Literal["random", "sampled"] = "random"
    drawn_from: int | None = Field(default=None, ge=1)
    due_at: datetime | None = None
    created_at: datetime
    created_by: str
    closed_at: datetime | None = None

    @property
    def open(self) -> bool:
        """True until a lead closes it."""
        return self.closed_at is None


class ProjectCase(BaseModel):
    """A case of a project. A qualification case has its own `input` and the known `answer`; nobody's label counts it.

    `probability` is that with which the case was chosen for labelling, null where it was not drawn.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    case_id: str
    wanted: int = Field(ge=1)
    probability: float | None = Field(default=None, gt=0, le=1)
    qualification: bool = False
    input: dict[str, Any] | None = None
    answer: dict[str, Any] | None = None


MOST_GUIDELINES = 200_000
MOST_GUIDELINES_NOTE = 2000
"""Most characters of guidelines, and of what is said about a change of them."""


class Guidelines(BaseModel):
    """One version of a project's guidelines, in Markdown, with what changed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = Field(ge=1)
    text: str = Field(max_length=MOST_GUIDELINES)
    note: str = Field(default="", max_length=MOST_GUIDELINES_NOTE)
    by: str
    at: datetime


class Member(BaseModel):
    """A person of a project. `name` stands on the labels; `left_at`: offered nothing any more."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    person: PersonId
    name: str
    joined_at: datetime
    left_at: datetime | None = None


def case_token(project_id: str, case_id: str) -> str:
    """What stands for a case of a project in addresses: 20 hex digits. An id may name a system."""
    return hashlib.sha256(f"{project_id}\x1f{case_id}".encode("utf-8", "surrogatepass")).hexdigest()[:20]


class Assignment(BaseModel):
    """One case as offered to one person. `id` is random and says nothing about the case.

    `place` is which of the wanted labels it is, null while the person holds none. `version` counts saves, undos and
    skips: a change names the version it was made from. `answer` is the last saved one, in the form's frame. `seconds`
    is active time. `draft_version` counts drafts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    project_id: str
    case_id: str
    person: PersonId
    state: State
    place: int | None
    order: Order | None
    offered_at: datetime
    leased_until: datetime
    version: int = 0
    draft: dict[str, Any] | None = None
    draft_version: int = 0
    answer: dict[str, Any] | None = None
    note: str | None = None
    seconds: float | None = Field(default=None, ge=0)
    flag: str | None = None
    skip_reason: str | None = None
    changed_at: datetime


class LabelEvent(BaseModel):
    """One step of the history of a person's case."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int
    action: Action
    at: datetime
    document: dict[str, Any] = Field(default_factory=dict)


class Adjudication(BaseModel):
    """The final word on a case after others disagreed. `seen` are the labels it was made from; they stay.

    `label` null: it cannot be said. A later one on the same case replaces the label, not the record.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    project_id: str
    case_id: str
    by: str
    name: str
    label: str | None
    answer: dict[str, Any]
    reason: str = Field(min_length=1, max_length=4000)
    seen: tuple[dict[str, Any], ...]
    at: datetime

    def says_as(self, other: "Adjudication") -> bool:
        """Whether both are the same person's same word, for the same reason and from the same labels."""
        told = {"by", "label", "answer", "reason", "seen"}
        return self.model_dump(include=told) == other.model_dump(include=told)


class Progress(BaseModel):
    """How far one person is. `open_for_others`: cases that still want labels which this person may not give."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    done: int
    skipped: int
    left: int
    open_for_others: int
    qualification_done: int = 0
    qualification_left: int = 0
