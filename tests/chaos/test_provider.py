"""A provider at its worst: refusals for now, faults, silence and garbage. Every case ends, no limit is passed."""

import asyncio
import random
import time
from collections import Counter
from typing import Any

import pytest

from judge_service.backends.base import BackendFailure, Request
from judge_service.backends.catalog import BackendPool
from judge_service.backends.scripted import ScriptedBackend
from judge_service.domain.judge import Judge, Limits, OrderPolicy
from judge_service.domain.outcome import JudgeErrorReason, Outcome
from judge_service.domain.run import RunStatus
from judge_service.judging.judging import Judging
from judge_service.judging.roster import Roster
from judge_service.runs.exports import judgments_of
from judge_service.runs.local import LocalRunner
from judge_service.runs.shared_gate import SharedGates
from judge_service.settings import Settings
from judge_service.store import Store
from tests.support.waiting import LONG_ENOUGH_S

from . import parts

N = 150
CONCURRENCY = 10
RETRY_AFTER_S = 0.02
JUDGE = Judge(
    name="bad",
    backend="scripted",
    model="bad-1",
    order_policy=OrderPolicy.SINGLE_AB,
    limits=Limits(concurrency=CONCURRENCY, timeout_s=2.0, attempts=4),
)


class BadProvider(ScriptedBackend):
    """30% 429 with Retry-After, 5% 500, 2% never answers, 1% garbage; notes what a provider would complain about."""

    def __init__(self, seed: int, latency_ms: float = 1.0) -> None:
        super().__init__(parts.verdict, latency_ms=latency_ms, keep_requests=False)
        self._draw = random.Random(seed)
        self._closed_until = 0.0
        self.flying = self.most_flying = 0
        self.too_early = 0
        self.answered: Counter[str] = Counter()

    async def complete(self, request: Request) -> Any:
        """Answer or fail by the draw."""
        self.too_early += time.monotonic() < self._closed_until
        self.flying += 1
        self.most_flying = max(self.most_flying, self.flying)
        try:
            draw = self._draw.random()
            if draw < 0.30:
                self.answered["429"] += 1
                await asyncio.sleep(0)
                self._closed_until = time.monotonic() + RETRY_AFTER_S
                raise BackendFailure(
                    JudgeErrorReason.RATE_LIMITED, "slow down", retryable=True, retry_after_s=RETRY_AFTER_S
                )
            if draw < 0.35:
                self.answered["500"] += 1
                raise BackendFailure(JudgeErrorReason.PROVIDER_ERROR, "broken", retryable=True)
            if draw < 0.37:
                self.answered["silence"] += 1
                await asyncio.Event().wait()
            if draw < 0.38:
                self.answered["garbage"] += 1
                return (await super().complete(request)).__class__(
                    text="<html>", finish_reason="stop", model="bad-1", enforcement=self.capabilities.enforcement
                )
            self.answered["good"] += 1
            return await super().complete(request)
        finally:
            self.flying -= 1


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
async def test_every_case_ends_and_no_limit_is_passed(database_url: str, shared: bool) -> None:
    with Store.open(database_url) as store:
        provider = BadProvider(seed=7)
        pool = BackendPool(Settings())
        pool.put(JUDGE, provider)
        judging = Judging(Roster([JUDGE]), pool, fence_key=b"chaos", cache=store.cache)
        gates = SharedGates(store.shared_limits(), "one") if shared else None
        if gates is not None:
            judging.gates = gates
        async with asyncio.timeout(LONG_ENOUGH_S):
            run = await LocalRunner(store, judging).run(parts.cases(N), parts.RUBRIC, JUDGE, run_id="r")
        if gates is not None:
            await gates.aclose()
        assert run.status in (RunStatus.FINISHED, RunStatus.FINISHED_WITH_ERRORS)
        ends = Counter(one.outcome for one in judgments_of(store, "r"))
        assert ends.total() == N
        # Retries leave hardly any case without a verdict.
        assert ends[Outcome.SCORED] >= 0.95 * N
        assert provider.too_early == 0
        assert provider.most_flying <= CONCURRENCY
        assert set(provider.answered) == {"429", "500", "silence", "garbage", "good"}
        # Every attempt is kept, each once.
        kept = Counter(
            "good" if call.error is None else call.error.reason.value
            for one in judgments_of(store, "r")
            for call in one.calls
        )
        assert kept["rate_limited"] == provider.answered["429"]
        assert kept["provider_error"] == provider.answered["500"]
        assert kept["timeout"] == provider.answered["silence"]
        assert kept["parse_error"] == provider.answered["garbage"]
        assert kept["good"] == provider.answered["good"]


async def test_a_refused_key_stops_the_run_with_one_message(database_url: str) -> None:
    calls = 0

    def refuse(_: Request) -> str:
        nonlocal calls
        calls += 1
        raise BackendFailure(JudgeErrorReason.PROVIDER_ERROR, "401: the key is not valid", fatal=True)

    with Store.open(database_url) as store:
        pool = BackendPool(Settings())
        pool.put(JUDGE, ScriptedBackend(refuse))
        judging = Judging(Roster([JUDGE]), pool, fence_key=b"chaos", cache=store.cache)
        run = await LocalRunner(store, judging).run(parts.cases(N), parts.RUBRIC, JUDGE, run_id="r")
        assert (run.status, run.message) == (RunStatus.FAILED, "401: the key is not valid")
        assert calls <= CONCURRENCY
        assert list(judgments_of(store, "r")) == []
