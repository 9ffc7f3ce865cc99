"""A judgment: the typed result for one case, folded from its calls."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from judge_service.domain.call import Call, Usage
from judge_service.domain.judge import ConfidenceSource
from judge_service.domain.outcome import Enforcement, JudgeErrorReason, NotApplicableReason, Outcome


class TrustLevel(StrEnum):
    """What is known about this judge under this rubric."""

    CALIBRATED = "calibrated"
    INSUFFICIENT = "insufficient"
    STALE = "stale"
    UNCALIBRATED = "uncalibrated"


class Trust(BaseModel):
    """How far the judge's measured agreement with people supports this verdict.

    `effective_n`: the labelled cases were drawn with unequal probabilities and are weighed; null where they count
    alike.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: TrustLevel = TrustLevel.UNCALIBRATED
    reason: str = "No calibration of this judge under this rubric is stored."
    calibration_set: str | None = None
    n: int | None = None
    effective_n: float | None = None
    agreement: float | None = None
    agreement_low: float | None = None
    agreement_high: float | None = None
    kappa: float | None = None
    position_consistency: float | None = None
    ece: float | None = None
    report: str | None = None


class Confidence(BaseModel):
    """A confidence with its named source. `calibrated` is null until a recalibration map exists."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: float = Field(ge=0, le=1, allow_inf_nan=False)
    source: ConfidenceSource
    calibrated: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    map_version: str | None = None


class Flag(StrEnum):
    """A mark on a judgment that changes no verdict.

    `suspicious_text`: the case holds text that looks like a part of the prompt or of a reply (chat-control tokens,
    fence markers, a verdict as JSON, a line in the system's voice). `unstable`: repeats of one judge did not all
    say the same. `settings_dropped`: a sampling setting was not taken; the calls name it.
    """

    SUSPICIOUS_TEXT = "suspicious_text"
    UNSTABLE = "unstable"
    SETTINGS_DROPPED = "settings_dropped"


class Votes(BaseModel):
    """How repeats or a panel voted: `counts` by label, `cast` of `asked` votes could be counted.

    `share` is the largest count over `cast` (0 to 1), null without a vote; for repeats it is the self-consistency.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    counts: dict[str, int]
    cast: int = Field(ge=0)
    asked: int = Field(ge=1)
    share: float | None = Field(ge=0, le=1, allow_inf_nan=False)


class Judgment(BaseModel):
    """The result for one case. Only outcome `scored` has a score and a label; all others have null and a reason.

    `identity` names the work (rubric, judge, case id and content) and is unique among current judgments; `id`
    names this result. `record` is the rubric's public record, dumped.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    identity: str
    rubric: str
    rubric_hash: str
    judge: str
    judge_hash: str
    model: str
    case_id: str
    case_hash: str
    group: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    outcome: Outcome
    reason: NotApplicableReason | JudgeErrorReason | None = None
    detail: str | None = None
    score: float | None = Field(default=None, allow_inf_nan=False)
    label: str | None = None
    confidence: Confidence | None = None
    votes: Votes | None = None
    """Of several repeats or a panel; null where one pass decided."""
    flags: tuple[Flag, ...] = ()
    record: dict[str, Any] | None = None
    enforcement: Enforcement
    calls: tuple[Call, ...] = ()
    usage: Usage = Usage()
    latency_ms: float = Field(ge=0)
    trust: Trust = Trust()
    created_at: datetime

    @model_validator(mode="after")
    def _only_scored_has_a_number(self) -> "Judgment":
        if (self.outcome is Outcome.SCORED) != (self.score is not None):
            raise ValueError("exactly the outcome `scored` carries a score")
        if (self.outcome is Outcome.SCORED) != (self.label is not None):
            raise ValueError("exactly the outcome `scored` carries a label")
        if self.outcome is not Outcome.SCORED and self.confidence is not None:
            raise ValueError("a confidence belongs to a verdict")
        needs_reason = self.outcome in (Outcome.NOT_APPLICABLE, Outcome.JUDGE_ERROR)
        if needs_reason != (self.reason is not None):
            raise ValueError("exactly `not_applicable` and `judge_error` carry a reason")
        if self.outcome is Outcome.NOT_APPLICABLE and not isinstance(self.reason, NotApplicableReason):
            raise ValueError("that is not a reason of `not_applicable`")
        if self.outcome is Outcome.JUDGE_ERROR and not isinstance(self.reason, JudgeErrorReason):
            raise ValueError("that is not a reason of `judge_error`")
        return self
