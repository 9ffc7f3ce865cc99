"""Long work of this process by id: begun, waited for, stopped with the service. Owns no state of what is worked on."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any


class Tasks:
    """Work under way. What has ended is forgotten; its owner keeps what it gave."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, task_id: str) -> bool:
        """True while the work is under way."""
        return task_id in self._running

    def __iter__(self) -> Iterator[str]:
        """Ids of all work under way, in the order in which it was begun."""
        return iter(tuple(self._running))

    def __len__(self) -> int:
        """How much is under way."""
        return len(self._running)

    def begin(self, task_id: str, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Begin work under an id that is not in use. `name` is what debuggers show."""
        task = asyncio.create_task(work, name=name)
        self._running[task_id] = task
        task.add_done_callback(lambda _: self._running.pop(task_id, None))

    async def wait(self, task_id: str) -> None:
        """Wait until the work has ended; at once where none is under way."""
        task = self._running.get(task_id)
        if task is not None:
            await asyncio.shield(task)

    async def aclose(self) -> None:
        """Stop all work."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
