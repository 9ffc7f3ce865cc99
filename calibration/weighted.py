"""Means over cases that were drawn with unequal, known probabilities: each counts by one over its probability.

Sources: Horvitz and Thompson 1952; Hajek 1971; effective size after Kish 1965.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from calibration.estimate import Estimate, InvalidStatisticInput, Reason


def weighted_mean(values: ArrayLike, probabilities: ArrayLike, *, level: float = 0.95) -> Estimate:
    """The mean over the population from which `values` were drawn, each with its inclusion probability in (0, 1].

    Hajek's ratio `sum(y / p) / sum(1 / p)` with the linearised variance and Student's t at the effective size
    `sum(w)^2 / sum(w^2)` less one; it lies in `details`. Empty: null `empty`. One value: no interval, `n_below_2`; all
    values equal: no interval, `zero_variance`. Values are finite numbers; probabilities outside (0, 1] are refused.
    """
    y, p = np.asarray(values, dtype=np.float64), np.asarray(probabilities, dtype=np.float64)
    if y.ndim != 1 or y.shape != p.shape:
        raise InvalidStatisticInput("values and probabilities are two lists of the same length")
    if not np.all(np.isfinite(y)) or not np.all((p > 0) & (p <= 1)):
        raise InvalidStatisticInput("values are finite and probabilities lie in (0, 1]")
    n = len(y)
    if n == 0:
        return Estimate.undefined(Reason.EMPTY, 0, "hajek")
    weights = 1 / p
    total = float(weights.sum())
    mean = float((weights * y).sum() / total)
    effective = total**2 / float((weights**2).sum())
    details = {"effective_n": effective}
    if n < 2:
        return Estimate(mean, None, None, n, "hajek", interval_reason=Reason.N_BELOW_2, details=details)
    variance = float(((weights * (y - mean)) ** 2).sum()) / total**2 * n / (n - 1)
    if variance == 0:
        return Estimate(mean, None, None, n, "hajek", interval_reason=Reason.ZERO_VARIANCE, details=details)
    from scipy import stats

    half = float(stats.t.ppf((1 + level) / 2, max(effective - 1, 1))) * math.sqrt(variance)
    return Estimate(mean, mean - half, mean + half, n, "hajek", level=level, details=details)
