"""Drift checks in the background, of several services on one database."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from judge_service.app import Service
from judge_service.backends.base import Request
from judge_service.backends.scripted import ScriptedBackend
from judge_service.domain.drift import DriftRecord, DriftTask, TaskState
from judge_service.errors import Conflict, JudgeServiceError, StoreError
from judge_service.runs.worker import LEASE, this_worker
from judge_service.sets import watching
from judge_service.sets.drift import Asked, DriftChecks
from judge_service.sets.watching import ENDED, Watch
from judge_service.settings import Settings
from judge_service.store.store import utc_now

from .test_drift import JUDGE, Model, anchored, right

ASKED = Asked("anchors", "hosted", repeats=2)
DEAD = f"{this_worker().split('|')[0]}|999999999|1|token"
ELSEWHERE = "another-host|1|1|token"
Opened = Callable[[], Service]


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
async def another(database_url: str, tmp_path: Path, model: Model) -> AsyncIterator[Opened]:
    """Opens one more service on the same database."""
    async with AsyncExitStack() as stack:

        def make() -> Service:
            found = Service.open(Settings(data_dir=tmp_path, database_url=database_url))
            found.roster.add(JUDGE)
            found.backends.put(JUDGE, ScriptedBackend(model, keep_requests=False))
            stack.push_async_exit(found)
            return found

        yield make


@pytest.fixture
def service(another: Opened) -> Service:
    found = another()
    anchored(found, 8)
    anchored(found, 8, name="others")
    anchored(found, 8, name="more")
    return found


class Late(DriftChecks):
    """Checks that wait for `gate` before they ask anything."""

    gate: asyncio.Event

    async def check(self, asked: Asked, **options: Any) -> DriftRecord:
        await self.gate.wait()
        return await super().check(asked, **options)


def gated(service: Service) -> tuple[Watch, asyncio.Event]:
    """A watch of the service whose checks begin when the event is set."""
    checks = Late(service.store, service.judging, service.roster.get)
    checks.gate = asyncio.Event()
    return Watch(checks), checks.gate


def left_behind(service: Service, worker: str, **changes: Any) -> DriftTask:
    """A check that a process of that name began."""
    now = utc_now()
    asked = {"set": "anchors@1", "judge": "hosted"}
    fields = {"id": "task_left", "set_id": "anchors@1", "judge": "hosted", "asked": asked, "worker": worker}
    task = DriftTask.model_validate(fields | {"heartbeat_at": now, "created_at": now} | changes)
    return service.store.drift_tasks.claim(task, keep=9)


async def seen(service: Service, task_id: str) -> DriftTask:
    found = await service.watch.task(task_id)
    assert found is not None
    return found


async def test_a_check_reads_the_same_everywhere_and_after_a_restart(service: Service, another: Opened) -> None:
    second = another()
    watch, gate = gated(service)
    begun = await watch.start(ASKED)
    usual = {"rubric": None, "split": None, "new_baseline": False, "planned": None}
    assert begun.asked == usual | {"set": "anchors@1", "judge": "hosted", "repeats": 2}
    assert await seen(service, begun.id) == await seen(second, begun.id) == begun
    gate.set()
    await watch.wait(begun.id)
    done = await seen(second, begun.id)
    assert (done.state, done.message) == (TaskState.DONE, None)
    assert second.store.drift.all()[0].id == done.record_id
    await service.aclose()
    assert await seen(another(), begun.id) == done
    assert await second.watch.task("task_none") is None


async def test_a_judge_is_checked_on_a_set_by_one_of_several_services(service: Service, another: Opened) -> None:
    gates, watches = [], []
    for one in (service, another(), another()):
        watch, gate = gated(one)
        watches.append(watch)
        gates.append(gate)
    asked = [ASKED, Asked("anchors@1", "hosted"), ASKED]
    starts = (watch.start(one) for watch, one in zip(watches, asked, strict=True))
    found = await asyncio.gather(*starts, return_exceptions=True)
    refused = [str(one) for one in found if isinstance(one, Conflict)]
    assert refused == ["hosted is being checked on anchors@1 already."] * 2
    [begun] = [one for one in found if isinstance(one, DriftTask)]
    # Another set is another check, in any of them.
    other = await watches[1].start(Asked("others", "hosted"))
    for gate in gates:
        gate.set()
    for watch in watches:
        await watch.wait(begun.id)
        await watch.wait(other.id)
    assert {(await seen(service, one.id)).state for one in (begun, other)} == {TaskState.DONE}


async def test_a_process_makes_a_few_checks_at_once(service: Service) -> None:
    watch, _ = gated(service)
    for name in ("anchors", "others"):
        await watch.start(Asked(name, "hosted"))
    with pytest.raises(Conflict, match="2 checks are under way"):
        await watch.start(Asked("more", "hosted"))
    assert service.store.drift_tasks.running("more@1", "hosted") is None
    await watch.aclose()


async def test_a_check_of_a_dead_process_has_failed_and_is_asked_for_again(service: Service, model: Model) -> None:
    left = left_behind(service, DEAD)
    dead = await seen(service, left.id)
    assert (dead.state, dead.message) == (TaskState.FAILED, ENDED)
    again = await service.watch.start(ASKED)
    await service.watch.wait(again.id)
    assert (await seen(service, again.id)).state is TaskState.DONE
    kept = service.store.drift_tasks.get(left.id)
    assert kept is not None
    assert (kept.state, kept.message) == (TaskState.FAILED, ENDED)
    assert model.calls == 2 * 8


async def test_a_process_elsewhere_lives_as_long_as_its_signs(service: Service) -> None:
    left = left_behind(service, ELSEWHERE)
    assert (await seen(service, left.id)).state is TaskState.RUNNING
    with pytest.raises(Conflict, match="being checked"):
        await service.watch.start(ASKED)
    later = Watch(service.watch.checks, now=lambda: utc_now() + LEASE)
    found = await later.task(left.id)
    assert found is not None
    assert found.state is TaskState.FAILED
    await later.wait((await later.start(ASKED)).id)
    assert len(service.store.drift.all()) == 1


async def test_a_check_gives_signs_of_life(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "BEAT_S", 0.01)
    given = asyncio.Event()
    loop = asyncio.get_running_loop()
    beat = service.store.drift_tasks.beat

    def noted(task_id: str, at: datetime) -> None:
        beat(task_id, at)
        loop.call_soon_threadsafe(given.set)

    monkeypatch.setattr(service.store.drift_tasks, "beat", noted)
    watch, _ = gated(service)
    begun = await watch.start(ASKED)
    await given.wait()
    assert (await seen(service, begun.id)).heartbeat_at > begun.heartbeat_at
    await watch.aclose()


async def test_a_service_that_stops_says_so_and_another_goes_on(
    service: Service, another: Opened, model: Model
) -> None:
    asked_for = asyncio.Event()
    loop = asyncio.get_running_loop()

    def says(request: Request) -> str:
        if model.calls == 12:
            loop.call_soon_threadsafe(asked_for.set)
        return right(request)

    model.say = says
    begun = await service.watch.start(ASKED)
    await asked_for.wait()
    await service.aclose()
    second = another()
    stopped = await seen(second, begun.id)
    assert stopped.state in (TaskState.FAILED, TaskState.DONE)
    if stopped.state is TaskState.FAILED:
        assert stopped.message == ENDED
        again = await second.watch.start(ASKED)
        await second.watch.wait(again.id)
        assert (await seen(second, again.id)).state is TaskState.DONE
    assert [record.kind for record in second.store.drift.all()] == ["baseline"]
    # At most what was in the air when the service stopped is asked again.
    assert model.calls <= 2 * 8 + JUDGE.limits.concurrency


async def test_why_a_check_failed_is_kept(
    service: Service, another: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    second = another()
    for error, message in (
        (Conflict("No anchor has a verdict."), "No anchor has a verdict."),
        (ZeroDivisionError("secret"), JudgeServiceError().message),
    ):

        async def fails(*_: Any, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(type(service.watch.checks), "check", fails)
        begun = await service.watch.start(ASKED)
        await service.watch.wait(begun.id)
        found = await seen(second, begun.id)
        assert (found.state, found.message, found.record_id) == (TaskState.FAILED, message, None)
    assert "the drift check of hosted on anchors@1 failed" in caplog.text


async def test_an_end_that_cannot_be_stored_blocks_no_further_check(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(task: DriftTask) -> bool:
        raise StoreError("The disk is full.")

    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(service.store.drift_tasks, "end", full)
        begun = await service.watch.start(ASKED)
        await service.watch.wait(begun.id)
        assert "could not be stored: The disk is full." in caplog.text
        assert (await seen(service, begun.id)).state is TaskState.RUNNING
        with pytest.raises(Conflict, match="already"):
            await service.watch.start(ASKED)
    again = await service.watch.start(ASKED)
    await service.watch.wait(again.id)
    states = [(await seen(service, one.id)).state for one in (begun, again)]
    assert states == [TaskState.DONE, TaskState.DONE]
    assert [record.kind for record in service.store.drift.all()] == ["check", "baseline"]


async def test_a_check_that_was_taken_for_dead_ends_without_a_word(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    watch, gate = gated(service)
    begun = await watch.start(ASKED)
    ended = begun.model_copy(update={"state": TaskState.FAILED, "message": ENDED, "ended_at": utc_now()})
    assert service.store.drift_tasks.end(ended)
    gate.set()
    await watch.wait(begun.id)
    assert "after its process was taken for dead" in caplog.text
    assert await seen(service, begun.id) == ended


async def test_of_ended_checks_the_newest_are_kept(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "KEPT", 1)
    ids = []
    for _ in range(3):
        begun = await service.watch.start(ASKED)
        await service.watch.wait(begun.id)
        ids.append(begun.id)
    assert [await service.watch.task(one) is not None for one in ids] == [False, True, True]
    assert len(service.store.drift.all()) == 3


def test_the_lease_is_longer_than_the_signs_are_apart() -> None:
    assert timedelta(seconds=10 * watching.BEAT_S) < LEASE
