"""Shared limits on SQLite: a write transaction keeps all others out, and the clock is the one of the machine.

Owns what happens when that clock is set back. No sign of life can come from the future, so the latest one tells by how
much, and the times of all limits move along: neither are a dead member's slots taken nor is a provider held for the
time that comes again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, func, select, update
from sqlalchemy.dialects.sqlite import insert

from judge_service.store.engine import Database
from judge_service.store.sharing import EXPIRY_S, SHARES, WINDOW_S, Member, SharedLimits, token_wait
from judge_service.store.tables import ProviderGateRow, ProviderTokensRow, table

GATES = table(ProviderGateRow)
TOKENS = table(ProviderTokensRow)
_HELD = (
    f"SELECT key, held_until, (SELECT max(beat_at) FROM {SHARES.name}) FROM {GATES.name} "  # noqa: S608
    "WHERE key = ? AND held_until IS NOT NULL"
)


class SqliteLimits(SharedLimits):
    """Limits shared by the processes of one machine, which have one `clock`: aware, in UTC."""

    def __init__(self, database: Database, clock: Callable[[], datetime], *, expiry_s: float = EXPIRY_S) -> None:
        super().__init__(database, expiry_s=expiry_s)
        self._clock = clock

    def _living(self, connection: Connection, key: str) -> Sequence[Member]:
        now = self._now(connection)
        connection.execute(delete(SHARES).where(SHARES.c.beat_at < now - timedelta(seconds=self.expiry_s)))
        rows = connection.execute(select(SHARES).where(SHARES.c.key == key))
        return [Member(row.member, row.slots, (now - row.joined_at).total_seconds()) for row in rows]

    def _beat(self, connection: Connection, key: str, member: str, slots: int, *, turns: bool) -> None:
        now = self._clock()
        changed = {"slots": slots, "beat_at": now} | ({"joined_at": now} if turns else {})
        beat = insert(SHARES).values(key=key, member=member, slots=slots, joined_at=now, beat_at=now)
        connection.execute(beat.on_conflict_do_update(index_elements=["key", "member"], set_=changed))

    def hold(self, key: str, seconds: float) -> None:
        """See `SharedLimits`."""

        def work(connection: Connection) -> None:
            until = self._now(connection) + timedelta(seconds=seconds)
            earlier = connection.execute(select(GATES.c.held_until).where(GATES.c.key == key)).scalar()
            _note(connection, key, held_until=max(until, earlier or until))

        self._database.write(work, swift=True)

    def held(self, keys: Sequence[str]) -> Mapping[str, float]:
        """See `SharedLimits`."""
        with self._database.read() as connection:
            return self._seconds(row for key in keys for row in connection.exec_driver_sql(_HELD, (key,)))

    async def ask_held(self, keys: Sequence[str]) -> Mapping[str, float] | None:
        """See `SharedLimits`."""
        found: list[Sequence[Any]] = []
        for key in keys:
            rows = self._database.glance(_HELD, key)
            if rows is None:
                return None
            found.extend(rows)
        return self._seconds(found)

    def reserve(self, key: str, per_minute: int) -> float:
        """See `SharedLimits`."""

        def work(connection: Connection) -> float:
            now = self._now(connection)
            last = connection.execute(select(GATES.c.next_start).where(GATES.c.key == key)).scalar()
            start = now if last is None else max(now, last + timedelta(seconds=WINDOW_S / per_minute))
            _note(connection, key, next_start=start)
            return (start - now).total_seconds()

        return self._database.write(work, swift=True)

    def spend(self, key: str, tokens: int) -> None:
        """See `SharedLimits`."""

        def work(connection: Connection) -> None:
            second = int(self._clock().timestamp())
            connection.execute(
                delete(TOKENS).where(TOKENS.c.key == key, ~TOKENS.c.second.between(second - WINDOW_S - 1, second))
            )
            spent = insert(TOKENS).values(key=key, second=second, tokens=tokens)
            total = TOKENS.c.tokens + spent.excluded.tokens
            connection.execute(spent.on_conflict_do_update(index_elements=["key", "second"], set_={"tokens": total}))

        self._database.write(work, swift=True)

    def token_wait(self, key: str, per_minute: int) -> float:
        """See `SharedLimits`."""
        now = self._clock().timestamp()
        window = TOKENS.c.second.between(int(now) - WINDOW_S, int(now))
        query = select(func.sum(TOKENS.c.tokens), func.min(TOKENS.c.second)).where(TOKENS.c.key == key, window)
        with self._database.read() as connection:
            spent, oldest = connection.execute(query).one()
        return 0.0 if oldest is None else token_wait(spent, per_minute, oldest + WINDOW_S + 1 - now)

    def _now(self, connection: Connection) -> datetime:
        """The time, after what was noted by a clock that was set back since has moved along with it."""
        now = self._clock()
        latest = connection.execute(select(func.max(SHARES.c.beat_at))).scalar()
        if latest is not None and latest > now:
            _move(connection, latest - now)
        return now

    def _seconds(self, rows: Iterable[Sequence[Any]]) -> dict[str, float]:
        now = self._clock()
        found = {}
        for key, until, latest in rows:
            seconds = (_time(until) - max(now, _time(latest) if latest else now)).total_seconds()
            if seconds > 0:
                found[key] = seconds
        return found


def _note(connection: Connection, key: str, **times: datetime) -> None:
    noted = insert(GATES).values(key=key, **times)
    connection.execute(noted.on_conflict_do_update(index_elements=["key"], set_=times))


def _move(connection: Connection, back: timedelta) -> None:
    """Set all times of limits back. Tokens of a time to come are not counted, so they need not move."""
    for moved in (SHARES, GATES):
        for row in connection.execute(select(moved)).mappings().all():
            chosen = [column == row[column] for column in moved.primary_key]
            earlier = {name: value - back for name, value in row.items() if isinstance(value, datetime)}
            if earlier:
                connection.execute(update(moved).where(*chosen).values(earlier))


def _time(stored: str) -> datetime:
    """A time as `UtcDateTime` stores it."""
    return datetime.fromisoformat(stored).replace(tzinfo=UTC)
