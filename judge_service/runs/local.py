"""Runs all cases of a run in this process: planned first, then judged with bounded concurrency, recorded as they come.

The judgment table is the checkpoint: killed at any moment, a run goes on with what is planned and not recorded.
Owns the end state of every run it starts. Knows no HTTP and no terminal.
"""

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.domain.judgment import Judgment
from judge_service.domain.outcome import Outcome
from judge_service.domain.run import PlannedCase, Run, RunStatus
from judge_service.errors import Conflict, InvalidInput, JudgeServiceError, NotFound, StoreError, Unavailable
from judge_service.judging.asking import FatalJudgeError
from judge_service.judging.budget import Budget, CallsEnded, EndableBudget
from judge_service.runs.execute import CaseJudging
from judge_service.runs.progress import Progress, Tally
from judge_service.runs.worker import alive, this_worker
from judge_service.store import Store
from judge_service.store.store import utc_now
from rubrics.model import Rubric

PAGE = 256
"""Cases planned or read at once. Memory depends on this and the concurrency, not on the number of cases."""
BEAT_S = 1.0
"""Seconds between signs of life, which is also how soon a cancellation by another process is seen."""

PATIENCE_S = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Pauses before a database that cannot be reached is asked again."""

_MAKE_UPS = 3

log = logging.getLogger(__name__)
OnProgress = Callable[[Progress], None]


@dataclass(slots=True)
class _Session:
    """One start of a run, or of a part of it, in this process. `cases` holds what was read ahead.

    `first` and `last` (None: the end) are the positions to judge; `worker` is the name under which signs of life
    are given.
    """

    run: Run
    rubric: Rubric[Any]
    tally: Tally
    concurrency: int
    retry_errors: bool
    on_progress: OnProgress | None
    cases: "asyncio.Queue[PlannedCase | None]"
    slots: asyncio.Semaphore
    budget: Budget | None
    worker: str
    first: int = 0
    last: int | None = None
    retry: Sequence[str] = ()
    turns: asyncio.Semaphore | None = None
    halted: asyncio.Event = field(default_factory=asyncio.Event)
    calls: EndableBudget = field(init=False)
    stopping: bool = False
    message: str | None = None
    fault: BaseException | None = None
    records: "set[asyncio.Future[Judgment]]" = field(default_factory=set)

    def __post_init__(self) -> None:
        """Give this start its own end."""
        self.calls = EndableBudget(inner=self.budget)

    def cancel(self) -> None:
        """Begin no case and make no further call; calls in flight end."""
        self.calls.ended = True
        self.halted.set()

    def fail(self, message: str, fault: BaseException | None = None) -> None:
        """Stop with the first message; later ones say the same."""
        if self.message is None:
            self.message, self.fault = message, fault
        self.halted.set()


@dataclass(frozen=True, slots=True)
class PartEnd:
    """How a part of a run ended: `message` says why the whole run must stop; `halted`: before all was judged."""

    message: str | None
    halted: bool


class LocalRunner:
    """Plans, starts, cancels and resumes runs in this process.

    What a stopping process gives back is for the processes named `gives_back_to`, if that is given. `now`, `monotonic`
    (seconds) and `sleep` are for progress and signs of life only.
    """

    def __init__(
        self,
        store: Store,
        judging: CaseJudging,
        *,
        gives_back_to: str | None = None,
        now: Callable[[], datetime] = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._gives_back_to = gives_back_to
        self._judging = judging
        self._now = now
        self._monotonic = monotonic
        self._sleep = sleep
        self._worker = this_worker()
        self._sessions: dict[str, _Session] = {}
        self._parts: list[_Session] = []
        self._stopping = False

    async def run(
        self,
        cases: Iterable[Case],
        rubric: Rubric[Any],
        judge: Judge,
        *,
        run_id: str | None = None,
        on_progress: OnProgress | None = None,
        source: str | None = None,
        retry_errors: bool = False,
        concurrency: int | None = None,
    ) -> Run:
        """Plan all cases, judge what has no judgment yet, and return the run in its end state.

        With the id of an earlier run that run goes on; its cases must be the same. Work recorded by anyone is not
        asked again, except judge errors of other runs, and with `retry_errors` this run's own. Raises InvalidInput
        for cases that cannot be judged (nothing was asked then) and Conflict when the cases are not the run's own or
        another process works on it. A refused key ends the run as failed, with one message.
        """
        run = await self.plan(cases, rubric, judge, run_id=run_id, source=source)
        return await self.resume(
            run.id, rubric, on_progress=on_progress, retry_errors=retry_errors, concurrency=concurrency
        )

    async def plan(
        self,
        cases: Iterable[Case],
        rubric: Rubric[Any],
        judge: Judge,
        *,
        run_id: str | None = None,
        source: str | None = None,
    ) -> Run:
        """Store a run with all its cases, judging none. Planning the same again is a no-op.

        Raises InvalidInput (a new run ends as failed, saying why) and Conflict when cases, rubric or judge differ
        from what the run holds.
        """
        fresh = Run(
            id=run_id or f"run_{uuid.uuid4().hex}",
            rubric=rubric.id,
            rubric_hash=rubric.content_hash,
            judge=judge,
            source=source,
            created_at=self._now(),
            worker=self._worker,
            heartbeat_at=self._now(),
        )
        run = await asyncio.to_thread(self._store.runs.create, fresh)
        if (run.rubric_hash, run.judge.content_hash) != (rubric.content_hash, judge.content_hash):
            raise Conflict(f"Run {run.id} was planned for {run.rubric} and another rubric version or judge.")
        try:
            return await self._plan(run, iter(cases), rubric, judge)
        except BaseException as error:
            if not run.planned:
                said = error.message if isinstance(error, JudgeServiceError) else "Planning was interrupted."
                with contextlib.suppress(StoreError):
                    await asyncio.shield(asyncio.to_thread(self._store.runs.finish, run.id, RunStatus.FAILED, said))
            raise

    async def _plan(self, run: Run, cases: Iterator[Case], rubric: Rubric[Any], judge: Judge) -> Run:
        planned = 0
        while batch := await asyncio.to_thread(self._batch, cases, planned, rubric, judge):
            await asyncio.to_thread(self._store.runs.plan, run.id, batch)
            planned += len(batch)
        return await asyncio.to_thread(self._store.runs.seal, run.id, planned)

    def _batch(self, cases: Iterator[Case], start: int, rubric: Rubric[Any], judge: Judge) -> Sequence[PlannedCase]:
        return [
            PlannedCase(position=position, identity=self._judging.identity(case, rubric, judge), case=case)
            for position, case in enumerate(islice(cases, PAGE), start=start)
        ]

    async def resume(
        self,
        run_id: str,
        rubric: Rubric[Any],
        *,
        on_progress: OnProgress | None = None,
        retry_errors: bool = True,
        concurrency: int | None = None,
        explicit: bool = True,
    ) -> Run:
        """Go on with a planned run: exactly the missing cases are judged, and with `retry_errors` the failed ones.

        Returns the run in its end state. Only an `explicit` call revives a run that has ended. Raises NotFound, and
        Conflict when planning was not complete, the rubric changed or another process works on the run.
        """
        run = await asyncio.to_thread(self._store.runs.get, run_id)
        if run is None:
            raise NotFound(f"There is no run {run_id!r}.")
        if not run.planned:
            raise Conflict(f"Not all cases of run {run_id} were stored: give them again.")
        if run.rubric_hash != rubric.content_hash:
            raise Conflict(f"Run {run_id} was planned for another content of {run.rubric}: start a new run.")
        if run_id in self._sessions or alive(run, self._now()):
            raise Conflict(f"Run {run_id} is being worked on already.")
        if run.status is RunStatus.CANCELLING:
            # Its process died before it could say so.
            return await asyncio.to_thread(self._store.runs.finish, run_id, RunStatus.CANCELLED)
        size = concurrency or run.judge.limits.concurrency
        session = _Session(
            run=run,
            rubric=rubric,
            tally=Tally(run_id, run.n_planned, self._monotonic),
            concurrency=size,
            retry_errors=retry_errors,
            on_progress=on_progress,
            cases=asyncio.Queue(maxsize=size),
            # A slow commit must not idle the judge; a stuck one must not pile up judgments.
            slots=asyncio.Semaphore(2 * size + 64),
            budget=Budget.of(run.judge.limits),
            worker=self._worker,
        )
        self._sessions[run_id] = session
        try:
            # The process that worked on it may have been killed since this one opened the database.
            await asyncio.to_thread(self._store.cache.adopt)
            start = self._store.runs.start
            await asyncio.to_thread(start, run_id, self._worker, instead_of=run.worker, resume=explicit)
            return await self._work(session)
        finally:
            del self._sessions[run_id]

    async def cancel(self, run_id: str) -> Run:
        """Ask for the end of a run: no new call starts. Twice is harmless. Raises NotFound, Conflict when ended."""
        run = await asyncio.to_thread(self._store.runs.cancel, run_id)
        for session in (*self._sessions.values(), *self._parts):
            if session.run.id == run_id:
                session.cancel()
        return run

    async def leave(self, run_id: str) -> None:
        """Give back a run that was not started here."""
        await asyncio.to_thread(self._store.runs.leave, run_id, self._gives_back_to)

    def stop(self) -> None:
        """Let runs end in good order: begun cases are finished and recorded, the runs go back to `queued`.

        What is started after that begins no case.
        """
        self._stopping = True
        for session in (*self._sessions.values(), *self._parts):
            session.stopping = True
            session.halted.set()

    async def judge_part(
        self,
        run: Run,
        rubric: Rubric[Any],
        first: int,
        last: int,
        *,
        worker: str,
        retry: Sequence[str],
        concurrency: int,
        turns: asyncio.Semaphore | None = None,
        budget: Budget | None,
    ) -> "PartEnd":
        """Judge what is missing between two positions, both included, and leave the run's state alone.

        At most `concurrency` cases are judged at once, each in one of the `turns` that several parts share. The failed
        judgments with the ids `retry` are asked again, each once, however often the part is begun. For workers that
        share a run. Raises StoreError and Unavailable; what was judged until then is recorded.
        """
        session = _Session(
            run=run,
            rubric=rubric,
            tally=Tally(run.id, last - first + 1, self._monotonic),
            concurrency=concurrency,
            retry_errors=False,
            retry=retry,
            on_progress=None,
            cases=asyncio.Queue(maxsize=concurrency),
            slots=asyncio.Semaphore(2 * concurrency + 64),
            turns=turns,
            budget=budget,
            worker=worker,
            first=first,
            last=last,
        )
        self._parts.append(session)
        try:
            await self._go(session)
        finally:
            self._parts.remove(session)
        if isinstance(session.fault, StoreError | Unavailable):
            raise session.fault
        return PartEnd(session.message, session.halted.is_set())

    async def _work(self, session: _Session) -> Run:
        run_id = session.run.id
        counts = await asyncio.to_thread(self._store.runs.counts, run_id, settled_for=session.retry_errors)
        session.tally.start_from(counts)
        if session.budget is not None:
            # What the run's stored judgments used, before this start too, counts.
            session.budget.spend(session.tally.usage)
        self._report(session)
        try:
            await self._go(session)
        except BaseException:
            # Cancelled from outside: what was judged is recorded, the run can go on later.
            await asyncio.shield(self._give_back(run_id))
            raise
        return await self._end(session)

    async def _give_back(self, run_id: str) -> Run:
        return await asyncio.to_thread(self._store.runs.release, run_id, to=self._gives_back_to)

    async def _go(self, session: _Session) -> None:
        """Judge and record until nothing is left or the session is halted."""
        if self._stopping:
            session.stopping = True
            session.halted.set()
        feeder = asyncio.create_task(self._feed(session))
        workers = [asyncio.create_task(self._judge_cases(session)) for _ in range(session.concurrency)]
        beat = asyncio.create_task(self._beat(session))
        try:
            await self._until_done(session, feeder, workers)
            await _settle(session.records)
        except BaseException:
            for task in (feeder, *workers):
                task.cancel()
            await asyncio.shield(_settle(session.records))
            raise
        finally:
            beat.cancel()
            await asyncio.gather(feeder, beat, *workers, return_exceptions=True)

    async def _until_done(
        self, session: _Session, feeder: "asyncio.Task[None]", workers: "list[asyncio.Task[None]]"
    ) -> None:
        failed = asyncio.create_task(session.halted.wait())
        try:
            pending: set[asyncio.Task[Any]] = {feeder, *workers}
            while pending:
                done, pending = await asyncio.wait({failed, *pending}, return_when=asyncio.FIRST_COMPLETED)
                pending.discard(failed)
                if failed in done:
                    feeder.cancel()
                    if session.message is not None:
                        # Nothing that still flies can succeed, or be kept.
                        for worker in workers:
                            worker.cancel()
                    await asyncio.gather(feeder, *_drained(session, workers), return_exceptions=True)
                    return
        finally:
            failed.cancel()

    async def _feed(self, session: _Session) -> None:
        coming = asyncio.create_task(self._pending(session, session.first - 1))
        try:
            while page := await coming:
                # Read while this page is judged, so that no slot waits for it.
                coming = asyncio.create_task(self._pending(session, page[-1].position))
                for planned in page:
                    await session.cases.put(planned)
        except JudgeServiceError as error:
            session.fail(error.message, error)
            return
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
        for _ in range(session.concurrency):
            await session.cases.put(None)

    async def _pending(self, session: _Session, after: int) -> Sequence[PlannedCase]:
        def page() -> Sequence[PlannedCase]:
            before = None if session.last is None else session.last + 1
            again, some = session.retry_errors, session.retry
            pending = self._store.runs.pending
            return pending(session.run.id, after=after, before=before, limit=PAGE, retry_errors=again, retry=some)

        for pause in PATIENCE_S:
            try:
                return await asyncio.to_thread(page)
            except Unavailable:
                await self._sleep(pause)
        return await asyncio.to_thread(page)

    async def _judge_cases(self, session: _Session) -> None:
        while (planned := await session.cases.get()) is not None and not session.halted.is_set():
            case = planned.case
            try:
                async with session.turns or contextlib.nullcontext():
                    if session.halted.is_set():
                        return
                    judgment = await self._judging.judge(case, session.rubric, session.run.judge, budget=session.calls)
            except CallsEnded:
                return
            except FatalJudgeError as error:
                session.fail(str(error) or "The provider refused the key (401 or 403). No further call was made.")
                return
            except InvalidInput as error:
                session.fail(f"Case {case.id!r} cannot be judged: {error.message}")
                return
            except (StoreError, Unavailable) as error:
                session.fail(error.message, error)
                return
            except JudgeServiceError as error:
                session.fail(error.message)
                return
            except Exception as error:
                log.exception("judging case %r failed", case.id)
                session.fail(f"An internal error stopped the run: {type(error).__name__}.", error)
                return
            if judgment.identity != planned.identity:
                session.fail(f"The rubric or a judge of run {session.run.id} changed since it was planned: start anew.")
                return
            await session.slots.acquire()
            self._record(session, judgment)

    def _record(self, session: _Session, judgment: Judgment) -> None:
        future = self._store.judgments.submit_swiftly(judgment, session.run.id)
        session.records.add(future)
        future.add_done_callback(lambda done: self._recorded(session, done))

    def _recorded(self, session: _Session, future: "asyncio.Future[Judgment]") -> None:
        session.records.discard(future)
        session.slots.release()
        if future.cancelled():
            return
        error = future.exception()
        if error is not None:
            session.fail(error.message if isinstance(error, JudgeServiceError) else "A judgment was not stored.", error)
            return
        session.tally.add(future.result())
        self._report(session)

    def _report(self, session: _Session) -> None:
        if session.on_progress is None:
            return
        try:
            session.on_progress(session.tally.snapshot())
        except Exception as error:
            log.exception("the progress callback failed")
            session.fail("An internal error stopped the run: its progress could not be shown.", error)

    async def _beat(self, session: _Session) -> None:
        while True:
            await self._sleep(BEAT_S)
            try:
                run = await asyncio.to_thread(self._store.runs.beat, session.run.id, session.worker)
            except StoreError as error:
                log.warning("no sign of life could be stored for run %s: %s", session.run.id, error.message)
                continue
            except JudgeServiceError as error:
                log.warning("run %s: %s", session.run.id, error.message)
                continue
            if run.status is RunStatus.CANCELLING or run.status.ended:
                session.cancel()

    async def _end(self, session: _Session) -> Run:
        runs, run_id = self._store.runs, session.run.id
        if session.message is None and not session.halted.is_set():
            await self._make_up(session)
        if session.message is not None:
            run = await asyncio.to_thread(runs.finish, run_id, RunStatus.FAILED, session.message)
            if session.fault is not None:
                raise session.fault
            return run
        if session.stopping and session.tally.n_done < session.tally.n_total:
            return await self._give_back(run_id)
        status, message = verdict(session.tally.snapshot())
        return await asyncio.to_thread(runs.finish, run_id, status, message)

    async def _make_up(self, session: _Session) -> None:
        """Judge again what was recorded and then lost: a database server may forget its last moment when it dies."""
        session.retry_errors = False
        for _ in range(_MAKE_UPS):
            counts = await asyncio.to_thread(self._store.runs.counts, session.run.id)
            if sum(count.n for count in counts) >= session.tally.n_total or session.halted.is_set():
                return
            session.tally = Tally(session.run.id, session.tally.n_total, self._monotonic)
            session.tally.start_from(counts)
            await self._go(session)


def verdict(progress: Progress) -> tuple[RunStatus, str | None]:
    """The end state that these counts deserve, with a reason where it is `failed`.

    A run without a scored case has not succeeded, whatever the reason.
    """
    left = progress.n_total - progress.n_done
    if progress.n_total == 0:
        return RunStatus.FAILED, "The run has no cases."
    if left:
        return RunStatus.FAILED, f"{left} of {progress.n_total} cases have no outcome."
    if progress.n_scored == 0:
        counts = ", ".join(f"{name} {count}" for name, count in sorted(progress.outcomes.items()) if count)
        return RunStatus.FAILED, f"No case was scored ({counts})."
    if progress.outcomes.get(Outcome.JUDGE_ERROR.value, 0):
        return RunStatus.FINISHED_WITH_ERRORS, None
    return RunStatus.FINISHED, None


def _drained(session: _Session, workers: "list[asyncio.Task[None]]") -> "list[asyncio.Task[None]]":
    """Workers after what was read ahead is thrown away, so that none of them waits for ever."""
    while not session.cases.empty():
        session.cases.get_nowait()
    for _ in workers:
        if session.cases.full():
            break
        session.cases.put_nowait(None)
    return workers


async def _settle(records: "set[asyncio.Future[Judgment]]") -> None:
    while records:
        # Not `gather`: from Python 3.12 on it returns at once where all are done, and the loop never takes them out.
        await asyncio.wait(records)
