"""Time that passes for the shares of a provider's slots, on whatever database they are."""

from datetime import timedelta

from sqlalchemy import Connection, select, update

from judge_service.store.sharing import SHARES, SharedLimits


def age(limits: SharedLimits, seconds: float, *members: str) -> None:
    """So much time passes since `members`, or all of them, were last heard."""
    passed = timedelta(seconds=seconds)

    def work(connection: Connection) -> None:
        for row in connection.execute(select(SHARES)).all():
            if not members or row.member in members:
                times = {"joined_at": row.joined_at - passed, "beat_at": row.beat_at - passed}
                mine = (SHARES.c.key == row.key, SHARES.c.member == row.member)
                connection.execute(update(SHARES).where(*mine).values(times))

    limits._database.write(work, swift=True)
