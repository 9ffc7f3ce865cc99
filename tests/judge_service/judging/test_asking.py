"""The retry policy: what is asked again, how often, and what a call records."""

import asyncio
from typing import Literal

import pytest

from judge_service.backends.base import (
    BackendFailure,
    Capabilities,
    CompileReport,
    Completion,
    ProbeResult,
    Request,
    Subject,
    TokenLogprob,
)
from judge_service.domain.call import RAW_LIMIT, Usage
from judge_service.domain.judge import ConfidenceSource, Judge, Limits, Price, Sampling
from judge_service.domain.outcome import Enforcement, JudgeErrorReason
from judge_service.judging.asking import Asker, FatalJudgeError, NoReply
from judge_service.judging.cache import MemoryCache
from judge_service.judging.provider import ProviderGate
from rubrics.model import Ask, Constraint, JsonConstraint, Message, VerdictField
from rubrics.records import DecodingModel
from tests.support.clock import VirtualTime


class Answer(DecodingModel):
    verdict: Literal["A", "B"]


SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"type": "string", "enum": ["A", "B"]}},
    "required": ["verdict"],
    "additionalProperties": False,
}
ASK = Ask(
    step="compare",
    messages=(Message("user", "which?"),),
    constraint=JsonConstraint(Answer, SCHEMA),
    verdicts={"verdict": VerdictField(("verdict",), ("A", "B"))},
)
SUBJECT = Subject("pairwise@1", "case-1", {"prompt": "p"}, "AB")
GOOD = '{"verdict":"A"}'
Step = str | Completion | BackendFailure


def done(text: str = GOOD, finish: str = "stop", refusal: str | None = None) -> Completion:
    usage = Usage(prompt_tokens=10, completion_tokens=5)
    return Completion(text, finish, "model-x", Enforcement.PROVIDER, usage, refusal=refusal)


def failure(reason: JudgeErrorReason, **more: object) -> BackendFailure:
    return BackendFailure(reason, "said no", **more)  # type: ignore[arg-type]


class Steps:
    """A backend that answers from a list; the last entry repeats."""

    def __init__(self, *steps: Step, capabilities: Capabilities | None = None, tokens: int | None = None) -> None:
        self.steps = list(steps)
        self.requests: list[Request] = []
        self.tokens = tokens
        self.capabilities = capabilities or Capabilities(Enforcement.PROVIDER, logprobs=True)

    def compile(self, constraint: Constraint) -> CompileReport:
        return CompileReport(Enforcement.PROVIDER)

    async def complete(self, request: Request) -> Completion:
        self.requests.append(request)
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if isinstance(step, BackendFailure):
            raise step
        return done(step) if isinstance(step, str) else step

    async def count_tokens(self, request: Request) -> int | None:
        return self.tokens

    async def probe(self) -> ProbeResult:
        return ProbeResult(True, True, True, "model-x", "ready")

    async def aclose(self) -> None:
        return None


def asker(backend: Steps, time: VirtualTime | None = None, cache: MemoryCache | None = None, **judge: object) -> Asker:
    config = Judge.model_validate({"name": "j", "backend": "x", "limits": Limits(timeout_s=60), **judge})
    clock = (time or VirtualTime()).clock()
    return Asker(
        judge=config,
        backend=backend,
        gate=ProviderGate(config.limits, clock),
        rubric_hash="r1",
        judge_hash=config.content_hash,
        cache=cache,
        clock=clock,
        jitter=lambda: 1.0,
    )


async def refused(one: Asker) -> JudgeErrorReason:
    with pytest.raises(NoReply) as caught:
        await one.ask(ASK, SUBJECT)
    return caught.value.reason


async def test_a_good_reply_is_one_call_that_records_everything() -> None:
    one = asker(Steps(done()), price=Price(prompt=2.0, completion=10.0))
    reply = await one.ask(ASK, SUBJECT)
    assert reply.value == Answer(verdict="A")
    (call,) = one.calls
    assert (call.raw, call.finish_reason, call.read_as) == (GOOD, "stop", "whole")
    assert (call.step, call.order, call.attempt, call.model) == ("compare", "AB", 1, "model-x")
    assert call.enforcement is Enforcement.PROVIDER
    assert call.usage.cost_usd == pytest.approx((10 * 2 + 5 * 10) / 1e6)
    assert call.error is None


@pytest.mark.parametrize("raw", ["prose", '{"verdict":"C"}', '{"verdict":"A","x":1}', "{}"])
async def test_a_bad_reply_is_asked_again_up_to_the_attempts_and_every_attempt_is_kept(raw: str) -> None:
    one = asker(Steps(raw), limits=Limits(attempts=3))
    assert await refused(one) in {JudgeErrorReason.PARSE_ERROR, JudgeErrorReason.SCHEMA_ERROR}
    assert [call.attempt for call in one.calls] == [1, 2, 3]
    assert all(call.raw == raw and call.error is not None for call in one.calls)
    assert sum(call.usage.prompt_tokens or 0 for call in one.calls) == 30


async def test_prose_three_times_then_json_depends_on_the_attempts() -> None:
    prose = ["prose"] * 3
    assert await refused(asker(Steps(*prose, GOOD), limits=Limits(attempts=3))) is JudgeErrorReason.PARSE_ERROR
    assert (await asker(Steps(*prose, GOOD), limits=Limits(attempts=4)).ask(ASK, SUBJECT)).value == Answer(verdict="A")


async def test_a_deterministic_decoder_is_not_asked_the_same_again() -> None:
    one = asker(Steps("prose", capabilities=Capabilities(Enforcement.GRAMMAR, True, deterministic=True)))
    assert await refused(one) is JudgeErrorReason.PARSE_ERROR
    assert len(one.calls) == 1


async def test_a_truncated_reply_is_asked_once_more_with_a_larger_limit_only() -> None:
    backend = Steps(done('{"verdict":"A","why":"the', "length"))
    one = asker(backend, sampling=Sampling(max_tokens=200), limits=Limits(attempts=5))
    assert await refused(one) is JudgeErrorReason.TRUNCATED
    assert [request.max_tokens for request in backend.requests] == [200, 800]
    assert {call.finish_reason for call in one.calls} == {"length"}


async def test_a_truncated_reply_that_happens_to_be_complete_is_no_verdict() -> None:
    assert await refused(asker(Steps(done(GOOD, "length")))) is JudgeErrorReason.TRUNCATED


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (done("", refusal="I can't help with that."), JudgeErrorReason.JUDGE_REFUSED),
        (done(GOOD, refusal="No."), JudgeErrorReason.JUDGE_REFUSED),
        (done("", "content_filter"), JudgeErrorReason.CONTENT_FILTERED),
        (done(GOOD, "content_filter"), JudgeErrorReason.CONTENT_FILTERED),
        (failure(JudgeErrorReason.CONTENT_FILTERED), JudgeErrorReason.CONTENT_FILTERED),
        (failure(JudgeErrorReason.CONTEXT_OVERFLOW), JudgeErrorReason.CONTEXT_OVERFLOW),
    ],
)
async def test_refusals_and_filters_cost_one_call(step: Step, reason: JudgeErrorReason) -> None:
    one = asker(Steps(step))
    assert await refused(one) is reason
    assert len(one.calls) == 1


@pytest.mark.parametrize("reason", [JudgeErrorReason.TIMEOUT, JudgeErrorReason.PROVIDER_ERROR])
async def test_passing_faults_are_tried_again_with_growing_waits(reason: JudgeErrorReason) -> None:
    time = VirtualTime()
    one = asker(Steps(failure(reason, retryable=True)), time, limits=Limits(attempts=4))
    assert await refused(one) is reason
    assert len(one.calls) == 4
    assert time.waits == [0.5, 1.0, 2.0]


async def test_a_refused_key_stops_everything() -> None:
    one = asker(Steps(failure(JudgeErrorReason.PROVIDER_ERROR, fatal=True)))
    with pytest.raises(FatalJudgeError):
        await one.ask(ASK, SUBJECT)
    assert len(one.calls) == 1


async def test_rate_limits_do_not_use_up_attempts_and_hold_everyone_back() -> None:
    time = VirtualTime()
    limited = failure(JudgeErrorReason.RATE_LIMITED, retryable=True, retry_after_s=7.0)
    backend = Steps(limited, limited, limited, limited, GOOD)
    one = asker(backend, time, limits=Limits(attempts=2))
    assert (await one.ask(ASK, SUBJECT)).value == Answer(verdict="A")
    assert len(one.calls) == 5
    assert time.now == pytest.approx(28.0)


async def test_waiting_for_rate_limits_has_an_end() -> None:
    limited = failure(JudgeErrorReason.RATE_LIMITED, retryable=True, retry_after_s=100.0)
    time = VirtualTime()
    one = asker(Steps(limited), time, limits=Limits(timeout_s=30))
    assert await refused(one) is JudgeErrorReason.RATE_LIMITED
    assert time.now <= 300.0
    far = failure(JudgeErrorReason.RATE_LIMITED, retryable=True, retry_after_s=86_400.0)
    one = asker(Steps(far))
    assert await refused(one) is JudgeErrorReason.RATE_LIMITED
    assert len(one.calls) == 1


async def test_no_call_starts_before_the_time_another_call_was_told_to_wait_for() -> None:
    time = VirtualTime()
    starts: list[float] = []

    class Counting(Steps):
        async def complete(self, request: Request) -> Completion:
            starts.append(time.now)
            return await super().complete(request)

    backend = Counting(failure(JudgeErrorReason.RATE_LIMITED, retryable=True, retry_after_s=9.0), GOOD)
    one = asker(backend, time)
    other = asker(backend, time)
    other.gate = one.gate
    await asyncio.gather(one.ask(ASK, SUBJECT), other.ask(ASK, SUBJECT))
    assert starts[0] == 0.0
    assert [start for start in starts[2:] if start < 9.0] == []


async def test_a_backend_that_never_answers_ends_as_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(Steps):
        async def complete(self, request: Request) -> Completion:
            await asyncio.Event().wait()
            raise AssertionError

    monkeypatch.setattr("judge_service.judging.asking._GRACE_S", 0.0)
    one = asker(Hanging(GOOD), limits=Limits(timeout_s=0.01, attempts=2))
    assert await refused(one) is JudgeErrorReason.TIMEOUT
    assert len(one.calls) == 2


async def test_a_prompt_that_does_not_fit_makes_no_call() -> None:
    backend = Steps(GOOD, capabilities=Capabilities(Enforcement.GRAMMAR, True, context_tokens=4096), tokens=9_000)
    one = asker(backend)
    with pytest.raises(NoReply, match=r"9000 tokens.*window holds 4096") as caught:
        await one.ask(ASK, SUBJECT)
    assert caught.value.reason is JudgeErrorReason.CONTEXT_OVERFLOW
    assert backend.requests == []


async def test_a_cached_reply_costs_nothing_and_says_so() -> None:
    cache = MemoryCache()
    tokens = (
        TokenLogprob('{"verdict":"', 0.0),
        TokenLogprob("A", -0.1, (("A", -0.1), ("B", -2.4))),
        TokenLogprob('"}', 0),
    )
    completion = Completion(GOOD, "stop", "model-x", Enforcement.PROVIDER, Usage(cost_usd=0.1), tokens=tokens)
    backend = Steps(completion)
    first = asker(backend, cache=cache, confidence=ConfidenceSource.TOKEN_PROBABILITY)
    second = asker(backend, cache=cache, confidence=ConfidenceSource.TOKEN_PROBABILITY)
    paid, free = await first.ask(ASK, SUBJECT), await second.ask(ASK, SUBJECT)
    assert len(backend.requests) == 1
    assert paid == free
    assert free.probabilities["verdict"].values["A"] == pytest.approx(0.9089, abs=1e-4)
    (call,) = second.calls
    assert call.cached
    assert call.usage.cost_usd == 0.0
    bypass = asker(backend, cache=cache)
    bypass.fresh = True
    await bypass.ask(ASK, SUBJECT)
    assert len(backend.requests) == 2


async def test_the_cache_misses_whenever_something_that_counts_differs() -> None:
    cache, backend = MemoryCache(), Steps(GOOD)
    subject = Subject("r", "c", {"answer": "a b", "reference": None}, "AB")
    asks = [
        (asker(backend, cache=cache), ASK, subject),
        (asker(backend, cache=cache, model="m2"), ASK, subject),
        (asker(backend, cache=cache), ASK, Subject("r", "c", {"answer": "a", "reference": "b"}, "AB")),
        (asker(backend, cache=cache), ASK, Subject("r", "c", {"answer": "a b", "reference": ""}, "AB")),
        (asker(backend, cache=cache), ASK, Subject("r", "c", {"answer": "a b", "reference": None}, "BA")),
        (asker(backend, cache=cache), ASK, Subject("r", "c", {"answer": "a b", "reference": None}, "AB", repeat=1)),
        (
            asker(backend, cache=cache),
            Ask("compare", (Message("user", "which!"),), ASK.constraint, ASK.verdicts),
            subject,
        ),
    ]
    for one, ask, about in asks:
        await one.ask(ask, about)
    assert len(backend.requests) == len(asks)
    other_rubric = asker(backend, cache=cache)
    other_rubric.rubric_hash = "r2"
    await other_rubric.ask(ASK, subject)
    assert len(backend.requests) == len(asks) + 1
    await asker(backend, cache=cache).ask(ASK, subject)
    assert len(backend.requests) == len(asks) + 1


async def test_errors_are_never_cached() -> None:
    cache = MemoryCache()
    assert await refused(asker(Steps("prose"), cache=cache)) is JudgeErrorReason.PARSE_ERROR
    backend = Steps(GOOD)
    await asker(backend, cache=cache).ask(ASK, SUBJECT)
    assert len(backend.requests) == 1


async def test_a_long_raw_reply_is_cut_and_says_so_and_secrets_are_removed() -> None:
    one = asker(Steps("\ud800" + "a" * (RAW_LIMIT + 10)), limits=Limits(attempts=1))
    await refused(one)
    (call,) = one.calls
    assert call.raw_cut
    assert call.raw is not None
    assert len(call.raw) == RAW_LIMIT
    call.model_dump_json()
    leak = BackendFailure(JudgeErrorReason.PROVIDER_ERROR, "404 for url https://x.example/v1?key=sk-test-SECRET123")
    one = asker(Steps(leak))
    with pytest.raises(NoReply) as caught:
        await one.ask(ASK, SUBJECT)
    assert "SECRET123" not in caught.value.message
    assert "SECRET123" not in one.calls[0].model_dump_json()


async def test_rates_hold_over_a_sliding_minute() -> None:
    time = VirtualTime()
    starts: list[float] = []

    class Timed(Steps):
        async def complete(self, request: Request) -> Completion:
            starts.append(time.now)
            return await super().complete(request)

    one = asker(Timed(GOOD), time, limits=Limits(requests_per_minute=2))
    for _ in range(5):
        await one.ask(ASK, SUBJECT)
    assert starts == [0.0, 0.0, 60.0, 60.0, 120.0]


async def test_concurrency_counts_calls_in_flight() -> None:
    flying, most = 0, 0

    class Slow(Steps):
        async def complete(self, request: Request) -> Completion:
            nonlocal flying, most
            flying += 1
            most = max(most, flying)
            for _ in range(5):
                await asyncio.sleep(0)
            flying -= 1
            return await super().complete(request)

    first = asker(Slow(GOOD), limits=Limits(concurrency=3))
    askers = [asker(first.backend, limits=Limits(concurrency=3)) for _ in range(20)]  # type: ignore[arg-type]
    for one in askers:
        one.gate = first.gate
    await asyncio.gather(*(one.ask(ASK, SUBJECT) for one in askers))
    assert most == 3
