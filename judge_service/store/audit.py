"""The audit log as stored: added to, read, never changed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select

from judge_service.domain.audit import AuditEntry
from judge_service.store.engine import Database
from judge_service.store.tables import AuditRow, table

AUDIT = table(AuditRow)


class Audit:
    """The audit table."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    def add(self, by: str, who: str, what: str, object_: str) -> None:
        """Note that somebody did something. Texts that are too long are cut."""
        fields = self._fields(by, who, what, object_)
        self._database.write(lambda connection: connection.execute(insert(AUDIT), fields).rowcount)

    @contextmanager
    def along(self, by: str, who: str, what: str, object_: str | Callable[[Any], str]) -> Iterator[None]:
        """Note what the next change inside does, in its own transaction: no change without its entry, and none for
        a change that failed. `object_` may be made of what the change gives.
        """

        def note(connection: Connection, result: Any) -> None:
            named = object_ if isinstance(object_, str) else object_(result)
            connection.execute(insert(AUDIT), self._fields(by, who, what, named))

        with self._database.along(note):
            yield

    def _fields(self, by: str, who: str, what: str, object_: str) -> dict[str, Any]:
        return {"at": self._clock(), "by": by[:200], "who": who[:200], "what": what[:200], "object": object_[:500]}

    def entries(self, *, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
        """Newest first; with `before` those that are older than the entry of that id."""
        query = select(AUDIT).order_by(AUDIT.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(AUDIT.c.id < before)
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        return [AuditEntry.model_validate(dict(row)) for row in rows]
