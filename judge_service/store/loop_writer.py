"""Writes of an event loop into an SQLite file, committed on the loop's own thread.

A commit takes a fraction of a millisecond; handing it to a thread costs up to the interpreter's switch interval (5 ms)
twice, because a busy loop gives up the interpreter no sooner. Owns only the case that goes well: whatever is not done
within a moment (a long lock, a fault, a bad item) goes to the writer's thread, which repeats, tells apart and says what
is wrong.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from judge_service.store.faults import transient
from judge_service.store.settler import Promise, Settler
from judge_service.store.writer import Apply, Job, Writer, kinds

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741

TURNS = 2
"""How many turns of the loop a write waits for others, so that what comes at about the same time is one commit."""
LATER_S = 0.1
"""How long a write that may wait for company waits for it."""
MOST_WAITING = 256
"""With as many, no write waits for company."""
BUSY_S = 0.001
"""While the writer's thread or another process writes, how long until it is looked at again."""
BUSY_LOOKS = 20
"""After as many, what waits goes to that thread."""

log = logging.getLogger(__name__)


class NotDone(Enum):
    """Why nothing of a group was written: somebody else writes, or something for the writer's thread to tell."""

    LOCKED = "locked"
    FAULTY = "faulty"


class LoopWriter:
    """`connect` opens a connection whose write transactions never wait for a lock nor for the disk."""

    def __init__(self, connect: Callable[[], Connection], writer: Writer, settler: Settler) -> None:
        self._connect = connect
        self._writer = writer
        self._settler = settler
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        self._jobs: list[Job] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due = False
        self._late_look = False
        self._since = 0.0
        self._closed = False

    def submit(
        self, apply: Callable[[Connection, Sequence[I]], Sequence[T]], item: I, *, swift: bool, later: bool
    ) -> "asyncio.Future[T]":
        """See `Database.submit_async`."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        job = Job(apply, item, swift, (loop, future))
        with self._lock:
            if self._loop is not loop:
                # The other loop may be gone, and its turn with it.
                self._pass_on()
                self._loop, self._due, self._late_look = loop, False, False
            if not self._jobs:
                self._since = loop.time()
            self._jobs.append(job)
            if self._closed:
                self._pass_on()
            elif self._due:
                pass
            elif not later or len(self._jobs) >= MOST_WAITING:
                self._due = True
                loop.call_soon(self._gather, TURNS, loop)
            elif not self._late_look:
                self._late_look = True
                loop.call_later(LATER_S, self._late, loop)
        return future

    def close(self) -> None:
        """Leave to the writer what was not committed yet, and close. Safe to call twice."""
        with self._lock:
            self._closed = True
            self._pass_on()
            self._drop()

    def _pass_on(self) -> None:
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            self._writer.take(job)

    def _gather(self, turns: int, loop: asyncio.AbstractEventLoop) -> None:
        if turns > 0:
            loop.call_soon(self._gather, turns - 1, loop)
        else:
            self._turn(loop)

    def _late(self, loop: asyncio.AbstractEventLoop) -> None:
        """Commit what has waited for company long enough. What came since its company went is left to wait."""
        if self._loop is not loop:
            return
        self._late_look = False
        if self._due or not self._jobs:
            return
        left = self._since + LATER_S - loop.time()
        if left > 0:
            self._late_look = True
            loop.call_later(left, self._late, loop)
        else:
            self._turn(loop)

    def _turn(self, loop: asyncio.AbstractEventLoop, looks: int = BUSY_LOOKS) -> None:
        with self._lock:
            if self._loop is not loop:
                return
            if not self._jobs:
                self._due = False
                return
            answers = self._commit(self._jobs) if self._writer.idle else NotDone.LOCKED
            if answers is NotDone.LOCKED and looks > 0:
                # Writes stay in the order in which they came. What followed each time the thread has work would keep
                # it at work, and a busy loop would never get its writes back; another process writes for a moment.
                self._due = True
                loop.call_later(BUSY_S, self._turn, loop, looks - 1)
                return
            self._due = False
            if isinstance(answers, NotDone):
                self._pass_on()
                return
            jobs, self._jobs = self._jobs, []
        promises = []
        for job, value in answers:
            future = job.waiter[1] if isinstance(job.waiter, tuple) else None
            if future is None or future.done():
                continue
            if job.swift:
                future.set_result(value)
            else:
                promises.append(Promise(loop, future, value))
        if promises:
            self._settler.answer(promises)
        if len(promises) < len(jobs):
            self._settler.note()

    def _commit(self, jobs: list[Job]) -> list[tuple[Job, Any]] | NotDone:
        """The answers of one transaction, or why there was none."""
        try:
            if self._connection is None:
                self._connection = self._connect()
            with self._connection.begin():
                return [pair for group in kinds(jobs) for pair in _apply(self._connection, group[0].apply, group)]
        except SQLAlchemyError as error:
            if transient(error):
                return NotDone.LOCKED
            # The writer meets it again, and knows what to do.
            self._drop()
        except Exception:
            log.debug("a group of writes goes to the writer's thread", exc_info=True)
        return NotDone.FAULTY

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _apply(connection: Connection, apply: Apply, group: Sequence[Job]) -> list[tuple[Job, Any]]:
    return list(zip(group, apply(connection, [job.item for job in group]), strict=True))
