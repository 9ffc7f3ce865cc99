"""Drift: a baseline of anchors judged several times, and the checks that were held against it.

Owns the record of both, the words of a verdict and what is known of a check that is under way. Knows no statistics.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from judge_service.domain.calibration_set import Split


class DriftVerdict(StrEnum):
    """What a check says.

    `judge changed`: the same configuration says something else now. `system changed`: what judges is known to be
    another (model, configuration, rubric, program), which is no drift and voids the calibration.
    """

    BASELINE_STORED = "baseline stored"
    NO_CHANGE = "no change seen"
    JUDGE_CHANGED = "judge changed"
    SYSTEM_CHANGED = "system changed"
    NOT_ENOUGH = "not enough evidence"


class DriftRecord(BaseModel):
    """A baseline, or a check against one (`baseline` names it; `look` counts from 1). Never changed afterwards.

    `split` None: every split but release. `models` are those that answered, as the provider reported them; `revisions`
    what pins the model files. `runs` are the runs over the anchors: several for a baseline, one or none for a check.
    `result` holds the reasons and the figures.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    kind: Literal["baseline", "check"]
    set_id: str
    set_hash: str
    split: Split | None
    rubric: str
    rubric_hash: str
    judge: str
    judge_hash: str
    revisions: tuple[str | None, ...]
    models: tuple[str, ...]
    program: str
    baseline: str | None = None
    look: int = Field(default=0, ge=0)
    n: int = Field(ge=0)
    runs: tuple[str, ...]
    verdict: DriftVerdict
    result: dict[str, Any] = Field(default_factory=dict)
    created_at: datetime


class TaskState(StrEnum):
    """Where a check in the background stands. The last two are end states."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class DriftTask(BaseModel):
    """A check in the background of a service: `record_id` once it is done, `message` when it failed.

    `asked` is the request, by which the same check is asked for again. `worker` and `heartbeat_at` say which process
    makes it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    set_id: str
    judge: str
    asked: dict[str, Any]
    state: TaskState = TaskState.RUNNING
    message: str | None = None
    record_id: str | None = None
    worker: str
    heartbeat_at: datetime
    created_at: datetime
    ended_at: datetime | None = None
