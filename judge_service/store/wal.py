"""SQLite's write-ahead log as a file: brought to the disk, and emptied into the database beside the work.

Owns one handle of the log. Knows no table. Commits with `synchronous=NORMAL` leave the log to whoever syncs it.
"""

import contextlib
import os
import sqlite3
import threading
import time
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

MOVE_BYTES = 4_000_000
"""Size of the log from which its pages are moved into the database."""
MOVE_EVERY_S = 0.5


class WriteAheadLog:
    """The log of one database file."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._handle: int | None = None
        self._moved_at = 0.0

    def sync(self) -> None:
        """Bring every commit so far to the disk. Raises OSError. Blocks as long as the disk takes."""
        with self._lock:
            handle = self._opened()
            if handle is None:
                return
            os.fsync(handle)

    def move(self) -> None:
        """Move a long log's pages into the database, at most every `MOVE_EVERY_S`; what is in use moves later."""
        with self._lock:
            handle = self._opened()
            now = time.monotonic()
            if handle is None or now - self._moved_at < MOVE_EVERY_S or os.fstat(handle).st_size < MOVE_BYTES:
                return
            self._moved_at = now
        with contextlib.suppress(SQLAlchemyError, sqlite3.Error):
            connection = self._engine.raw_connection()
            try:
                # Past SQLAlchemy, which would open a transaction first.
                connection.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)")
            finally:
                connection.close()

    def close(self) -> None:
        """Let the handle go. Safe to call twice."""
        with self._lock:
            handle, self._handle = self._handle, None
            if handle is not None:
                os.close(handle)

    def _opened(self) -> int | None:
        if self._handle is not None and os.fstat(self._handle).st_nlink == 0:
            # The last connection went, and the log with it; what it held is in the database.
            os.close(self._handle)
            self._handle = None
        if self._handle is None:
            path = f"{self._engine.url.database}-wal"
            with contextlib.suppress(FileNotFoundError):
                self._handle = os.open(path, os.O_RDONLY)
                folder = os.open(Path(path).parent, os.O_RDONLY)
                try:
                    # A new file's name is on the disk only with its folder.
                    os.fsync(folder)
                finally:
                    os.close(folder)
        return self._handle
