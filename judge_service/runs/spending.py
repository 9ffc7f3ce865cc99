"""A run's budget in one of many processes that spend from it: kept up with what all of them have recorded.

Owns how often that is read. What a call costs is counted where it is made.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from judge_service.domain.run import Run
from judge_service.errors import JudgeServiceError
from judge_service.judging.budget import Budget
from judge_service.runs.progress import Tally
from judge_service.store import Store

EVERY_S = 1.0
"""Seconds between readings."""
_REST = 10
"""A slow reading is followed by a pause so many times as long: adding up a large run must not fill the day."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Kept:
    budget: Budget
    users: int = 0
    reading: "asyncio.Task[None] | None" = None


class SharedBudgets:
    """The budgets of this process's runs, one a run."""

    def __init__(self, store: Store, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._store = store
        self._sleep = sleep
        self._kept: dict[str, _Kept] = {}

    @asynccontextmanager
    async def of(self, run: Run) -> AsyncIterator[Budget | None]:
        """The run's budget (None: it has none), read before it is given and kept up while it is in use.

        Raises StoreError and Unavailable when the first reading fails; later ones are tried again.
        """
        made = Budget.of(run.judge.limits)
        if made is None:
            yield None
            return
        kept = self._kept.setdefault(run.id, _Kept(made))
        await self._read(run, kept.budget)
        kept.users += 1
        if kept.reading is None:
            kept.reading = asyncio.create_task(self._keep_up(run, kept.budget), name=f"budget of {run.id}")
        try:
            yield kept.budget
        finally:
            kept.users -= 1
            if not kept.users:
                reading, kept.reading = kept.reading, None
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    def forget(self, run_id: str) -> None:
        """The run has ended."""
        self._kept.pop(run_id, None)

    async def _keep_up(self, run: Run, budget: Budget) -> None:
        pause = EVERY_S
        while True:
            await self._sleep(pause)
            began = time.monotonic()
            try:
                await self._read(run, budget)
            except JudgeServiceError as error:
                log.warning("what run %s has spent could not be read: %s", run.id, error.message)
            pause = max(EVERY_S, _REST * (time.monotonic() - began))

    async def _read(self, run: Run, budget: Budget) -> None:
        tally = Tally(run.id, run.n_planned, lambda: 0.0)
        tally.start_from(await asyncio.to_thread(self._store.runs.counts, run.id))
        budget.reach(tally.usage)
