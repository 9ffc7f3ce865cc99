"""Frozen sets whose judges are simulated: what people and judges say is planted, the rest is the product's."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from judge_service.app import Service
from judge_service.domain.calibration_set import Label, SetCase, Split
from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.domain.judgment import Judgment
from judge_service.judging.budget import Budget
from judge_service.reports.dataset import Dataset, JudgeColumn
from judge_service.reports.labelled_set import source_of
from judge_service.runs.local import LocalRunner
from rubrics.model import Rubric
from tests.browser.site import awaited
from tests.judge_service.reports.studies import Act, Pair, Reply, dataset_of, right

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)


def agreeing(share: float, *, cost: float | None = None, sure: bool = False) -> Act:
    """Right in this share of the cases; a `sure` one states a confidence that is higher where it is right."""

    def act(pair: Pair) -> Reply:
        answer = right(pair, share)
        stated = None if not sure else 0.95 if answer == pair.label else 0.6
        return Reply.same(answer, cost=cost, confidence=stated)

    return act


def mixed(pair: Pair) -> Reply:
    """Of ten cases: two on which the orders disagree, one that fails, one tie, else the people's label."""
    kind = int(pair.draw.random() * 10)
    if kind < 2:
        return Reply("A", "B", cost=0.002)
    if kind == 2:
        return Reply("A", None, cost=0.001)
    return Reply.same("tie" if kind == 3 else right(pair, 0.9), cost=0.002)


class _Told:
    """A judging core that gives the judgments of a column."""

    def __init__(self, column: JudgeColumn, reference: str) -> None:
        self._found = {one.case_id: one for one in column.judgments if one is not None}
        self._reference = reference

    def identity(self, case: Case, rubric: Rubric[Any], judge: Judge) -> str:
        return f"{self._reference}-{self._found[case.id].identity}"

    async def judge(
        self, case: Case, rubric: Rubric[Any], judge: Judge, *, fresh: bool = False, budget: Budget | None = None
    ) -> Judgment:
        found = self._found[case.id]
        name = f"{self._reference.replace('@', '-')}-{found.id}"
        return found.model_copy(update={"id": name, "identity": self.identity(case, rubric, judge)})


def judged_set(service: Service, name: str, judges: Mapping[str, Act], n: int, *, people: int = 2, **more: Any) -> str:
    """A frozen set of `n` pairs with the labels of `people`, judged by all `judges`; its reference.

    Of two people the second one differs in every tenth case, which has a final word then. Blocks; needs no event loop
    in this thread to be free.
    """
    return awaited(_judged_set(service, name, dataset_of(judges, n, people=people, **more)))


async def _judged_set(service: Service, name: str, dataset: Dataset) -> str:
    store = service.store
    version = store.sets.create(name, dataset.rubric.id)
    store.sets.add_cases(version.id, [SetCase(case=item.case, split=Split.CALIBRATION) for item in dataset.items])
    labels = []
    for place, item in enumerate(dataset.items):
        votes = dict(item.votes)
        if len(votes) > 1 and place % 10 == 9:
            votes["person1"] = "B" if item.label == "A" else "A"
            labels.append(_label(version.id, item.case.id, "lead", item.label, adjudicated=True))
        labels += [_label(version.id, item.case.id, person, label) for person, label in votes.items()]
    store.labels.add(version.id, labels)
    store.sets.freeze(version.id, store.sets.digest(version.id))
    for column in dataset.columns:
        cases = [item.case for item, found in zip(dataset.items, column.judgments, strict=True) if found is not None]
        runner = LocalRunner(store, _Told(column, version.id))
        await runner.run(cases, dataset.rubric, column.judge, source=source_of(version.id))
    return version.id


def _label(set_id: str, case_id: str, person: str, label: str | None, *, adjudicated: bool = False) -> Label:
    return Label(
        set_id=set_id,
        case_id=case_id,
        rubric="pairwise@1",
        annotator=person,
        label=label,
        adjudicated=adjudicated,
        note="Said so." if adjudicated else None,
        created_at=NOON,
    )
