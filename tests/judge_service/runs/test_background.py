import asyncio
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from judge_service.domain.run import Run, RunStatus
from judge_service.errors import Conflict, InvalidInput, NotFound
from judge_service.runs.background import BackgroundRuns
from judge_service.runs.local import LocalRunner
from judge_service.runs.worker import LEASE, SERVICE, alive, living, this_worker
from judge_service.store import Store
from judge_service.store.store import utc_now
from rubrics.registry import get_rubric
from tests.support.waiting import until

from .fake import JUDGE, PAIRWISE, FakeJudging, cases


def background(store: Store, judging: FakeJudging, *, at_once: int = 8) -> BackgroundRuns:
    runner = LocalRunner(store, judging, gives_back_to=SERVICE)
    return BackgroundRuns(store, runner, get_rubric, at_once=at_once)


async def test_a_submitted_run_is_stored_whole_and_ends_by_itself(store: Store) -> None:
    judging = FakeJudging(gate=asyncio.Event())
    assert judging.gate is not None
    runs = background(store, judging)
    run = await runs.submit(cases(20), PAIRWISE, JUDGE, run_id="r", source="upload")
    assert (run.status, run.n_planned, run.planned) == (RunStatus.QUEUED, 20, True)
    await judging.reached(JUDGE.limits.concurrency)
    assert (await runs.get("r")).status is RunStatus.RUNNING
    progress = runs.progress("r")
    assert progress is not None
    assert (progress.n_done, progress.n_total) == (0, 20)
    judging.gate.set()
    assert (await runs.wait("r")).status is RunStatus.FINISHED
    assert runs.progress("r") is None
    numbers = await runs.aggregate("r")
    assert (numbers.n_total, numbers.n_scored, numbers.outcomes["inconsistent"]) == (20, 15, 5)
    with pytest.raises(NotFound):
        await runs.get("nobody")
    await runs.aclose()


async def test_a_bad_case_is_refused_and_nothing_is_judged(store: Store) -> None:
    judging = FakeJudging()
    runs = background(store, judging)
    (good,) = cases(1)
    with pytest.raises(InvalidInput):
        await runs.submit([good, good.model_copy(update={"id": "x", "input": {}})], PAIRWISE, JUDGE, run_id="r")
    assert (await runs.get("r")).status is RunStatus.FAILED
    assert judging.calls == 0


async def test_the_same_run_submitted_twice_is_one_run(store: Store) -> None:
    judging = FakeJudging()
    runs = background(store, judging)
    await asyncio.gather(*(runs.submit(cases(10), PAIRWISE, JUDGE, run_id="r") for _ in range(2)))
    await runs.wait("r")
    again = await runs.submit(cases(10), PAIRWISE, JUDGE, run_id="r")
    assert (again.status, judging.calls) == (RunStatus.FINISHED, 10)


async def test_cancel_and_explicit_resume(store: Store) -> None:
    judging = FakeJudging(gate=asyncio.Event())
    assert judging.gate is not None
    runs = background(store, judging)
    await runs.submit(cases(20), PAIRWISE, JUDGE, run_id="r")
    await judging.reached(JUDGE.limits.concurrency)
    with pytest.raises(Conflict, match="nothing to resume"):
        await runs.resume("r")
    assert (await runs.cancel("r")).status is RunStatus.CANCELLING
    judging.gate.set()
    assert (await runs.wait("r")).status is RunStatus.CANCELLED
    assert judging.calls == JUDGE.limits.concurrency
    assert (await runs.resume("r")).status is RunStatus.QUEUED
    assert (await runs.wait("r")).status is RunStatus.FINISHED
    assert judging.calls == 20
    with pytest.raises(Conflict, match="finished"):
        await runs.cancel("r")


async def test_a_run_that_waits_for_its_turn_is_cancelled_at_once(store: Store) -> None:
    judging = FakeJudging(gate=asyncio.Event())
    assert judging.gate is not None
    runs = background(store, judging, at_once=1)
    await runs.submit(cases(5), PAIRWISE, JUDGE, run_id="first")
    await judging.reached(5)
    await runs.submit(cases(5, start=5), PAIRWISE, JUDGE, run_id="second")
    assert (await runs.get("second")).status is RunStatus.QUEUED
    assert (await runs.cancel("second")).status is RunStatus.CANCELLED
    judging.gate.set()
    assert (await runs.wait("first")).status is RunStatus.FINISHED
    assert (await runs.wait("second")).status is RunStatus.CANCELLED
    assert judging.calls == 5


async def test_a_closed_service_leaves_its_runs_to_the_next_one(store: Store) -> None:
    judging = FakeJudging(gate=asyncio.Event())
    assert judging.gate is not None
    first = background(store, judging, at_once=1)
    await first.submit(cases(30), PAIRWISE, JUDGE, run_id="r")
    await first.submit(cases(5, start=50), PAIRWISE, JUDGE, run_id="waiting")
    await judging.reached(JUDGE.limits.concurrency)
    closing = asyncio.create_task(first.aclose())
    await asyncio.sleep(0)
    judging.gate.set()
    await closing
    assert judging.calls == JUDGE.limits.concurrency
    assert {run.id: run.status for run in store.runs.open()} == {"r": "queued", "waiting": "queued"}
    second = background(store, judging)
    assert {run.id for run in await second.resume_interrupted()} == {"r", "waiting"}
    assert (await second.wait("r")).status is RunStatus.FINISHED
    assert (await second.wait("waiting")).status is RunStatus.FINISHED
    assert set(judging.asked.values()) == {1}


async def test_what_one_process_gives_back_goes_on_in_another_that_looks_for_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("judge_service.runs.background.LOOK_S", 0.0)
    slow = FakeJudging(gate=asyncio.Event())
    assert slow.gate is not None
    first = background(store, slow, at_once=1)
    await first.submit(cases(20), PAIRWISE, JUDGE, run_id="begun")
    await slow.reached(JUDGE.limits.concurrency)
    await first.submit(cases(5), PAIRWISE, JUDGE.model_copy(update={"name": "other"}), run_id="waiting")
    # A command's own run that it was stopped in: it goes on when the command is given again.
    command = LocalRunner(store, FakeJudging())
    await command.plan(cases(3), PAIRWISE, JUDGE.model_copy(update={"name": "third"}), run_id="command")
    await asyncio.to_thread(store.runs.leave, "command", None)
    second = background(store, FakeJudging())
    looking = asyncio.create_task(second.keep_resuming())
    closing = asyncio.create_task(first.aclose())
    await asyncio.sleep(0)
    slow.gate.set()
    await closing

    def finished() -> bool:
        found = [store.runs.get(name) for name in ("begun", "waiting")]
        return all(run is not None and run.status is RunStatus.FINISHED for run in found)

    await asyncio.to_thread(until, finished, "the end of both")
    looking.cancel()
    assert (await second.get("command")).status is RunStatus.QUEUED
    # A start looks for all.
    assert [run.id for run in await second.resume_interrupted()] == ["command"]
    assert (await second.wait("command")).status is RunStatus.FINISHED
    await second.aclose()


async def test_a_close_that_runs_out_of_time_gives_the_runs_back(store: Store) -> None:
    judging = FakeJudging(gate=asyncio.Event())
    runs = background(store, judging)
    await runs.submit(cases(30), PAIRWISE, JUDGE, run_id="r")
    await judging.reached(JUDGE.limits.concurrency)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await runs.aclose()
    assert judging.flying == 0
    assert [(run.status, run.worker) for run in store.runs.open()] == [(RunStatus.QUEUED, SERVICE)]


async def test_after_a_restart_every_open_run_reaches_an_end_state(store: Store) -> None:
    judging = FakeJudging()
    dead = f"{this_worker().split('|')[0]}|999999999|1|token"
    runner = LocalRunner(store, judging)
    for name in ("running", "cancelling"):
        await runner.plan(cases(3), PAIRWISE, JUDGE, run_id=name)
        store.runs.start(name, dead)
    store.runs.cancel("cancelling")
    half = Run(id="half", rubric=PAIRWISE.id, rubric_hash=PAIRWISE.content_hash, judge=JUDGE, created_at=utc_now())
    store.runs.create(half)
    runs = background(store, judging)
    assert [run.id for run in await runs.resume_interrupted()] == ["running"]
    assert (await runs.wait("running")).status is RunStatus.FINISHED
    assert (await runs.get("cancelling")).status is RunStatus.CANCELLED
    stopped = await runs.get("half")
    assert (stopped.status, stopped.message) == (
        RunStatus.FAILED,
        "The service stopped while the cases were stored. Start a new run.",
    )
    assert store.runs.open() == []


def started(pid: int) -> str:
    """When the system says that a process was started."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


async def test_a_run_of_a_living_process_is_left_alone(store: Store) -> None:
    judging = FakeJudging()
    await LocalRunner(store, judging).plan(cases(3), PAIRWISE, JUDGE, run_id="r")
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)  # noqa: ASYNC220
    try:
        host = this_worker().split("|")[0]
        store.runs.start("r", f"{host}|{other.pid}|{started(other.pid)}|other")
        runs = background(store, judging)
        assert await runs.resume_interrupted() == []
        with pytest.raises(Conflict):
            await runs.resume("r")
        with pytest.raises(Conflict, match="worked on already"):
            await LocalRunner(store, judging).resume("r", PAIRWISE)
    finally:
        other.kill()
        other.communicate()
    assert [run.id for run in await runs.resume_interrupted()] == ["r"]
    assert (await runs.wait("r")).status is RunStatus.FINISHED


def test_a_worker_elsewhere_lives_as_long_as_its_signs() -> None:
    now = utc_now()
    run = Run(
        id="r",
        rubric="x@1",
        rubric_hash="h",
        judge=JUDGE,
        created_at=now,
        status=RunStatus.RUNNING,
        worker="another-host|1|1|t",
        heartbeat_at=now,
    )
    assert alive(run, now + LEASE / 2)
    assert alive(run, now - timedelta(seconds=5))  # clocks of two machines differ a little
    assert not alive(run, now + LEASE)
    assert not alive(run.model_copy(update={"worker": None}), now)
    assert not alive(run.model_copy(update={"status": RunStatus.FAILED}), now)
    assert not alive(run.model_copy(update={"worker": this_worker()}), now)
    reused = f"{this_worker().split('|')[0]}|{os.getpid()}|1|t"
    assert not alive(run.model_copy(update={"worker": reused}), now)
    # What is true of another process's run is true of a name; this process lives too.
    assert living(this_worker(), None, now)
    assert not living(reused, now, now)
    assert living("another-host|1|1|t", now, now + LEASE / 2)
    assert not living("another-host|1|1|t", None, now)
