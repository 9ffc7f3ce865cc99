"""The answers of other open tools on three tiny inputs, each under its own convention, and the one default here."""

from __future__ import annotations

import math

import pytest

from calibration import probability, repeats
from calibration.agreement import Agreement, PairedLabels
from calibration.confidence import Forecasts
from calibration.corrected import JudgeErrors, ppi_mean, rogan_gladen
from calibration.intervals import wilson
from calibration.position import fold_swap_tie, position_sensitivity
from calibration.ranking import bradley_terry, win_rate
from calibration.selective import aurc
from calibration.tests import mcnemar

S24 = [("pass", "pass")] * 10 + [("pass", "fail")] * 2 + [("fail", "pass")] * 3 + [("fail", "fail")] * 9  # human, judge
S24_CONFIDENCE = (
    [0.95] * 4 + [0.85] * 3 + [0.75] * 2 + [0.65, 0.75, 0.55, 0.95, 0.85, 0.65]
    + [0.95] * 3 + [0.85] * 2 + [0.75] * 2 + [0.65, 0.55]
)  # fmt: skip
P12 = [
    ("A", "A", "A", 0.95, 0.85), ("A", "A", "A", 0.85, 0.85), ("A", "A", "B", 0.75, 0.65), ("B", "B", "B", 0.95, 0.95),
    ("B", "A", "B", 0.65, 0.75), ("B", "A", "B", 0.85, 0.55), ("tie", "tie", "tie", 0.55, 0.55),
    ("tie", "A", "B", 0.65, 0.65), ("A", "A", "tie", 0.75, 0.55), ("B", "B", "B", 0.85, 0.95),
    ("A", "B", "B", 0.75, 0.75), ("B", "A", "A", 0.95, 0.65),
]  # fmt: skip
E6 = [(0.8, 1), (0.8, 0), (0.75, 1), (0.0, 0), (1.0, 1), (0.9, 1)]

HUMAN, FORWARD, BACKWARD = ([pair[i] for pair in P12] for i in range(3))


def s24() -> PairedLabels:
    return PairedLabels.of([judge for _, judge in S24], [human for human, _ in S24], ("fail", "pass"))


def s24_forecasts() -> Forecasts:
    return Forecasts.of(S24_CONFIDENCE, [int(human == judge) for human, judge in S24])


def close(value: float) -> object:
    return pytest.approx(value, abs=5e-7)


def test_agreement_on_single_answers() -> None:
    agreement = Agreement(s24())
    assert agreement.kappa().value == close(0.583333)
    assert agreement.raw().value == close(0.791667)
    rates = agreement.per_class()["pass"]
    assert rates["tpr"].value == close(0.833333)
    # The other tools round z to 1.96; the default here does not.
    assert wilson(10, 12, z=1.96) == (close(0.551964), close(0.953036))
    assert (rates["tpr"].low, rates["tpr"].high) == (
        pytest.approx(0.551964, abs=1e-5),
        pytest.approx(0.953036, abs=1e-5),
    )
    assert rates["tnr"].value == close(0.75)
    assert wilson(9, 12, z=1.96) == (close(0.467690), close(0.911060))


def test_kappa_intervals_are_percentile_by_default_and_bca_on_request() -> None:
    labels = s24()
    percentile = Agreement(labels, labels.resampler()).kappa()
    assert percentile.method == "cohen_kappa/bootstrap_percentile"
    assert percentile.low == pytest.approx(0.239, abs=0.03)
    assert percentile.high == pytest.approx(0.909, abs=0.03)
    bca = Agreement(labels, labels.resampler(), interval="bca").kappa()
    assert bca.method == "cohen_kappa/bootstrap_bca"
    assert bca.low == pytest.approx(0.2174, abs=0.03)
    assert bca.high == pytest.approx(0.8345, abs=0.03)


def test_kappa_of_one_class_is_null_by_default_and_one_on_request() -> None:
    agreement = Agreement(PairedLabels.of(["pass"] * 5, ["pass"] * 5, ("fail", "pass")))
    assert agreement.kappa().undefined_reason == "one_class"
    assert agreement.kappa(one_class="one").value == 1.0


def test_flips_count_any_change_or_only_decided_pairs() -> None:
    figures = position_sensitivity(FORWARD, BACKWARD)
    assert figures["flip_rate"].value == close(5 / 12)
    assert figures["flip_rate_decided"].value == close(0.4)
    assert (figures["flip_rate_decided"].low, figures["flip_rate_decided"].high) == (close(0.168180), close(0.687326))


def test_first_slot_share_of_decided_or_of_all_verdicts() -> None:
    decided = position_sensitivity(FORWARD, BACKWARD)["first_slot_share"]
    assert (decided.numerator, decided.denominator) == (15, 21)
    everything = position_sensitivity(FORWARD, BACKWARD, first_slot_over="all")["first_slot_share"]
    assert everything.value == close(0.625)


def test_kappa_of_pairs_by_consensus_or_by_the_first_order() -> None:
    classes = ("A", "B", "tie")
    folded = fold_swap_tie(FORWARD, BACKWARD)
    assert Agreement(PairedLabels.of(folded, HUMAN, classes)).kappa().value == close(0.294118)
    assert Agreement(PairedLabels.of(FORWARD, HUMAN, classes)).kappa().value == close(0.310345)
    # The pair that humans tie and that flips counts as agreement when a flip is a tie.
    assert folded[7] == HUMAN[7] == "tie"


def test_win_rate_of_verdicts_or_of_pairs() -> None:
    figures = position_sensitivity(FORWARD, BACKWARD)
    assert figures["win_rate_a_per_verdict"].value == close(0.520833)
    assert figures["win_rate_a"].value == close(0.5)
    verdicts = FORWARD + BACKWARD
    counts = [verdicts.count(name) for name in ("A", "tie", "B")]
    assert win_rate(*counts).value == close(0.520833)
    wins = [[0, counts[0]], [counts[2], 0]]
    ties = [[0, counts[1]], [counts[1], 0]]
    strengths = bradley_terry(["A", "B"], wins, ties).log_strength
    assert strengths["A"].value - strengths["B"].value == close(0.083382)
    assert strengths["A"].value - strengths["B"].value == pytest.approx(math.log(12.5 / 11.5))


def test_mcnemar_mid_p_and_exact() -> None:
    assert mcnemar(4, 0, form="mid_p").value == close(0.0625)
    assert mcnemar(4, 0).value == close(0.125)


def test_calibration_error_edges() -> None:
    forecasts = Forecasts.of([c for c, _ in E6], [y for _, y in E6])
    assert probability.ece(forecasts, 10, "left_closed").value == close(0.158333)
    assert probability.ece(forecasts, 10).value == close(0.075)
    assert probability.ece(forecasts, 5).value == close(0.075)
    assert sum(probability.ece(forecasts, 10).details["bin_n"]) == 6


def test_calibration_figures_on_single_answers() -> None:
    forecasts = s24_forecasts()
    assert probability.ece(forecasts, 10).value == close(0.045833)
    assert probability.ece(forecasts, 10, "equal_count").value == close(0.1375)
    assert probability.ece(forecasts, 10, "equal_rank").value == close(0.045833)
    assert probability.mce(forecasts, 10).value == close(0.075)
    assert probability.brier(forecasts).value == close(0.155833)
    parts = probability.murphy(forecasts)
    assert parts["reliability"].value == close(0.002708)
    assert parts["resolution"].value == close(0.011806)
    assert parts["uncertainty"].value == close(0.164931)
    assert aurc(forecasts, ties="expected").value == close(0.146343)
    assert aurc(forecasts).value == close(0.150364)
    assert probability.log_loss(forecasts).value == close(0.496219)


def test_calibration_figures_over_the_judgments_of_both_orders() -> None:
    confidence = [pair[3] for pair in P12] + [pair[4] for pair in P12]
    correct = [int(pair[1] == pair[0]) for pair in P12] + [int(pair[2] == pair[0]) for pair in P12]
    forecasts = Forecasts.of(confidence, correct)
    assert probability.ece(forecasts, 10).value == close(0.241667)
    assert probability.brier(forecasts).value == close(0.2525)


def test_prediction_powered_mean() -> None:
    number = {"pass": 1, "fail": 0}
    labelled, rest = S24[0::2], S24[1::2]
    human, judge = ([number[pair[i]] for pair in labelled] for i in (0, 1))
    unlabelled = [number[judged] for _, judged in rest]
    assert ppi_mean(human, judge, unlabelled, weight=1, enforce_size=False).value == close(0.416667)
    everything = ppi_mean(human, judge, unlabelled, weight=1, predictions="all", enforce_size=False)
    assert everything.value == close(0.458333)
    assert ppi_mean(human, judge, unlabelled, enforce_size=False).value == close(0.479895)
    of_labelled = ppi_mean(human, judge, unlabelled, weight_variance="labelled", enforce_size=False)
    assert of_labelled.value == close(0.478571)
    assert of_labelled.details["lambda"] == pytest.approx(0.2571, abs=1e-4)
    assert ppi_mean(human, judge, unlabelled).undefined_reason == "too_few_labels"


def test_corrected_rate_intervals() -> None:
    errors = JudgeErrors(78, 80, 30, 40)
    adjusted = rogan_gladen(320, 400, errors)
    assert adjusted.value == close(0.758621)
    assert (adjusted.low, adjusted.high) == (pytest.approx(0.6729, abs=1e-4), pytest.approx(0.8414, abs=1e-4))
    delta = rogan_gladen(320, 400, errors, interval="delta")
    assert (delta.low, delta.high) == (pytest.approx(0.680, abs=5e-4), pytest.approx(0.837, abs=5e-4))


def test_repeats() -> None:
    runs = ["PPF", "PPP", "FPP", "FFF"]
    assert repeats.flipping_rate(runs).value == close(0.5)
    assert repeats.minority_rate(runs).value == close(0.166667)
    assert repeats.mean_pairwise_kappa(runs, ("F", "P")).value == close(0.333333)
    assert repeats.pairwise_repeat_agreement(runs).value == close(0.666667)


def test_both_ends_of_kappa_under_failures() -> None:
    human = ["pass", "fail"] * 4
    judge = [*human[:6], None, None]
    agreement = Agreement(PairedLabels.of(judge, human, ("fail", "pass")))
    assert agreement.kappa_failures_wrong().value == close(0.6)
    assert agreement.kappa().value == close(1.0)
    assert (agreement.kappa().n, agreement.raw().details["failed"]) == (6, 2)
    assert agreement.raw().value == close(0.75)
