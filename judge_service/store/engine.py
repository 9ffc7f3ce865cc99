"""Connections: one engine a database, SQLite's settings, short reads, and the writers.

Knows no table. Everything above it reads with `read()` and writes with `write()` or `submit()`.
"""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, NullPool, PoolProxiedConnection, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from judge_service.errors import ConfigurationError, MissingDependency, StoreError
from judge_service.store.driver import execute_sqlite
from judge_service.store.faults import readable, transient
from judge_service.store.loop_reader import LoopReader
from judge_service.store.loop_writer import LoopWriter
from judge_service.store.settler import Settler
from judge_service.store.wal import WriteAheadLog
from judge_service.store.writer import Writer

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741

Along = Callable[[Connection, Any], None]
"""Work of the same transaction, given the connection and what the write itself gave."""

_along: ContextVar[list[Along]] = ContextVar("along", default=[])  # noqa: B039  # never changed in place

RESTED_S = 1.0
"""A PostgreSQL connection that was not used for so long is asked whether it is still there."""
LOG_PAGES = 16_000
"""Pages of the write-ahead log (64 MB) at which a commit itself moves them into the file."""
CACHE_KB = 8_000
"""Pages that the loop's connection keeps: keys are hashes, so that each write touches indexes all over."""
BUSY_TIMEOUT_MS = 30_000
"""How long SQLite waits for another process's write transaction; ours take milliseconds."""
TURN_MS = 3
"""How long it waits on its own before it is asked again to begin one."""


def parse_url(url: str) -> URL:
    """The URL of a supported database. Raises ConfigurationError; the message never holds a password."""
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, ValueError):
        raise ConfigurationError("The database URL cannot be read. Example: sqlite:////var/lib/judge.sqlite3") from None
    if backend == "sqlite":
        if not parsed.database or parsed.database == ":memory:" or "mode=memory" in url:
            raise ConfigurationError("An SQLite database needs a file: sqlite:///path/to/judge.sqlite3")
        return parsed.set(drivername="sqlite")
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    raise ConfigurationError(f"Databases of kind {backend!r} are not supported: use SQLite or PostgreSQL.")


def new_engine(url: URL, *, migrating: bool = False) -> Engine:
    """An engine with this service's settings. `migrating`: no pool, foreign keys off while tables are rebuilt."""
    sqlite = url.get_backend_name() == "sqlite"
    try:
        if migrating:
            engine = create_engine(url, poolclass=NullPool, hide_parameters=True)
        elif sqlite:
            engine = create_engine(url, pool_size=8, max_overflow=24, hide_parameters=True)
        else:
            engine = create_engine(url, pool_size=8, max_overflow=8, hide_parameters=True)
            _plan_each_time(engine)
            _ping_after_rest(engine)
    except ModuleNotFoundError as error:
        raise MissingDependency(f"PostgreSQL needs the extra `postgres` ({error.name} is not installed).") from error
    if sqlite:

        def settle(connection: Any, _record: Any) -> None:
            # The driver's own transaction control begins late and deferred; ours is in `begin` below.
            connection.isolation_level = None
            cursor = connection.cursor()
            cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
            cursor.execute(f"PRAGMA foreign_keys={'OFF' if migrating else 'ON'}")
            cursor.execute("PRAGMA synchronous=FULL")
            cursor.close()

        def begin(connection: Connection) -> None:
            options = connection.get_execution_options()
            # A deferred transaction that turns into a write fails at once when another process wrote in between.
            if not options.get("judge_service_write", False):
                execute_sqlite(connection, "BEGIN")
            elif options.get("judge_service_waits", True):
                _take_turn(connection)
            else:
                execute_sqlite(connection, "BEGIN IMMEDIATE")

        event.listen(engine, "connect", settle)
        event.listen(engine, "begin", begin)
    return engine


def _take_turn(connection: Connection) -> None:
    """Begin to write after other processes. SQLite waits in longer and longer sleeps, up to 100 ms, and seldom finds
    the moment between two commits of a busy neighbour: it is asked again instead.
    """
    until = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    execute_sqlite(connection, f"PRAGMA busy_timeout={TURN_MS}")
    try:
        while True:
            try:
                execute_sqlite(connection, "BEGIN IMMEDIATE")
            except DBAPIError as error:
                if not transient(error) or time.monotonic() > until:
                    raise
            else:
                return
    finally:
        execute_sqlite(connection, f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")


def _plan_each_time(engine: Engine) -> None:
    """Keep PostgreSQL from using a plan that it made while tables were empty.

    The driver prepares what is asked several times, and the server keeps one plan for it until the tables are analysed:
    in a first run the counts of 4,800 cases took 1.8 s in place of 13 ms, each time that somebody looked.
    """

    def settle(connection: Any, _record: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET plan_cache_mode = force_custom_plan")
        # Else it is undone with the first transaction.
        connection.commit()

    event.listen(engine, "connect", settle)


def _ping_after_rest(engine: Engine) -> None:
    """A connection that rested may have been closed by the server or what lies between: asked before it is used.

    One in steady use is not: a question a transaction is a fifth of what a call costs. When it is lost after all, the
    driver says so, every other connection of the pool is made anew, and what may be repeated is.
    """

    def rest(_connection: Any, record: ConnectionPoolEntry) -> None:
        record.info["rests_since"] = time.monotonic()

    def wake(connection: Any, record: ConnectionPoolEntry, _proxy: PoolProxiedConnection) -> None:
        since = record.info.get("rests_since")
        if since is None or time.monotonic() - since < RESTED_S:
            return
        try:
            engine.dialect.do_ping(connection)
        except Exception as error:
            raise DisconnectionError from error

    event.listen(engine, "checkin", rest)
    event.listen(engine, "checkout", wake)


@contextmanager
def writing(engine: Engine, *, swift: bool = False) -> Iterator[Connection]:
    """One write transaction, committed at the end.

    A commit survives a power cut; a `swift` one survives a killed process at once and a power cut a moment later,
    because it does not wait for the disk.
    """
    sqlite = engine.dialect.name == "sqlite"
    with engine.connect() as plain:
        turned = plain.info.get("swift", False) != swift
        if sqlite and turned:
            # With the write-ahead log, FULL waits for the disk with every commit. Not to be changed in a transaction.
            driver = plain.connection.driver_connection
            if driver is not None:
                driver.execute(f"PRAGMA synchronous={'NORMAL' if swift else 'FULL'}").close()
                plain.info["swift"] = swift
        connection = plain.execution_options(judge_service_write=True)
        with connection.begin():
            if turned and not sqlite:
                connection.exec_driver_sql(f"SET synchronous_commit TO {'off' if swift else 'DEFAULT'}")
            yield connection
        # Undone with the transaction, so noted after it.
        plain.info["swift"] = swift


class Database:
    """An opened database: reads on a pool; writes through one thread, those of an event loop into SQLite on its own."""

    def __init__(self, url: URL) -> None:
        self.url = url
        self.engine = new_engine(url)
        # Read committed is read committed without BEGIN and ROLLBACK too, two round trips cheaper.
        self._reading = self.engine if self.is_sqlite else self.engine.execution_options(isolation_level="AUTOCOMMIT")
        self._log = WriteAheadLog(self.engine) if self.is_sqlite else None
        self._settler = Settler(self._to_disk, self._tidy)
        self._writer = Writer(lambda swift: writing(self.engine, swift=swift), self._settler)
        self._loop_writer = (
            LoopWriter(self._open_loop_connection, self._writer, self._settler) if self.is_sqlite else None
        )
        self._loop_reader = None if self.is_sqlite else LoopReader(url)
        self._glance: tuple[PoolProxiedConnection, sqlite3.Cursor] | None = None
        self._glancing = threading.Lock()

    @property
    def is_sqlite(self) -> bool:
        """True for SQLite."""
        return self.engine.dialect.name == "sqlite"

    @property
    def file(self) -> Path | None:
        """Where an SQLite database lies; None for one in memory and for PostgreSQL."""
        name = self.url.database
        if not self.is_sqlite or not name or name == ":memory:" or name.startswith("file:"):
            return None
        return Path(name)

    @contextmanager
    def read(self, *, streamed: bool = False) -> Iterator[Connection]:
        """A connection for short reads. Keep no such block open across anything slow.

        Each statement sees what is committed when it begins; with SQLite all of the block see the same. `streamed`: a
        result is read in pages, which PostgreSQL does in a transaction only.
        """
        try:
            with (self.engine if streamed else self._reading).connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise readable(error) from error

    def glance(self, query: str, *values: Any) -> Sequence[Sequence[Any]] | None:
        """The rows of a query with `?` for each value that reads by an index.

        Answered on the calling thread within microseconds, so that an event loop may ask: an SQLite file only, and
        never after waiting for a lock. None means "look with `read`".
        """
        if not self.is_sqlite or not self._glancing.acquire(blocking=False):
            return None
        try:
            if self._glance is None:
                self._glance = self._open_glance()
            # With one cursor, past SQLAlchemy. Read to the end, so that no old state of the file is held.
            return self._glance[1].execute(query, values).fetchall()
        except (sqlite3.Error, SQLAlchemyError):
            # `read` meets the same fault and says what it is.
            return None
        finally:
            self._glancing.release()

    def lacks(self, query: str, key: str) -> bool:
        """True when a `glance` at `query`, which takes one parameter, surely finds nothing for `key` now.

        False means "look with `read`".
        """
        rows = self.glance(query, key)
        return rows is not None and not rows

    async def ask(self, query: str, *values: Any) -> Sequence[Sequence[Any]] | None:
        """The rows of a short query, `%s` for each value, without a thread: PostgreSQL only. None: look with `read`."""
        return None if self._loop_reader is None else await self._loop_reader.rows(query, *values)

    def _open_loop_connection(self) -> Connection:
        connection = self.engine.connect()
        connection.detach()
        driver = connection.connection.cursor()
        driver.execute("PRAGMA busy_timeout=0")
        driver.execute("PRAGMA synchronous=NORMAL")
        driver.execute(f"PRAGMA cache_size=-{CACHE_KB}")
        # The settler moves the log's pages; here only when they come faster than it can, so that the log ends.
        driver.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}")
        driver.close()
        return connection.execution_options(judge_service_write=True, judge_service_waits=False)

    def _open_glance(self) -> tuple[PoolProxiedConnection, sqlite3.Cursor]:
        own = self.engine.raw_connection()
        own.detach()
        cursor: Any = own.cursor()
        cursor.execute("PRAGMA busy_timeout=0")
        cursor.execute("PRAGMA query_only=ON")
        return own, cursor

    def submit(self, work: Callable[[Connection], T], *, swift: bool = False) -> "Future[T]":
        """Have `work` done in the next write transaction. It may be repeated: it must touch the database only."""
        return self._writer.submit(work, swift=swift)

    def submit_batch(
        self, apply: Callable[[Connection, Sequence[I]], Sequence[T]], item: I, *, swift: bool = False
    ) -> "Future[T]":
        """Like `submit`, for many small writes of one kind: `apply` gets all waiting items at once.

        What is `swift` survives a killed process as soon as the future is done, and a power cut within a second.
        """
        return self._writer.submit_batch(apply, item, swift=swift)

    def submit_async(
        self,
        apply: Callable[[Connection, Sequence[I]], Sequence[T]],
        item: I,
        *,
        swift: bool = False,
        later: bool = False,
    ) -> "asyncio.Future[T]":
        """`submit_batch` for the running event loop. What may come `later` goes with the next write, or soon."""
        if self._loop_writer is not None:
            return self._loop_writer.submit(apply, item, swift=swift, later=later)
        return self._writer.submit_async(apply, item, swift=swift)

    def write(self, work: Callable[[Connection], T], *, swift: bool = False) -> T:
        """Do `work` in a write transaction and wait until it is committed. `swift`: a power cut may undo it."""
        waiting = _along.get()
        if not waiting:
            return self.submit(work, swift=swift).result()

        def both(connection: Connection) -> T:
            result = work(connection)
            for more in waiting:
                more(connection, result)
            return result

        found = self.submit(both).result()
        waiting.clear()
        return found

    @contextmanager
    def along(self, more: Along) -> Iterator[None]:
        """Do `more` in the transaction of the next `write` of this task or thread: both are kept, or neither."""
        token = _along.set([more])
        try:
            yield
        finally:
            _along.reset(token)

    def _to_disk(self) -> None:
        """Bring SQLite's log to the disk. PostgreSQL does that by itself within a second."""
        if self._log is not None:
            self._log.sync()

    def _tidy(self) -> None:
        if self._log is not None:
            self._log.move()

    def close(self) -> None:
        """Finish accepted writes and close all connections. Safe to call twice."""
        if self._loop_writer is not None:
            self._loop_writer.close()
        self._writer.close()
        self._settler.close()
        if self._log is not None:
            self._log.close()
        if self._loop_reader is not None:
            self._loop_reader.close()
        with self._glancing:
            if self._glance is not None:
                self._glance[0].close()
                self._glance = None
        self.engine.dispose()


def prepare_folder(url: URL) -> None:
    """Make the folder of an SQLite file. Raises StoreError when that is not possible."""
    if url.get_backend_name() != "sqlite" or url.database is None or url.database.startswith("file:"):
        return
    try:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"The folder of the database cannot be made: {error.strerror or error}") from error
