"""Drift checks in the background of a service: started, looked at from any process, stopped with their own.

Owns the tasks of this process. How a check stands is in the store, and so is that a judge is checked on a set once at
a time.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime

from judge_service.domain.drift import DriftTask, TaskState
from judge_service.errors import Conflict, JudgeServiceError
from judge_service.runs.local import BEAT_S
from judge_service.runs.tasks import Tasks
from judge_service.runs.worker import living, this_worker
from judge_service.sets.drift import Asked, DriftChecks
from judge_service.store.store import utc_now

AT_ONCE = 2
"""Checks under way at once in one process; more are refused."""
KEPT = 256
"""Ended tasks whose outcome is kept; what was stored stays in the store anyway."""
ENDED = "The process that made this check ended before the check did. Ask for it again: what was judged is used."

log = logging.getLogger(__name__)


class Watch:
    """The drift checks of one process, and how those of all processes stand.

    What one of a dead process had judged is used when it is asked for again.
    """

    def __init__(self, checks: DriftChecks, *, now: Callable[[], datetime] = utc_now) -> None:
        self.checks = checks
        self._known = checks.store.drift_tasks
        self._now = now
        self._running = Tasks()
        # Ended here, and the database could not be told: it is at the next start, so that none blocks further checks.
        self._untold: dict[str, DriftTask] = {}
        self._turn = asyncio.Lock()

    async def start(self, asked: Asked) -> DriftTask:
        """Start a check. Raises what makes it impossible, and Conflict when this judge's or too many are under way."""
        anchors = await asyncio.to_thread(self.checks.anchors, asked)
        # A caller that leaves must not leave a check behind that is claimed and never made.
        return await asyncio.shield(self._start(replace(asked, set=anchors.version.id)))

    async def _start(self, asked: Asked) -> DriftTask:
        async with self._turn:
            for untold in tuple(self._untold.values()):
                await self._end(untold)
            held = await asyncio.to_thread(self._known.running, asked.set, asked.judge)
            dead = None if held is None else self._seen(held)
            if dead is not None and dead.state is TaskState.RUNNING:
                raise Conflict(f"{asked.judge} is being checked on {asked.set} already.")
            if len(self._running) >= AT_ONCE:
                raise Conflict(f"{AT_ONCE} checks are under way. Ask again when one has ended.")
            now = self._now()
            task = DriftTask(
                id=f"task_{uuid.uuid4().hex}",
                set_id=asked.set,
                judge=asked.judge,
                asked=asdict(asked),
                worker=this_worker(),
                heartbeat_at=now,
                created_at=now,
            )
            await asyncio.to_thread(self._known.claim, task, keep=KEPT, instead_of=dead)
            self._running.begin(task.id, self._work(task, asked), name=f"drift of {asked.judge}")
            return task

    async def task(self, task_id: str) -> DriftTask | None:
        """A check of any process as it stands now; one whose process died has failed."""
        task = await asyncio.to_thread(self._known.get, task_id)
        return None if task is None else self._seen(task)

    async def wait(self, task_id: str) -> None:
        """Wait until a check of this process has ended."""
        await self._running.wait(task_id)

    async def aclose(self) -> None:
        """Stop; what was judged is recorded and used when the check is asked for again."""
        await self._running.aclose()

    def _seen(self, task: DriftTask) -> DriftTask:
        now = self._now()
        if task.state is not TaskState.RUNNING or living(task.worker, task.heartbeat_at, now):
            return task
        return _failed(task, ENDED, now)

    async def _work(self, task: DriftTask, asked: Asked) -> None:
        beat = asyncio.create_task(self._beat(task.id))
        try:
            record = await self.checks.check(asked)
            end = {"state": TaskState.DONE, "record_id": record.id, "ended_at": self._now()}
            ended = task.model_copy(update=end)
        except asyncio.CancelledError:
            await self._end(_failed(task, ENDED, self._now()))
            raise
        except JudgeServiceError as error:
            ended = _failed(task, error.message, self._now())
        except Exception:
            log.exception("the drift check of %s on %s failed", asked.judge, asked.set)
            ended = _failed(task, JudgeServiceError().message, self._now())
        finally:
            beat.cancel()
        await self._end(ended)

    async def _beat(self, task_id: str) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            try:
                await asyncio.to_thread(self._known.beat, task_id, self._now())
            except JudgeServiceError as error:
                log.warning("no sign of life could be stored for the drift check %s: %s", task_id, error.message)

    async def _end(self, ended: DriftTask) -> None:
        def work() -> None:
            try:
                told = self._known.end(ended)
            except JudgeServiceError as error:
                self._untold[ended.id] = ended
                log.error("how the drift check %s ended could not be stored: %s", ended.id, error.message)
            else:
                self._untold.pop(ended.id, None)
                if not told:
                    log.warning("the drift check %s ended after its process was taken for dead", ended.id)

        # A stopping service waits for the writes that were begun.
        await asyncio.shield(asyncio.to_thread(work))


def _failed(task: DriftTask, message: str, at: datetime) -> DriftTask:
    return task.model_copy(update={"state": TaskState.FAILED, "message": message, "ended_at": at})
