"""Replies that need not be paid twice. The key and the document's shape belong to the judging core."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from judge_service.store.engine import Database
from judge_service.store.tables import CachedCallRow, table

CACHE = table(CachedCallRow)


class Cache:
    """The cache table. Only good replies may be put here."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    def get(self, key: str) -> dict[str, Any] | None:
        """What was put under `key`, or None."""
        with self._database.read() as connection:
            found: dict[str, Any] | None = connection.execute(
                select(CACHE.c.document).where(CACHE.c.key == key)
            ).scalar_one_or_none()
        return found

    def put(self, key: str, document: dict[str, Any]) -> None:
        """Keep `document` under `key`; the first one stays. Returns at once: a lost entry costs one call."""
        self._database.submit_batch(self._put, (key, document))

    def purge(self, before: datetime) -> int:
        """Forget entries put before that time; how many were forgotten."""
        statement = delete(CACHE).where(CACHE.c.created_at < before)
        return self._database.write(lambda connection: int(connection.execute(statement).rowcount))

    def _put(self, connection: Connection, items: Sequence[tuple[str, dict[str, Any]]]) -> list[None]:
        latest = dict(reversed(items))
        there = set(connection.execute(select(CACHE.c.key).where(CACHE.c.key.in_(latest))).scalars())
        now = self._clock()
        rows = [
            {"key": key, "document": document, "created_at": now}
            for key, document in latest.items()
            if key not in there
        ]
        if rows:
            connection.execute(insert(CACHE), rows)
        return [None] * len(items)
