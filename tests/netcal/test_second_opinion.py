"""netcal beside the product's own numbers. Needs the extra `netcal`, which brings torch: run by `make test-netcal`."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest

from calibration.confidence import Forecasts
from calibration.probability import ece
from calibration.recalibrate import ConfidenceMap, fit_beta, fit_histogram, fit_logistic, fit_temperature
from calibration.second_opinion import netcal_ece, netcal_transform


def overconfident(seed: int, n: int = 600) -> Forecasts:
    """Confidences off every bin edge, too sure of themselves."""
    rng = np.random.default_rng(seed)
    confidence = np.round(rng.uniform(0.5, 0.999, n), 3)
    confidence = np.where(np.isclose(confidence * 10 % 1, 0), confidence + 0.0005, confidence)
    return Forecasts.of(confidence, (rng.random(n) < 0.25 + 0.6 * confidence).astype(float))


@pytest.mark.parametrize("seed", range(8))
def test_ece_off_the_edges_is_the_same(seed: int) -> None:
    forecasts = overconfident(seed)
    assert netcal_ece(forecasts, 10).value == pytest.approx(ece(forecasts, 10).value, abs=1e-6)


@pytest.mark.parametrize(
    ("method", "fit"),
    [("temperature", fit_temperature), ("logistic", fit_logistic), ("beta", fit_beta), ("histogram", fit_histogram)],
)
@pytest.mark.parametrize("seed", range(4))
def test_recalibrators_agree_in_single_precision(
    method: str, fit: Callable[[Forecasts], ConfidenceMap], seed: int
) -> None:
    forecasts = overconfident(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = netcal_transform(forecasts, method)
    np.testing.assert_allclose(fit(forecasts).apply(forecasts.confidence), theirs, atol=2e-3)
