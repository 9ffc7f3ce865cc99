"""Simulated judges on simulated labelled cases, as the study of a report: what is planted is known exactly."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from judge_service.domain.calibration_set import SetVersion, Split
from judge_service.domain.call import Usage
from judge_service.domain.case import Case
from judge_service.domain.judge import ConfidenceSource, Judge, OrderPolicy
from judge_service.domain.judgment import Confidence, Judgment
from judge_service.domain.outcome import Enforcement, JudgeErrorReason, Outcome
from judge_service.reports.dataset import Dataset, JudgeColumn, LabelledItem
from judge_service.reports.labelled_set import LabelledSet
from judge_service.reports.study import Choices, Study
from rubrics.registry import get_rubric

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
FAST = Choices(resamples=1000)
CREDIT = {"A": 1.0, "B": 0.0, "tie": 0.5}
OTHER = {"A": "B", "B": "A", "tie": "tie"}


@dataclass(frozen=True)
class Reply:
    """What a simulated judge does with a pair: an answer in each order (None: `failure`), and a confidence."""

    ab: str | None
    ba: str | None
    confidence: float | None = None
    failure: JudgeErrorReason = JudgeErrorReason.TIMEOUT
    cost: float | None = None

    @classmethod
    def same(cls, answer: str, **more: Any) -> "Reply":
        """The same answer in both orders."""
        return cls(answer, answer, **more)


class Chances:
    """The chances of one case: numbers in [0, 1), which over all cases alike are evenly spread.

    So a planted share is met exactly up to rounding, and an interval that misses it is wrong rather than unlucky.
    """

    def __init__(self, numbers: Sequence[float]) -> None:
        self._numbers = list(numbers)

    def random(self) -> float:
        """The next number."""
        return self._numbers.pop(0)

    def choice(self, among: Sequence[Any]) -> Any:
        """One of `among`, each for an equal part of the cases."""
        return among[int(self.random() * len(among))]


@dataclass(frozen=True)
class Pair:
    """A simulated case: people's label, which answer is longer, which is of the family `own`."""

    label: str
    longer: str
    own: str
    draw: Chances = field(repr=False)


Act = Callable[[Pair], Reply | None]


def judge_of(name: str, **more: Any) -> Judge:
    return Judge(name=name, backend="scripted", model="gpt-simulated", **more)


def judgment(case: Case, judge: Judge, reply: Reply, rubric: Any) -> Judgment:
    def reading(answer: str | None, order: str) -> dict[str, Any] | None:
        if answer is None:
            return None
        slot = "tie" if answer == "tie" else "first" if answer == order[0] else "second"
        return {"slot": slot, "verdict": answer, "rationale": f"{answer} is better"}

    label = reply.ab if reply.ab is not None and reply.ab == reply.ba else None
    failed = reply.ab is None or reply.ba is None
    outcome = Outcome.SCORED if label else Outcome.JUDGE_ERROR if failed else Outcome.INCONSISTENT
    stated = reply.confidence if label else None
    return Judgment(
        id=f"j-{judge.name}-{case.id}",
        identity=f"i-{judge.name}-{case.id}",
        rubric=rubric.id,
        rubric_hash=rubric.content_hash,
        judge=judge.name,
        judge_hash=judge.content_hash,
        model=judge.model,
        case_id=case.id,
        case_hash=case.content_hash,
        outcome=outcome,
        reason=reply.failure if failed else None,
        label=label,
        score=None if label is None else CREDIT[label],
        confidence=None if stated is None else Confidence(value=stated, source=ConfidenceSource.VERBALISED),
        record=None if failed else {"ab": reading(reply.ab, "AB"), "ba": reading(reply.ba, "BA")},
        enforcement=Enforcement.NONE,
        usage=Usage(cost_usd=reply.cost),
        latency_ms=10.0,
        created_at=NOON,
    )


def dataset_of(
    judges: Mapping[str, Act],
    n: int = 600,
    *,
    seed: int = 1,
    labels: Sequence[str | None] | None = None,
    groups: int | None = None,
    people: int = 0,
    policy: OrderPolicy = OrderPolicy.BOTH_ORDERS,
) -> Dataset:
    """`n` pairs, A and B equally often, unless `labels` gives the labels; `people` agree with the label.

    Label, longer answer and own family's answer are balanced against each other.
    """
    rubric = get_rubric("pairwise@1")
    items, facts = [], []
    for i in range(n):
        label = "AB"[i % 2] if labels is None else labels[i]
        longer, own = "AB"[i // 2 % 2], "AB"[i // 4 % 2]
        names = {"A": "gpt-simulated", "B": "other-llm"} if own == "A" else {"A": "other-llm", "B": "gpt-simulated"}
        case = Case(
            id=f"c{i}",
            input={
                "prompt": f"Question {i}?",
                "response_a": "word " * (12 if longer == "A" else 6),
                "response_b": "word " * (12 if longer == "B" else 6),
            },
            group=None if groups is None else f"g{i % groups}",
            metadata={"part": "ab"[i // 8 % 2], "model_a": names["A"], "model_b": names["B"]},
        )
        votes = {} if label is None else {f"person{k}": label for k in range(people)}
        items.append(LabelledItem(case, label, votes=votes, split=Split.CALIBRATION))
        facts.append((label or "A", longer, own))
    columns = []
    for place, (name, act) in enumerate(judges.items()):
        chances = evenly(facts, seed * 1000 + place)
        judge = judge_of(name, order_policy=policy)
        found: list[Judgment | None] = []
        for item, fact, chance in zip(items, facts, chances, strict=True):
            reply = act(Pair(*fact, Chances(chance)))
            found.append(None if reply is None else judgment(item.case, judge, reply, rubric))
        columns.append(JudgeColumn(judge, tuple(found)))
    return Dataset(rubric, "sim@1", "Simulated.", tuple(items), tuple(columns))


def evenly(facts: Sequence[tuple[str, str, str]], seed: int, numbers: int = 4) -> list[list[float]]:
    """`numbers` chances for each case; among the cases with the same facts each is evenly spread over [0, 1)."""
    draw = random.Random(seed)
    chances: list[list[float]] = [[] for _ in facts]
    for kind in sorted(set(facts)):
        places = [place for place, fact in enumerate(facts) if fact == kind]
        for _ in range(numbers):
            ranks = list(range(len(places)))
            draw.shuffle(ranks)
            for place, rank in zip(places, ranks, strict=True):
                chances[place].append((rank + 0.5) / len(places))
    return chances


def set_of(dataset: Dataset, status: Any = "frozen", split: Split = Split.CALIBRATION) -> LabelledSet:
    version = SetVersion(
        id="sim@1",
        name="sim",
        version=1,
        rubric=dataset.rubric.id,
        status=status,
        content_hash="c" * 64 if status == "frozen" else None,
        created_at=NOON,
    )
    how = {"single": len(dataset.labelled), "labels": len(dataset.labelled), "assisted": 0, "by_model": 0, "skipped": 0}
    return LabelledSet(version, (split,), dataset, how, {}, ())


def study_of(judges: Mapping[str, Act], n: int = 600, *, choices: Choices = FAST, **more: Any) -> Study:
    """A frozen set of simulated cases as a study."""
    dataset = dataset_of(judges, n, **more)
    return Study(dataset, choices, labelled_set=set_of(dataset))


def section(report: Mapping[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(part["data"] for part in report["sections"] if part["id"] == name)
    return found


def row(report: Mapping[str, Any], name: str, judge: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in section(report, name)["judges"] if one["judge"] == judge)
    return found


def right(pair: Pair, share: float) -> str:
    """People's label with this chance, else the other one."""
    return pair.label if pair.draw.random() < share else OTHER[pair.label]
