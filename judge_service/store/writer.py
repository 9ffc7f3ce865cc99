"""The one writer: a thread that takes what waits, commits it as one group, and then answers.

Owns order, grouping, repetition after a lost lock or connection. A write is answered only after its commit: from then
on a killed process does not undo it. One that is `swift` may still be undone, for a moment, by a power cut.
"""

import asyncio
import contextlib
import logging
import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from judge_service.errors import StoreError, Unavailable
from judge_service.store.faults import lost, readable, transient
from judge_service.store.settler import Settler

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741

GROUP = 256
"""Most writes in one commit. A group is what gathered during the commit before; nothing waits to fill one."""
RETRY_AFTER_S = (0.02, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0)
"""Pauses before a group is tried again after a lock, a deadlock or a lost connection."""

log = logging.getLogger(__name__)

Apply = Callable[[Connection, Sequence[Any]], Sequence[Any]]


class Job(NamedTuple):
    """A write that waits for its commit. `waiter` is a thread's future, or an event loop with a future of that loop."""

    apply: Apply
    item: Any
    swift: bool
    waiter: "Future[Any] | tuple[asyncio.AbstractEventLoop, asyncio.Future[Any]]"


@dataclass(frozen=True, slots=True)
class _Answer:
    job: Job
    value: Any = None
    error: BaseException | None = None


def _alone(connection: Connection, works: Sequence[Callable[[Connection], Any]]) -> list[Any]:
    return [work(connection) for work in works]


class Writer:
    """Serialises writes.

    `transaction(swift)` opens one write transaction that commits on leaving; `settler` brings swift commits to the
    disk.
    """

    def __init__(self, transaction: Callable[[bool], AbstractContextManager[Connection]], settler: Settler) -> None:
        self._transaction = transaction
        self._settler = settler
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._pause = threading.Event()
        self._thread: threading.Thread | None = None
        self._waiting = 0

    def submit(self, work: Callable[[Connection], T], *, swift: bool = False) -> "Future[T]":
        """Do `work` alone inside a group. An error it raises undoes this work only and becomes the future's error."""
        return self._in_thread(_alone, work, swift=swift)

    def submit_batch(
        self, apply: Callable[[Connection, Sequence[I]], Sequence[T]], item: I, *, swift: bool = False
    ) -> "Future[T]":
        """Let `apply` handle `item` with others of its kind; it returns one result an item, in order."""
        return self._in_thread(apply, item, swift=swift)

    def submit_async(
        self, apply: Callable[[Connection, Sequence[I]], Sequence[T]], item: I, *, swift: bool = False
    ) -> "asyncio.Future[T]":
        """`submit_batch` for the running event loop, which is woken once a group and not once an item."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self.take(Job(apply, item, swift, (loop, future)))
        return future

    @property
    def idle(self) -> bool:
        """True while nothing waits here or is under way."""
        return self._waiting == 0

    def close(self) -> None:
        """Do what was accepted, then stop. Safe to call twice."""
        with self._lock:
            already, self._closed = self._closed, True
            thread = self._thread
            if thread is not None and not already:
                self._queue.put(None)
        if thread is not None:
            thread.join()
        self._pause.set()

    def _in_thread(self, apply: Apply, item: Any, *, swift: bool) -> "Future[Any]":
        future: Future[Any] = Future()
        self.take(Job(apply, item, swift, future))
        return future

    def take(self, job: Job) -> None:
        """Commit `job` with the next group and answer its waiter. Raises StoreError when closed."""
        with self._lock:
            if self._closed:
                raise StoreError("The database is closed.")
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="store-writer", daemon=True)
                self._thread.start()
            self._waiting += 1
            self._queue.put(job)

    def _work(self) -> None:
        open_ = True
        while open_:
            job = self._queue.get()
            jobs: list[Job] = []
            while job is not None:
                jobs.append(job)
                if len(jobs) == GROUP:
                    break
                try:
                    job = self._queue.get_nowait()
                except queue.Empty:
                    break
            open_ = job is not None
            if jobs:
                answers = self._commit(jobs)
                with self._lock:
                    self._waiting -= len(jobs)
                _deliver(answers)

    def _commit(self, jobs: list[Job]) -> list[_Answer]:
        pauses = iter(RETRY_AFTER_S)
        swift = all(job.swift for job in jobs)
        groups = kinds(jobs)
        # Savepoints cost more than the rows: where one fault can only be a batch's, they come with the second try.
        careful = len(jobs) > 1 and any(group[0].apply is _alone for group in groups)
        while True:
            try:
                with self._transaction(swift) as connection:
                    apply = self._apply if careful else _apply_all
                    answers = [answer for group in groups for answer in apply(connection, group)]
            except SQLAlchemyError as error:
                if not careful and not transient(error) and lost(error) is None:
                    careful = True
                    continue
                pause = next(pauses, None) if transient(error) else None
                if pause is None:
                    fault = readable(lost(error) or error)
                    fault.__cause__ = error
                    return [_Answer(job, error=fault) for job in jobs]
                self._pause.wait(pause)
            except Exception as error:
                if not careful:
                    careful = True
                    continue
                log.exception("a group of writes failed")
                return [_Answer(job, error=error) for job in jobs]
            else:
                if swift:
                    self._settler.note()
                return answers

    def _apply(self, connection: Connection, jobs: list[Job]) -> list[_Answer]:
        try:
            with connection.begin_nested():
                values = jobs[0].apply(connection, [job.item for job in jobs])
            return [_Answer(job, value) for job, value in zip(jobs, values, strict=True)]
        except SQLAlchemyError as error:
            if transient(error) or lost(error) is not None:
                raise
            if len(jobs) == 1:
                fault: StoreError | Unavailable = readable(error)
                fault.__cause__ = error
                return [_Answer(jobs[0], error=fault)]
        except Exception as error:
            if len(jobs) == 1:
                return [_Answer(jobs[0], error=error)]
        # One bad item must not take the others with it.
        return [answer for job in jobs for answer in self._apply(connection, [job])]


def _apply_all(connection: Connection, jobs: list[Job]) -> list[_Answer]:
    values = jobs[0].apply(connection, [job.item for job in jobs])
    return [_Answer(job, value) for job, value in zip(jobs, values, strict=True)]


def kinds(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs of one kind together, in the order of their first; works of their own one by one, so that a failure undoes
    one only. A work of its own is never passed by others.
    """
    kinds: list[list[Job]] = []
    for alone, group in groupby(jobs, key=lambda job: job.apply is _alone):
        members = list(group)
        if alone:
            kinds.extend([job] for job in members)
            continue
        by_kind: dict[Apply, list[Job]] = defaultdict(list)
        for job in members:
            by_kind[job.apply].append(job)
        kinds.extend(by_kind.values())
    return kinds


def _deliver(answers: Iterable[_Answer]) -> None:
    """Wake those who wait: threads one by one, each event loop once. Who stopped waiting does not undo a write."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Answer]] = defaultdict(list)
    for answer in answers:
        waiter = answer.job.waiter
        if not isinstance(waiter, Future):
            by_loop[waiter[0]].append(answer)
        elif not waiter.set_running_or_notify_cancel():
            continue
        elif answer.error is not None:
            waiter.set_exception(answer.error)
        else:
            waiter.set_result(answer.value)
    for loop, group in by_loop.items():
        # A loop that was closed has nobody who waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve, group)


def _resolve(answers: list[_Answer]) -> None:
    for answer in answers:
        waiter = answer.job.waiter
        future = waiter if isinstance(waiter, Future) else waiter[1]
        if future.done():
            continue
        if answer.error is not None:
            future.set_exception(answer.error)
        else:
            future.set_result(answer.value)
