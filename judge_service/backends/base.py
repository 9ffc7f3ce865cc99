"""The contract of a backend: request in, completion out, and what it can enforce.

Owns `Request`, `Completion`, `Capabilities`, the backend errors and the `Backend` protocol.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from judge_service.domain.call import Usage
from judge_service.domain.judge import Sampling
from judge_service.domain.outcome import Enforcement, JudgeErrorReason
from rubrics.model import Ask, Constraint
from rubrics.records import Order


@dataclass(frozen=True, slots=True)
class Subject:
    """Who is being judged by this request: for judges that look answers up instead of generating them."""

    rubric: str
    case_id: str
    case: Mapping[str, Any]
    order: Order | None = None
    repeat: int = 0
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Request:
    """One request to a judge model.

    `ask` carries messages, constraint and structured items. `max_tokens` bounds the reply. With
    `want_probabilities` the backend returns token log-probabilities where it can.
    """

    ask: Ask
    subject: Subject
    sampling: Sampling
    max_tokens: int
    timeout_s: float
    want_probabilities: bool = False


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One generated token with the alternatives at its position, natural logs, before any mask."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished reply. `finish_reason` is `stop`, `length`, `content_filter` or the provider's own word."""

    text: str
    finish_reason: str | None
    model: str
    enforcement: Enforcement
    usage: Usage = field(default_factory=Usage)
    refusal: str | None = None
    tokens: tuple[TokenLogprob, ...] | None = None
    parameters_sent: Mapping[str, Any] = field(default_factory=dict)
    parameters_dropped: tuple[str, ...] = ()
    engine: Mapping[str, Any] = field(default_factory=dict)
    earlier_usage: tuple[Usage, ...] = ()
    """Usage of attempts that the backend made by itself before this reply (a re-ask), oldest first."""


class BackendFailure(Exception):
    """The call gave no completion. `retryable` says whether the same request may succeed later.

    `retry_after_s` is what the provider asked to wait. `fatal` (a refused key) stops a whole run. The message is
    safe to store: no key, no request URL with a query, no echoed body.
    """

    def __init__(
        self,
        reason: JudgeErrorReason,
        message: str,
        *,
        retryable: bool = False,
        retry_after_s: float | None = None,
        fatal: bool = False,
        usage: Usage | None = None,
        raw: str | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.fatal = fatal
        self.usage = usage
        self.raw = raw


@dataclass(frozen=True, slots=True)
class IgnoredFeature:
    """A part of a schema that the backend would not enforce: `path` in the reply and the schema keyword."""

    path: str
    keyword: str


@dataclass(frozen=True, slots=True)
class CompileReport:
    """What the backend makes of one constraint before any call."""

    enforcement: Enforcement
    ignored: tuple[IgnoredFeature, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do. `logprobs` and `context_tokens` are None where only a probe can tell."""

    enforcement: Enforcement
    logprobs: bool | None
    context_tokens: int | None = None
    deterministic: bool = False
    concurrency: int | None = None
    is_model: bool = True
    estimates_tokens: bool = False
    """Whether `count_tokens` is an estimate: enough to refuse what cannot fit, too rough to use every token left."""
    revision: str | None = None
    """What pins the model beyond its name (a hash of its weights); part of every identity and cache key."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a test of the backend found: is it reachable, does it honour a constraint, does it give logprobs?"""

    ready: bool
    constraint_honoured: bool | None
    logprobs: bool | None
    model: str | None
    message: str


class Backend(Protocol):
    """A way to ask a model. Instances are shared by concurrent requests and closed once."""

    @property
    def capabilities(self) -> Capabilities:
        """What this backend can do with its configured model."""
        ...

    def compile(self, constraint: Constraint) -> CompileReport:
        """Check a constraint without a call; never raises for a constraint it cannot enforce."""
        ...

    async def complete(self, request: Request) -> Completion:
        """Answer one request. Raises BackendFailure; never retries by itself, never returns a guess."""
        ...

    async def count_tokens(self, request: Request) -> int | None:
        """Prompt tokens of a request, or None where the backend cannot count before the call."""
        ...

    async def probe(self) -> ProbeResult:
        """The canary: a tiny call whose only legal answer contradicts its prompt."""
        ...

    async def aclose(self) -> None:
        """Release what the backend holds. Safe to call twice."""
        ...
