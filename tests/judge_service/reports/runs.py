"""Runs with chosen endings, judged by a stand-in, in a real database."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.domain.run import Run
from judge_service.runs.local import LocalRunner
from judge_service.store import Store
from rubrics.model import Rubric
from rubrics.registry import get_rubric
from tests.judge_service.runs.fake import FakeJudging

PAIRWISE = get_rubric("pairwise@1")


def open_store(folder: Path) -> Store:
    return Store.open(f"sqlite:///{folder / 'judge.sqlite3'}")


def pair(number: int, **changes: Any) -> Case:
    fields: dict[str, Any] = {
        "id": f"case-{number}",
        "input": {"prompt": f"question {number}", "response_a": "one", "response_b": "two"},
        "metadata": {"language": "de" if number % 2 else "en"},
    }
    return Case(**(fields | changes))


def run_of(
    store: Store,
    endings: Mapping[str, str],
    judge: Judge,
    *,
    cases: Sequence[Case] = (),
    rubric: Rubric[Any] = PAIRWISE,
) -> Run:
    """A finished run in which the case of each id ended as it says (see `tests...runs.fake.END`)."""
    given = cases or [pair(int(name.rpartition("-")[2])) for name in endings]
    judging = FakeJudging(lambda case: endings[case.id])
    return asyncio.run(LocalRunner(store, judging).run(given, rubric, judge, source="test.jsonl"))
