"""Worker processes that are stopped or killed under a run on PostgreSQL, counted at the provider."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from judge_service.app import Service
from judge_service.domain.run import RunStatus
from judge_service.runs.exports import judgments_of
from judge_service.runs.watching import watch
from tests.judge_service.store.databases import Postgres
from tests.support.fake_provider import FakeProvider, asked, held_after
from tests.support.waiting import LONG_ENOUGH_S, until

from . import parts
from .processes import Installation, ended, tie

N = 120


@pytest.fixture
def installed(postgres: Postgres, tmp_path: Path) -> "Iterator[Callable[..., Installation]]":
    """Makes installations, each on a database of its own."""
    made: list[tuple[Installation, str]] = []

    def make(server: FakeProvider, *, migrated: bool = True, **options: object) -> Installation:
        url = postgres.fresh(migrated=migrated)
        folder = tmp_path / str(len(made))
        (folder / "data").mkdir(parents=True)
        made.append((Installation(folder, url, server, **options), url))  # type: ignore[arg-type]
        return made[-1][0]

    yield make
    for installation, url in made:
        installation.close()
        postgres.drop(url)


async def submit(service: Service, installation: Installation, n: int = N) -> None:
    await service.background.submit(parts.cases(n), parts.RUBRIC, installation.judge(), run_id="r")


async def end_of_run(service: Service) -> RunStatus:
    async with asyncio.timeout(LONG_ENOUGH_S):
        async for _ in watch(service.store, await service.background.get("r"), sleep=lambda _: asyncio.sleep(0.05)):
            pass
    return (await service.background.get("r")).status


async def test_a_stopped_worker_gives_its_chunks_back_and_nothing_is_asked_again(
    installed: "Callable[..., Installation]",
) -> None:
    later = threading.Event()
    with FakeProvider(default=held_after(N // 2, later, tie())) as server:
        here = installed(server)
        # This process only offers the run.
        async with Service.open(here.settings(serve_works=False)) as service:
            await submit(service, here)
            stopped = here.start("worker")
            await asyncio.to_thread(server.wait_for, N // 2 + 4)
            stopped.terminate()
            later.set()
            assert await ended(stopped) == 0, here.said(stopped)
            assert here.said(stopped).rstrip().endswith("Stopped.")
            assert len(server.completions) < 2 * N
            assert (await service.background.get("r")).status is RunStatus.RUNNING
            # No heartbeat runs out within the test: what the first one had, it gave back.
            here.start("worker")
            assert await end_of_run(service) is RunStatus.FINISHED
            assert len(list(judgments_of(service.store, "r"))) == N
        assert set(asked(server.completions).values()) == {1}
        assert len(server.completions) == 2 * N


async def test_of_three_workers_one_is_killed_and_only_its_calls_in_flight_are_repeated(
    installed: "Callable[..., Installation]",
) -> None:
    later = threading.Event()
    with FakeProvider(default=held_after(N, later, tie())) as server:
        here = installed(server, concurrency=4)
        async with Service.open(here.settings(serve_works=False)) as service:
            workers = [here.start("worker", heartbeat_s=2.0) for _ in range(3)]
            await submit(service, here)
            # Half of the calls are answered and each slot of the judge is held by a call.
            await asyncio.to_thread(server.wait_for, N + 4)
            flying = asked(server.completions[N:])
            workers[0].kill()
            await ended(workers[0])
            later.set()
            assert await end_of_run(service) is RunStatus.FINISHED
            assert len(list(judgments_of(service.store, "r"))) == N
        repeated = {prompt for prompt, n in asked(server.completions).items() if n > 1}
        assert repeated <= set(flying)
        assert len(asked(server.completions)) == 2 * N
        assert len(server.completions) <= 2 * N + 4


async def test_a_run_that_is_cancelled_elsewhere_makes_no_further_call(
    installed: "Callable[..., Installation]",
) -> None:
    later = threading.Event()
    with FakeProvider(default=held_after(40, later, tie())) as server:
        here = installed(server, concurrency=4)
        async with Service.open(here.settings(serve_works=False)) as service:
            for _ in range(2):
                here.start("worker")
            await submit(service, here)
            await asyncio.to_thread(server.wait_for, 44)
            assert (await service.background.cancel("r")).status is RunStatus.CANCELLING
            assert (await service.background.cancel("r")).status is RunStatus.CANCELLING
            await beats(service, 16)
            later.set()
            assert await end_of_run(service) is RunStatus.CANCELLED
            assert (await service.background.cancel("r")).status is RunStatus.CANCELLED
            # Cases that were begun and waited for a slot make no call either.
            assert len(server.completions) == 44
            # Resumed, it asks the rest: nothing that was answered.
            await service.background.resume("r")
            assert await end_of_run(service) is RunStatus.FINISHED
        assert set(asked(server.completions).values()) == {1}
        assert len(server.completions) == 2 * N


async def beats(service: Service, n: int) -> None:
    """Wait for signs of life: each part of the run reads the run's state with its own, once a second."""

    def next_beat() -> None:
        until(lambda: service.store.runs.get("r").heartbeat_at != last, "a sign of life")  # type: ignore[union-attr]

    for _ in range(n):
        last = (await service.background.get("r")).heartbeat_at
        await asyncio.to_thread(next_beat)
