"""A judge: a named configuration of how verdicts are obtained, with a hash over everything that can change one."""

from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator

from judge_service.domain.canonical import content_hash
from judge_service.domain.outcome import Enforcement

JudgeName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class OrderPolicy(StrEnum):
    """How the presentation orders of a pair are asked and folded."""

    BOTH_ORDERS = "both_orders"
    AVERAGE_PROBABILITY = "average_probability"
    SINGLE_AB = "single_ab"
    SINGLE_BA = "single_ba"
    SINGLE_DRAWN = "single_drawn"


class ConfidenceSource(StrEnum):
    """Where a confidence comes from. No source, no number."""

    VERBALISED = "verbalised"
    TOKEN_PROBABILITY = "token_probability"  # noqa: S105
    ORDER_AVERAGE = "order_average"
    VOTE_SHARE = "vote_share"
    CLASSIFIER = "classifier"


class Sampling(BaseModel):
    """What is sent to the model besides the prompt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: float = Field(default=0.0, ge=0, le=2, allow_inf_nan=False)
    seed: int | None = 0
    max_tokens: int | None = Field(default=None, ge=1)
    """Upper limit of a reply; None derives it from the schema's worst case."""
    top_logprobs: int = Field(default=20, ge=0, le=500)


class Limits(BaseModel):
    """What may be spent on one call, and in all. Not part of the judge's hash: limits change no verdict."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    timeout_s: float = Field(default=60.0, gt=0, le=3600, allow_inf_nan=False)
    attempts: int = Field(default=3, ge=1, le=10)
    concurrency: int = Field(default=8, ge=1, le=1024)
    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)
    max_cost_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Money that one run, or one judgment outside a run, may cost; then no new call starts."""
    max_total_tokens: int | None = Field(default=None, ge=1)
    """Tokens, of prompts and replies together, that one run or judgment may use; then no new call starts."""


class Price(BaseModel):
    """US dollars per million tokens, for models whose price the transport does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: float = Field(ge=0, allow_inf_nan=False)
    completion: float = Field(ge=0, allow_inf_nan=False)


class Judge(BaseModel):
    """One judge. `backend` names the module that asks (`embedded`, `litellm`, `baseline`, `scripted`, ...).

    `options` are backend-specific (a GGUF path, a base URL, the environment variable that holds the key); the
    backend validates them. `panel` names other judges and needs `quorum` of them to agree.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: JudgeName
    backend: str = Field(min_length=1, max_length=64)
    model: str = Field(default="", max_length=512)
    description: str = ""
    options: dict[str, Any] = Field(default_factory=dict)
    sampling: Sampling = Sampling()
    enforcement: Enforcement | None = None
    """The weakest enforcement accepted; None accepts what the backend reaches."""
    order_policy: OrderPolicy = OrderPolicy.BOTH_ORDERS
    tie_band: float = Field(default=0.05, ge=0, lt=0.5, allow_inf_nan=False)
    elicitation: Literal["reasoned", "direct"] = "reasoned"
    repeats: int = Field(default=1, ge=1, le=50)
    confidence: ConfidenceSource | None = None
    panel: tuple[JudgeName, ...] = ()
    quorum: int | None = Field(default=None, ge=1)
    limits: Limits = Limits()
    price: Price | None = None

    @field_validator("backend")
    @classmethod
    def _lower(cls, value: str) -> str:
        return value.strip().lower()

    def __copy__(self) -> Self:
        """A copy that does not inherit the hash: `model_copy(update=...)` may change what it covers."""
        copied = super().__copy__()
        copied.__dict__.pop("content_hash", None)
        copied.__dict__.pop("provider_key", None)
        return copied

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over everything that can change a verdict: not the name, description, limits or price."""
        return content_hash(self.model_dump(mode="json", exclude={"name", "description", "limits", "price"}))

    @cached_property
    def provider_key(self) -> str:
        """Judges with the same key share a backend, and with it the provider's limits."""
        return content_hash({"backend": self.backend, "model": self.model, "options": self.options})
