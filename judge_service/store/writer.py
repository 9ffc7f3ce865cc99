"""The one writer: a thread that takes what waits, commits it as one group, and then answers.

Owns order, grouping, repetition after a lost lock or connection. A write is answered only after its commit.
"""

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from judge_service.errors import StoreError, Unavailable
from judge_service.store.faults import readable, transient

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741

GROUP = 256
"""Most writes in one commit. A group is what gathered during the commit before; nothing waits to fill one."""
RETRY_AFTER_S = (0.02, 0.1, 0.5, 1.0, 2.0, 4.0)
"""Pauses before a group is tried again after a lock, a deadlock or a lost connection."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Job:
    apply: Callable[[Connection, Sequence[Any]], Sequence[Any]]
    item: Any
    future: "Future[Any]" = field(default_factory=Future)


@dataclass(slots=True)
class _Answer:
    job: _Job
    value: Any = None
    error: BaseException | None = None


def _alone(connection: Connection, works: Sequence[Callable[[Connection], Any]]) -> list[Any]:
    return [work(connection) for work in works]


class Writer:
    """Serialises writes. `transaction` opens one write transaction that commits on leaving."""

    def __init__(self, transaction: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._transaction = transaction
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._pause = threading.Event()
        self._thread: threading.Thread | None = None

    def submit(self, work: Callable[[Connection], T]) -> "Future[T]":
        """Do `work` alone inside a group. An error it raises undoes this work only and becomes the future's error."""
        return self._put(_Job(_alone, work))

    def submit_batch(self, apply: Callable[[Connection, Sequence[I]], Sequence[T]], item: I) -> "Future[T]":
        """Let `apply` handle `item` with others of its kind; it returns one result an item, in order."""
        return self._put(_Job(apply, item))

    def close(self) -> None:
        """Do what was accepted, then stop. Safe to call twice."""
        with self._lock:
            already, self._closed = self._closed, True
            thread = self._thread
            if thread is not None and not already:
                self._queue.put(None)
        if thread is not None:
            thread.join()

    def _put(self, job: _Job) -> "Future[Any]":
        with self._lock:
            if self._closed:
                raise StoreError("The database is closed.")
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="store-writer", daemon=True)
                self._thread.start()
            self._queue.put(job)
        return job.future

    def _work(self) -> None:
        open_ = True
        while open_:
            job = self._queue.get()
            jobs: list[_Job] = []
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
                self._settle(jobs)

    def _settle(self, jobs: list[_Job]) -> None:
        for answer in self._commit(jobs):
            # A caller that stopped waiting does not undo the write.
            if not answer.job.future.set_running_or_notify_cancel():
                continue
            if answer.error is not None:
                answer.job.future.set_exception(answer.error)
            else:
                answer.job.future.set_result(answer.value)

    def _commit(self, jobs: list[_Job]) -> list[_Answer]:
        pauses = iter(RETRY_AFTER_S)
        while True:
            try:
                with self._transaction() as connection:
                    answers = [answer for group in _kinds(jobs) for answer in self._apply(connection, group)]
            except SQLAlchemyError as error:
                pause = next(pauses, None) if transient(error) else None
                if pause is None:
                    fault = readable(error)
                    fault.__cause__ = error
                    return [_Answer(job, error=fault) for job in jobs]
                self._pause.wait(pause)
            except Exception as error:
                log.exception("a group of writes failed")
                return [_Answer(job, error=error) for job in jobs]
            else:
                return answers

    def _apply(self, connection: Connection, jobs: list[_Job]) -> list[_Answer]:
        try:
            with connection.begin_nested():
                values = jobs[0].apply(connection, [job.item for job in jobs])
            return [_Answer(job, value) for job, value in zip(jobs, values, strict=True)]
        except SQLAlchemyError as error:
            if transient(error):
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


def _kinds(jobs: list[_Job]) -> list[list[_Job]]:
    """Neighbours of one kind together; works of their own one by one, so that a failure undoes one only."""
    kinds: list[list[_Job]] = []
    for apply, group in groupby(jobs, key=lambda job: job.apply):
        members = list(group)
        kinds.extend([[job] for job in members] if apply is _alone else [members])
    return kinds
