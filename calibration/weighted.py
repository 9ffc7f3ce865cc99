"""Means over cases that were drawn with unequal, known probabilities: each counts by one over its probability.

Sources: Horvitz and Thompson 1952; Hajek 1971; effective size after Kish 1965; Wilson's interval at the effective size
of the design after Korn and Graubard 1998.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.estimate import Estimate, InvalidStatisticInput, Reason
from calibration.intervals import wilson

WEIGHTED = "hajek"
"""What the method of every weighted figure begins with."""
OVER_DRAWN = "over_drawn_cases"
"""Flag of a figure that counts each case once: about the drawn cases, not about what they were drawn from."""
_EQUAL = 1e-9


def design_weights(probabilities: ArrayLike) -> NDArray[np.float64] | None:
    """One over each inclusion probability in (0, 1], scaled to mean 1; None where all are equal or there are none.

    Raises InvalidStatisticInput for what is no probability.
    """
    p = np.asarray(probabilities, dtype=np.float64)
    if p.ndim != 1 or not np.all((p > 0) & (p <= 1)):
        raise InvalidStatisticInput("probabilities lie in (0, 1]")
    if p.size == 0 or float(np.ptp(p)) <= _EQUAL:
        return None
    weights = 1 / p
    return np.asarray(weights / weights.mean())


def kish(weights: NDArray[np.float64]) -> float:
    """`sum(w)^2 / sum(w^2)`: how many evenly drawn values say as much, where values and weights are unrelated."""
    return float(weights.sum()) ** 2 / float((weights**2).sum())


def effective_size(n: int, weights: NDArray[np.float64] | None) -> float:
    """How many evenly drawn cases say as much as these `n`: Kish's size, `n` itself without weights."""
    return float(n) if weights is None else min(kish(weights), float(n))


def uneven(weights: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
    """The weights where they differ; None where all are the same, so that every case counts as it is."""
    if weights is None or weights.size == 0 or float(np.ptp(weights)) <= _EQUAL * float(weights.max()):
        return None
    return weights


def weighted_mean(values: ArrayLike, probabilities: ArrayLike, *, level: float = 0.95) -> Estimate:
    """The mean over the population from which `values` were drawn, each with its inclusion probability in (0, 1].

    Hajek's ratio `sum(y / p) / sum(1 / p)` with the linearised variance and Student's t at Kish's effective size less
    one; size, standard error (`se`) and degrees of freedom lie in `details`. Empty: null `empty`. One value: no
    interval, `n_below_2`; all values equal: no interval, `zero_variance`. Values are finite numbers; probabilities
    outside (0, 1] are refused.
    """
    y, p = np.asarray(values, dtype=np.float64), np.asarray(probabilities, dtype=np.float64)
    if y.ndim != 1 or y.shape != p.shape:
        raise InvalidStatisticInput("values and probabilities are two lists of the same length")
    if not np.all(np.isfinite(y)) or not np.all((p > 0) & (p <= 1)):
        raise InvalidStatisticInput("values are finite and probabilities lie in (0, 1]")
    n = len(y)
    if n == 0:
        return Estimate.undefined(Reason.EMPTY, 0, WEIGHTED)
    weights = 1 / p
    total = float(weights.sum())
    mean = float((weights * y).sum() / total)
    effective = kish(weights)
    details: dict[str, Any] = {"effective_n": effective}
    if n < 2:
        return Estimate(mean, None, None, n, WEIGHTED, interval_reason=Reason.N_BELOW_2, details=details)
    variance = float(((weights * (y - mean)) ** 2).sum()) / total**2 * n / (n - 1)
    if variance == 0:
        return Estimate(mean, None, None, n, WEIGHTED, interval_reason=Reason.ZERO_VARIANCE, details=details)
    from scipy import stats

    freedom = max(effective - 1, 1.0)
    error = math.sqrt(variance)
    half = float(stats.t.ppf((1 + level) / 2, freedom)) * error
    details |= {"se": error, "degrees": freedom}
    return Estimate(mean, mean - half, mean + half, n, WEIGHTED, level=level, details=details)


def t_test(mean: Estimate) -> float | None:
    """Two-sided p of a `weighted_mean` against 0; None where it has no standard error."""
    if mean.value is None or "se" not in mean.details:
        return None
    from scipy import stats

    return float(2 * stats.t.sf(abs(mean.value) / mean.details["se"], mean.details["degrees"]))


def weighted_share(
    hits: NDArray[np.bool_],
    weights: NDArray[np.float64],
    units: NDArray[np.int64] | None = None,
    *,
    level: float = 0.95,
) -> Estimate:
    """The share of `hits` among cases of these positive `weights` (one over their probabilities, in any unit).

    Hajek's ratio; Wilson's interval at the effective size `p (1 - p) / V` of the linearised variance V between `units`
    (numbers of groups; None: each case its own), never above n. All hits or none: Kish's size of the units' weights,
    since V is 0. `numerator` and `denominator` count the cases as they are. Empty: null `empty`.
    """
    n = hits.size
    if n == 0:
        return Estimate.undefined(Reason.EMPTY, 0, f"{WEIGHTED}_wilson", numerator=0, denominator=0)
    total = float(weights.sum())
    value = float((weights * hits).sum() / total)
    of_unit = np.arange(n) if units is None else np.unique(units, return_inverse=True)[1]
    count = int(of_unit.max()) + 1
    masses = np.asarray(np.bincount(of_unit, weights=weights, minlength=count), dtype=np.float64)
    residuals = np.bincount(of_unit, weights=weights * (hits - value), minlength=count)
    variance = float((residuals**2).sum()) / total**2 * (count / (count - 1) if count > 1 else 1.0)
    spread = value * (1 - value)
    effective = spread / variance if variance > 0 and spread > 0 else kish(masses)
    effective = min(effective, float(n))
    low, high = wilson(value * effective, effective, level)
    return Estimate(
        value,
        min(low, value),
        max(high, value),
        n,
        f"{WEIGHTED}_wilson",
        numerator=int(hits.sum()),
        denominator=n,
        level=level,
        details={"effective_n": effective},
    )
