"""Brings commits that did not wait for the disk to the disk: at once where somebody waits for that, else soon.

Owns one thread and when it works. Knows no table and no SQL.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from judge_service.errors import StoreError

SETTLE_S = 0.5
"""How long swift writes may stay in the operating system's memory before the disk has them."""
QUICK_S = 0.000_5
"""A disk that took the last writes within this is waited for on the loop's thread: two threads' turns cost more."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Promise:
    """An answer that is given once the disk has it."""

    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"
    value: Any


class Settler:
    """`settle` brings everything committed so far to the disk; it may block, and raises OSError where it cannot.
    `tidy` is done after it, now and then, on the settler's own thread.
    """

    def __init__(self, settle: Callable[[], None], tidy: Callable[[], None]) -> None:
        self._settle = settle
        self._tidy = tidy
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._noted = False
        self._promises: list[Promise] = []
        self._closing = False
        self._took_s = QUICK_S

    def note(self) -> None:
        """Something was committed: bring it to the disk within `SETTLE_S`."""
        if self._noted:
            return
        with self._wake:
            self._noted = True
            self._begin()

    def answer(self, promises: Sequence[Promise]) -> None:
        """Bring what was committed to the disk now, then give these answers; StoreError where the disk refuses.

        To be called on the loop that the answers belong to.
        """
        if self._took_s < QUICK_S:
            _answer(promises, self._try())
            self.note()
            return
        with self._wake:
            self._promises.extend(promises)
            self._begin()

    def close(self) -> None:
        """Settle what is left and stop. Safe to call twice."""
        with self._wake:
            self._closing = True
            self._wake.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="store-settler", daemon=True)
            self._thread.start()
        self._wake.notify()

    def _work(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._noted or self._promises or self._closing)
                self._wake.wait_for(lambda: self._promises or self._closing, timeout=SETTLE_S)
                closing = self._closing
                self._noted = False
                promises, self._promises = self._promises, []
            _keep(promises, self._try())
            self._tidy()
            if closing:
                return

    def _try(self) -> OSError | None:
        started = time.perf_counter()
        try:
            self._settle()
        except OSError as error:
            log.warning("recorded judgments may not be on the disk yet: %s", error.strerror)
            self._took_s = QUICK_S
            return error
        self._took_s = time.perf_counter() - started
        return None


def _keep(promises: Sequence[Promise], fault: OSError | None) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[Promise]] = defaultdict(list)
    for promise in promises:
        by_loop[promise.loop].append(promise)
    for loop, group in by_loop.items():
        # A loop that was closed has nobody who waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_answer, group, fault)


def _answer(promises: Sequence[Promise], fault: OSError | None) -> None:
    for promise in promises:
        if promise.future.done():
            continue
        if fault is None:
            promise.future.set_result(promise.value)
        else:
            error = StoreError(f"The disk did not take what was written: {fault.strerror or 'unknown fault'}.")
            error.__cause__ = fault
            promise.future.set_exception(error)
