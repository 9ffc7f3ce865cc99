"""Finished reports by what they are made from, and the making of new ones: one at a time, each once.

Knows nothing of what a report is. Whoever asks waits a little and comes again; the making goes on meanwhile.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")
AT_MOST = 8
"""Reports kept; the one that nobody asked for longest goes first."""


class Shelf(Generic[T]):
    """Things that take long to make, kept under keys that change when what they are made from changes."""

    def __init__(self, at_most: int = AT_MOST) -> None:
        self._at_most = at_most
        self._made: OrderedDict[Hashable, asyncio.Task[T]] = OrderedDict()
        self._turn = asyncio.Semaphore(1)

    async def get(self, key: Hashable, make: Callable[[], T], *, patience_s: float) -> T | None:
        """What `make` gives for `key`, None while it is still being made after so many seconds.

        `make` runs on a thread and once a key. What it raises is raised to everyone who waits, and forgotten: the next
        one who asks makes it again.
        """
        task = self._made.get(key)
        if task is None:
            task = asyncio.create_task(self._turned(make))
            self._made[key] = task
            while len(self._made) > self._at_most:
                self._drop_oldest()
        self._made.move_to_end(key)
        done, _ = await asyncio.wait({task}, timeout=patience_s)
        if not done:
            return None
        if task.exception() is not None:
            self._made.pop(key, None)
        return task.result()

    async def _turned(self, make: Callable[[], T]) -> T:
        async with self._turn:
            return await asyncio.to_thread(make)

    def _drop_oldest(self) -> None:
        for key, task in self._made.items():
            if task.done():
                del self._made[key]
                return
        _, task = self._made.popitem(last=False)
        task.cancel()
