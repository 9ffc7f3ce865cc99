from __future__ import annotations

import json
import random

import pytest

from calibration.estimate import InvalidStatisticInput
from calibration.selection import Candidate, pareto_front, select

CLASSES = ("fail", "pass")


def labelled(n: int) -> list[str]:
    return ["pass", "fail"] * (n // 2)


def judge(name: str, human: list[str], wrong: float, *, seed: int = 0, cost: float | None = None) -> Candidate:
    chance = random.Random(seed)
    other = {"pass": "fail", "fail": "pass"}
    return Candidate(name, [other[label] if chance.random() < wrong else label for label in human], cost)


def test_a_clearly_better_judge_is_selected() -> None:
    human = labelled(300)
    chosen = select([judge("good", human, 0.05, seed=1), judge("poor", human, 0.25, seed=2)], human, CLASSES)
    assert (chosen.verdict, chosen.chosen) == ("select good", "good")
    assert chosen.leading == ("good",)
    assert chosen.comparisons[0].p_holm <= 0.05
    assert chosen.tier == "normal report"
    assert chosen.optimism.value >= 0
    json.dumps(chosen.to_dict(), allow_nan=False)


def test_the_cheapest_of_equal_judges_is_selected_when_not_worse() -> None:
    human = labelled(1000)
    best = judge("dear", human, 0.05, cost=9.0)
    verdicts = list(best.verdicts)
    verdicts[0] = None
    chosen = select([best, Candidate("cheap", verdicts, 1.0)], human, CLASSES)
    assert chosen.verdict == "select cheap"
    assert chosen.pareto == ("cheap", "dear")
    without_costs = select([Candidate("a", best.verdicts), Candidate("b", verdicts)], human, CLASSES)
    assert without_costs.verdict == "any of {a, b}"


def test_judges_that_are_not_separated_need_more_labels() -> None:
    human = labelled(60)
    chosen = select([judge("a", human, 0.1, seed=3), judge("b", human, 0.15, seed=5)], human, CLASSES)
    assert chosen.verdict == "not enough evidence"
    assert chosen.chosen is None
    assert len(chosen.leading) == 2
    assert chosen.labels_needed is None or chosen.labels_needed > 60


def test_judges_under_the_floors_are_not_selected() -> None:
    human = labelled(200)
    coin = judge("coin", human, 0.5, seed=1)
    silent = Candidate("silent", [None if i % 5 == 0 else label for i, label in enumerate(human)])
    chosen = select([coin, silent], human, CLASSES)
    assert chosen.verdict == "none meets the floor"
    failed = {floors.judge: " ".join(floors.failed) for floors in chosen.floors}
    assert "constant answer" in failed["coin"]
    assert "TPR + TNR - 1" in failed["coin"]
    assert "valid rate" in failed["silent"]


def test_a_declared_floor_and_the_humans_own_agreement_bind() -> None:
    human = labelled(200)
    good = judge("good", human, 0.15, seed=1)
    assert select([good], human, CLASSES).verdict == "select good"
    assert select([good], human, CLASSES, agreement_floor=0.9).verdict == "none meets the floor"
    assert select([good], human, CLASSES, human_agreement={"raw_agreement": 0.95}).verdict == "none meets the floor"


@pytest.mark.parametrize(
    ("human", "options", "reason"),
    [
        (labelled(28), {}, "28 human labels"),
        (["pass"] * 50 + ["fail"] * 9, {}, "9 labels of the second"),
        (labelled(100), {"groups": ["g1", "g2"] * 50}, "2 independent groups"),
        (labelled(100), {"human_agreement": {"alpha": 0.2, "ac1": 0.3}}, "humans agree too little"),
        ([], {}, "0 human labels"),
    ],
)
def test_without_evidence_there_is_no_verdict(human: list[str], options: dict, reason: str) -> None:
    chosen = select([Candidate("j", list(human))], human, CLASSES, **options)
    assert chosen.verdict == "not enough evidence"
    assert reason in chosen.reasons[0]


def test_low_alpha_with_high_ac1_is_only_skew() -> None:
    human = labelled(100)
    chosen = select([judge("j", human, 0.05)], human, CLASSES, human_agreement={"alpha": 0.2, "ac1": 0.8})
    assert chosen.verdict == "select j"


def test_the_front_keeps_the_cheapest_of_equal_accuracy() -> None:
    assert pareto_front([1.0, 2.0, 2.5, 6.0, 9.0], [0.7, 0.78, 0.77, 0.83, 0.83]) == [0, 1, 3]
    assert pareto_front([1.0, 1.0], [0.5, 0.5]) == [0, 1]
    assert pareto_front([], []) == []


def test_a_name_twice_and_nobody_at_all_are_refused() -> None:
    human = labelled(40)
    with pytest.raises(InvalidStatisticInput):
        select([judge("j", human, 0.1), judge("j", human, 0.2)], human, CLASSES)
    with pytest.raises(InvalidStatisticInput):
        select([], human, CLASSES)


def test_a_rare_third_class_has_no_floor_of_its_own() -> None:
    chance = random.Random(4)
    human = [chance.choice(["A", "B", "A", "B", "A", "B", "tie"]) for _ in range(300)]
    never_ties = [label if label != "tie" else "A" for label in human]
    assert select([Candidate("j", never_ties)], human, ("A", "B", "tie")).verdict == "select j"
    guesses = [chance.choice(["A", "B"]) for _ in human]
    rejected = select([Candidate("g", guesses)], human, ("A", "B", "tie"))
    assert rejected.verdict == "none meets the floor"
    assert "kappa" in rejected.floors[0].failed[-1]
