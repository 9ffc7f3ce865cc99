"""Judges without a model on the cases of a report, so that every report shows what reading nothing reaches.

They are judged here and now, in the process and for nothing; the store keeps none of it.
"""

import asyncio
from dataclasses import replace

from judge_service.backends.catalog import BackendPool
from judge_service.domain.judge import Judge
from judge_service.domain.judgment import Judgment
from judge_service.domain.outcome import Outcome
from judge_service.errors import InvalidInput
from judge_service.judging.judging import Judging
from judge_service.judging.roster import BUILT_IN, Roster
from judge_service.reports.dataset import Dataset, JudgeColumn
from judge_service.settings import Settings

MOST_CASES = 5_000
"""Cases above which only the baselines that judged the set are shown: they would take longer than the report."""
_OF_PAIRS = "longer"


def with_baselines(dataset: Dataset, settings: Settings) -> Dataset:
    """The dataset with the built-in baselines after its judges; those that judged the cases already stay as they are.

    Must not be called on an event loop.
    """
    there = {column.judge.content_hash for column in dataset.columns} | {
        column.judge.name for column in dataset.columns
    }
    wanted = [
        judge
        for judge in BUILT_IN
        if judge.backend == "baseline"
        and not {judge.content_hash, judge.name} & there
        and (dataset.rubric.kind == "pairwise" or judge.model != _OF_PAIRS)
    ]
    if not wanted or not dataset.items or len(dataset.items) > MOST_CASES:
        return dataset
    judging = Judging(Roster(list(wanted)), BackendPool(settings), fence_key=b"baselines of a report")
    columns = asyncio.run(_judged(judging, dataset, wanted))
    return replace(dataset, columns=(*dataset.columns, *columns))


async def _judged(judging: Judging, dataset: Dataset, judges: list[Judge]) -> list[JudgeColumn]:
    columns = []
    for judge in judges:
        made = [await _judge(judging, dataset, judge, place) for place in range(len(dataset.items))]
        # A rule that has nothing to say on this rubric is no baseline of it.
        if any(judgment is not None and judgment.outcome is not Outcome.JUDGE_ERROR for judgment in made):
            columns.append(JudgeColumn(judge, tuple(made)))
    return columns


async def _judge(judging: Judging, dataset: Dataset, judge: Judge, place: int) -> Judgment | None:
    """One judgment; None for a case that the rubric refuses."""
    try:
        return await judging.judge(dataset.items[place].case, dataset.rubric, judge)
    except InvalidInput:
        return None
