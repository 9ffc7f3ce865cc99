"""The database fails under a run: a full disk, a read-only file, a server that restarts, a clock that is set back."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event

from judge_service.backends.base import Request
from judge_service.backends.catalog import BackendPool
from judge_service.backends.scripted import ScriptedBackend
from judge_service.domain.run import RunStatus
from judge_service.errors import StoreError
from judge_service.judging.judging import Judging
from judge_service.judging.roster import Roster
from judge_service.runs.exports import judgments_of
from judge_service.runs.local import LocalRunner
from judge_service.settings import Settings
from judge_service.store import Store
from judge_service.store.store import utc_now
from tests.judge_service.store.databases import Postgres

from . import parts
from .test_kill import UNDISTURBED, recorded_once, table

N = parts.N


class Calls:
    """Counts calls and does something once, at call number `at`."""

    def __init__(
        self, at: int | None = None, act: Callable[[], object] = lambda: None, latency_ms: float = 0.0
    ) -> None:
        self.made: Counter[tuple[str, str | None]] = Counter()
        self._at = at
        self._act = act
        self._latency_ms = latency_ms

    def __call__(self, request: Request) -> str:
        self.made[request.subject.case_id, request.subject.order] += 1
        if self.made.total() == self._at:
            self._act()
        return parts.verdict(request)

    def runner(self, store: Store, **options: Any) -> LocalRunner:
        pool = BackendPool(Settings())
        pool.put(parts.JUDGE, ScriptedBackend(self, latency_ms=self._latency_ms, keep_requests=False))
        core = Judging(Roster([parts.JUDGE]), pool, fence_key=b"chaos", cache=store.cache)
        return LocalRunner(store, core, **options)


async def finish(store: Store, calls: Calls) -> None:
    """Go on with the run and see that nothing is lost, doubled or asked again."""
    run = await calls.runner(store).resume("r", parts.RUBRIC, retry_errors=False)
    assert run.status is RunStatus.FINISHED
    assert table(store) == UNDISTURBED
    assert recorded_once(store)
    assert [one.n_broken for one in store.verify()] == [0] * len(store.verify())


@contextmanager
def connections(store: Store, statement: Callable[[], str]) -> Iterator[None]:
    """This statement runs before every transaction."""

    def settle(connection: Connection) -> None:
        connection.exec_driver_sql(statement())

    event.listen(store._database.engine, "begin", settle, insert=True)
    yield
    event.remove(store._database.engine, "begin", settle)


async def stopped(store: Store, calls: Calls, words: str) -> int:
    """Run until the database refuses; the judgments that are recorded then."""
    with pytest.raises(StoreError, match=words):
        await calls.runner(store).run(parts.cases(), parts.RUBRIC, parts.JUDGE, run_id="r")
    recorded = len(list(judgments_of(store, "r")))
    assert 0 < recorded < N
    return recorded


async def test_a_full_disk_stops_the_run_with_a_sentence_and_loses_nothing(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path / 'judge.sqlite3'}") as store:
        pages = 10_000_000
        calls = Calls()
        await calls.runner(store).plan(parts.cases(), parts.RUBRIC, parts.JUDGE, run_id="r")
        with store._database.read() as connection:
            full = int(connection.exec_driver_sql("PRAGMA page_count").scalar_one()) + 100
        pages = full
        with connections(store, lambda: f"PRAGMA max_page_count={pages}"):
            await stopped(store, calls, "disk that holds the database is full")
            # It cannot even be written that the run stopped: it can go on as soon as there is room.
            assert store.runs.get("r") is not None
            pages = 10_000_000
            more = Calls()
            await finish(store, more)
    # Answers that the database could not take were kept beside it.
    assert len(set(more.made) & set(calls.made)) <= parts.CONCURRENCY
    assert len(set(more.made) | set(calls.made)) == 2 * N


async def test_a_database_that_becomes_read_only_stops_the_run_with_a_sentence(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path / 'judge.sqlite3'}") as store:
        read_only = False

        def turn() -> None:
            nonlocal read_only
            read_only = True

        with connections(store, lambda: f"PRAGMA query_only={int(read_only)}"):
            calls = Calls(at=N, act=turn)
            await stopped(store, calls, "read-only")
            read_only = False
            more = Calls()
            await finish(store, more)
        # Those in flight at the first refusal, and those that took their slots before the run stood still.
        assert len(set(more.made) & set(calls.made)) <= 2 * parts.CONCURRENCY


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_server_that_restarts_under_a_run_is_waited_for(mode: str) -> None:
    with tempfile.TemporaryDirectory(prefix="judge-restart-", ignore_cleanup_errors=True) as folder:
        server = Postgres(Path(folder))
        try:
            with Store.open(server.fresh()) as store:
                calls = Calls(at=N // 2, act=lambda: server.restart(mode), latency_ms=1.0)
                run = await calls.runner(store).run(parts.cases(), parts.RUBRIC, parts.JUDGE, run_id="r")
                assert run.status is RunStatus.FINISHED
                assert table(store) == UNDISTURBED
                assert recorded_once(store)
                # A crash may forget the last moment; what it forgot is asked again.
                repeated = calls.made.total() - 2 * N
                assert repeated == 0 if mode == "fast" else repeated <= N // 2
        finally:
            server.close()


async def test_a_clock_that_is_set_back_loses_nothing(database_url: str) -> None:
    back = timedelta(0)

    def now() -> datetime:
        return utc_now() - back

    def turn() -> None:
        nonlocal back
        back = timedelta(hours=3)

    with Store.open(database_url, clock=now) as store:
        calls = Calls(at=N, act=turn)
        run = await calls.runner(store, now=now).run(parts.cases(), parts.RUBRIC, parts.JUDGE, run_id="r")
        assert run.status is RunStatus.FINISHED
        assert run.started_at is not None
        assert run.finished_at is not None
        assert run.finished_at < run.started_at
        assert calls.made.total() == 2 * N
        await finish(store, again := Calls())
        assert again.made.total() == 0
