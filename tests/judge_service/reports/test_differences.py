"""Paired differences and the selection on the same cases, failures and inconsistent pairs included."""

import json
from typing import Any

import pytest

from calibration.intervals import bonett_price
from calibration.tests import holm, mcnemar
from judge_service.domain.judge import Judge
from judge_service.reports.dataset import Dataset, JudgeColumn
from judge_service.reports.statistics import Rules, statistics
from tests.judge_service.reports.test_statistics import judgment, pair_finding, pairs

FAST = Rules(resamples=200)


def with_judges(dataset: Dataset, said: dict[str, list[Any]], backend: str = "scripted") -> Dataset:
    """The cases of `dataset` judged by others; a verdict is a label, or (order AB, order BA)."""
    columns = []
    for name, verdicts in said.items():
        judge = Judge(name=name, backend=backend)
        made = []
        for item, verdict in zip(dataset.items, verdicts, strict=True):
            orders = verdict if isinstance(verdict, tuple) else (verdict, verdict)
            made.append(judgment(item.case, judge, dataset.rubric, **pair_finding(*orders)))
        columns.append(JudgeColumn(judge, tuple(made)))
    return Dataset(dataset.rubric, dataset.name, "", dataset.items, tuple(columns))


def labelled(n: int, groups: int | None = None) -> Dataset:
    rows = [("A" if i % 2 else "B", "A", "A", None if groups is None else f"g{i % groups}", []) for i in range(n)]
    return pairs(rows)


def test_every_pair_has_its_paired_difference_with_holm() -> None:
    base = labelled(40)
    human = base.human
    wrong = {"A": "B", "B": "A"}
    said = {
        "good": list(human),
        "fair": [wrong[label] if i < 8 else label for i, label in enumerate(human)],
        "poor": [wrong[label] if i < 20 else label for i, label in enumerate(human)],
    }
    found = statistics(with_judges(base, said), FAST)["comparisons"]
    assert [(row["first"], row["second"]) for row in found["pairs"]] == [
        ("good", "fair"),
        ("good", "poor"),
        ("fair", "poor"),
    ]
    counts = [(8, 0), (20, 0), (12, 0)]
    adjusted = holm([mcnemar(b, c).value for b, c in counts])
    for row, (b, c), p in zip(found["pairs"], counts, adjusted, strict=True):
        expected = bonett_price(b, c, 40)
        assert row["difference"]["value"] == pytest.approx(b / 40)
        assert row["difference"]["low"] == pytest.approx(expected.low)
        assert row["difference"]["details"] == {"only_first": b, "only_second": c}
        assert row["p_value"]["value"] == pytest.approx(mcnemar(b, c).value)
        assert row["p_holm"] == pytest.approx(p)
    assert found["correction"] == "Holm over 3 pairs"


def test_judges_that_never_differ_have_no_test() -> None:
    base = labelled(40)
    [row] = statistics(with_judges(base, {"a": base.human, "b": base.human}), FAST)["comparisons"]["pairs"]
    assert row["difference"]["value"] == 0
    assert row["p_value"]["undefined_reason"] == "no_discordant_pairs"
    assert row["p_holm"] is None


def test_grouped_cases_are_drawn_together() -> None:
    base = labelled(60, groups=12)
    human = base.human
    said = {"good": human, "poor": ["A"] * 60}
    [row] = statistics(with_judges(base, said), FAST)["comparisons"]["pairs"]
    assert row["difference"]["method"] == "cluster_bootstrap_percentile"
    assert row["difference"]["value"] == pytest.approx(0.5)
    few = statistics(with_judges(labelled(60, groups=3), said), FAST)["comparisons"]["pairs"][0]
    assert few["difference"]["interval_reason"] == "too_few_groups"


@pytest.mark.parametrize(("n", "verdict"), [(98, "not enough evidence"), (100, "select good")])
def test_below_a_hundred_labels_nothing_is_chosen(n: int, verdict: str) -> None:
    base = labelled(n)
    found = statistics(with_judges(base, {"good": base.human, "poor": ["A"] * n}), FAST)["selection"]
    assert found["verdict"] == verdict
    assert ("100" in " ".join(found["reasons"])) is (n < 100)


def test_an_inconsistent_pair_is_valid_output_that_agrees_with_nobody() -> None:
    base = labelled(200)
    split = [("A", "B") if i < 20 else (label, label) for i, label in enumerate(base.human)]
    failed = [(None, None) if i < 20 else (label, label) for i, label in enumerate(base.human)]
    chosen = statistics(with_judges(base, {"split": split}), FAST)["selection"]
    assert chosen["verdict"] == "select split"
    assert chosen["floors"][0]["valid_rate"]["value"] == 1
    assert chosen["floors"][0]["agreement"]["value"] == pytest.approx(0.9)
    refused = statistics(with_judges(base, {"failed": failed}), FAST)["selection"]
    assert refused["verdict"] == "none meets the floor"
    assert "valid rate 0.900" in refused["reasons"][0]


def test_judges_without_a_model_are_compared_and_never_chosen() -> None:
    base = labelled(200)
    found = statistics(with_judges(base, {"longer": base.human, "first": ["A"] * 200}, "baseline"), FAST)
    assert len(found["comparisons"]["pairs"]) == 1
    assert found["selection"] is None


def test_one_judge_and_none_have_no_pairs() -> None:
    one = statistics(labelled(40), FAST)
    assert one["comparisons"]["pairs"] == []
    four = labelled(4)
    empty = Dataset(four.rubric, "set@1", "", four.items, ())
    assert statistics(empty, FAST)["selection"] is None
    json.dumps(one, allow_nan=False)
