"""Asks one question until it is answered or may not be asked again. Every attempt becomes a call record.

Owns the one retry policy of the service: backends never retry by themselves. A wait for a rate limit does not use up
the attempts meant for failures; a truncated reply is asked again once, and only with a larger limit; a refusal or a
content filter never is.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from judge_service.backends.base import Backend, BackendFailure, Completion, Request, Subject
from judge_service.backends.limits import reply_limit
from judge_service.domain.call import RAW_LIMIT, Call, CallError, Usage
from judge_service.domain.judge import ConfidenceSource, Judge, OrderPolicy
from judge_service.domain.outcome import Enforcement, JudgeErrorReason
from judge_service.judging.budget import Budget
from judge_service.judging.cache import CallCache, cache_key
from judge_service.judging.probabilities import read_probabilities
from judge_service.judging.prompts import hash_of, storable
from judge_service.judging.provider import Clock, Gate, WaitedTooLong
from judge_service.judging.reading import ReplyProblem, read_reply
from judge_service.telemetry import redact
from rubrics.model import Ask, LabelProbabilities, Reply

_REPAIRABLE = frozenset(
    {
        JudgeErrorReason.PARSE_ERROR,
        JudgeErrorReason.SCHEMA_ERROR,
        JudgeErrorReason.MISSING_VERDICT,
        JudgeErrorReason.ID_MISMATCH,
        JudgeErrorReason.DUPLICATE_VERDICT,
    }
)
_BACKOFF_S = 0.5
_BACKOFF_CAP_S = 20.0
_RATE_LIMIT_PATIENCE = 10.0
"""A call may wait for rate limits up to this many times its timeout in all."""
_GROWTH = 4
"""How much larger the limit of the one attempt after a truncation is."""
_GRACE_S = 2.0
log = logging.getLogger(__name__)
_TOKENS_A_CHARACTER = 3


class FatalJudgeError(Exception):
    """The provider refused the key (401 or 403): no further call can succeed, so the whole run stops."""


class NoReply(Exception):
    """The question has no usable answer. `reason` becomes the judgment's reason."""

    def __init__(self, reason: JudgeErrorReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def wants_probabilities(judge: Judge) -> bool:
    """Whether the judge's confidence or order policy rests on token probabilities."""
    return judge.order_policy is OrderPolicy.AVERAGE_PROBABILITY or judge.confidence in (
        ConfidenceSource.TOKEN_PROBABILITY,
        ConfidenceSource.ORDER_AVERAGE,
        ConfidenceSource.CLASSIFIER,
    )


def _tell_if_lost(kept: "asyncio.Future[None]") -> None:
    """The judgment is recorded after its calls and by the same writer: what ails the store ends its caller there."""
    if not kept.cancelled() and (error := kept.exception()) is not None:
        log.warning("an answered call was not kept for later: %s", error)


@dataclass(slots=True)
class Asker:
    """Puts the questions of one judgment to one judge and collects the calls.

    `rubric_hash` and `judge_hash` enter the cache key. `fresh` reads no cached reply (and still writes). When
    `budget` is used up no call starts; cached replies are free.
    """

    judge: Judge
    backend: Backend
    gate: Gate
    rubric_hash: str
    judge_hash: str
    cache: CallCache | None = None
    inputs: str | None = None
    """Canonical JSON of the case, where the caller has it."""
    fresh: bool = False
    budget: Budget | None = None
    clock: Clock = field(default_factory=Clock)
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    jitter: Callable[[], float] = field(default=random.random)
    calls: list[Call] = field(default_factory=list)

    async def ask(self, ask: Ask, subject: Subject) -> Reply:
        """The reply to `ask`. Raises NoReply when there is none and FatalJudgeError for a refused key."""
        judge = self.judge
        capabilities = self.backend.capabilities
        request = Request(
            ask=ask,
            subject=subject,
            sampling=judge.sampling,
            max_tokens=judge.sampling.max_tokens or reply_limit(ask.constraint),
            timeout_s=judge.limits.timeout_s,
            want_probabilities=wants_probabilities(judge) and bool(ask.verdicts),
        )
        prompt_hash = hash_of(ask)
        key = ""
        if self.cache is not None:
            parts = (self.rubric_hash, self.judge_hash, capabilities.revision, request, prompt_hash)
            key = cache_key(*parts, self.inputs)
            if not self.fresh and (kept := await self.cache.get(key)) is not None:
                return self._reuse(kept, request)
        request = await self._fit(request, prompt_hash)
        attempt, failures, waited, grown = 0, 0, 0.0, False
        while True:
            attempt += 1
            if attempt > 1:
                request = replace(request, subject=replace(subject, attempt=attempt))
            call, reply, failure = await self._once(request, prompt_hash, attempt, waited, key)
            self.calls.append(call)
            if reply is not None:
                return reply
            error = call.error or CallError(reason=JudgeErrorReason.PROVIDER_ERROR, message="no reply")
            if failure is not None and failure.fatal:
                raise FatalJudgeError(error.message)
            if error.reason is JudgeErrorReason.RATE_LIMITED and failure is not None and failure.retryable:
                wait = self._backoff(attempt) if failure.retry_after_s is None else failure.retry_after_s
                waited += wait
                self.gate.hold(wait)
                if waited > judge.limits.timeout_s * _RATE_LIMIT_PATIENCE:
                    raise NoReply(error.reason, error.message)
                continue
            failures += 1
            if error.reason is JudgeErrorReason.TRUNCATED:
                if grown or failures >= judge.limits.attempts or not await self._can_grow(request):
                    raise NoReply(error.reason, error.message)
                grown = True
                request = replace(request, max_tokens=request.max_tokens * _GROWTH)
                continue
            if failures >= judge.limits.attempts or not self._may_repeat(error.reason, failure):
                raise NoReply(error.reason, error.message)
            if failure is not None:
                wait = self._backoff(failures) if failure.retry_after_s is None else failure.retry_after_s
                if failure.retry_after_s is not None:
                    self.gate.hold(wait)
                await self.clock.sleep(wait)

    def _backoff(self, attempt: int) -> float:
        return min(_BACKOFF_CAP_S, _BACKOFF_S * 2.0 ** (attempt - 1)) * (0.5 + self.jitter() / 2)

    def _may_repeat(self, reason: JudgeErrorReason, failure: BackendFailure | None) -> bool:
        if failure is not None:
            return failure.retryable
        # A decoder that is deterministic would give the same bad reply again.
        return reason in _REPAIRABLE and not self.backend.capabilities.deterministic

    async def _can_grow(self, request: Request) -> bool:
        window = self.backend.capabilities.context_tokens
        if self.backend.capabilities.enforcement is Enforcement.GRAMMAR and self.judge.sampling.max_tokens is None:
            return False
        if window is None:
            return True
        prompt = await self.backend.count_tokens(request)
        return prompt is None or prompt + request.max_tokens * _GROWTH <= window

    async def _fit(self, request: Request, prompt_hash: str) -> Request:
        """The request with as much room for its reply as the window leaves, up to three tokens a character.

        Other scripts than Latin need up to three tokens a character; the limit is a cap, not a cost. Raises NoReply
        when not even one token a character fits.
        """
        window = self.backend.capabilities.context_tokens
        if window is None:
            return request
        prompt = await self.backend.count_tokens(request)
        if prompt is None:
            return request
        if prompt + request.max_tokens <= window:
            if self.judge.sampling.max_tokens is not None or self.backend.capabilities.estimates_tokens:
                return request
            return replace(request, max_tokens=min(_TOKENS_A_CHARACTER * request.max_tokens, window - prompt))
        about = "about " if self.backend.capabilities.estimates_tokens else ""
        message = (
            f"the prompt has {about}{prompt} tokens and the reply may have {request.max_tokens}: "
            f"{prompt + request.max_tokens} are needed, the judge's window holds {window}"
        )
        error = CallError(reason=JudgeErrorReason.CONTEXT_OVERFLOW, message=message)
        self.calls.append(Call(**self._about(request, prompt_hash, 1, self.now(), 0.0), error=error))
        raise NoReply(JudgeErrorReason.CONTEXT_OVERFLOW, message)

    async def _once(
        self, request: Request, prompt_hash: str, attempt: int, waited: float, key: str
    ) -> tuple[Call, Reply | None, BackendFailure | None]:
        limits = self.judge.limits
        patience = max(limits.timeout_s * _RATE_LIMIT_PATIENCE - waited, 0.0)
        started_at, started = self.now(), self.clock.monotonic()
        try:
            async with self.gate.admit(patience) as slot:
                # Looked at here and not before the wait: what others spent meanwhile counts.
                if self.budget is not None and (spent := self.budget.exhausted()) is not None:
                    raise NoReply(JudgeErrorReason.BUDGET, spent)
                started_at, started = self.now(), self.clock.monotonic()
                # Backends keep their own time limit; this one holds even if a backend does not.
                async with asyncio.timeout(limits.timeout_s + _GRACE_S):
                    completion = await self.backend.complete(request)
                elapsed = (self.clock.monotonic() - started) * 1000
                usage = self._usage(completion)
                if self.budget is not None:
                    self.budget.spend(usage)
                self.gate.spend((usage.prompt_tokens or 0) + (usage.completion_tokens or 0))
                reply, found = self._read(request, completion)
                about = self._about(request, prompt_hash, attempt, started_at, elapsed, completion.text)
                about |= {
                    "model": completion.model,
                    "finish_reason": completion.finish_reason,
                    "enforcement": completion.enforcement,
                    "usage": usage,
                    "parameters_sent": dict(completion.parameters_sent),
                    "parameters_dropped": completion.parameters_dropped,
                    "engine": dict(completion.engine),
                }
                call = Call(**about, **found)
                kept = None
                if reply is not None and self.cache is not None and not call.raw_cut:
                    kept = self.cache.put(key, call)
                if kept is not None:
                    # The slot is not free before: a killed process repeats at most the calls that hold one.
                    kept.add_done_callback(_tell_if_lost)
                    slot.keep_until(kept)
                return call, reply, None
        except BackendFailure as failure:
            elapsed = (self.clock.monotonic() - started) * 1000
            error = CallError(reason=failure.reason, message=redact(storable(failure.message))[:2000])
            call = Call(**self._about(request, prompt_hash, attempt, started_at, elapsed, failure.raw), error=error)
            if failure.usage is not None:
                if self.budget is not None:
                    self.budget.spend(self._priced(failure.usage))
                call = call.model_copy(update={"usage": self._priced(failure.usage)})
            return call, None, failure
        except WaitedTooLong as problem:
            impatient = BackendFailure(JudgeErrorReason.RATE_LIMITED, str(problem))
            error = CallError(reason=impatient.reason, message=impatient.message)
            return Call(**self._about(request, prompt_hash, attempt, started_at, 0.0), error=error), None, impatient
        except TimeoutError:
            message = f"no complete reply within {limits.timeout_s:g} s"
            late = BackendFailure(JudgeErrorReason.TIMEOUT, message, retryable=True)
            elapsed = (self.clock.monotonic() - started) * 1000
            error = CallError(reason=late.reason, message=message)
            return Call(**self._about(request, prompt_hash, attempt, started_at, elapsed), error=error), None, late

    def _read(self, request: Request, completion: Completion) -> tuple[Reply | None, Mapping[str, Any]]:
        """The reply, None where it cannot be used, and what its call says of that."""
        problem: tuple[JudgeErrorReason, str] | None = None
        if completion.refusal is not None:
            problem = (JudgeErrorReason.JUDGE_REFUSED, "the judge model declined to answer")
        elif completion.finish_reason == "content_filter":
            problem = (JudgeErrorReason.CONTENT_FILTERED, "the provider's content filter stopped the reply")
        elif completion.finish_reason == "length":
            problem = (
                JudgeErrorReason.TRUNCATED,
                f"the reply was cut at its limit of {request.max_tokens} tokens",
            )
        if problem is not None:
            return None, _failed(*problem)
        try:
            read = read_reply(completion.text, request.ask.constraint, frozenset(request.ask.items))
        except ReplyProblem as error:
            return None, _failed(error.reason, error.message)
        found: dict[str, LabelProbabilities] = {}
        if request.want_probabilities:
            found = read_probabilities(completion.text, read, request.ask.verdicts, completion.tokens)
        return Reply(read.value, found), {
            "read_as": read.read_as,
            "probabilities": {name: dict(one.values) for name, one in found.items()} or None,
            "label_mass": {name: one.mass for name, one in found.items()} or None,
        }

    def _reuse(self, kept: Call, request: Request) -> Reply:
        raw = kept.raw or ""
        read = read_reply(raw, request.ask.constraint, frozenset(request.ask.items))
        masses: Mapping[str, float] = kept.label_mass or {}
        found = {
            name: LabelProbabilities(values, masses.get(name, 1.0))
            for name, values in (kept.probabilities or {}).items()
        }
        free = Usage(prompt_tokens=0, completion_tokens=0, cached_tokens=0, cost_usd=0.0)
        self.calls.append(
            kept.model_copy(
                update={"cached": True, "usage": free, "latency_ms": 0.0, "attempt": 1, "started_at": self.now()}
            )
        )
        return Reply(read.value, found)

    def _priced(self, usage: Usage) -> Usage:
        """What the judge's configured price makes of the tokens; it overrides what a transport believes."""
        price = self.judge.price
        if price is None or (usage.prompt_tokens is None and usage.completion_tokens is None):
            return usage
        cost = (usage.prompt_tokens or 0) * price.prompt + (usage.completion_tokens or 0) * price.completion
        return usage.model_copy(update={"cost_usd": cost / 1e6})

    def _usage(self, completion: Completion) -> Usage:
        total = completion.usage
        for earlier in completion.earlier_usage:
            total = total + earlier
        return self._priced(total)

    def _about(
        self,
        request: Request,
        prompt_hash: str,
        attempt: int,
        started_at: datetime,
        elapsed_ms: float,
        text: str | None = None,
    ) -> dict[str, Any]:
        """What the record of a call says in any case; `model` is the one that was asked for."""
        text = None if text is None else storable(text)
        subject = request.subject
        return {
            "step": request.ask.step,
            "order": subject.order,
            "repeat": subject.repeat,
            "attempt": attempt,
            "judge": self.judge.name,
            "model": self.judge.model or self.judge.name,
            "prompt_hash": prompt_hash,
            "raw": None if text is None else text[:RAW_LIMIT],
            "raw_cut": text is not None and len(text) > RAW_LIMIT,
            "latency_ms": max(elapsed_ms, 0.0),
            "started_at": started_at,
        }


def _failed(reason: JudgeErrorReason, message: str) -> Mapping[str, Any]:
    return {"error": CallError(reason=reason, message=redact(storable(message))[:2000])}
