"""Executes one case: what is recorded already is returned, anything else is judged once and recorded once.

Owns that simultaneous requests for the same work in one process share one judgment. Knows no run and no HTTP.
"""

import asyncio
from typing import Any, Protocol

from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.domain.judgment import Judgment
from judge_service.domain.outcome import Outcome
from judge_service.judging.budget import Budget
from judge_service.store import Store
from rubrics.model import Rubric


class CaseJudging(Protocol):
    """What is needed of the judging core: see `judge_service.judging.judging.Judging`."""

    def identity(self, case: Case, rubric: Rubric[Any], judge: Judge) -> str:
        """Name the work. Raises InvalidInput for a case that the rubric refuses."""
        ...

    async def judge(
        self, case: Case, rubric: Rubric[Any], judge: Judge, *, fresh: bool = False, budget: Budget | None = None
    ) -> Judgment:
        """Judge one case; a failure of the judge is an outcome. Raises FatalJudgeError for a refused key."""
        ...


class Executor:
    """From a case to its recorded judgment."""

    def __init__(self, store: Store, judging: CaseJudging) -> None:
        self._store = store
        self._judging = judging
        self._flying: dict[tuple[str, bool], asyncio.Task[Judgment]] = {}

    async def execute(
        self, case: Case, rubric: Rubric[Any], judge: Judge, *, run_id: str | None = None, fresh: bool = False
    ) -> Judgment:
        """The current judgment of this work; judged now if there is none or only a judge error.

        With `fresh` it is judged in any case, past the cache too, and the result becomes the current one. Cancelling
        the wait does not stop a judgment that was begun: what was paid for is recorded. Raises what judging and the
        store raise.
        """
        identity = self._judging.identity(case, rubric, judge)
        if not fresh:
            current = await self._store.judgments.current_async(identity)
            if current is not None and current.outcome is not Outcome.JUDGE_ERROR:
                return current
        key = (identity, fresh)
        task = self._flying.get(key)
        if task is None:
            task = asyncio.create_task(self._judge(case, rubric, judge, run_id, fresh))
            self._flying[key] = task
            task.add_done_callback(lambda done: self._landed(key, done))
        return await asyncio.shield(task)

    async def aclose(self) -> None:
        """Wait for judgments that were begun."""
        await asyncio.gather(*self._flying.values(), return_exceptions=True)

    async def _judge(self, case: Case, rubric: Rubric[Any], judge: Judge, run_id: str | None, fresh: bool) -> Judgment:
        judgment = await self._judging.judge(case, rubric, judge, fresh=fresh)
        return await self._store.judgments.record_async(judgment, run_id, replace=fresh)

    def _landed(self, key: tuple[str, bool], task: "asyncio.Task[Judgment]") -> None:
        self._flying.pop(key, None)
        if not task.cancelled():
            # Marks the error as seen: those who still wait get it, and nobody else needs to.
            task.exception()
