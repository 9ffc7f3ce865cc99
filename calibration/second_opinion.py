"""netcal's numbers beside the product's own: an optional extra that brings torch, so imported only when asked for.

netcal wants numpy float arrays, drops NaN silently, fits one class without complaint and bins left-closed on
floating-point edges: everything it would answer wrongly is refused before the call. Its numbers are never a headline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.confidence import Forecasts
from calibration.estimate import Estimate, InvalidStatisticInput, Reason
from calibration.recalibrate import MAX_HISTOGRAM_BINS, require_both_classes

METHODS = ("temperature", "logistic", "beta", "histogram")


def netcal_ece(forecasts: Forecasts, bins: int = 10) -> Estimate:
    """Expected calibration error by netcal; the same as ours only where no confidence lies on the edge of a bin.

    Raises ImportError where the extra `netcal` is not installed.
    """
    if len(forecasts) == 0:
        reason = Reason.NO_CONFIDENCE if forecasts.missing else Reason.EMPTY
        return Estimate.undefined(reason, 0, "ece/netcal")
    from netcal.metrics import ECE

    value = float(ECE(bins).measure(forecasts.confidence, forecasts.correct.astype(np.int64)))
    return Estimate.point(value, len(forecasts), f"ece/netcal/{bins}_bins")


def netcal_transform(forecasts: Forecasts, method: str) -> NDArray[np.float64]:
    """In-sample calibrated confidences by netcal (see METHODS); in single precision, so they agree to 2e-3.

    Raises `CannotFit` where our own fit would for want of a class, ImportError where the extra is not installed.
    """
    if method not in METHODS:
        raise InvalidStatisticInput(f"netcal has no method {method!r} here: {', '.join(METHODS)}")
    require_both_classes(forecasts)
    from netcal.binning import HistogramBinning
    from netcal.scaling import BetaCalibration, LogisticCalibration, TemperatureScaling

    kinds: dict[str, Callable[[], Any]] = {
        "temperature": TemperatureScaling,
        "logistic": LogisticCalibration,
        "beta": BetaCalibration,
        "histogram": lambda: HistogramBinning(MAX_HISTOGRAM_BINS),
    }
    model = kinds[method]()
    model.fit(forecasts.confidence, forecasts.correct.astype(np.int64))
    return np.asarray(model.transform(forecasts.confidence), dtype=np.float64)
