"""Faults that users of other tools reported, as the product must answer them."""

from __future__ import annotations

import json

import pytest

from calibration import probability, scores
from calibration.agreement import Agreement, PairedLabels
from calibration.bias import length_preference
from calibration.confidence import Forecasts
from calibration.corrected import JudgeErrors, corrected_share, rogan_gladen
from calibration.intervals import clopper_pearson, proportion
from calibration.joining import HumanLabel, JudgeVerdict, join_labels
from calibration.position import position_sensitivity
from calibration.ranking import win_rate
from calibration.raters import alpha, pairwise
from calibration.selection import Candidate, select


def test_one_class_only_gives_null_with_an_explanation() -> None:
    agreement = Agreement(PairedLabels.of(["pass"] * 5, ["pass"] * 5, ("pass", "fail")))
    kappa = agreement.kappa()
    assert agreement.raw().value == 1.0
    assert kappa.n == 5
    assert kappa.to_dict()["explanation"] == "only one class used"
    assert agreement.counts.sum(axis=0).tolist() == [5, 0]
    assert json.loads(json.dumps(kappa.to_dict(), allow_nan=False))["value"] is None
    chosen = select([Candidate("j", ["pass"] * 5)], ["pass"] * 5, ("pass", "fail"))
    assert chosen.verdict == "not enough evidence"


def test_gaps_are_missing_data_and_not_a_class() -> None:
    ratings = [[1, 2, 2, None], [1, 2, None, None], [None, 2, 2, None]]
    estimate = alpha(ratings)
    assert estimate.value == 1.0
    assert estimate.n == 3
    sizes = {pair: figures["raw_agreement"].n for pair, figures in pairwise(ratings, (1, 2)).items()}
    assert sizes == {(0, 1): 2, (0, 2): 2, (1, 2): 1}


def test_the_order_of_text_labels_is_declared_and_not_alphabetical() -> None:
    first = ["low", "low", "low", "medium", "medium", "high", "high", "high"]
    second = ["low", "low", "medium", "medium", "high", "high", "high", "medium"]
    ordered = Agreement(PairedLabels.of(first, second, ("low", "medium", "high"), ordered=True))
    assert ordered.kappa().value == pytest.approx(0.442, abs=5e-4)
    assert ordered.kappa("linear").value == pytest.approx(0.586, abs=5e-4)
    assert ordered.kappa("quadratic").value == pytest.approx(0.727, abs=5e-4)
    unordered = Agreement(PairedLabels.of(first, second, ("low", "medium", "high")))
    assert unordered.kappa("linear").undefined_reason == "not_ordered"
    assert unordered.kappa().value == pytest.approx(0.442, abs=5e-4)


@pytest.mark.parametrize(
    ("confidence", "correct", "expected"),
    [([0.91, 1.0], [1, 0], 0.455), ([0.0], [1], 1.0), ([0.7] * 10, [1] * 3 + [0] * 7, 0.4)],
)
@pytest.mark.parametrize("rule", ["right_closed", "left_closed"])
def test_edges_of_calibration_bins_lose_nobody(
    confidence: list[float], correct: list[int], expected: float, rule: str
) -> None:
    error = probability.ece(Forecasts.of(confidence, correct), 10, rule)
    assert error.value == pytest.approx(expected)
    assert sum(error.details["bin_n"]) == len(confidence)


def test_equal_confidences_in_equal_mass_bins_and_no_case_at_all() -> None:
    same = probability.ece(Forecasts.of([0.7] * 10, [1] * 3 + [0] * 7), 10, "equal_mass")
    assert same.value == pytest.approx(0.4)
    nothing = probability.ece(Forecasts.of([], []), 10)
    assert (nothing.value, nothing.n, nothing.undefined_reason) == (None, 0, "empty")


def test_few_labels_have_wide_intervals_and_no_choice() -> None:
    full, none = proportion(10, 10), proportion(0, 10)
    assert (full.value, full.high) == (1.0, 1.0)
    assert full.low == pytest.approx(0.722, abs=5e-4)
    assert clopper_pearson(10, 10)[0] == pytest.approx(0.692, abs=5e-4)
    assert (none.low, none.high) == (0.0, pytest.approx(0.278, abs=5e-4))
    chosen = select([Candidate("j", ["pass"] * 3)], ["pass"] * 3, ("pass", "fail"))
    assert chosen.verdict == "not enough evidence"
    assert "at least 30" in chosen.reasons[0]


def test_pass_rates_are_corrected_or_refused() -> None:
    assert corrected_share(0.8, 0.9, 0.85).value == pytest.approx(0.65 / 0.75)
    assert corrected_share(0.05, 0.9, 0.85).value == 0.0
    chance = corrected_share(0.8, 0.5, 0.5)
    assert (chance.value, chance.undefined_reason) == (None, "judge_not_better_than_chance")
    assert rogan_gladen(80, 100, JudgeErrors(10, 20, 10, 20)).undefined_reason == "judge_not_better_than_chance"


def test_position_figures_of_ten_pairs_and_of_a_single_order() -> None:
    ab = ["A"] * 4 + ["B"] * 2 + ["A"] * 3 + ["B"]
    ba = ["A"] * 4 + ["B"] * 2 + ["B"] * 3 + ["A"]
    figures = position_sensitivity(ab, ba)
    assert figures["flip_rate"].value == pytest.approx(0.4)
    assert (figures["first_slot_share"].numerator, figures["first_slot_share"].denominator) == (12, 20)
    assert figures["win_rate_a"].value == pytest.approx(0.6)
    assert figures["win_rate_a_consistent"].value == pytest.approx(4 / 6)
    assert figures["win_rate_a_consistent"].n == 6
    for estimate in position_sensitivity(ab, None).values():
        assert (estimate.value, estimate.undefined_reason) == (None, "single_order")
        assert "not measured" in estimate.to_dict()["explanation"]


def test_longer_answer_rate_is_over_pairs_that_differ_in_length() -> None:
    figures = length_preference(["A", "B", "A"], ["A", "A", "B"], [10, 10, 30], [5, 10, 20])
    assert figures["judge_longer_rate"].n == 2


def test_labels_and_verdicts_that_do_not_join_are_listed_apart() -> None:
    labels = [
        HumanLabel("c1", "pass"),
        HumanLabel("c2", "fail"),
        HumanLabel("c9", "pass"),
        HumanLabel("c3", "pass", human=False),
    ]
    verdicts = [
        JudgeVerdict("c1", "pass"),
        JudgeVerdict("c2", "pass"),
        JudgeVerdict("c3", "pass"),
        JudgeVerdict("c4", "fail"),
        JudgeVerdict("c5", None, "timeout"),
    ]
    joined = join_labels(labels, verdicts)
    agreement = Agreement(joined.paired(("pass", "fail")))
    assert (agreement.raw().value, agreement.raw().n) == (0.5, 2)
    assert agreement.majority_baseline().value == 0.5
    assert joined.without_verdict == ("c9",)
    assert joined.without_label == ("c4",)
    assert joined.errors_without_label == ("c5",)
    assert joined.not_human == ("c3",)
    versioned = join_labels(
        [HumanLabel("c1", "pass", rubric="r@1"), HumanLabel("c2", "fail", rubric="r@2")], verdicts, rubric="r@2"
    )
    assert (versioned.case_ids, versioned.other_rubric) == (("c2",), ("c1",))
    assert join_labels(labels, verdicts, missing="wrong").judge == ("pass", "pass", None)


def test_failed_rows_stay_visible_in_a_mean() -> None:
    complete = scores.summarise([0.8, 0.2], [False, False])
    assert (complete.mean.value, complete.scored, complete.expected) == (0.5, 2, 2)
    partial = scores.summarise([0.8, None], [False, True])
    assert (partial.mean.value, partial.scored, partial.expected) == (0.8, 1, 2)
    assert partial.coverage.value == 0.5
    assert partial.failures_as_zero.value == pytest.approx(0.4)
    assert partial.failures_as_one.value == pytest.approx(0.9)
    broken = scores.summarise([None, None], [True, True])
    assert (broken.mean.value, broken.mean.undefined_reason) == (None, "empty")


def test_ties_are_half_a_win_and_no_comparison_is_no_number() -> None:
    even = win_rate(2, 46, 2)
    assert even.value == 0.5
    assert {even.details[name] for name in ("wins", "losses")} == {2}
    with_bad = win_rate(1, 0, 0, both_bad=1)
    assert with_bad.value == 0.75
    assert with_bad.details["both_bad"] == 1
    assert win_rate(0, 0, 1, both_bad=1).value == 0.25
    assert win_rate(0, 0, 0).undefined_reason == "empty"
