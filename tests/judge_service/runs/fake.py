"""A judging core that answers from a table, counts what it was asked, and can be held up."""

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from judge_service.domain.canonical import content_hash
from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.domain.judgment import Judgment
from judge_service.judging.budget import Budget
from judge_service.judging.cases import parse_case
from rubrics.model import Rubric
from rubrics.registry import get_rubric
from tests.judge_service.store.examples import call

PAIRWISE = get_rubric("pairwise@1")
JUDGE = Judge(name="fake", backend="scripted", model="fake-1")

END: Mapping[str, Mapping[str, Any]] = {
    "A": {"outcome": "scored", "score": 1.0, "label": "A"},
    "B": {"outcome": "scored", "score": 0.0, "label": "B"},
    "tie": {"outcome": "scored", "score": 0.5, "label": "tie"},
    "inconsistent": {"outcome": "inconsistent"},
    "empty": {"outcome": "not_applicable", "reason": "empty_answer"},
    "timeout": {"outcome": "judge_error", "reason": "timeout", "detail": "no answer"},
}


def cases(n: int, *, start: int = 0) -> Iterator[Case]:
    for number in range(start, start + n):
        yield Case(
            id=f"case-{number}",
            input={"prompt": f"question {number}", "response_a": "one", "response_b": "two"},
            group=f"group-{number // 2}",
            metadata={"language": "de" if number % 2 else "en"},
        )


def by_number(case: Case) -> str:
    """A, B, tie and inconsistent in turn."""
    return ("A", "B", "tie", "inconsistent")[int(case.id.rpartition("-")[2]) % 4]


class FakeJudging:
    """`answer` gives the end of a case (a key of `END`) or raises; `gate` holds every judgment until it is set."""

    def __init__(self, answer: Callable[[Case], str] = by_number, *, gate: asyncio.Event | None = None) -> None:
        self.answer = answer
        self.gate = gate
        self.asked: Counter[str] = Counter()
        self.flying = 0
        self.most_flying = 0
        self._moved = asyncio.Event()

    @property
    def calls(self) -> int:
        return self.asked.total()

    async def reached(self, n: int) -> None:
        """Wait until `n` judgments are in the air at once."""
        while self.most_flying < n:
            self._moved.clear()
            await self._moved.wait()

    def identity(self, case: Case, rubric: Rubric[Any], judge: Judge) -> str:
        parse_case(rubric, case)
        return content_hash([rubric.content_hash, judge.content_hash, case.id, case.content_hash])

    async def judge(
        self, case: Case, rubric: Rubric[Any], judge: Judge, *, fresh: bool = False, budget: Budget | None = None
    ) -> Judgment:
        self.asked[case.id] += 1
        self.flying += 1
        self.most_flying = max(self.most_flying, self.flying)
        self._moved.set()
        try:
            await asyncio.sleep(0)
            if self.gate is not None:
                await self.gate.wait()
            end = END[self.answer(case)]
        finally:
            self.flying -= 1
        fields: dict[str, Any] = {"score": None, "label": None} | dict(end)
        return Judgment.model_validate(
            {
                "id": uuid.uuid4().hex,
                "identity": self.identity(case, rubric, judge),
                "rubric": rubric.id,
                "rubric_hash": rubric.content_hash,
                "judge": judge.name,
                "judge_hash": judge.content_hash,
                "model": "fake-1",
                "case_id": case.id,
                "case_hash": case.content_hash,
                "group": case.group,
                "metadata": case.metadata,
                "enforcement": "none",
                "calls": [call(), call(order="BA")],
                "usage": {"prompt_tokens": 20, "completion_tokens": 2, "cost_usd": 0.25},
                "latency_ms": 1.0,
                "created_at": datetime.now(UTC),
                **fields,
            }
        )
