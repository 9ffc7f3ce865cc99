"""Runs through the queue, in one process: the whole life of a run without its own runner."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from typer.testing import CliRunner

from judge_service.cli.main import app
from judge_service.domain.case import Case
from judge_service.domain.judgment import Judgment
from judge_service.domain.run import RunStatus
from judge_service.judging.asking import FatalJudgeError
from judge_service.runs.background import BackgroundRuns
from judge_service.runs.exports import judgments_of
from judge_service.runs.fleet import CHUNKS_AT_ONCE, Fleet
from judge_service.runs.local import LocalRunner, PartEnd
from judge_service.runs.watching import watch
from judge_service.store import Store
from rubrics.registry import get_rubric
from tests.judge_service.store.databases import Postgres

from .fake import JUDGE, PAIRWISE, FakeJudging, by_number, cases


@pytest.fixture
def shared(postgres: Postgres) -> Iterator[Store]:
    url = postgres.fresh()
    with Store.open(url) as store:
        yield store
    postgres.drop(url)


@asynccontextmanager
async def working(
    store: Store, judging: FakeJudging, find: Any = get_rubric, **options: Any
) -> AsyncIterator[BackgroundRuns]:
    queue = store.queue(heartbeat_s=1.0)
    assert queue is not None
    runner = LocalRunner(store, judging)
    runs = BackgroundRuns(store, runner, get_rubric, fleet=Fleet(store, queue, runner, find, **options))
    await runs.resume_interrupted()
    yield runs
    await runs.aclose()


async def ended(store: Store, runs: BackgroundRuns) -> RunStatus:
    async for _ in watch(store, await runs.get("r")):
        pass
    return (await runs.get("r")).status


async def test_a_run_is_judged_in_chunks_and_its_errors_again_when_that_is_wanted(shared: Store) -> None:
    judging = FakeJudging(lambda case: "timeout" if case.id == "case-7" else by_number(case))
    async with working(shared, judging) as runs:
        await runs.submit(cases(30), PAIRWISE, JUDGE, run_id="r")
        assert await ended(shared, runs) is RunStatus.FINISHED_WITH_ERRORS
        assert judging.calls == 30
        judging.answer = by_number
        await runs.resume("r", retry_errors=True)
        assert await ended(shared, runs) is RunStatus.FINISHED
        assert judging.asked["case-7"] == 2
        assert judging.calls == 31
    assert [one.case_id for one in judgments_of(shared, "r")] == [case.id for case in cases(30)]


async def test_runs_of_a_drift_check_are_left_to_it(shared: Store) -> None:
    judging = FakeJudging()
    runner = LocalRunner(shared, judging)
    of_drift = await runner.plan(cases(3), PAIRWISE, JUDGE, run_id="d", source="drift:s@1")
    await runner.plan(cases(2, start=3), PAIRWISE, JUDGE, run_id="r")
    async with working(shared, judging) as runs:
        assert await ended(shared, runs) is RunStatus.FINISHED
    assert set(judging.asked) == {"case-3", "case-4"}
    assert shared.runs.get("d") == of_drift


async def test_chunks_share_the_cases_at_once(shared: Store) -> None:
    # Two chunks, of eight cases and of four: with a fixed part for each chunk fewer would be in the air.
    judging = FakeJudging(gate=asyncio.Event())
    assert judging.gate is not None
    async with working(shared, judging, cases_at_once=6) as runs:
        await runs.submit(cases(12), PAIRWISE, JUDGE, run_id="r")
        await judging.reached(6)
        judging.gate.set()
        assert await ended(shared, runs) is RunStatus.FINISHED
    assert judging.most_flying == 6
    assert set(judging.asked.values()) == {1}


class Dying(FakeJudging):
    """Times out, except on the cases `hung`, which get no answer; `waits` is set when nothing else is left to do."""

    def __init__(self, hung: set[str]) -> None:
        super().__init__(lambda _: "timeout")
        self.waits = asyncio.Event()
        self._hung = hung

    async def judge(self, case: Case, *rest: Any, **options: Any) -> Judgment:
        if case.id not in self._hung:
            try:
                return await super().judge(case, *rest, **options)
            finally:
                self._look()
        self.asked[case.id] += 1
        self._look()
        await asyncio.Event().wait()
        raise AssertionError

    def _look(self) -> None:
        if self.calls == 30 and not self.flying:
            self.waits.set()


async def test_a_chunk_of_errors_that_is_taken_over_asks_none_of_them_again(shared: Store) -> None:
    judging = FakeJudging(lambda _: "timeout")
    async with working(shared, judging) as runs:
        await runs.submit(cases(30), PAIRWISE, JUDGE, run_id="r")
        assert await ended(shared, runs) is RunStatus.FAILED
    assert set(judging.asked.values()) == {1}
    # The first worker of the second start gets an answer to eleven cases and dies while it waits for the others.
    hung = {f"case-{number}" for number in range(11, 30)}
    first = Dying(hung)
    queue = shared.queue()
    assert queue is not None
    runner = LocalRunner(shared, first)
    dying = BackgroundRuns(shared, runner, get_rubric, fleet=Fleet(shared, queue, runner, get_rubric))
    await dying.resume_interrupted()
    await dying.resume("r", retry_errors=True)
    await first.waits.wait()
    closing = asyncio.create_task(dying.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    second = FakeJudging(lambda _: "timeout")
    async with working(shared, second) as others:
        assert await ended(shared, others) is RunStatus.FAILED
    assert first.asked == Counter(case.id for case in cases(30))
    assert second.asked == Counter(hung)


async def test_a_refused_key_ends_the_run_for_all(shared: Store) -> None:
    def refuse(_: object) -> str:
        raise FatalJudgeError("401: the key is not valid")

    async with working(shared, FakeJudging(refuse)) as runs:
        await runs.submit(cases(30), PAIRWISE, JUDGE, run_id="r")
        assert await ended(shared, runs) is RunStatus.FAILED
        assert (await runs.get("r")).message == "401: the key is not valid"


async def test_an_error_that_nobody_foresaw_ends_the_run_and_is_not_taken_again_for_ever(shared: Store) -> None:
    found: list[str] = []

    def broken(reference: str) -> None:
        found.append(reference)
        raise ZeroDivisionError

    judging = FakeJudging()
    async with working(shared, judging, broken) as runs:
        await runs.submit(cases(30), PAIRWISE, JUDGE, run_id="r")
        assert await ended(shared, runs) is RunStatus.FAILED
        assert (await runs.get("r")).message == "The run stopped: ZeroDivisionError"
    # The chunks that were in hand when the first one ended the run, each once.
    assert 1 <= len(found) <= CHUNKS_AT_ONCE
    assert judging.calls == 0


async def test_what_nobody_works_on_is_offered_again(shared: Store) -> None:
    idle = LocalRunner(shared, FakeJudging())
    await idle.plan(cases(20), PAIRWISE, JUDGE, run_id="r")
    judging = FakeJudging()
    async with working(shared, judging) as runs:
        assert await ended(shared, runs) is RunStatus.FINISHED
    assert judging.calls == 20


async def test_a_worker_that_does_not_wait_for_its_cases_gives_its_chunks_back(shared: Store) -> None:
    stuck = FakeJudging(gate=asyncio.Event())
    queue = shared.queue()
    assert queue is not None
    runner = LocalRunner(shared, stuck)
    runs = BackgroundRuns(shared, runner, get_rubric, fleet=Fleet(shared, queue, runner, get_rubric))
    await runs.resume_interrupted()
    await runs.submit(cases(30), PAIRWISE, JUDGE, run_id="r")
    await stuck.reached(30)
    assert await queue.counts() == {"picked": 4}
    closing = asyncio.create_task(runs.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert await queue.counts() == {"queued": 4}
    # A heartbeat of ten seconds does not run out in this test.
    judging = FakeJudging()
    async with working(shared, judging) as others:
        assert await ended(shared, others) is RunStatus.FINISHED
    assert judging.calls == 30


async def test_a_stopped_runner_begins_no_part(store: Store) -> None:
    judging = FakeJudging()
    runner = LocalRunner(store, judging)
    run = await runner.plan(cases(30), PAIRWISE, JUDGE, run_id="r")
    runner.stop()
    end = await runner.judge_part(run, PAIRWISE, 0, 29, worker="w", retry=(), concurrency=4, budget=None)
    assert end == PartEnd(None, halted=True)
    assert (await runner.resume("r", PAIRWISE)).status is RunStatus.QUEUED
    assert judging.calls == 0


def test_workers_need_postgresql(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_SERVICE_DATA_DIR", str(tmp_path))
    result = CliRunner().invoke(app, ["worker"])
    assert result.exit_code == 1
    assert "Workers need a PostgreSQL database" in result.output
