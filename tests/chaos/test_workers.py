"""Worker processes that are stopped or killed under a run on PostgreSQL, counted at the provider."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from judge_service.app import Service
from judge_service.domain.run import RunStatus
from judge_service.runs.exports import judgments_of
from judge_service.runs.watching import watch
from tests.judge_service.store.databases import Postgres
from tests.support.fake_provider import FakeProvider

from . import parts
from .processes import LONG_ENOUGH_S, Installation, asked, ended, tie, until

N = 120


@pytest.fixture
def installed(postgres: Postgres, tmp_path: Path) -> "Iterator[Callable[..., Installation]]":
    """Makes installations, each on a database of its own."""
    made: list[tuple[Installation, str]] = []

    def make(server: FakeProvider, **options: object) -> Installation:
        url = postgres.fresh()
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


@contextmanager
def answering(delay_s: float = 0.02) -> Iterator[FakeProvider]:
    with FakeProvider(default=tie(delay_s)) as server:
        yield server


async def test_a_stopped_worker_gives_its_chunks_back_and_nothing_is_asked_again(
    installed: "Callable[..., Installation]",
) -> None:
    with answering() as server:
        here = installed(server)
        # This process only offers the run.
        async with Service.open(here.settings(serve_works=False)) as service:
            await submit(service, here)
            stopped = here.start("worker")
            await asyncio.to_thread(until, lambda: len(server.completions) >= N // 2, "a quarter of the run")
            stopped.terminate()
            assert await ended(stopped) == 0, here.said(stopped)
            assert here.said(stopped).rstrip().endswith("Stopped.")
            assert len(server.completions) < 2 * N
            assert (await service.background.get("r")).status is RunStatus.RUNNING
            # No heartbeat runs out within the test: what the first one had, it gave back.
            here.start("worker")
            assert await end_of_run(service) is RunStatus.FINISHED
            assert len(list(judgments_of(service.store, "r"))) == N
        assert set(asked(server).values()) == {1}
        assert len(server.completions) == 2 * N
