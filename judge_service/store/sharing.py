"""What the processes of a fleet agree on about a provider: slots, pace, pauses and tokens. PostgreSQL only.

Owns that the slots of all members together never exceed the provider's. Every time is the database's, so that the
clocks of the machines do not matter. What a power cut undoes here would be a moment old.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, TextClause, text

from judge_service.store.engine import Database

EXPIRY_S = 2.0
"""A member that gave no sign for so long is dead: its slots are free. One that lives begins no call by then."""
WINDOW_S = 60
_HELD = (
    "SELECT key, extract(epoch FROM held_until - clock_timestamp()) FROM provider_gates "
    "WHERE key = ANY(%s) AND held_until > clock_timestamp()"
)


@dataclass(frozen=True, slots=True)
class Share:
    """`slots`: what a member may use now. `target`: its fair part, towards which it must shrink."""

    slots: int
    target: int


class SharedLimits:
    """Limits of providers by key, shared by members (processes). All methods block."""

    def __init__(self, database: Database, *, expiry_s: float = EXPIRY_S) -> None:
        self._database = database
        self.expiry_s = expiry_s
        """Seconds without a sign after which a member's slots are given to others."""

    def share(self, key: str, member: str, limit: int, using: int) -> Share:
        """Give a sign of life with `using` calls in flight, and get this member's share of `limit` slots."""

        def work(connection: Connection) -> Share:
            connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:key, 1))"), {"key": key})
            connection.execute(
                text(
                    "DELETE FROM provider_shares WHERE key = :key "
                    "AND beat_at < clock_timestamp() - make_interval(secs => :expiry)"
                ),
                {"key": key, "expiry": self.expiry_s},
            )
            rows = connection.execute(
                text("SELECT member, slots FROM provider_shares WHERE key = :key ORDER BY joined_at, member"),
                {"key": key},
            ).all()
            members = [row.member for row in rows]
            if member not in members:
                members.append(member)
            rank = members.index(member)
            target = limit // len(members) + (rank < limit % len(members))
            others = sum(row.slots for row in rows if row.member != member)
            slots = max(using, min(target, limit - others))
            connection.execute(
                text(
                    "INSERT INTO provider_shares (key, member, slots, joined_at, beat_at) "
                    "VALUES (:key, :member, :slots, clock_timestamp(), clock_timestamp()) "
                    "ON CONFLICT (key, member) DO UPDATE SET slots = :slots, beat_at = clock_timestamp()"
                ),
                {"key": key, "member": member, "slots": slots},
            )
            return Share(slots, target)

        return self._database.write(work, swift=True)

    def leave(self, key: str, member: str) -> None:
        """Give a member's slots back."""
        statement = text("DELETE FROM provider_shares WHERE key = :key AND member = :member")
        self._write(statement, {"key": key, "member": member})

    def hold(self, key: str, seconds: float) -> None:
        """No call to this provider for `seconds` from now, by anyone."""
        statement = text(
            "INSERT INTO provider_gates (key, held_until) "
            "VALUES (:key, clock_timestamp() + make_interval(secs => :seconds)) "
            "ON CONFLICT (key) DO UPDATE SET held_until = "
            "greatest(coalesce(provider_gates.held_until, '-infinity'), excluded.held_until)"
        )
        self._write(statement, {"key": key, "seconds": seconds})

    def held(self, keys: Sequence[str]) -> Mapping[str, float]:
        """Seconds until each provider may be called again; those that may be called now are left out."""
        with self._database.read() as connection:
            return _seconds(connection.exec_driver_sql(_HELD, (list(keys),)))

    async def ask_held(self, keys: Sequence[str]) -> Mapping[str, float] | None:
        """`held` for the running event loop; None where it must be asked in a thread."""
        rows = await self._database.ask(_HELD, list(keys))
        return None if rows is None else _seconds(rows)

    def reserve(self, key: str, per_minute: int) -> float:
        """Reserve the next start at an even pace of `per_minute`; the seconds until it."""
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
        """Count tokens that a call used."""
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
        """Seconds until the tokens of the last minute may be below `per_minute`; 0.0 when they are."""
        statement = text(
            "SELECT coalesce(sum(tokens), 0) AS spent, "
            "coalesce(min(second) + :window + 1 - extract(epoch FROM clock_timestamp()), 0) AS seconds "
            "FROM provider_tokens WHERE key = :key "
            "AND second >= floor(extract(epoch FROM clock_timestamp()))::bigint - :window"
        )
        with self._database.read() as connection:
            row = connection.execute(statement, {"key": key, "window": WINDOW_S}).one()
        return max(0.05, float(row.seconds)) if row.spent >= per_minute else 0.0

    def _write(self, statement: TextClause, values: Mapping[str, Any]) -> None:
        self._database.write(lambda connection: connection.execute(statement, values).rowcount, swift=True)


def _seconds(rows: Iterable[Sequence[Any]]) -> dict[str, float]:
    return {key: float(seconds) for key, seconds in rows}
