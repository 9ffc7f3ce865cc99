"""Answered calls on their way into an SQLite database: a file beside it that a killed process leaves behind.

A commit costs a fraction of a millisecond and an append some microseconds, and the place of a call among those in
flight is free only when a killed process would not lose the answer. Owns the file, its lock and its length. Knows no
table: what is in it is a key and a text.
"""

import contextlib
import logging
import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

if sys.platform != "win32":
    import fcntl

EMPTY_BYTES = 1_000_000
"""A file this long is emptied as soon as the database has all of it."""
MOST_BYTES = 32_000_000
"""A longer file takes nothing more: the database is not keeping up."""

log = logging.getLogger(__name__)

Keep = Callable[[Sequence[tuple[str, str]]], None]
"""Brings entries into the database, which may have some of them; returns when it has them all, else raises."""


class Spool:
    """The file of one opened database. Made when first needed, locked as long as it is open."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._handle: int | None = None
        self._waiting = 0
        self._length = 0
        self._torn = False
        self._shut = sys.platform == "win32"

    def append(self, key: str, text: str) -> bool:
        """Whether the entry is in the file: a killed process does not lose it then, a power cut may.

        Neither `key` nor `text` holds a line end, and `key` no space. Every entry that was taken is to be `settle`d.
        """
        with self._lock:
            if self._shut or self._length > MOST_BYTES:
                return False
            line = f"{key} {text}\n".encode("ascii")
            try:
                handle = self._opened()
                written = os.write(handle, b"\n" + line if self._torn else line)
            except OSError as error:
                # The database meets the same fault, and says what to do.
                log.warning("no file beside the database for answered calls: %s", error.strerror)
                self._shut = True
                return False
            self._length += written
            self._torn = written < len(line)
            if not self._torn:
                self._waiting += 1
            return not self._torn

    def settle(self) -> None:
        """The database has one more of the entries."""
        with self._lock:
            self._waiting -= 1
            if self._waiting == 0 and self._length > EMPTY_BYTES and self._handle is not None:
                os.ftruncate(self._handle, 0)
                self._length = 0

    def close(self, keep: Keep) -> None:
        """Take nothing more, `keep` what the database may lack, and remove the file. Safe to call twice."""
        with self._lock:
            self._shut = True
            handle, path, self._handle = self._handle, self._path, None
            if handle is None or path is None:
                return
            try:
                if self._waiting:
                    _move(path, keep)
                else:
                    path.unlink(missing_ok=True)
            finally:
                os.close(handle)

    def _opened(self) -> int:
        while self._handle is None:
            self._path = self._database.with_name(f"{self._database.name}.calls-{uuid.uuid4().hex}")
            handle = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
            # Between the two somebody may have taken the file for one that was left behind, and removed it.
            if _locked(handle) and os.fstat(handle).st_nlink:
                self._handle = handle
            else:
                os.close(handle)
        return self._handle


def adopt(database: Path, keep: Keep) -> None:
    """Bring what killed processes left beside `database` into it. Files of living ones are left alone."""
    if sys.platform == "win32":
        return
    for path in sorted(database.parent.glob(f"{database.name}.calls-*")):
        try:
            handle = os.open(path, os.O_RDWR)
        except OSError:
            # Another process was faster, or the file is somebody else's.
            continue
        try:
            if _locked(handle):
                _move(path, keep)
        finally:
            os.close(handle)


def _locked(handle: int) -> bool:
    if sys.platform != "win32":
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def _move(path: Path, keep: Keep) -> None:
    for entries in _pages(path):
        keep(entries)
    path.unlink(missing_ok=True)


def _pages(path: Path, size: int = 256) -> Iterator[list[tuple[str, str]]]:
    page: list[tuple[str, str]] = []
    with path.open(encoding="ascii", errors="replace") as lines:
        for line in lines:
            key, space, text = line.partition(" ")
            # What a killed process was writing has no end.
            if space and line.endswith("\n"):
                page.append((key, text[:-1]))
            if len(page) == size:
                yield page
                page = []
    if page:
        yield page
