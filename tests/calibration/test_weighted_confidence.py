"""Scores of confidences over cases drawn unevenly: scikit-learn's weighted ones, and repeated cases, agree."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from calibration import probability
from calibration.confidence import Forecasts
from calibration.estimate import Estimate, InvalidStatisticInput
from calibration.resample import Resampler

SCORES = {"brier": probability.brier, "log_loss": probability.log_loss, "auroc": probability.auroc}
CASES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.6, 0.75, 0.9, 1.0]), st.booleans(), st.integers(1, 5)),
    min_size=2,
    max_size=40,
)


def forecasts(rows: list[tuple[float, bool, int]], weights: np.ndarray | None) -> Forecasts:
    return Forecasts.of([c for c, _, _ in rows], [right for _, right, _ in rows], weights=weights)


def figures(found: Forecasts, resampler: Resampler | None = None) -> dict[str, Estimate]:
    return {
        **{name: score(found, resampler=resampler) for name, score in SCORES.items()},
        "ece": probability.ece(found, 5, null=False),
        "mce": probability.mce(found, 5),
        "mean_gap": probability.mean_gap(found, 5),
        **probability.murphy(found),
    }


@given(CASES, st.floats(0.01, 100))
def test_equal_weights_give_exactly_what_no_weights_give(rows: list[tuple[float, bool, int]], weight: float) -> None:
    weights = np.full(len(rows), weight)
    weighted, plain = forecasts(rows, weights), forecasts(rows, None)
    assert figures(weighted) == figures(plain)
    assert probability.reliability(weighted, 5) == probability.reliability(plain, 5)
    draws = [Resampler(len(rows), resamples=50, weights=one) for one in (weights, None)]
    of_draws = [str(figures(found, one)) for found, one in zip((weighted, plain), draws, strict=True)]
    assert of_draws[0] == of_draws[1]


@given(CASES)
def test_a_weight_counts_as_so_many_cases(rows: list[tuple[float, bool, int]]) -> None:
    weights = np.array([float(k) for _, _, k in rows])
    repeated = [row for row in rows for _ in range(row[2])]
    found, wanted = figures(forecasts(rows, weights)), figures(forecasts(repeated, None))
    for name, figure in found.items():
        assert figure.undefined_reason == wanted[name].undefined_reason
        if figure.value is not None:
            assert figure.value == pytest.approx(wanted[name].value, abs=1e-12), name
            assert figure.n == len(rows)
            assert figure.method.startswith("hajek_") is bool(np.ptp(weights) > 0)
    of_repeated = probability.reliability(forecasts(repeated, None), 5)
    for row, other in zip(probability.reliability(forecasts(rows, weights), 5), of_repeated, strict=True):
        assert (row["mean_confidence"], row["accuracy"]) == pytest.approx((other["mean_confidence"], other["accuracy"]))


@given(CASES)
def test_scikit_learn_says_the_same(rows: list[tuple[float, bool, int]]) -> None:
    weights = np.array([float(k) for _, _, k in rows])
    confidence, right = [c for c, _, _ in rows], [int(one) for _, one, _ in rows]
    found = figures(forecasts(rows, weights))
    brier = metrics.brier_score_loss(right, confidence, sample_weight=weights, labels=[0, 1])
    assert found["brier"].value == pytest.approx(brier, abs=1e-12)
    clipped = np.clip(confidence, 1e-15, 1 - 1e-15)
    log_loss = metrics.log_loss(right, clipped, sample_weight=weights, labels=[0, 1])
    assert found["log_loss"].value == pytest.approx(log_loss)
    if len(set(right)) == 2:
        assert found["auroc"].value == pytest.approx(metrics.roc_auc_score(right, confidence, sample_weight=weights))
    parts = [found[name].value for name in ("reliability", "resolution", "uncertainty")]
    assert None not in parts
    assert parts[0] - parts[1] + parts[2] == pytest.approx(brier, abs=1e-12)  # type: ignore[operator]


def population(n: int = 8000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Confidences that are 0.1 too high, whether they were right, and the chance to be drawn: higher for low ones."""
    rng = np.random.default_rng(5)
    confidence = np.round(rng.uniform(0.5, 0.95, n), 2)
    correct = rng.random(n) < confidence - 0.1
    return confidence, correct, np.where(confidence < 0.7, 0.25, 0.05)


def test_intervals_cover_the_population_and_say_how_sure_they_are() -> None:
    confidence, correct, chance = population()
    truth = {name: score(Forecasts.of(confidence, correct)).value for name, score in SCORES.items()}
    covered = {"brier": 0, "log_loss": 0, "auroc": 0}
    rng = np.random.default_rng(11)
    for _ in range(40):
        kept = np.flatnonzero(rng.random(chance.size) < chance)
        weights = 1 / chance[kept]
        found = Forecasts.of(confidence[kept], correct[kept], weights=weights)
        draws = Resampler(kept.size, resamples=200, weights=weights)
        for name in covered:
            figure = SCORES[name](found, resampler=draws)
            assert figure.low is not None
            assert figure.high is not None
            covered[name] += figure.low <= truth[name] <= figure.high
        assert found.effective_n < kept.size
    assert all(34 <= count <= 40 for count in covered.values()), covered


def test_the_interval_without_a_bootstrap_is_of_the_weighted_mean() -> None:
    confidence, correct, chance = population(2000)
    found = probability.brier(Forecasts.of(confidence, correct, weights=1 / chance))
    assert found.method == "hajek_brier/t"
    assert found.details["effective_n"] == pytest.approx((1 / chance).sum() ** 2 / (1 / chance**2).sum())
    assert found.low < found.value < found.high  # type: ignore[operator]


def test_a_calibrated_judge_is_not_called_miscalibrated_however_uneven_the_draw() -> None:
    rng = np.random.default_rng(3)
    confidence = np.round(rng.uniform(0.5, 1, 400), 1)
    weights = np.where(confidence < 0.6, 1.0, 20.0)
    called = 0
    for _ in range(100):
        found = probability.ece(Forecasts.of(confidence, rng.random(400) < confidence, weights=weights))
        called += found.details["miscalibrated"]
    assert called <= 11
    wrong = probability.ece(Forecasts.of(confidence, rng.random(400) < confidence - 0.2, weights=weights))
    assert wrong.details["miscalibrated"] is True
    assert wrong.method == "hajek_ece/right_closed/10_bins"
    assert wrong.interval_reason == probability.ece(Forecasts.of(confidence, confidence > 0.7)).interval_reason


def test_the_simulated_null_is_the_exact_one_where_weights_hardly_differ() -> None:
    rng = np.random.default_rng(3)
    confidence = np.round(rng.uniform(0.5, 1, 300), 2)
    exact = probability.ece(Forecasts.of(confidence, confidence > 0.7), 10).details
    near = Forecasts.of(confidence, confidence > 0.7, weights=1 + 1e-6 * rng.random(300))
    simulated = probability.ece(near, 10).details
    assert near.weights is not None
    assert simulated["null_mean"] == pytest.approx(exact["null_mean"], rel=0.02)
    assert simulated["null_q95"] == pytest.approx(exact["null_q95"], rel=0.02)


def test_few_heavy_cases_have_few_bins_and_no_headline() -> None:
    confidence, weights = np.linspace(0.5, 1, 400), np.full(400, 0.01)
    weights[:20] = 10.0
    found = probability.ece(Forecasts.of(confidence, confidence > 0.7, weights=weights))
    assert found.method == "hajek_ece/right_closed/5_bins"
    assert found.flags == ("no_headline_below_100",)
    assert found.details["effective_n"] < 21
    assert found.n == 400


def test_what_has_no_weighted_form_counts_each_case_once() -> None:
    confidence, correct, chance = population(500)
    found = Forecasts.of(confidence, correct, weights=1 / chance)
    plain = dataclasses.replace(found, weights=None)
    assert found.unweighted() == plain or found.unweighted().weights is None
    for figure in (probability.squared_error_debiased, probability.smooth_ece):
        assert figure(found) == figure(plain)
    assert str(probability.ece(found, 10, "equal_mass")) == str(probability.ece(plain, 10, "equal_mass"))


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, -1.0], [1.0, float("nan")]])
def test_weights_are_positive_and_one_a_case(weights: list[float]) -> None:
    with pytest.raises(InvalidStatisticInput, match="weights"):
        Forecasts.of([0.5, 0.6], [1, 0], weights=np.array(weights))


def test_cases_without_a_confidence_take_their_weights_along() -> None:
    found = Forecasts.of([0.5, None, 0.7], [1, 0, 0], weights=np.array([1.0, 2.0, 3.0]))
    assert found.weights is not None
    assert found.weights.tolist() == [1.0, 3.0]
    assert Forecasts.of([0.5, None, 0.7], [1, 0, 0], weights=np.array([3.0, 2.0, 3.0])).weights is None
