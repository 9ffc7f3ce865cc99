from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from calibration import probability, recalibrate, second_opinion
from calibration.confidence import Forecasts
from calibration.estimate import InvalidStatisticInput, Reason
from calibration.recalibrate import CannotFit, ConfidenceMap, assign_folds, cross_fit, folds_of
from calibration.selective import aurc, guaranteed_threshold, lowest_threshold, threshold_by_f1


def overconfident(n: int, seed: int = 0, *, groups: int | None = None) -> Forecasts:
    chance = np.random.default_rng(seed)
    truth = chance.uniform(0.2, 0.8, n)
    correct = (chance.random(n) < truth).astype(int)
    logits = 3 * np.log(truth / (1 - truth))
    stated = 1 / (1 + np.exp(-logits))
    return Forecasts.of(stated, correct, groups=None if groups is None else [str(i % groups) for i in range(n)])


@pytest.mark.parametrize("method", ["temperature", "logistic", "beta", "histogram", "isotonic"])
def test_maps_improve_an_overconfident_judge_and_survive_json(method: str) -> None:
    result = cross_fit(overconfident(600), method)
    assert result.kept
    assert result.improvement.low > 0
    assert result.brier_after.value < result.brier_before.value
    # An isotonic map says 0 and 1: one case against it costs the log loss without a bound all that others gain.
    assert method == "isotonic" or result.log_loss_after.value < result.log_loss_before.value
    restored = ConfidenceMap.from_dict(json.loads(json.dumps(result.map.to_dict(), allow_nan=False)))
    grid = np.linspace(0, 1, 23)
    assert restored.apply(grid) == pytest.approx(result.map.apply(grid))
    assert np.all((restored.apply(grid) >= 0) & (restored.apply(grid) <= 1))
    json.dumps(result.to_dict(), allow_nan=False)


def test_a_calibrated_judge_keeps_its_confidence() -> None:
    chance = np.random.default_rng(1)
    stated = chance.uniform(0.1, 0.9, 400)
    result = cross_fit(Forecasts.of(stated, (chance.random(400) < stated).astype(int)))
    assert not result.kept
    assert result.map.apply([0.3, 0.7]).tolist() == [0.3, 0.7]


@pytest.mark.parametrize(
    ("forecasts", "method", "reason"),
    [
        (overconfident(99), "logistic", Reason.TOO_FEW_LABELS),
        (overconfident(199), "beta", Reason.TOO_FEW_LABELS),
        (Forecasts.of([0.5] * 120, [1] * 120), "logistic", Reason.ONE_CLASS),
        (Forecasts.of([0.5] * 120, [0, 1] * 60), "logistic", Reason.ZERO_VARIANCE),
        (Forecasts.of([0.2] * 60 + [0.8] * 60, [0] * 60 + [1] * 60), "logistic", Reason.SEPARATION),
        (Forecasts.of([0.8] * 60 + [0.2] * 60, [0] * 60 + [1] * 60), "temperature", Reason.SEPARATION),
        (Forecasts.of([None] * 5, [0] * 5), "logistic", Reason.NO_CONFIDENCE),
        (Forecasts.of([], []), "logistic", Reason.EMPTY),
        (overconfident(200, groups=3), "logistic", Reason.TOO_FEW_GROUPS),
    ],
)
def test_maps_are_refused_with_a_reason_and_the_identity_kept(
    forecasts: Forecasts, method: str, reason: Reason
) -> None:
    result = cross_fit(forecasts, method)
    assert result.undefined_reason is reason
    assert not result.kept
    assert result.improvement.undefined_reason is reason


def test_a_group_is_never_in_two_folds() -> None:
    forecasts = overconfident(200, groups=40)
    folds = assign_folds(forecasts)
    by_group: dict[object, set[int]] = {}
    for group, fold in zip(forecasts.groups, folds, strict=True):
        by_group.setdefault(group, set()).add(int(fold))
    assert all(len(found) == 1 for found in by_group.values())
    assert set(folds) == set(range(5))


def test_one_division_serves_several_methods() -> None:
    forecasts = overconfident(400, groups=60)
    folds = folds_of(forecasts)
    assert folds is not None
    for method in ("logistic", "histogram"):
        assert cross_fit(forecasts, method, folds=folds).to_dict() == cross_fit(forecasts, method).to_dict()
    assert folds_of(overconfident(40, groups=4)) is None


def test_a_fold_without_a_class_is_refused() -> None:
    forecasts = Forecasts.of([0.1, 0.4, 0.6, 0.9], [0, 0, 1, 1])
    result = cross_fit(forecasts, folds=[0, 0, 1, 1], enforce_size=False)
    assert result.undefined_reason is Reason.ONE_CLASS


def test_negative_beta_coefficients_are_dropped() -> None:
    chance = np.random.default_rng(2)
    stated = chance.uniform(0.05, 0.95, 300)
    against = (chance.random(300) > stated).astype(int)
    fitted = recalibrate.fit_beta(Forecasts.of(stated, against))
    assert fitted.parameters["a"] >= 0
    assert fitted.parameters["b"] >= 0


def test_empty_histogram_bins_keep_the_raw_confidence() -> None:
    fitted = recalibrate.fit_histogram(Forecasts.of([0.1, 0.15, 0.9], [0, 1, 1]))
    assert fitted.apply([0.5, 0.12, 1.0]).tolist() == [0.5, 0.5, 1.0]


def test_bad_confidences_are_refused() -> None:
    for confidence in ([1.2], [float("nan")], [-0.1]):
        with pytest.raises(InvalidStatisticInput):
            Forecasts.of(confidence, [1])
    with pytest.raises(InvalidStatisticInput):
        Forecasts.of([0.5], [2])
    with pytest.raises(InvalidStatisticInput):
        ConfidenceMap("logistic", {"intercept": 0, "slope": 1}).apply([1.5])
    with pytest.raises(CannotFit):
        recalibrate.fit_logistic(Forecasts.of([0.4], [1]))


@pytest.mark.parametrize(("n", "bins", "published"), [(30, 5, 0.101), (100, 10, 0.070), (500, 15, 0.040)])
def test_a_perfect_judge_shows_the_known_error_at_small_n(n: int, bins: int, published: float) -> None:
    chance = np.random.default_rng(7)
    means = [probability.expected_ece(chance.uniform(0.5, 1, n), bins).value for _ in range(40)]
    assert np.mean(means) == pytest.approx(published, abs=0.006)


def test_miscalibration_is_said_only_above_the_null() -> None:
    chance = np.random.default_rng(3)
    stated = chance.uniform(0.5, 1, 300)
    honest = probability.ece(Forecasts.of(stated, (chance.random(300) < stated).astype(int)))
    boastful = probability.ece(Forecasts.of(stated, (chance.random(300) < 0.5).astype(int)))
    assert honest.details["miscalibrated"] is False
    assert boastful.details["miscalibrated"] is True
    assert honest.details["null_mean"] < honest.details["null_q95"]
    assert honest.details["bins"] == 10
    assert honest.low is None


def test_debiased_error_has_a_jackknife_interval_and_may_be_negative() -> None:
    chance = np.random.default_rng(4)
    stated = chance.uniform(0.5, 1, 400).round(2)
    found = probability.squared_error_debiased(Forecasts.of(stated, (chance.random(400) < stated).astype(int)), 10)
    assert found.low < 0 < found.high
    assert found.low <= found.value <= found.high
    few = probability.squared_error_debiased(Forecasts.of([0.6, 0.7], [1, 0]), 5)
    assert few.interval_reason == "too_few_groups"


def test_cases_without_confidence_are_counted_and_never_accepted() -> None:
    forecasts = Forecasts.of([0.9, None, 0.8, None], [1, 1, 0, 0])
    assert probability.ece(forecasts, 5).details["without_confidence"] == 2
    assert probability.ece(Forecasts.of([None], [1])).undefined_reason == "no_confidence"
    found = lowest_threshold(forecasts, 0.9)
    assert (found.value, found.details["coverage"]) == (0.9, 0.25)
    assert aurc(Forecasts.of([None], [1])).undefined_reason == "no_confidence"


def test_clipped_log_losses_are_counted() -> None:
    found = probability.log_loss(Forecasts.of([1.0, 0.0, 0.5], [0, 0, 1]), eps=1e-6)
    assert found.details["clipped"] == 2
    assert found.value == pytest.approx((-np.log(1e-6) - np.log(1 - 1e-6) - np.log(0.5)) / 3)


def test_a_threshold_needs_enough_labels() -> None:
    few = guaranteed_threshold(Forecasts.of([0.95] * 20, [1] * 20), [0.9], 0.9)
    assert few.undefined_reason == "too_few_labels"
    many = guaranteed_threshold(Forecasts.of([0.95] * 60, [1] * 60), [0.9], 0.9)
    assert many.value == 0.9


def test_threshold_by_f1_is_the_first_of_the_best() -> None:
    found = threshold_by_f1([0.1, 0.4, 0.8, 0.9], [False, False, True, True])
    assert (found.value, found.details["f1"]) == (0.4, 1.0)
    assert threshold_by_f1([0.3], [False]).undefined_reason == "no_positive_labels"


def test_curves_and_scores_have_bootstrap_intervals() -> None:
    forecasts = overconfident(60, groups=30)
    from calibration.resample import Resampler

    resampler = Resampler(len(forecasts), forecasts.groups, resamples=400)
    for estimate in (
        aurc(forecasts, resampler=resampler),
        aurc(forecasts, ties="expected", resampler=resampler),
        probability.auroc(forecasts, resampler=resampler),
        probability.brier(forecasts, resampler=resampler),
        probability.log_loss(forecasts, resampler=resampler),
    ):
        assert estimate.low < estimate.value < estimate.high
        assert estimate.details["unit"] == "group"


def test_netcal_is_optional_and_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("netcal", "netcal.metrics", "netcal.scaling", "netcal.binning"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError):
        second_opinion.netcal_transform(overconfident(50), "temperature")
    with pytest.raises(ImportError):
        second_opinion.netcal_ece(overconfident(50))
    assert second_opinion.netcal_ece(Forecasts.of([], [])).undefined_reason == "empty"
    with pytest.raises(CannotFit):
        second_opinion.netcal_transform(Forecasts.of([0.5, 0.6], [1, 1]), "logistic")
    with pytest.raises(InvalidStatisticInput):
        second_opinion.netcal_transform(overconfident(50), "isotonic")
