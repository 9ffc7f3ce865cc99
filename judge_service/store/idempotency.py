"""Idempotency keys: the same key with the same request names one object, for ever or until purged."""

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.exc import IntegrityError

from judge_service.errors import Conflict
from judge_service.store.engine import Database
from judge_service.store.tables import IdempotencyRow, table

KEYS = table(IdempotencyRow)


class Idempotency:
    """The table of idempotency keys. `scope` separates callers and routes (`POST /v1/runs by <key id>`)."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    def claim(self, scope: str, key: str, request_hash: str, object_id: str) -> str:
        """The id of the object this key names: `object_id` for the first claim, the earlier one for a repetition.

        Of simultaneous claims exactly one gets its own id. Raises Conflict when the key came with another request.
        """
        mine = (KEYS.c.scope == scope) & (KEYS.c.key == key)

        def look(connection: Connection) -> str | None:
            row = connection.execute(select(KEYS.c.request_hash, KEYS.c.object_id).where(mine)).one_or_none()
            if row is None:
                return None
            if row.request_hash != request_hash:
                raise Conflict("This Idempotency-Key was used with another request. Use a new key for a new request.")
            return str(row.object_id)

        def work(connection: Connection) -> str:
            earlier = look(connection)
            if earlier is not None:
                return earlier
            row = {"scope": scope, "key": key, "request_hash": request_hash, "object_id": object_id}
            try:
                with connection.begin_nested():
                    connection.execute(insert(KEYS), row | {"created_at": self._clock()})
            except IntegrityError:
                # Another process was faster; its row is visible now.
                return look(connection) or object_id
            return object_id

        return self._database.write(work)

    def find(self, scope: str, key: str, request_hash: str) -> str | None:
        """The id this key names, or None. Raises Conflict when the key came with another request."""
        with self._database.read() as connection:
            where = (KEYS.c.scope == scope) & (KEYS.c.key == key)
            row = connection.execute(select(KEYS.c.request_hash, KEYS.c.object_id).where(where)).one_or_none()
        if row is None:
            return None
        if row.request_hash != request_hash:
            raise Conflict("This Idempotency-Key was used with another request. Use a new key for a new request.")
        return str(row.object_id)

    def release(self, scope: str, key: str) -> None:
        """Forget a claim whose request was refused, so that the corrected request may use the key."""
        statement = delete(KEYS).where(KEYS.c.scope == scope, KEYS.c.key == key)
        self._database.write(lambda connection: connection.execute(statement).rowcount)

    def purge(self, before: datetime) -> int:
        """Forget keys claimed before that time; how many were forgotten."""
        statement = delete(KEYS).where(KEYS.c.created_at < before)
        return self._database.write(lambda connection: int(connection.execute(statement).rowcount))
