"""The same numbers from other people's code: krippendorff, choix, ppi-python and relplot as oracles.

None of them is needed by the product; netcal has a test of its own, since it needs torch.
"""

import warnings
from collections.abc import Iterator

import numpy as np
import pytest

from calibration.confidence import Forecasts
from calibration.corrected import ppi_mean
from calibration.probability import smooth_ece
from calibration.ranking import bradley_terry
from calibration.raters import alpha

SEEDS = range(12)


@pytest.fixture(autouse=True)
def quiet_oracles() -> Iterator[None]:
    """What an oracle warns of is its own affair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("metric", ["nominal", "ordinal", "interval", "ratio"])
@pytest.mark.parametrize("seed", SEEDS)
def test_alpha_equals_krippendorff(metric: str, seed: int) -> None:
    import krippendorff

    rng = np.random.default_rng(seed)
    raters, units = int(rng.integers(2, 6)), int(rng.integers(4, 40))
    truth = rng.integers(1, 6, units)
    values = np.where(rng.random((raters, units)) < 0.6, truth, rng.integers(1, 6, (raters, units))).astype(float)
    values[rng.random((raters, units)) < 0.2] = np.nan
    ratings = [[None if np.isnan(value) else int(value) for value in row] for row in values]
    ours = alpha(ratings, metric)
    theirs = krippendorff.alpha(reliability_data=values, level_of_measurement=metric)
    assert ours.value == pytest.approx(theirs, abs=1e-10)


@pytest.mark.parametrize("seed", SEEDS)
def test_bradley_terry_equals_choix(seed: int) -> None:
    import choix

    rng = np.random.default_rng(seed)
    k = int(rng.integers(3, 8))
    wins = rng.integers(1, 20, (k, k)).astype(float)
    np.fill_diagonal(wins, 0)
    theirs = choix.ilsr_pairwise_dense(wins, alpha=0.0, max_iter=1000, tol=1e-12)
    ours = bradley_terry([f"s{i}" for i in range(k)], wins)
    found = np.array([ours.log_strength[f"s{i}"].value for i in range(k)])
    np.testing.assert_allclose(found - found.mean(), theirs - theirs.mean(), atol=1e-6)


@pytest.mark.parametrize("weight", [1.0, None])
@pytest.mark.parametrize("seed", SEEDS)
def test_prediction_powered_means_equal_ppi_python(weight: float | None, seed: int) -> None:
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate

    rng = np.random.default_rng(seed)
    n, more = 120, 900
    human = (rng.random(n) < 0.6).astype(float)
    judge = np.where(rng.random(n) < 0.8, human, 1 - human)
    unlabelled = (rng.random(more) < 0.6).astype(float)
    ours = ppi_mean(human, judge, unlabelled, weight=weight)
    point = ppi_mean_pointestimate(human, judge, unlabelled, lam=weight)
    low, high = ppi_mean_ci(human, judge, unlabelled, alpha=0.05, lam=weight)
    assert ours.value == pytest.approx(float(np.squeeze(point)), abs=1e-9)
    assert ours.low == pytest.approx(float(np.squeeze(low)), abs=1e-9)
    assert ours.high == pytest.approx(float(np.squeeze(high)), abs=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_smooth_ece_equals_relplot(seed: int) -> None:
    import relplot

    rng = np.random.default_rng(seed)
    confidence = rng.random(400)
    correct = (rng.random(400) < confidence**1.5).astype(float)
    ours = smooth_ece(Forecasts.of(confidence, correct))
    assert ours.value == pytest.approx(float(relplot.smECE(confidence, correct)), abs=2e-3)
