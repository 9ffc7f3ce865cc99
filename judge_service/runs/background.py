"""Runs in the background of a service: submitted, watched, cancelled, resumed, and continued after a restart.

Owns the tasks of this process. The state is in the store; nothing here is needed to continue a run elsewhere.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.domain.run import Run, RunStatus
from judge_service.errors import Conflict, JudgeServiceError, NotFound
from judge_service.runs.aggregate import Aggregate, aggregate
from judge_service.runs.fleet import Fleet, why_stopped
from judge_service.runs.local import LocalRunner
from judge_service.runs.progress import Progress
from judge_service.runs.worker import SERVICE, alive
from judge_service.store import Store
from judge_service.store.store import utc_now
from rubrics.model import Rubric

AT_ONCE = 8
"""Runs worked on at once; further ones wait as `queued`."""
LOOK_S = 2.0
"""How often a process of several looks for runs that another one gave back."""

log = logging.getLogger(__name__)


class BackgroundRuns:
    """The runs of one process. `find_rubric` gives the rubric of a reference such as `pairwise@1`.

    With a `fleet` runs are offered to all workers instead of being judged here alone; with `take_chunks` this process
    is one of those workers.
    """

    def __init__(
        self,
        store: Store,
        runner: LocalRunner,
        find_rubric: Callable[[str], Rubric[Any]],
        *,
        at_once: int = AT_ONCE,
        fleet: Fleet | None = None,
        take_chunks: bool = True,
    ) -> None:
        self._store = store
        self._runner = runner
        self._find_rubric = find_rubric
        self._turns = asyncio.Semaphore(at_once)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._progress: dict[str, Progress] = {}
        self._closing = False
        self._fleet = fleet
        self._take_chunks = take_chunks
        self._work: asyncio.Task[None] | None = None

    async def submit(
        self,
        cases: Iterable[Case],
        rubric: Rubric[Any],
        judge: Judge,
        *,
        run_id: str | None = None,
        source: str | None = None,
    ) -> Run:
        """Store a run with all its cases and start it; returns as soon as the cases are stored.

        Raises InvalidInput naming lines or fields; nothing was judged then. The same `run_id` with the same cases is
        the same run, started once.
        """
        run = await self._runner.plan(cases, rubric, judge, run_id=run_id, source=source)
        if run.status is RunStatus.QUEUED:
            await self._go(run, retry_errors=False)
        return run

    async def get(self, run_id: str) -> Run:
        """A run. Raises NotFound."""
        run = await asyncio.to_thread(self._store.runs.get, run_id)
        if run is None:
            raise NotFound(f"There is no run {run_id!r}.")
        return run

    def progress(self, run_id: str) -> Progress | None:
        """How far a run of this process is; None when it does not run here."""
        return self._progress.get(run_id)

    async def aggregate(self, run_id: str) -> Aggregate:
        """The numbers of a run as recorded now. Raises NotFound."""
        run = await self.get(run_id)
        counts = await asyncio.to_thread(self._store.runs.counts, run_id)
        return aggregate(self._find_rubric(run.rubric), counts, run.n_planned, panel=bool(run.judge.panel))

    async def cancel(self, run_id: str) -> Run:
        """Ask for the end of a run. Twice is harmless. Raises NotFound, Conflict when it has ended otherwise."""
        return await self._runner.cancel(run_id)

    async def resume(self, run_id: str, *, retry_errors: bool = True) -> Run:
        """Start an ended run again for what is missing and, with `retry_errors`, failed.

        Raises NotFound, and Conflict while it still runs or when its cases were not all stored.
        """
        run = await self.get(run_id)
        if run.of_drift:
            raise Conflict(f"Run {run_id} is part of a drift check: ask for the check again, and it goes on.")
        if run_id in self._tasks or alive(run, utc_now()):
            raise Conflict(f"Run {run_id} is {run.status}: there is nothing to resume.")
        if not run.planned:
            raise Conflict(f"Not all cases of run {run_id} were stored: start a new run.")
        run = await asyncio.to_thread(self._store.runs.requeue, run_id, instead_of=run.worker)
        await self._go(run, retry_errors=retry_errors)
        return run

    async def _go(self, run: Run, *, retry_errors: bool) -> None:
        if self._fleet is None:
            self._start(run, retry_errors=retry_errors)
        else:
            await self._fleet.offer(run, retry_errors=retry_errors)

    async def resume_interrupted(self, *, given_back_to: str | None = None) -> list[Run]:
        """Continue every run whose process died or stopped, or only those `given_back_to` a name; those going on here.

        A run that was dying while its cases were stored ends as failed; one that was being cancelled, as cancelled.
        With a fleet this process begins to take chunks, and the runs go on wherever there are workers.
        """
        continued: list[Run] = []
        if self._fleet is not None:
            if self._take_chunks and self._work is None:
                self._work = asyncio.create_task(self._fleet.work(), name="worker")
            await self._fleet.keep()
            return continued
        for run in await asyncio.to_thread(self._store.runs.open):
            if run.id in self._tasks or alive(run, utc_now()) or run.of_drift:
                continue
            if given_back_to not in (None, run.worker):
                continue
            if run.status is RunStatus.CANCELLING:
                await asyncio.to_thread(self._store.runs.finish, run.id, RunStatus.CANCELLED)
            elif not run.planned:
                message = "The service stopped while the cases were stored. Start a new run."
                await asyncio.to_thread(self._store.runs.finish, run.id, RunStatus.FAILED, message)
            else:
                self._start(run, retry_errors=False)
                continued.append(run)
        return continued

    async def keep_resuming(self) -> None:
        """Continue what other processes of this service give back, until cancelled: one that ends may be the last to
        start. With a fleet they offer it themselves.
        """
        while self._fleet is None:
            await asyncio.sleep(LOOK_S)
            try:
                await self.resume_interrupted(given_back_to=SERVICE)
            except JudgeServiceError as error:
                log.warning("runs that another process gave back were not looked for: %s", error.message)

    async def wait(self, run_id: str) -> Run:
        """Wait until a run of this process has ended or was given back."""
        task = self._tasks.get(run_id)
        if task is not None:
            await asyncio.shield(task)
        return await self.get(run_id)

    async def aclose(self) -> None:
        """Stop in good order: begun cases are finished and recorded; the runs go on after a restart.

        Cancelling this wait gives begun cases up; what was judged is recorded and the runs are given back all the same.
        """
        self._closing = True
        self._runner.stop()
        tasks = list(self._tasks.values())
        if self._fleet is not None:
            self._fleet.stop()
        if self._work is not None:
            tasks.append(self._work)
        try:
            await asyncio.gather(*(asyncio.shield(task) for task in tasks), return_exceptions=True)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    def _start(self, run: Run, *, retry_errors: bool) -> None:
        if run.id in self._tasks:
            return
        task = asyncio.create_task(self._run(run, retry_errors), name=f"run {run.id}")
        self._tasks[run.id] = task
        task.add_done_callback(lambda _: self._ended(run.id))

    def _ended(self, run_id: str) -> None:
        self._tasks.pop(run_id, None)
        self._progress.pop(run_id, None)

    async def _run(self, run: Run, retry_errors: bool) -> None:
        async with self._turns:
            if self._closing:
                await self._runner.leave(run.id)
                return
            try:
                rubric = self._find_rubric(run.rubric)
                await self._runner.resume(
                    run.id,
                    rubric,
                    on_progress=lambda now: self._seen(run.id, now),
                    retry_errors=retry_errors,
                    explicit=False,
                )
            except Conflict as error:
                # Cancelled while it waited for its turn, or taken by another process.
                log.info("run %s was not started: %s", run.id, error.message)
                await self._give_up_if_stuck(run, error.message)
            except Exception as error:
                log.exception("run %s stopped", run.id)
                await asyncio.to_thread(self._store.runs.finish, run.id, RunStatus.FAILED, why_stopped(error))

    async def _give_up_if_stuck(self, run: Run, message: str) -> None:
        """A queued run that can never start here must not wait for ever."""
        now = await self.get(run.id)
        if now.status is RunStatus.QUEUED and not alive(now, utc_now()):
            await asyncio.to_thread(self._store.runs.finish, run.id, RunStatus.FAILED, message)

    def _seen(self, run_id: str, progress: Progress) -> None:
        self._progress[run_id] = progress
