"""Database errors in the service's own words, and which of them go away by trying again."""

from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from judge_service.errors import StoreError, Unavailable

_TRY_AGAIN = (
    "40001",
    "40P01",
    "53300",
    "55P03",
    "57P01",
    "57P02",
    "57P03",
    "08000",
    "08003",
    "08006",
    "08001",
    "08004",
)
"""PostgreSQL: serialisation, deadlock, too many connections, lock not available, shutdown, connection lost."""


def transient(error: BaseException) -> bool:
    """True when the same transaction may succeed later: a lock, a deadlock, a lost connection."""
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    if getattr(error.orig, "sqlstate", None) in _TRY_AGAIN:
        return True
    text = str(error.orig).lower()
    return any(
        words in text
        for words in (
            "database is locked",
            "table is locked",
            "connection refused",
            "closed the connection",
            # Where no connection came about the driver gives words and no code. The server is down, on its way down or
            # up, or has no room.
            "is the server running",
            "the database system is",
            "too many clients",
            "connection slots are reserved",
            "connection timeout expired",
        )
    )


def lost(error: BaseException) -> SQLAlchemyError | None:
    """The fault that ended a whole transaction, where `error` is it or came of it; None for a fault of one statement.

    SQLite rolls back by itself when the disk is full, and its savepoints are gone then: what follows only says that.
    """
    seen: BaseException | None = error
    for _ in range(20):
        if seen is None:
            return None
        if isinstance(seen, DBAPIError) and any(words in str(seen.orig).lower() for words in _ENDS_ALL):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None


_ENDS_ALL = ("disk is full", "no space left", "readonly", "read-only", "disk i/o error")


def readable(error: SQLAlchemyError) -> StoreError | Unavailable:
    """What happened, without SQL, parameters or the database URL."""
    if transient(error):
        return Unavailable("The database is busy or cannot be reached right now. Try again in a moment.")
    text = str(getattr(error, "orig", None) or type(error).__name__).strip().splitlines()[0][:300]
    lower = text.lower()
    if "disk is full" in lower or "no space left" in lower:
        return StoreError("The disk that holds the database is full. Nothing was stored; free some space.")
    if "readonly" in lower or "read-only" in lower:
        return StoreError(
            "The database is read-only. Nothing was stored; check the permissions of its file and folder."
        )
    if "not a database" in lower:
        return StoreError("The database file is not an SQLite database. Nothing was changed; choose another file.")
    if "unable to open database file" in lower:
        return StoreError("The database file cannot be opened. Check that its folder exists and may be written.")
    if isinstance(error, IntegrityError):
        return StoreError(f"The database refused the row: {text}")
    return StoreError(f"The database refused the operation: {text}")
