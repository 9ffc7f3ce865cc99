"""Runs whose cases are judged by any number of processes, on any number of machines, through PostgreSQL.

Owns how a run is cut and offered, how a chunk is judged and what ends the run. The queue is the store's; what is left
to do is always planned minus recorded, so a chunk that comes twice costs nothing.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from judge_service.domain.run import Run, RunStatus
from judge_service.errors import Conflict, JudgeServiceError, MissingDependency, StoreError, Unavailable
from judge_service.runs.local import LocalRunner, verdict
from judge_service.runs.progress import Tally
from judge_service.runs.spending import SharedBudgets
from judge_service.runs.worker import FLEET, alive, this_worker
from judge_service.store import Store
from judge_service.store.chunks import Chunk
from judge_service.store.queue import ChunkQueue
from judge_service.store.store import utc_now
from rubrics.model import Rubric

CASES_AT_ONCE = 32
"""Cases that one process judges at once, over all its chunks."""
CHUNKS_AT_ONCE = 4
KEEP_S = 5.0
"""Seconds between looks for runs that nobody works on."""
AGAIN_S = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Pauses before a lost database is tried again; the last one for ever."""

log = logging.getLogger(__name__)


def why_stopped(error: Exception) -> str:
    """What a run says that an error nobody foresaw has ended; the log has the rest."""
    said = error.message if isinstance(error, JudgeServiceError) else type(error).__name__
    return f"The run stopped: {said}"


class Fleet:
    """This process's part in the fleet. `cases_at_once` bounds what it judges at once; judges' limits hold besides."""

    def __init__(
        self,
        store: Store,
        queue: ChunkQueue,
        runner: LocalRunner,
        find_rubric: Callable[[str], Rubric[Any]],
        *,
        cases_at_once: int = CASES_AT_ONCE,
        before_chunk: Callable[[], object] | None = None,
        budgets: SharedBudgets | None = None,
    ) -> None:
        self._store = store
        self._queue = queue
        self._runner = runner
        self._find_rubric = find_rubric
        self._cases_at_once = cases_at_once
        # Shared, so that a chunk that begins or ends leaves its part to the others.
        self._turns = asyncio.Semaphore(cases_at_once)
        self._chunks_at_once = max(2, min(CHUNKS_AT_ONCE, cases_at_once))
        self._before_chunk = before_chunk
        self._budgets = budgets or SharedBudgets(store)
        self._stop = asyncio.Event()

    async def offer(self, run: Run, *, retry_errors: bool = False, again: bool = True) -> None:
        """Offer a planned run to all workers. Without `again` only what is not done of an earlier offer."""
        cut = self._store.chunks.cut
        chunks = await asyncio.to_thread(cut, run.id, run.n_planned, retry_errors=retry_errors, again=again)
        if chunks:
            await self._queue.offer(chunks)
        else:
            await self._settle(run)

    async def work(self) -> None:
        """Judge chunks until `stop`; comes back after a lost database. Raises MissingDependency."""
        failures = 0
        keeper = asyncio.create_task(self._keep_for_ever(), name="keeper of runs")
        try:
            while not self._stop.is_set():
                try:
                    await self._queue.work(self._handle, self._stop, at_once=self._chunks_at_once)
                    failures = 0
                except MissingDependency:
                    raise
                except Exception as error:
                    log.warning("the queue of chunks was lost and is tried again: %s", type(error).__name__)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(AGAIN_S[min(failures, len(AGAIN_S) - 1)]):
                            await self._stop.wait()
                    failures += 1
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)

    def stop(self) -> None:
        """Take no more chunks, let begun cases end, and give the rest of the chunks in hand back."""
        self._stop.set()
        self._runner.stop()

    async def keep(self) -> None:
        """See to runs that nobody works on: offered again, or ended where they were being cancelled.

        Those of drift checks are left to their check, which alone asks past the cache.
        """
        for run in await asyncio.to_thread(self._store.runs.open):
            if run.worker == this_worker() or alive(run, utc_now()) or run.of_drift:
                continue
            if run.status is RunStatus.CANCELLING:
                await asyncio.to_thread(self._store.runs.finish, run.id, RunStatus.CANCELLED)
            elif run.planned:
                await self.offer(run, again=False)
            elif run.worker is not None:
                message = "The service stopped while the cases were stored. Start a new run."
                await asyncio.to_thread(self._store.runs.finish, run.id, RunStatus.FAILED, message)

    async def _keep_for_ever(self) -> None:
        while True:
            try:
                await self.keep()
            except Exception as error:
                log.warning("runs without a worker could not be seen to: %s", type(error).__name__)
            await asyncio.sleep(KEEP_S)

    async def _handle(self, run_id: str, number: int, label: str) -> bool:
        """Judge one chunk. False: it is left for another worker or a later time."""
        try:
            return await self._taken(run_id, number, label)
        except (StoreError, Unavailable) as error:
            log.warning("chunk %d of run %s is given back: %s", number, run_id, error.message)
            return False

    async def _taken(self, run_id: str, number: int, label: str) -> bool:
        def look() -> tuple[Chunk | None, Run | None]:
            return self._store.chunks.get(run_id, number, label), self._store.runs.get(run_id)

        chunk, run = await asyncio.to_thread(look)
        if chunk is None or run is None:
            return True
        try:
            return await self._judge(chunk, run)
        except (StoreError, Unavailable):
            raise
        except Exception as error:
            # Given back it would stop the next worker in the same way, and the run would never end.
            log.exception("run %s stopped in chunk %d", run_id, number)
            return await self._fail(chunk, run, why_stopped(error))

    async def _judge(self, chunk: Chunk, run: Run) -> bool:
        if run.status is RunStatus.CANCELLING or run.status.ended:
            return await self._done(chunk, run)
        if self._before_chunk is not None:
            await asyncio.to_thread(self._before_chunk)
        try:
            rubric = self._find_rubric(run.rubric)
        except LookupError as error:
            return await self._fail(chunk, run, str(error))
        if rubric.content_hash != run.rubric_hash:
            return await self._fail(chunk, run, f"The run was planned for another content of {run.rubric}.")
        if (run.status, run.worker) != (RunStatus.RUNNING, FLEET):
            try:
                await asyncio.to_thread(self._store.runs.start, run.id, FLEET)
            except Conflict as error:
                log.info("chunk %d of run %s: %s", chunk.number, run.id, error.message)
                now = await asyncio.to_thread(self._store.runs.get, run.id)
                return await self._done(chunk, now) if now is None or now.status.ended else False
        async with self._budgets.of(run) as budget:
            end = await self._runner.judge_part(
                run,
                rubric,
                chunk.first,
                chunk.last,
                worker=FLEET,
                retry=chunk.retry,
                concurrency=min(self._cases_at_once, chunk.last - chunk.first + 1),
                turns=self._turns,
                budget=budget,
            )
        if end.message is not None:
            return await self._fail(chunk, run, end.message)
        if end.halted:
            now = await asyncio.to_thread(self._store.runs.get, run.id)
            if now is not None and not now.status.ended and now.status is not RunStatus.CANCELLING:
                return False
        return await self._done(chunk, run)

    async def _done(self, chunk: Chunk, run: Run | None) -> bool:
        left = await asyncio.to_thread(self._store.chunks.done, chunk)
        if left == 0 and run is not None:
            await self._settle(run)
        return True

    async def _fail(self, chunk: Chunk, run: Run, message: str) -> bool:
        await asyncio.to_thread(self._store.runs.finish, run.id, RunStatus.FAILED, message)
        self._budgets.forget(run.id)
        await asyncio.to_thread(self._store.chunks.done, chunk)
        return True

    async def _settle(self, run: Run) -> None:
        """All chunks are done: the run ends by what is recorded, or goes on with what a dying database lost."""
        self._budgets.forget(run.id)
        now = await asyncio.to_thread(self._store.runs.get, run.id)
        if now is None or now.status.ended:
            return
        tally = Tally(run.id, run.n_planned, lambda: 0.0)
        tally.start_from(await asyncio.to_thread(self._store.runs.counts, run.id))
        if tally.n_done < run.n_planned and now.status is not RunStatus.CANCELLING:
            await self.offer(now)
            return
        status, message = verdict(tally.snapshot())
        await asyncio.to_thread(self._store.runs.finish, run.id, status, message)
