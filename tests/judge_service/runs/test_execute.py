import asyncio

import pytest

from judge_service.errors import InvalidInput
from judge_service.judging.asking import FatalJudgeError
from judge_service.runs.execute import Executor
from judge_service.store import Store

from .fake import JUDGE, PAIRWISE, FakeJudging, cases

(CASE,) = cases(1)


async def test_a_recorded_judgment_is_not_asked_again(store: Store) -> None:
    judging = FakeJudging()
    first = await Executor(store, judging).execute(CASE, PAIRWISE, JUDGE)
    again = await Executor(store, judging).execute(CASE, PAIRWISE, JUDGE)
    assert again == first
    assert judging.calls == 1
    assert store.judgments.get(first.id) == first


async def test_a_judge_error_is_asked_again_and_gives_way(store: Store) -> None:
    ends = iter(["timeout", "B"])
    executor = Executor(store, FakeJudging(lambda _: next(ends)))
    error = await executor.execute(CASE, PAIRWISE, JUDGE)
    good = await executor.execute(CASE, PAIRWISE, JUDGE)
    assert (error.outcome, good.label) == ("judge_error", "B")
    assert store.judgments.history(good.identity) == [error, good]


async def test_fresh_judges_again_and_becomes_current(store: Store) -> None:
    ends = iter(["A", "B"])
    executor = Executor(store, FakeJudging(lambda _: next(ends)))
    first = await executor.execute(CASE, PAIRWISE, JUDGE)
    second = await executor.execute(CASE, PAIRWISE, JUDGE, fresh=True)
    assert (first.label, second.label) == ("A", "B")
    assert await executor.execute(CASE, PAIRWISE, JUDGE) == second


async def test_simultaneous_requests_for_one_work_share_one_judgment(store: Store) -> None:
    gate = asyncio.Event()
    judging = FakeJudging(gate=gate)
    executor = Executor(store, judging)
    tasks = [asyncio.create_task(executor.execute(CASE, PAIRWISE, JUDGE)) for _ in range(10)]
    await judging.reached(1)
    gate.set()
    results = await asyncio.gather(*tasks)
    assert judging.calls == 1
    assert len({result.id for result in results}) == 1


async def test_a_caller_that_leaves_does_not_lose_the_judgment(store: Store) -> None:
    gate = asyncio.Event()
    judging = FakeJudging(gate=gate)
    executor = Executor(store, judging)
    task = asyncio.create_task(executor.execute(CASE, PAIRWISE, JUDGE))
    await judging.reached(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    await executor.aclose()
    assert store.judgments.current(judging.identity(CASE, PAIRWISE, JUDGE)) is not None


async def test_what_judging_raises_reaches_the_caller_and_nothing_is_stored(store: Store) -> None:
    def refuse(_: object) -> str:
        raise FatalJudgeError("the key was refused")

    judging = FakeJudging(refuse)
    executor = Executor(store, judging)
    with pytest.raises(FatalJudgeError):
        await executor.execute(CASE, PAIRWISE, JUDGE)
    with pytest.raises(InvalidInput):
        await executor.execute(CASE.model_copy(update={"input": {}}), PAIRWISE, JUDGE)
    assert store.judgments.current(judging.identity(CASE, PAIRWISE, JUDGE)) is None
