"""A call: one request to a judge model, as it went."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from judge_service.domain.outcome import Enforcement, JudgeErrorReason
from rubrics.records import Order

RAW_LIMIT = 64 * 1024
"""Longest raw reply that is stored, in characters; longer ones are cut and marked."""


class Usage(BaseModel):
    """Tokens of one call or a sum of calls. None where the provider does not say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None

    def __add__(self, other: "Usage") -> "Usage":
        """Sum; a figure known on one side only is kept as it is known."""
        if vars(other) == _NOTHING:
            return self
        if vars(self) == _NOTHING:
            return other

        def plus(a: Any, b: Any) -> Any:
            return b if a is None else a if b is None else a + b

        return Usage(
            prompt_tokens=plus(self.prompt_tokens, other.prompt_tokens),
            completion_tokens=plus(self.completion_tokens, other.completion_tokens),
            cached_tokens=plus(self.cached_tokens, other.cached_tokens),
            cost_usd=plus(self.cost_usd, other.cost_usd),
        )


_NOTHING = vars(Usage())


class CallError(BaseModel):
    """Why a call gave no usable reply. `message` never holds a secret."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: JudgeErrorReason
    message: str


class Call(BaseModel):
    """One request and its answer. Every attempt is a call of its own; `attempt` counts from 1."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: str
    order: Order | None = None
    repeat: int = 0
    attempt: int = 1
    judge: str
    model: str
    """The model as the provider reports it; the configured name where it reports none."""
    prompt_hash: str
    raw: str | None = None
    raw_cut: bool = False
    finish_reason: str | None = None
    enforcement: Enforcement = Enforcement.NONE
    usage: Usage = Usage()
    latency_ms: float = Field(default=0.0, ge=0)
    started_at: datetime
    parameters_sent: dict[str, Any] = Field(default_factory=dict)
    parameters_dropped: tuple[str, ...] = ()
    engine: dict[str, Any] = Field(default_factory=dict)
    probabilities: dict[str, dict[str, float]] | None = None
    label_mass: dict[str, float] | None = None
    read_as: Literal["whole", "after_reasoning", "code_fence", "choice"] | None = None
    """Which part of the raw reply was read; None where nothing could be."""
    cached: bool = False
    error: CallError | None = None
