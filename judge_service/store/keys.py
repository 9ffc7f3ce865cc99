"""API keys as stored: found by their public id, never deleted, revoked once."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, func, insert, select, update

from judge_service.domain.principal import ApiKey
from judge_service.errors import NotFound
from judge_service.store.engine import Database
from judge_service.store.tables import KeyRow, table

KEYS = table(KeyRow)


class Keys:
    """The key table."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    def add(self, key: ApiKey) -> ApiKey:
        """Store a new key. Raises StoreError when the id is taken."""
        self._database.write(lambda connection: _insert(connection, key))
        return key

    def add_first(self, key: ApiKey) -> bool:
        """Store `key` only if there is no key at all; False when there is one. Safe with many starting at once."""

        def work(connection: Connection) -> bool:
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql("LOCK TABLE api_keys IN EXCLUSIVE MODE")
            if connection.execute(select(func.count()).select_from(KEYS)).scalar_one():
                return False
            _insert(connection, key)
            return True

        return self._database.write(work)

    def get(self, key_id: str) -> ApiKey | None:
        """A key by its public id, revoked ones too."""
        with self._database.read() as connection:
            row = connection.execute(select(KEYS).where(KEYS.c.id == key_id)).mappings().one_or_none()
        return None if row is None else _key(row)

    def all(self) -> list[ApiKey]:
        """Every key, oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(select(KEYS).order_by(KEYS.c.created_at, KEYS.c.id)).mappings().all()
        return [_key(row) for row in rows]

    def revoke(self, key_id: str) -> ApiKey:
        """Revoke a key now; revoking it again changes nothing. Raises NotFound."""

        def work(connection: Connection) -> ApiKey:
            live = update(KEYS).where(KEYS.c.id == key_id, KEYS.c.revoked_at.is_(None))
            connection.execute(live.values(revoked_at=self._clock()))
            row = connection.execute(select(KEYS).where(KEYS.c.id == key_id)).mappings().one_or_none()
            if row is None:
                raise NotFound(f"There is no API key with the id {key_id!r}.")
            return _key(row)

        return self._database.write(work)

    def touch(self, key_id: str) -> None:
        """Note that a key was used now. Does not wait for the commit."""
        now = self._clock()
        self._database.submit(
            lambda connection: (
                connection.execute(update(KEYS).where(KEYS.c.id == key_id).values(last_used_at=now)).rowcount
            )
        )


def _insert(connection: Connection, key: ApiKey) -> None:
    fields: dict[str, Any] = key.model_dump()
    connection.execute(insert(KEYS), fields | {"role": key.role.value})


def _key(row: RowMapping) -> ApiKey:
    return ApiKey.model_validate(dict(row))
