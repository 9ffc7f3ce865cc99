"""Connections to PostgreSQL: what rested is asked whether it is there, and who waits for the disk with a commit."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, text

from judge_service.errors import Unavailable
from judge_service.store import Store, engine
from judge_service.store.engine import Database, parse_url
from tests.judge_service.store.databases import Postgres
from tests.judge_service.store.examples import call, judgment
from tests.support.waiting import LONG_ENOUGH_S


@pytest.fixture
def database(postgres: Postgres) -> Iterator[Database]:
    url = postgres.fresh()
    opened = Database(parse_url(url))
    yield opened
    opened.close()
    postgres.drop(url)


def number(database: Database) -> int:
    """The number of the server's process behind the connection that the next read takes."""
    with database.read() as connection:
        return int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())


def end(database: Database, number: int) -> None:
    """Let the server close a connection, from another one."""
    other = Database(database.url)
    with other.read() as connection:
        connection.execute(text("SELECT pg_terminate_backend(:number, 5000)"), {"number": number})
    other.close()


def test_a_connection_that_was_closed_while_it_rested_is_not_used(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = number(database)
    assert number(database) == first
    end(database, first)
    monkeypatch.setattr(engine, "RESTED_S", 0.0)
    assert number(database) != first


def test_one_that_is_lost_in_use_is_told_once_and_then_replaced(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "RESTED_S", 3600.0)
    end(database, first := number(database))
    with pytest.raises(Unavailable):
        number(database)
    assert number(database) != first


def test_a_write_over_a_lost_connection_is_repeated(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "RESTED_S", 3600.0)
    end(database, number(database))
    assert database.write(lambda connection: connection.execute(text("SELECT 1")).scalar_one()) == 1


def waits(connection: Connection) -> bool:
    return bool(connection.execute(text("SHOW synchronous_commit")).scalar_one() != "off")


def test_a_swift_write_does_not_wait_for_the_disk_and_any_other_does(database: Database) -> None:
    def fail(connection: Connection) -> None:
        raise LookupError(waits(connection))

    assert database.write(waits)
    for swift in (True, True, False, False, True):
        assert database.write(waits, swift=swift) is not swift
        # What failed has turned nothing that the next one would not notice.
        with pytest.raises(LookupError, match=str(swift)):
            database.write(fail, swift=not swift)


def test_reads_are_no_transaction_and_streamed_ones_are(database: Database) -> None:
    def began(connection: Connection) -> bool:
        now = text("SELECT transaction_timestamp() <> statement_timestamp()")
        connection.execute(text("SELECT pg_sleep(0.001)"))
        return bool(connection.execute(now).scalar_one())

    with database.read() as connection:
        assert not began(connection)
    with database.read(streamed=True) as connection:
        assert began(connection)


def test_work_that_another_process_records_in_between_is_recorded_once(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.fresh()
    with Store.open(url) as one, Store.open(url) as other:
        looked, go_on = threading.Event(), threading.Event()
        once = one.judgments._record_once

        def slowly(connection: Connection, entries: object) -> object:
            if not looked.is_set():
                # This transaction looks before the other one has recorded, and adds after.
                find = "judge_service.store.judgments._find_current"
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(find, lambda *_: iter(()))
                    looked.set()
                    go_on.wait(LONG_ENOUGH_S)
                    return once(connection, entries)  # type: ignore[arg-type]
            return once(connection, entries)  # type: ignore[arg-type]

        monkeypatch.setattr(one.judgments, "_record_once", slowly)
        mine, theirs = judgment("work", id="mine"), judgment("work", id="theirs")
        waiting = one.judgments.submit(mine)
        assert looked.wait(LONG_ENOUGH_S)
        other.judgments.record(theirs)
        go_on.set()
        assert waiting.result(LONG_ENOUGH_S).id == theirs.id
        assert [found.id for found in one.judgments.history("work")] == [theirs.id]
    postgres.drop(url)


async def process(database: Database) -> int | None:
    rows = await database.ask("SELECT pg_backend_pid() WHERE 1 = ANY(%s)", [1, 2])
    return None if rows is None else int(rows[0][0])


async def test_a_loop_reads_on_one_connection_and_on_another_when_that_is_lost(database: Database) -> None:
    first = await process(database)
    assert first is not None
    assert await process(database) == first
    end(database, first)
    # Asked in another way, once.
    assert await process(database) is None
    second = await process(database)
    assert second not in (None, first)


async def test_who_asks_while_the_connection_is_opened_asks_in_another_way(database: Database) -> None:
    first, second = await asyncio.gather(process(database), process(database))
    assert first is not None
    assert second is None


def test_each_loop_has_a_connection_of_its_own(database: Database) -> None:
    first, second = (asyncio.run(process(database)) for _ in range(2))
    assert first is not None
    assert second not in (None, first)


async def test_a_server_that_is_not_there_is_asked_in_another_way() -> None:
    database = Database(parse_url("postgresql://nobody@127.0.0.1:1/nowhere"))
    assert await process(database) is None
    database.close()


async def test_a_call_is_found_with_and_without_the_loops_connection(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.fresh()
    one = call()
    with Store.open(url) as store:
        kept = store.cache.put("key", one)
        assert kept is not None
        await kept
        assert await store.cache.get("key") == one
        assert await store.cache.get("none") is None

        async def no_rows(*_: object) -> None:
            return None

        monkeypatch.setattr("judge_service.store.loop_reader.LoopReader.rows", no_rows)
        assert await store.cache.get("key") == one
        assert await store.cache.get("none") is None
    postgres.drop(url)


@pytest.mark.parametrize("writing", [False, True])
def test_what_is_asked_often_is_planned_for_the_tables_as_they_are(database: Database, writing: bool) -> None:
    def look(connection: Connection) -> tuple[int, int]:
        for _ in range(20):
            connection.execute(text("SELECT count(*) FROM runs WHERE id = :id"), {"id": "r"})
        plans = "SELECT count(*), coalesce(sum(generic_plans), 0) FROM pg_prepared_statements"
        prepared, generic = connection.execute(text(plans + " WHERE statement LIKE '%FROM runs WHERE id%'")).one()
        return int(prepared), int(generic)

    if writing:
        found = database.write(look)
    else:
        with database.read() as connection:
            found = look(connection)
    assert found == (1, 0)
