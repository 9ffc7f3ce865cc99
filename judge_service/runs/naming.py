"""Names of runs that come from their work, so that the same work asked for again goes on where it stopped.

Reads cases once; judges none and stores nothing.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

from judge_service.domain.canonical import canonical_json
from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.judging.judging import Judging
from rubrics.model import Rubric


def work_id(judging: Judging, cases: Iterable[Case], rubric: Rubric[Any], judge: Judge) -> tuple[str, int]:
    """The run that judges exactly these cases, and how many they are. Raises InvalidInput for a bad case."""
    digest = hashlib.sha256(canonical_json(judge.model_dump(mode="json")).encode())
    n = 0
    for case in cases:
        digest.update(judging.identity(case, rubric, judge).encode())
        n += 1
    return f"run_{digest.hexdigest()[:32]}", n


def of_source(work: str, source: str) -> str:
    """A run of its own for the same work under another source: a set's cases are also somebody's file."""
    return f"run_{hashlib.sha256(f'{source} {work}'.encode()).hexdigest()[:32]}"
