"""The tables. Owns names, columns, constraints and indexes; the migrations' revisions repeat them.

Table classes do not validate: rows are built from domain records and read back into them.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    false,
    text,
)
from sqlmodel import Field, SQLModel

from judge_service.store.types import ExactText, JsonText, UtcDateTime

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
"""A constraint without a name cannot be changed by a later migration on SQLite."""


def _count() -> Column[int]:
    return Column(Integer(), nullable=False, server_default="0")


class Base(SQLModel):
    """Base of the tables: metadata of their own, with named constraints."""

    metadata = MetaData(naming_convention=NAMING)


def table(model: type[SQLModel]) -> Table:
    """The Core table behind a table class."""
    return model.__table__  # type: ignore[attr-defined, no-any-return]


class FactRow(Base, table=True):
    """One fact about this installation."""

    __tablename__ = "facts"

    name: str = Field(primary_key=True)
    value: str = Field(sa_type=ExactText)


class KeyRow(Base, table=True):
    """An API key without the key."""

    __tablename__ = "api_keys"

    id: str = Field(primary_key=True)
    name: str = Field(sa_type=ExactText)
    role: str
    salt: str
    digest: str
    last_four: str
    created_at: datetime = Field(sa_type=UtcDateTime)
    last_used_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    revoked_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class UserRow(Base, table=True):
    """A person. `name_key` makes names that look the same the same."""

    __tablename__ = "users"

    id: str = Field(primary_key=True)
    name: str = Field(sa_type=ExactText)
    name_key: str = Field(sa_type=ExactText, unique=True)
    role: str
    password_hash: str | None = None
    created_at: datetime = Field(sa_type=UtcDateTime)
    disabled_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    signed_in_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class InvitationRow(Base, table=True):
    """An invitation without its token."""

    __tablename__ = "invitations"

    id: str = Field(primary_key=True)
    digest: str = Field(unique=True)
    role: str
    name: str | None = Field(default=None, sa_type=ExactText)
    project: str | None = Field(default=None, sa_type=ExactText)
    made_by: str = Field(sa_type=ExactText)
    created_at: datetime = Field(sa_type=UtcDateTime)
    expires_at: datetime = Field(sa_type=UtcDateTime)
    used_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    used_by: str | None = None
    revoked_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class SessionRow(Base, table=True):
    """A signed-in browser. `id` is the digest of its token."""

    __tablename__ = "sessions"

    id: str = Field(primary_key=True)
    user_id: str | None = Field(default=None, foreign_key="users.id", index=True, ondelete="CASCADE")
    key_id: str | None = Field(default=None, foreign_key="api_keys.id", index=True, ondelete="CASCADE")
    created_at: datetime = Field(sa_type=UtcDateTime)
    seen_at: datetime = Field(sa_type=UtcDateTime)
    expires_at: datetime = Field(sa_type=UtcDateTime, index=True)
    ended_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class IdempotencyRow(Base, table=True):
    """One Idempotency-Key of one caller, the hash of its request and the object it made."""

    __tablename__ = "idempotency_keys"

    scope: str = Field(primary_key=True, sa_type=ExactText)
    key: str = Field(primary_key=True, sa_type=ExactText)
    request_hash: str
    object_id: str = Field(sa_type=ExactText)
    created_at: datetime = Field(sa_type=UtcDateTime, index=True)


class JudgeRow(Base, table=True):
    """A judge that was added while the service ran."""

    __tablename__ = "judges"

    name: str = Field(primary_key=True)
    content_hash: str
    document: dict[str, Any] = Field(sa_type=JsonText)
    created_at: datetime = Field(sa_type=UtcDateTime)
    updated_at: datetime = Field(sa_type=UtcDateTime)


class RubricRow(Base, table=True):
    """A declared rubric version. Never changed: a change is a new version."""

    __tablename__ = "rubrics"

    id: str = Field(primary_key=True)
    document: dict[str, Any] = Field(sa_type=JsonText)
    created_at: datetime = Field(sa_type=UtcDateTime)


class CachedCallRow(Base, table=True):
    """A good reply that need not be paid twice."""

    __tablename__ = "call_cache"

    key: str = Field(primary_key=True)
    document: dict[str, Any] = Field(sa_type=JsonText)
    created_at: datetime = Field(sa_type=UtcDateTime, index=True)


class RunRow(Base, table=True):
    """A run."""

    __tablename__ = "runs"

    id: str = Field(primary_key=True)
    rubric: str
    rubric_hash: str
    judge: dict[str, Any] = Field(sa_type=JsonText)
    status: str = Field(index=True)
    message: str | None = Field(default=None, sa_type=ExactText)
    source: str | None = Field(default=None, sa_type=ExactText)
    n_planned: int = Field(default=0, sa_type=BigInteger)
    planned: bool = False
    worker: str | None = Field(default=None, sa_type=ExactText)
    heartbeat_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    created_at: datetime = Field(sa_type=UtcDateTime, index=True)
    started_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    finished_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class RunCaseRow(Base, table=True):
    """A planned case of a run: what is left to do is this minus the recorded judgments."""

    __tablename__ = "run_cases"
    __table_args__ = (UniqueConstraint("run_id", "identity"),)

    run_id: str = Field(sa_column=Column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True))
    position: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    identity: str
    case: dict[str, Any] = Field(sa_type=JsonText)


class JudgmentRow(Base, table=True):
    """A judgment. Current while `superseded_at` is null; at most one row per identity is."""

    __tablename__ = "judgments"
    __table_args__ = (
        Index(
            "uq_judgments_current_identity",
            "identity",
            unique=True,
            sqlite_where=text("superseded_at IS NULL"),
            postgresql_where=text("superseded_at IS NULL"),
        ),
    )

    id: str = Field(primary_key=True)
    identity: str = Field(index=True)
    superseded_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    run_id: str | None = Field(default=None, foreign_key="runs.id", index=True, ondelete="SET NULL")
    rubric: str
    rubric_hash: str
    judge: str
    judge_hash: str
    model: str = Field(sa_type=ExactText)
    case_id: str = Field(sa_type=ExactText)
    case_hash: str = Field(index=True)
    group: str | None = Field(default=None, sa_type=ExactText)
    slices: dict[str, Any] = Field(sa_column=Column("metadata", JsonText, nullable=False))
    outcome: str
    reason: str | None = None
    detail: str | None = Field(default=None, sa_type=ExactText)
    score: float | None = Field(default=None, sa_type=Double)
    label: str | None = Field(default=None, sa_type=ExactText)
    confidence: dict[str, Any] | None = Field(default=None, sa_type=JsonText)
    votes: dict[str, Any] | None = Field(default=None, sa_type=JsonText)
    flags: list[str] = Field(sa_type=JsonText)
    record: dict[str, Any] | None = Field(default=None, sa_type=JsonText)
    enforcement: str
    prompt_tokens: int | None = Field(default=None, sa_type=BigInteger)
    completion_tokens: int | None = Field(default=None, sa_type=BigInteger)
    cached_tokens: int | None = Field(default=None, sa_type=BigInteger)
    cost_usd: float | None = Field(default=None, sa_type=Double)
    latency_ms: float = Field(sa_type=Double)
    trust: dict[str, Any] = Field(sa_type=JsonText)
    created_at: datetime = Field(sa_type=UtcDateTime)


class CallRow(Base, table=True):
    """One request to a model, in the order in which the judgment holds them."""

    __tablename__ = "calls"

    judgment_id: str = Field(sa_column=Column(ForeignKey("judgments.id", ondelete="CASCADE"), primary_key=True))
    position: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    step: str = Field(sa_type=ExactText)
    order: str | None = None
    repeat: int
    attempt: int
    judge: str = Field(sa_type=ExactText)
    model: str = Field(sa_type=ExactText)
    prompt_hash: str
    raw: str | None = Field(default=None, sa_type=ExactText)
    raw_cut: bool
    finish_reason: str | None = Field(default=None, sa_type=ExactText)
    enforcement: str
    prompt_tokens: int | None = Field(default=None, sa_type=BigInteger)
    completion_tokens: int | None = Field(default=None, sa_type=BigInteger)
    cached_tokens: int | None = Field(default=None, sa_type=BigInteger)
    cost_usd: float | None = Field(default=None, sa_type=Double)
    latency_ms: float = Field(sa_type=Double)
    started_at: datetime = Field(sa_type=UtcDateTime)
    parameters_sent: dict[str, Any] = Field(sa_type=JsonText)
    parameters_dropped: list[str] = Field(sa_type=JsonText)
    engine: dict[str, Any] = Field(sa_type=JsonText)
    probabilities: dict[str, Any] | None = Field(default=None, sa_type=JsonText)
    label_mass: dict[str, Any] | None = Field(default=None, sa_type=JsonText)
    read_as: str | None = None
    cached: bool
    error: dict[str, Any] | None = Field(default=None, sa_type=JsonText)


class SetRow(Base, table=True):
    """A version of a calibration set."""

    __tablename__ = "sets"
    __table_args__ = (UniqueConstraint("name", "version"),)

    id: str = Field(primary_key=True)
    name: str
    version: int
    rubric: str | None = None
    status: str
    content_hash: str | None = None
    n_cases: int = Field(default=0, sa_type=BigInteger)
    n_labels: int = Field(default=0, sa_type=BigInteger)
    created_at: datetime = Field(sa_type=UtcDateTime)
    frozen_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    parent: str | None = Field(default=None, foreign_key="sets.id")
    note: str = Field(sa_type=ExactText)
    release_demoted_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class SetCaseRow(Base, table=True):
    """A case of a set. `imported_hash` is that of the case as its file had it, before groups were proposed.

    `content_hash` is `contents.content_key` of the input: by it a case is known in copies, new versions and other sets.
    """

    __tablename__ = "set_cases"
    __table_args__ = (UniqueConstraint("set_id", "case_id"), Index("ix_set_cases_set_id_group", "set_id", "group"))

    set_id: str = Field(sa_column=Column(ForeignKey("sets.id", ondelete="CASCADE"), primary_key=True))
    position: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    case_id: str = Field(sa_type=ExactText)
    imported_hash: str
    content_hash: str = Field(index=True)
    split: str
    source_line: int | None = Field(default=None, sa_type=BigInteger)
    group: str | None = Field(default=None, sa_type=ExactText)
    input: dict[str, Any] = Field(sa_type=JsonText)
    slices: dict[str, Any] = Field(sa_column=Column("metadata", JsonText, nullable=False))


class LabelRow(Base, table=True):
    """A label. An annotator answers a case once per rubric and condition."""

    __tablename__ = "labels"
    __table_args__ = (
        UniqueConstraint(
            "set_id", "case_id", "rubric", "annotator", "condition", "kind", "adjudicated", name="uq_labels_slot"
        ),
        ForeignKeyConstraint(["set_id", "case_id"], ["set_cases.set_id", "set_cases.case_id"], ondelete="CASCADE"),
    )

    id: str = Field(primary_key=True)
    set_id: str
    case_id: str = Field(sa_type=ExactText)
    rubric: str = Field(sa_type=ExactText)
    annotator: str = Field(sa_type=ExactText)
    condition: str
    kind: str
    adjudicated: bool
    label: str | None = Field(default=None, sa_type=ExactText)
    detail: dict[str, Any] = Field(sa_type=JsonText)
    order_shown: str | None = None
    seconds: float | None = Field(default=None, sa_type=Double)
    note: str | None = Field(default=None, sa_type=ExactText)
    items: dict[str, Any] | None = Field(default=None, sa_type=JsonText)
    probability: float | None = Field(default=None, sa_type=Double)
    created_at: datetime = Field(sa_type=UtcDateTime)


class ProjectRow(Base, table=True):
    """A labelling project."""

    __tablename__ = "projects"

    id: str = Field(primary_key=True)
    name: str = Field(sa_type=ExactText)
    set_id: str = Field(foreign_key="sets.id", index=True)
    rubric: str = Field(sa_type=ExactText)
    rubric_hash: str
    labels_wanted: int
    overlap: float = Field(sa_type=Double)
    condition: str
    splits: list[str] = Field(sa_type=JsonText)
    lease_minutes: float = Field(sa_type=Double)
    selection: str
    drawn_from: int | None = None
    due_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    created_at: datetime = Field(sa_type=UtcDateTime)
    created_by: str = Field(sa_type=ExactText)
    closed_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class GuidelinesRow(Base, table=True):
    """A version of a project's guidelines. Never changed."""

    __tablename__ = "project_guidelines"

    project_id: str = Field(sa_column=Column(ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True))
    version: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    text: str = Field(sa_type=ExactText)
    note: str = Field(sa_type=ExactText)
    by: str = Field(sa_type=ExactText)
    at: datetime = Field(sa_type=UtcDateTime)


class MemberRow(Base, table=True):
    """A person of a project."""

    __tablename__ = "project_members"
    __table_args__ = (UniqueConstraint("project_id", "name"),)

    project_id: str = Field(sa_column=Column(ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True))
    person: str = Field(primary_key=True)
    name: str = Field(sa_type=ExactText)
    joined_at: datetime = Field(sa_type=UtcDateTime)
    left_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    done: int = Field(default=0, sa_column=_count())
    skipped: int = Field(default=0, sa_column=_count())
    offered_open: int = Field(default=0, sa_column=_count())


class ProjectCaseRow(Base, table=True):
    """A case of a project. `saved` counts its labels, an index holds those that want more. `token` is its address."""

    __tablename__ = "project_cases"
    __table_args__ = (
        Index(
            "ix_project_cases_open",
            "project_id",
            "qualification",
            "case_id",
            sqlite_where=text("saved < wanted"),
            postgresql_where=text("saved < wanted"),
        ),
        Index("ix_project_cases_token", "project_id", "token"),
    )

    project_id: str = Field(sa_column=Column(ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True))
    case_id: str = Field(primary_key=True, sa_type=ExactText)
    token: str = Field(default="", sa_column=Column(String(), nullable=False, server_default=""))
    wanted: int
    probability: float | None = Field(default=None, sa_type=Double)
    qualification: bool
    input: dict[str, Any] | None = Field(default=None, sa_type=JsonText)
    answer: dict[str, Any] | None = Field(default=None, sa_type=JsonText)
    saved: int = Field(default=0, sa_column=_count())


class PresentationRow(Base, table=True):
    """The order in which one person meets the cases of a project, drawn once; `offered`: met, whatever became of it."""

    __tablename__ = "project_orders"
    __table_args__ = (
        Index("ix_project_orders_case", "project_id", "case_id", "person"),
        Index("ix_project_orders_offered", "project_id", "person", "offered", "position"),
    )

    project_id: str = Field(sa_column=Column(ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True))
    person: str = Field(primary_key=True)
    position: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    case_id: str = Field(sa_type=ExactText)
    offered: bool = Field(default=False, sa_column=Column(Boolean(), nullable=False, server_default=false()))


class AssignmentRow(Base, table=True):
    """A case as offered to a person. The constraints are what keeps a case from two places too many."""

    __tablename__ = "assignments"
    __table_args__ = (
        UniqueConstraint("project_id", "case_id", "person"),
        UniqueConstraint("project_id", "case_id", "place"),
        Index("ix_assignments_of_person", "project_id", "person", "state"),
        Index("ix_assignments_changed", "project_id", "person", "changed_at"),
        Index(
            "ix_assignments_leased",
            "project_id",
            "leased_until",
            sqlite_where=text("state = 'open' AND place IS NOT NULL"),
            postgresql_where=text("state = 'open' AND place IS NOT NULL"),
        ),
    )

    id: str = Field(primary_key=True)
    project_id: str = Field(foreign_key="projects.id", ondelete="CASCADE")
    case_id: str = Field(sa_type=ExactText)
    person: str
    state: str
    place: int | None = None
    order: str | None = None
    offered_at: datetime = Field(sa_type=UtcDateTime)
    leased_until: datetime = Field(sa_type=UtcDateTime)
    version: int
    draft: dict[str, Any] | None = Field(default=None, sa_type=JsonText)
    draft_version: int
    answer: dict[str, Any] | None = Field(default=None, sa_type=JsonText)
    note: str | None = Field(default=None, sa_type=ExactText)
    seconds: float | None = Field(default=None, sa_type=Double)
    flag: str | None = Field(default=None, sa_type=ExactText)
    skip_reason: str | None = Field(default=None, sa_type=ExactText)
    changed_at: datetime = Field(sa_type=UtcDateTime)


class LabelEventRow(Base, table=True):
    """A step of the history of a person's case. Never changed."""

    __tablename__ = "label_events"

    assignment_id: str = Field(sa_column=Column(ForeignKey("assignments.id", ondelete="CASCADE"), primary_key=True))
    number: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    action: str
    at: datetime = Field(sa_type=UtcDateTime)
    document: dict[str, Any] = Field(sa_type=JsonText)


class AdjudicationRow(Base, table=True):
    """A final word on a case. Never changed; the newest counts."""

    __tablename__ = "adjudications"

    id: str = Field(primary_key=True)
    project_id: str = Field(foreign_key="projects.id", index=True, ondelete="CASCADE")
    case_id: str = Field(sa_type=ExactText)
    by: str
    name: str = Field(sa_type=ExactText)
    label: str | None = Field(default=None, sa_type=ExactText)
    answer: dict[str, Any] = Field(sa_type=JsonText)
    reason: str = Field(sa_type=ExactText)
    seen: list[dict[str, Any]] = Field(sa_type=JsonText)
    at: datetime = Field(sa_type=UtcDateTime)


class SetUseRow(Base, table=True):
    """A use of a split of a set."""

    __tablename__ = "set_uses"

    id: str = Field(primary_key=True)
    set_id: str = Field(foreign_key="sets.id", index=True, ondelete="CASCADE")
    split: str
    purpose: str
    judge_hash: str | None = None
    judge: str | None = Field(default=None, sa_type=ExactText)
    at: datetime = Field(sa_type=UtcDateTime)
    note: str = Field(sa_type=ExactText)


class SpentCaseRow(Base, table=True):
    """The content of a case that is no test any more, and by what it was spent first."""

    __tablename__ = "spent_cases"

    content_hash: str = Field(primary_key=True)
    why: str
    set_id: str = Field(foreign_key="sets.id", ondelete="CASCADE")
    split: str
    at: datetime = Field(sa_type=UtcDateTime)


class CalibrationRow(Base, table=True):
    """What was measured about a judge on a frozen set. `summary` is what trust reads, `statistics` all of it."""

    __tablename__ = "calibrations"

    id: str = Field(primary_key=True)
    rubric: str
    rubric_hash: str
    judge: str = Field(sa_type=ExactText)
    judge_hash: str = Field(index=True)
    set_id: str = Field(foreign_key="sets.id", index=True, ondelete="CASCADE")
    summary: dict[str, Any] = Field(sa_type=JsonText)
    statistics: dict[str, Any] = Field(sa_type=JsonText)
    created_at: datetime = Field(sa_type=UtcDateTime, index=True)


class ConfidenceMapRow(Base, table=True):
    """A map of confidences that belongs to a calibration, or the refusal to fit one."""

    __tablename__ = "confidence_maps"

    id: str = Field(primary_key=True)
    calibration_id: str = Field(foreign_key="calibrations.id", index=True, ondelete="CASCADE")
    document: dict[str, Any] = Field(sa_type=JsonText)
    created_at: datetime = Field(sa_type=UtcDateTime)


class ProbeResultRow(Base, table=True):
    """What planted orders did to a judge's verdicts."""

    __tablename__ = "probe_results"

    id: str = Field(primary_key=True)
    judge: str = Field(sa_type=ExactText)
    judge_hash: str = Field(index=True)
    document: dict[str, Any] = Field(sa_type=JsonText)
    created_at: datetime = Field(sa_type=UtcDateTime)


class RunChunkRow(Base, table=True):
    """A part of a run that one worker judges: the positions from `first` to `last`. `round` names one start.

    `retry` holds the ids of the failed judgments that this start asks again.
    """

    __tablename__ = "run_chunks"

    run_id: str = Field(sa_column=Column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True))
    number: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    round: str
    first: int = Field(sa_type=BigInteger)
    last: int = Field(sa_type=BigInteger)
    retry: list[str] = Field(sa_type=JsonText)
    done_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class ProviderGateRow(Base, table=True):
    """A provider that several processes call: no call before `held_until`, the next paced one at `next_start`."""

    __tablename__ = "provider_gates"

    key: str = Field(primary_key=True)
    held_until: datetime | None = Field(default=None, sa_type=UtcDateTime)
    next_start: datetime | None = Field(default=None, sa_type=UtcDateTime)


class ProviderShareRow(Base, table=True):
    """How many of a provider's slots one process may use.

    `joined_at`: when it joined those that have one of the slots left over, or those that have none.
    """

    __tablename__ = "provider_shares"

    key: str = Field(primary_key=True)
    member: str = Field(primary_key=True)
    slots: int = Field(sa_type=BigInteger)
    joined_at: datetime = Field(sa_type=UtcDateTime)
    beat_at: datetime = Field(sa_type=UtcDateTime)


class ProviderTokensRow(Base, table=True):
    """Tokens that calls to a provider used, by second."""

    __tablename__ = "provider_tokens"

    key: str = Field(primary_key=True)
    second: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    tokens: int = Field(sa_type=BigInteger)


class DriftRow(Base, table=True):
    """A baseline of anchors, or a check against one."""

    __tablename__ = "drift_records"

    id: str = Field(primary_key=True)
    set_id: str = Field(foreign_key="sets.id", index=True, ondelete="CASCADE")
    judge: str = Field(sa_type=ExactText)
    rubric: str = Field(sa_type=ExactText)
    document: dict[str, Any] = Field(sa_type=JsonText)
    created_at: datetime = Field(sa_type=UtcDateTime)


class DriftTaskRow(Base, table=True):
    """A check in the background. At most one of a judge on a set is running, whichever process makes it."""

    __tablename__ = "drift_tasks"
    __table_args__ = (
        Index(
            "uq_drift_tasks_running",
            "set_id",
            "judge",
            unique=True,
            sqlite_where=text("state = 'running'"),
            postgresql_where=text("state = 'running'"),
        ),
    )

    id: str = Field(primary_key=True)
    set_id: str = Field(foreign_key="sets.id", ondelete="CASCADE")
    judge: str = Field(sa_type=ExactText)
    asked: dict[str, Any] = Field(sa_type=JsonText)
    state: str
    message: str | None = Field(default=None, sa_type=ExactText)
    record_id: str | None = Field(default=None, foreign_key="drift_records.id", ondelete="CASCADE")
    worker: str = Field(sa_type=ExactText)
    heartbeat_at: datetime = Field(sa_type=UtcDateTime)
    created_at: datetime = Field(sa_type=UtcDateTime)
    ended_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class AuditRow(Base, table=True):
    """An entry of the audit log. Never changed."""

    __tablename__ = "audit_log"

    id: int | None = Field(default=None, primary_key=True)
    at: datetime = Field(sa_type=UtcDateTime)
    by: str
    who: str = Field(sa_type=ExactText)
    what: str = Field(sa_type=ExactText)
    object: str = Field(sa_type=ExactText)
