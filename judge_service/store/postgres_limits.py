"""Shared limits on PostgreSQL. Every time is the database's, so that the clocks of the machines do not matter."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, TextClause, text

from judge_service.store.sharing import WINDOW_S, Member, SharedLimits, token_wait

_HELD = (
    "SELECT key, extract(epoch FROM held_until - clock_timestamp()) FROM provider_gates "
    "WHERE key = ANY(%s) AND held_until > clock_timestamp()"
)


class PostgresLimits(SharedLimits):
    """Limits shared by the processes of any number of machines."""

    def _living(self, connection: Connection, key: str) -> Sequence[Member]:
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:key, 1))"), {"key": key})
        connection.execute(
            text(
                "DELETE FROM provider_shares WHERE key = :key "
                "AND beat_at < clock_timestamp() - make_interval(secs => :expiry)"
            ),
            {"key": key, "expiry": self.expiry_s},
        )
        rows = connection.execute(
            text(
                "SELECT member, slots, extract(epoch FROM clock_timestamp() - joined_at) AS since "
                "FROM provider_shares WHERE key = :key"
            ),
            {"key": key},
        )
        return [Member(row.member, row.slots, float(row.since)) for row in rows]

    def _beat(self, connection: Connection, key: str, member: str, slots: int, *, turns: bool) -> None:
        connection.execute(
            text(
                "INSERT INTO provider_shares (key, member, slots, joined_at, beat_at) "
                "VALUES (:key, :member, :slots, clock_timestamp(), clock_timestamp()) "
                "ON CONFLICT (key, member) DO UPDATE SET slots = :slots, beat_at = clock_timestamp(), "
                "joined_at = CASE WHEN :turns THEN clock_timestamp() ELSE provider_shares.joined_at END"
            ),
            {"key": key, "member": member, "slots": slots, "turns": turns},
        )

    def hold(self, key: str, seconds: float) -> None:
        """See `SharedLimits`."""
        statement = text(
            "INSERT INTO provider_gates (key, held_until) "
            "VALUES (:key, clock_timestamp() + make_interval(secs => :seconds)) "
            "ON CONFLICT (key) DO UPDATE SET held_until = "
            "greatest(coalesce(provider_gates.held_until, '-infinity'), excluded.held_until)"
        )
        self._write(statement, {"key": key, "seconds": seconds})

    def held(self, keys: Sequence[str]) -> Mapping[str, float]:
        """See `SharedLimits`."""
        with self._database.read() as connection:
            return _seconds(connection.exec_driver_sql(_HELD, (list(keys),)))

    async def ask_held(self, keys: Sequence[str]) -> Mapping[str, float] | None:
        """See `SharedLimits`."""
        rows = await self._database.ask(_HELD, list(keys))
        return None if rows is None else _seconds(rows)

    def reserve(self, key: str, per_minute: int) -> float:
        """See `SharedLimits`."""
        statement = text(
            "INSERT INTO provider_gates (key, next_start) VALUES (:key, clock_timestamp()) "
            "ON CONFLICT (key) DO UPDATE SET next_start = greatest(clock_timestamp(), "
            "coalesce(provider_gates.next_start, '-infinity') + make_interval(secs => :pace)) "
            "RETURNING extract(epoch FROM next_start - clock_timestamp()) AS seconds"
        )

        def work(connection: Connection) -> float:
            row = connection.execute(statement, {"key": key, "pace": WINDOW_S / per_minute}).one()
            return max(0.0, float(row.seconds))

        return self._database.write(work, swift=True)

    def spend(self, key: str, tokens: int) -> None:
        """See `SharedLimits`."""
        statement = text(
            "INSERT INTO provider_tokens (key, second, tokens) "
            "VALUES (:key, floor(extract(epoch FROM clock_timestamp()))::bigint, :tokens) "
            "ON CONFLICT (key, second) DO UPDATE SET tokens = provider_tokens.tokens + excluded.tokens"
        )
        old = text(
            "DELETE FROM provider_tokens WHERE key = :key "
            "AND second < floor(extract(epoch FROM clock_timestamp()))::bigint - :window - 1"
        )

        def work(connection: Connection) -> None:
            connection.execute(old, {"key": key, "window": WINDOW_S})
            connection.execute(statement, {"key": key, "tokens": tokens})

        self._database.write(work, swift=True)

    def token_wait(self, key: str, per_minute: int) -> float:
        """See `SharedLimits`."""
        statement = text(
            "SELECT coalesce(sum(tokens), 0) AS spent, "
            "coalesce(min(second) + :window + 1 - extract(epoch FROM clock_timestamp()), 0) AS seconds "
            "FROM provider_tokens WHERE key = :key "
            "AND second >= floor(extract(epoch FROM clock_timestamp()))::bigint - :window"
        )
        with self._database.read() as connection:
            row = connection.execute(statement, {"key": key, "window": WINDOW_S}).one()
        return token_wait(row.spent, per_minute, float(row.seconds))

    def _write(self, statement: TextClause, values: Mapping[str, Any]) -> None:
        self._database.write(lambda connection: connection.execute(statement, values).rowcount, swift=True)


def _seconds(rows: Iterable[Sequence[Any]]) -> dict[str, float]:
    return {key: float(seconds) for key, seconds in rows}
