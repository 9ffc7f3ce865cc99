"""Calls that need not be paid twice, kept for the judging core, which owns the key and what may be kept."""

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from sqlalchemy import Connection, delete, select

from judge_service.domain.call import Call
from judge_service.errors import JudgeServiceError
from judge_service.store.bulk import BulkInsert
from judge_service.store.engine import Database
from judge_service.store.lookups import Lookups
from judge_service.store.spool import Spool, adopt
from judge_service.store.tables import CachedCallRow, table
from judge_service.store.types import ReadyJson, json_text

CACHE = table(CachedCallRow)
_insert = BulkInsert(CACHE, ignore=True)
_FIND = f"SELECT key, document FROM {CACHE.name} WHERE key = ANY(%s)"  # noqa: S608
_KNOWN = f"SELECT 1 FROM {CACHE.name} WHERE key = ?"  # noqa: S608

log = logging.getLogger(__name__)


class Cache:
    """The cache table. `get` and `put` are what the judging core asks of a call cache.

    Beside an SQLite file a call is kept in a spool first, and is found by other processes up to a moment later.
    """

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._lookups = Lookups(self._find, lambda key: database.lacks(_KNOWN, key), self._ask)
        self._spool = None if database.file is None else Spool(database.file)
        self._spooled: dict[str, Call] = {}
        self._refused: dict[str, str] = {}

    async def get(self, key: str) -> Call | None:
        """The call kept under `key`, or None."""
        return self._spooled.get(key) or await self._lookups.find(key)

    def put(self, key: str, call: Call) -> "asyncio.Future[None] | None":
        """Keep a call that had no error; the first of a key stays. Once done, or None, a killed process keeps it."""
        text = json_text(call)
        if self._spool is None or not self._spool.append(key, text):
            return self._database.submit_async(self._put, (key, text), swift=True)
        self._spooled.setdefault(key, call)
        future = self._database.submit_async(self._put, (key, text), swift=True, later=True)
        future.add_done_callback(partial(self._settled, self._spool, key, text))
        return None

    def find(self, key: str) -> Call | None:
        """`get` for synchronous callers."""
        return self._spooled.get(key) or self._find([key]).get(key)

    def purge(self, before: datetime) -> int:
        """Forget calls kept before that time; how many were forgotten."""
        statement = delete(CACHE).where(CACHE.c.created_at < before)
        return self._database.write(lambda connection: int(connection.execute(statement).rowcount))

    def adopt(self) -> None:
        """Take over the calls that killed processes had kept beside this database, and what it refused earlier."""
        if self._database.file is None or self._spool is None:
            return
        try:
            refused = dict(self._refused)
            self._keep(list(refused.items()))
            for key in refused:
                self._refused.pop(key, None)
                self._spooled.pop(key, None)
                self._spool.settle()
            adopt(self._database.file, self._keep)
        except JudgeServiceError as error:
            log.warning("calls that a killed process kept stay beside the database: %s", error.message)

    def close(self) -> None:
        """Bring what is kept beside the database into it. Safe to call twice."""
        if self._spool is None:
            return
        try:
            self._spool.close(self._keep)
        except JudgeServiceError as error:
            log.warning("answered calls stay beside the database until it is opened again: %s", error.message)

    def _settled(self, spool: Spool, key: str, text: str, done: "asyncio.Future[None]") -> None:
        if done.cancelled():
            return
        if (error := done.exception()) is not None:
            # It stays in the file, and is found here until the database takes it.
            log.warning("an answered call is not in the database yet: %s", error)
            self._refused[key] = text
            return
        self._spooled.pop(key, None)
        spool.settle()

    def _keep(self, entries: Sequence[tuple[str, str]]) -> None:
        good = [entry for entry in entries if _is_call(entry[1])]
        if not good:
            return
        self._database.write(lambda connection: self._put(connection, good))

    def _find(self, keys: Sequence[str]) -> dict[str, Call]:
        query = select(CACHE.c.key, CACHE.c.document).where(CACHE.c.key.in_(keys))
        with self._database.read() as connection:
            return {row.key: Call.model_validate(row.document) for row in connection.execute(query)}

    async def _ask(self, keys: Sequence[str]) -> dict[str, Call] | None:
        rows = await self._database.ask(_FIND, list(keys))
        return None if rows is None else {key: _call(document) for key, document in rows}

    def _put(self, connection: Connection, items: Sequence[tuple[str, str]]) -> list[None]:
        now = self._clock()
        first = dict(reversed(items))
        rows = [{"key": key, "document": ReadyJson(text), "created_at": now} for key, text in first.items()]
        _insert(connection, rows)
        return [None] * len(items)


def _is_call(text: str) -> bool:
    """Half a line, of a disk that was full, is none."""
    try:
        _call(text)
    except ValueError:
        return False
    return True


def _call(text: str) -> Call:
    # A reply may hold half a surrogate, which Pydantic's own reader of JSON refuses.
    return Call.model_validate(json.loads(text))
