"""Reads by key for async callers, gathered: while one query runs, further keys wait and go together in the next.

A thread and a query a key cost more than the judge's own work in a fast run. Knows no table.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from judge_service.errors import Unavailable

T = TypeVar("T")

MOST_KEYS = 500
"""Most keys of one query: below every database's limit of parameters."""

RETRY_AFTER_S = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Pauses before a database that cannot be reached is asked again."""


class Lookups(Generic[T]):
    """`fetch` gets distinct keys and returns what it finds; it runs in a thread.

    `lacks` may say at once, without blocking, that a key is not there: most keys of new work are not, and a thread
    costs more than the question. `ask` is `fetch` without a thread, where that can be had; None sends it to one.
    """

    def __init__(
        self,
        fetch: Callable[[Sequence[str]], Mapping[str, T]],
        lacks: Callable[[str], bool] = lambda _: False,
        ask: "Callable[[Sequence[str]], Awaitable[Mapping[str, T] | None]] | None" = None,
    ) -> None:
        self._fetch = fetch
        self._lacks = lacks
        self._ask = ask
        self._waiting: dict[str, asyncio.Future[T | None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    async def find(self, key: str) -> T | None:
        """What is stored under `key`, or None. Raises what `fetch` raises."""
        if self._lacks(key):
            return None
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # A store may outlive an event loop; what waited in the old one is gone with it.
            self._loop, self._task, self._waiting = loop, None, {}
        future = self._waiting.get(key)
        if future is None:
            future = self._waiting[key] = loop.create_future()
        if self._task is None:
            self._task = loop.create_task(self._work())
        return await asyncio.shield(future)

    async def _patiently(self, keys: Sequence[str]) -> Mapping[str, T]:
        if self._ask is not None and (found := await self._ask(keys)) is not None:
            return found
        for pause in RETRY_AFTER_S:
            try:
                return await asyncio.to_thread(self._fetch, keys)
            except Unavailable:
                # A database that restarts costs a run some seconds and nothing else.
                await asyncio.sleep(pause)
        return await asyncio.to_thread(self._fetch, keys)

    async def _work(self) -> None:
        try:
            while self._waiting:
                keys = list(self._waiting)[:MOST_KEYS]
                group = {key: self._waiting.pop(key) for key in keys}
                try:
                    found = await self._patiently(keys)
                except BaseException as error:
                    _refuse(group.values(), error)
                    if not isinstance(error, Exception):
                        raise
                else:
                    for key, future in group.items():
                        if not future.done():
                            future.set_result(found.get(key))
        finally:
            self._task = None


def _refuse(futures: "Iterable[asyncio.Future[T | None]]", error: BaseException) -> None:
    for future in futures:
        if future.done():
            continue
        if isinstance(error, Exception):
            future.set_exception(error)
        else:
            future.cancel()
