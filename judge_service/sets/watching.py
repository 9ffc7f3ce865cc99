"""Drift checks in the background of a service: started, looked at, stopped with it. Owns the tasks of this process."""

import asyncio
import logging
import uuid
from dataclasses import dataclass

from judge_service.domain.drift import DriftRecord
from judge_service.errors import Conflict, JudgeServiceError
from judge_service.runs.tasks import Tasks
from judge_service.sets.drift import Asked, DriftChecks

AT_ONCE = 2
"""Checks under way at once; more are refused."""
KEPT = 256
"""Ended tasks whose outcome is kept in memory; what was stored is in the store anyway."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Task:
    """A check of this process: `record` once it is stored, `error` when it failed. Neither: it is under way."""

    id: str
    asked: Asked
    record: DriftRecord | None = None
    error: JudgeServiceError | None = None


class Watch:
    """The drift checks of one process. What one of a dead process had judged is used when it is asked for again."""

    def __init__(self, checks: DriftChecks) -> None:
        self.checks = checks
        self._tasks: dict[str, Task] = {}
        self._running = Tasks()

    async def start(self, asked: Asked) -> Task:
        """Start a check. Raises what makes it impossible, and Conflict when this judge's or too many are under way."""
        await asyncio.to_thread(self.checks.anchors, asked)
        under_way = [self._tasks[name] for name in self._running]
        if any((task.asked.set, task.asked.judge) == (asked.set, asked.judge) for task in under_way):
            raise Conflict(f"{asked.judge} is being checked on {asked.set} already.")
        if len(under_way) >= AT_ONCE:
            raise Conflict(f"{AT_ONCE} checks are under way. Ask again when one has ended.")
        task = Task(f"task_{uuid.uuid4().hex}", asked)
        self._tasks[task.id] = task
        for old in list(self._tasks)[: -KEPT or None]:
            if old not in self._running:
                del self._tasks[old]
        self._running.begin(task.id, self._work(task), name=f"drift of {asked.judge}")
        return task

    def task(self, task_id: str) -> Task | None:
        """A check that was started here."""
        return self._tasks.get(task_id)

    async def wait(self, task_id: str) -> None:
        """Wait until a check of this process has ended."""
        await self._running.wait(task_id)

    async def aclose(self) -> None:
        """Stop; what was judged is recorded and used when the check is asked for again."""
        await self._running.aclose()

    async def _work(self, task: Task) -> None:
        try:
            task.record = await self.checks.check(task.asked)
        except JudgeServiceError as error:
            task.error = error
        except Exception:
            log.exception("the drift check of %s on %s failed", task.asked.judge, task.asked.set)
            task.error = JudgeServiceError()
