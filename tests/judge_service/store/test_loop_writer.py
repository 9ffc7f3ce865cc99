"""Writes of an event loop: one commit for what comes together, and nothing lost where that does not go well."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, text

from judge_service.errors import StoreError
from judge_service.store.engine import LOG_PAGES, Database, parse_url
from judge_service.store.loop_writer import BUSY_LOOKS, BUSY_S, LATER_S, TURNS


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(parse_url(f"sqlite:///{tmp_path / 'x.sqlite3'}"))

    def make(connection: Connection) -> None:
        connection.execute(text("CREATE TABLE rows (name TEXT PRIMARY KEY)"))

    opened.write(make)
    with opened.engine.connect() as connection:
        connection.connection.cursor().execute("PRAGMA journal_mode=WAL")
    yield opened
    opened.close()


def add(connection: Connection, names: Sequence[str]) -> list[str]:
    connection.execute(text("INSERT INTO rows VALUES (:name)"), [{"name": name} for name in names])
    return [name.upper() for name in names]


def rows(database: Database) -> list[str]:
    with database.read() as connection:
        return list(connection.execute(text("SELECT name FROM rows ORDER BY name")).scalars())


def commits(database: Database) -> list[None]:
    seen: list[None] = []
    event.listen(database.engine, "commit", lambda _: seen.append(None))
    return seen


@pytest.mark.parametrize("swift", [True, False])
async def test_what_comes_together_is_one_commit(database: Database, swift: bool) -> None:
    seen = commits(database)
    futures = [database.submit_async(add, name, swift=swift) for name in ("a", "b", "c")]
    assert await asyncio.gather(*futures) == ["A", "B", "C"]
    assert (rows(database), len(seen)) == (["a", "b", "c"], 1)


async def test_what_a_task_writes_a_turn_later_shares_the_commit(database: Database) -> None:
    seen = commits(database)

    async def late(name: str, turns: int) -> str:
        for _ in range(turns):
            await asyncio.sleep(0)
        return await database.submit_async(add, name, swift=True)

    assert await asyncio.gather(late("a", 0), late("b", 0), late("c", 1)) == ["A", "B", "C"]
    assert len(seen) == 1


async def test_one_bad_item_fails_alone(database: Database) -> None:
    await database.submit_async(add, "a", swift=True)
    good, bad, other = (database.submit_async(add, name, swift=True) for name in ("b", "a", "c"))
    assert (await good, await other) == ("B", "C")
    with pytest.raises(StoreError, match="refused the row"):
        await bad
    assert rows(database) == ["a", "b", "c"]


async def test_a_lock_of_another_process_is_waited_out_by_the_writer(database: Database, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "x.sqlite3", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    future = database.submit_async(add, "a", swift=True)
    after = database.submit_async(add, "b", swift=False)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not future.done()
    await asyncio.to_thread(other.execute, "COMMIT")
    assert (await future, await after) == ("A", "B")
    other.close()
    assert rows(database) == ["a", "b"]


async def test_who_stopped_waiting_does_not_undo_a_write(database: Database) -> None:
    future = database.submit_async(add, "a", swift=True)
    future.cancel()
    assert await database.submit_async(add, "b", swift=True) == "B"
    assert rows(database) == ["a", "b"]


def test_a_loop_that_ended_leaves_its_writes_to_the_writer(database: Database) -> None:
    loop = asyncio.new_event_loop()

    async def leave() -> None:
        database.submit_async(add, "a", swift=True)
        loop.stop()

    task = loop.create_task(leave())
    loop.run_forever()
    assert task.done()
    loop.close()
    database.close()
    with contextlib.closing(sqlite3.connect(database.url.database or "")) as plain:
        assert plain.execute("SELECT name FROM rows").fetchall() == [("a",)]


async def test_an_answer_that_waits_for_the_disk_fails_with_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handle: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("judge_service.store.wal.os.fsync", refuse)
    swift = database.submit_async(add, "a", swift=True)
    waiting = database.submit_async(add, "b", swift=False)
    assert await swift == "A"
    with pytest.raises(StoreError, match="did not take what was written: Input/output error"):
        await waiting


async def test_what_a_file_surely_lacks_is_told_at_once(database: Database) -> None:
    query = "SELECT 1 FROM rows WHERE name = ?"
    assert database.lacks(query, "a")
    await database.submit_async(add, "a", swift=True)
    assert not database.lacks(query, "a")
    assert not database.lacks("SELECT 1 FROM nowhere WHERE name = ?", "a")


async def test_the_loop_waits_for_no_lock_and_no_disk(database: Database) -> None:
    settings = ("busy_timeout", "synchronous", "wal_autocheckpoint")

    def look(connection: Connection, items: Sequence[str]) -> list[list[int]]:
        return [[connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in items]]

    # NORMAL: the settler, not the commit, waits for the disk.
    assert await database.submit_async(lambda connection, _: look(connection, settings), "-", swift=True) == [
        0,
        1,
        LOG_PAGES,
    ]


async def test_what_another_process_wrote_is_not_lacking(database: Database, tmp_path: Path) -> None:
    query = "SELECT 1 FROM rows WHERE name = ?"
    await database.submit_async(add, "a", swift=True)
    with contextlib.closing(sqlite3.connect(tmp_path / "x.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("INSERT INTO rows VALUES ('b')")
        assert database.lacks(query, "b")
        other.execute("COMMIT")
    assert not database.lacks(query, "b")
    assert await database.submit_async(add, "c", swift=True) == "C"


async def test_a_busy_thread_does_not_keep_a_loops_writes(database: Database) -> None:
    await database.submit_async(add, "a", swift=True)
    begun, go_on, where = threading.Event(), threading.Event(), []

    def slow(connection: Connection) -> None:
        begun.set()
        go_on.wait(60)

    def noted(connection: Connection, names: Sequence[str]) -> list[str]:
        where.append(threading.current_thread())
        return add(connection, names)

    thread = database.submit(slow)
    await asyncio.to_thread(begun.wait, 60)
    first = database.submit_async(noted, "b", swift=True)
    for _ in range(20):
        await asyncio.sleep(0)
    # The thread holds the database; what came meanwhile waits, and nobody is answered out of turn.
    assert not first.done()
    second = database.submit_async(noted, "c", swift=False)
    go_on.set()
    assert (await first, await second) == ("B", "C")
    await asyncio.wrap_future(thread)
    assert await database.submit_async(noted, "d", swift=True) == "D"
    assert rows(database) == ["a", "b", "c", "d"]
    # Afterwards they are the loop's again.
    assert where[-1] is threading.main_thread()


async def test_what_waits_for_a_busy_thread_for_long_goes_to_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("judge_service.store.loop_writer.BUSY_S", 0.0)
    begun, go_on, where = threading.Event(), threading.Event(), []

    def slow(connection: Connection) -> None:
        begun.set()
        go_on.wait(60)

    def noted(connection: Connection, names: Sequence[str]) -> list[str]:
        where.append(threading.current_thread().name)
        return add(connection, names)

    thread = database.submit(slow)
    await asyncio.to_thread(begun.wait, 60)
    waiting = database.submit_async(noted, "a", swift=True)
    for _ in range(BUSY_LOOKS + TURNS + 20):
        await asyncio.sleep(0)
    go_on.set()
    assert await waiting == "A"
    await asyncio.wrap_future(thread)
    assert where == ["store-writer"]


class Timers:
    """The timers of the running loop, rung by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.set: list[tuple[float, Callable[[], object]]] = []
        self._loop, self._patch = asyncio.get_running_loop(), monkeypatch
        monkeypatch.setattr(
            self._loop, "call_later", lambda after, work, *given: self.set.append((after, partial(work, *given)))
        )

    def ring(self) -> None:
        """Let the oldest one go off."""
        self.set.pop(0)[1]()

    def pass_by(self, seconds: float) -> None:
        """Let time go on."""
        then = self._loop.time() + seconds
        self._patch.setattr(self._loop, "time", lambda: then)


async def turns() -> None:
    """Enough turns of the loop for a commit."""
    for _ in range(TURNS + 3):
        await asyncio.sleep(0)


async def test_what_may_wait_is_not_committed_by_a_timer_of_what_went_before(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers = Timers(monkeypatch)
    first = database.submit_async(add, "a", swift=True, later=True)
    await turns()
    assert not first.done()
    assert await database.submit_async(add, "b", swift=True) == "B"
    assert first.done()
    seen = commits(database)
    timers.pass_by(LATER_S / 2)
    alone = database.submit_async(add, "c", swift=True, later=True)
    timers.pass_by(LATER_S / 2)
    timers.ring()
    await turns()
    # Its company may still come: it has waited for half of its time.
    assert not alone.done()
    [(left, _)] = timers.set
    assert 0 < left <= LATER_S / 2 + 0.01
    timers.pass_by(LATER_S)
    timers.ring()
    assert await alone == "C"
    assert (len(seen), timers.set) == (1, [])


async def test_a_short_lock_of_another_process_is_waited_out_on_the_loop(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    timers, where = Timers(monkeypatch), []

    def noted(connection: Connection, names: Sequence[str]) -> list[str]:
        where.append(threading.current_thread())
        return add(connection, names)

    with contextlib.closing(sqlite3.connect(tmp_path / "x.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        first = database.submit_async(noted, "a", swift=True)
        await turns()
        second = database.submit_async(noted, "b", swift=True)
        await turns()
        assert [after for after, _ in timers.set] == [BUSY_S]
        timers.ring()
        await turns()
        other.execute("COMMIT")
    assert not first.done()
    timers.ring()
    assert (await first, await second) == ("A", "B")
    assert where == [threading.main_thread()]
    assert rows(database) == ["a", "b"]
