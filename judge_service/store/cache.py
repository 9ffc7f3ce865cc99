"""Calls that need not be paid twice, kept for the judging core, which owns the key and what may be kept."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, select

from judge_service.domain.call import Call
from judge_service.store.bulk import BulkInsert
from judge_service.store.engine import Database
from judge_service.store.lookups import Lookups
from judge_service.store.tables import CachedCallRow, table

CACHE = table(CachedCallRow)
_insert = BulkInsert(CACHE, ignore=True)
_KNOWN = f"SELECT 1 FROM {CACHE.name} WHERE key = ?"  # noqa: S608


class Cache:
    """The cache table. `get` and `put` are what the judging core asks of a call cache."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._lookups = Lookups(self._find, lambda key: database.lacks(_KNOWN, key))

    async def get(self, key: str) -> Call | None:
        """The call kept under `key`, or None."""
        return await self._lookups.find(key)

    def put(self, key: str, call: Call) -> "asyncio.Future[None]":
        """Keep a call that had no error; the first of a key stays. Once done, a killed process does not lose it."""
        return self._database.submit_async(self._put, (key, call), swift=True)

    def find(self, key: str) -> Call | None:
        """`get` for synchronous callers."""
        return self._find([key]).get(key)

    def purge(self, before: datetime) -> int:
        """Forget calls kept before that time; how many were forgotten."""
        statement = delete(CACHE).where(CACHE.c.created_at < before)
        return self._database.write(lambda connection: int(connection.execute(statement).rowcount))

    def _find(self, keys: Sequence[str]) -> dict[str, Call]:
        query = select(CACHE.c.key, CACHE.c.document).where(CACHE.c.key.in_(keys))
        with self._database.read() as connection:
            return {row.key: Call.model_validate(row.document) for row in connection.execute(query)}

    def _put(self, connection: Connection, items: Sequence[tuple[str, Call]]) -> list[None]:
        now = self._clock()
        first = dict(reversed(items))
        _insert(connection, [{"key": key, "document": call, "created_at": now} for key, call in first.items()])
        return [None] * len(items)
