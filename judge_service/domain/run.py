"""A run: one rubric, one judge, many cases; its states and what is planned. Knows no database and no scheduler."""

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from judge_service.domain.case import Case
from judge_service.domain.judge import Judge

SET_SOURCE = "set:"
"""How the source of a run over a calibration set begins: statistics read such runs."""
DRIFT_SOURCE = "drift:"
"""How that of a run over anchors begins: it is asked past every cache, and only its check goes on with it."""
OWN_SOURCES = (SET_SOURCE, DRIFT_SOURCE)
"""Callers may name no source so."""


class RunStatus(StrEnum):
    """Where a run stands. The last four are end states.

    `finished_with_errors`: every case has an outcome, some are judge errors. `failed`: stopped by a refused key or
    a fault, or no case was scored; `Run.message` says why. A failed or cancelled run can be resumed explicitly.
    """

    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    FINISHED = "finished"
    FINISHED_WITH_ERRORS = "finished_with_errors"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        """True in an end state."""
        return self not in (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.CANCELLING)


class Run(BaseModel):
    """One run as it is stored. `n_planned` counts the cases planned so far; `planned` says that all of them are.

    `judge` is the configuration the run was started with, so that it can go on after judges were edited. `source`
    is a name for people (a file name), or the calibration set judged. `worker` and `heartbeat_at` say which process
    works on it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1, max_length=64)
    rubric: str
    rubric_hash: str
    judge: Judge
    status: RunStatus = RunStatus.QUEUED
    message: str | None = None
    source: str | None = None
    n_planned: int = Field(default=0, ge=0)
    planned: bool = False
    worker: str | None = None
    heartbeat_at: datetime | None = None
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def of_drift(self) -> bool:
        """True for a run over anchors: it is asked past the cache, which only its check does."""
        return self.source is not None and self.source.startswith(DRIFT_SOURCE)


class PlannedCase(BaseModel):
    """One case of a run: its position from 0, the identity of the work, and the case itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    position: int = Field(ge=0)
    identity: str
    case: Case
