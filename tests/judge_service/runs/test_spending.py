"""A budget that two members of a fleet spend from together."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from judge_service.backends.base import Request
from judge_service.backends.catalog import BackendPool
from judge_service.backends.scripted import ScriptedBackend, ScriptedReply
from judge_service.domain.call import Usage
from judge_service.domain.judge import Judge, Limits
from judge_service.domain.outcome import JudgeErrorReason, Outcome
from judge_service.domain.run import RunStatus
from judge_service.judging.judging import Judging
from judge_service.judging.roster import Roster
from judge_service.runs.background import BackgroundRuns
from judge_service.runs.exports import judgments_of
from judge_service.runs.fleet import Fleet
from judge_service.runs.local import LocalRunner
from judge_service.runs.spending import SharedBudgets
from judge_service.settings import Settings
from judge_service.store import Store
from rubrics.registry import get_rubric
from tests.judge_service.store.databases import Postgres
from tests.support.waiting import LONG_ENOUGH_S

from .fake import PAIRWISE, cases

TOKENS = 10
AT_ONCE = 4
"""Cases that a member judges at once."""
CALLS = 24
JUDGE = Judge(
    name="spender", backend="scripted", model="s-1", limits=Limits(concurrency=64, max_total_tokens=CALLS * TOKENS)
)
TIE = ScriptedReply(text='{"rationale":"Because.","verdict":"tie"}', usage=Usage(prompt_tokens=TOKENS))


class Toll(ScriptedBackend):
    """Answers a call for each token of passage that it is given."""

    def __init__(self) -> None:
        super().__init__(lambda _: TIE, keep_requests=False)
        self.passage = asyncio.Semaphore(0)
        self.answered: dict[str, int] = {}
        self.n_answered = self.waiting = 0
        self.moved = asyncio.Condition()

    async def complete(self, request: Request) -> Any:
        """Answer when there is passage."""
        await self._move(1)
        await self.passage.acquire()
        answer = await super().complete(request)
        case = str(request.subject.case_id)
        self.answered[case] = self.answered.get(case, 0) + 1
        self.n_answered += 1
        await self._move(-1)
        return answer

    async def _move(self, by: int) -> None:
        async with self.moved:
            self.waiting += by
            self.moved.notify_all()


@pytest.fixture
def stores(postgres: Postgres) -> Iterator[list[Store]]:
    """Two members' stores on one database."""
    url = postgres.fresh()
    opened = [Store.open(url), Store.open(url)]
    yield opened
    for store in opened:
        store.close()
    postgres.drop(url)


async def breath(_: float = 0.0) -> None:
    """Hardly a pause, in which others get their turn."""
    await asyncio.sleep(0.01)


def member(store: Store, toll: Toll, budgets: SharedBudgets) -> BackgroundRuns:
    pool = BackendPool(Settings())
    pool.put(JUDGE, toll)
    runner = LocalRunner(store, Judging(Roster([JUDGE]), pool, fence_key=b"test", cache=store.cache))
    queue = store.queue()
    assert queue is not None
    fleet = Fleet(store, queue, runner, get_rubric, cases_at_once=AT_ONCE, budgets=budgets)
    return BackgroundRuns(store, runner, get_rubric, fleet=fleet)


async def test_two_members_pass_a_budget_by_no_more_than_what_is_in_flight(stores: list[Store]) -> None:
    toll = Toll()
    budgets = [SharedBudgets(store, sleep=breath) for store in stores]
    members = [member(store, toll, kept) for store, kept in zip(stores, budgets, strict=True)]
    async with asyncio.timeout(LONG_ENOUGH_S):
        for one in members:
            await one.resume_interrupted()
        await members[0].submit(cases(100), PAIRWISE, JUDGE, run_id="r")
        # Both work before the first call is answered.
        async with toll.moved:
            await toll.moved.wait_for(lambda: toll.waiting >= 2 * AT_ONCE)
        released = 0
        while not (await members[0].get("r")).status.ended:
            # One answer at a time, and whoever spends has read what is recorded of the cases that are done. A member
            # with no chunk in hand reads nothing, and need not.
            if toll.n_answered == released:
                toll.passage.release()
                released += 1
            done = TOKENS * 2 * sum(1 for n in toll.answered.values() if n == 2)
            while (spent := await recorded_tokens(stores[0])) < done:
                await breath()
            for kept in budgets:
                while behind(kept, spent):
                    await breath()
        for one in members:
            await one.aclose()
    assert CALLS <= toll.n_answered <= CALLS + 2 * 2 * AT_ONCE
    ends = list(judgments_of(stores[0], "r"))
    assert len(ends) == 100
    assert {one.reason for one in ends if one.outcome is Outcome.JUDGE_ERROR} == {JudgeErrorReason.BUDGET}
    assert (await members[0].get("r")).status is RunStatus.FINISHED_WITH_ERRORS


def behind(budgets: SharedBudgets, spent: int) -> bool:
    """A member that spends, and so reads, has not read yet that so much was spent."""
    kept = budgets._kept.get("r")
    return kept is not None and kept.users > 0 and kept.budget.tokens < spent


async def recorded_tokens(store: Store) -> int:
    counts = await asyncio.to_thread(store.runs.counts, "r")
    return sum(count.prompt_tokens or 0 for count in counts)
