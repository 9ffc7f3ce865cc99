"""Intervals of proportions and of means, each a pure function of counts or values.

Owns the choice of interval for a single number; the resampling intervals are in `resample`, tests in `tests`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calibration.estimate import Estimate, InvalidStatisticInput, Reason

Z95 = 1.959963984540054
"""The 97.5% point of the standard normal distribution."""


def z_of(level: float) -> float:
    """Two-sided normal quantile of a confidence `level` in (0, 1)."""
    if not 0 < level < 1:
        raise InvalidStatisticInput(f"level must lie between 0 and 1, not {level}")
    if level == 0.95:
        return Z95
    from scipy.stats import norm

    return float(norm.ppf(0.5 + level / 2))


def _check_counts(successes: float, n: float) -> None:
    if n < 0 or successes < 0 or successes > n:
        raise InvalidStatisticInput(f"{successes} successes of {n} is not a count")


def wilson(successes: float, n: float, level: float = 0.95, *, z: float | None = None) -> tuple[float, float]:
    """Wilson score interval of a proportion, `n` > 0 (1927); `z` replaces the level (some tools round to 1.96).

    An effective size, which need not be whole, is taken as a size.
    """
    _check_counts(successes, n)
    if n == 0:
        raise InvalidStatisticInput("an interval of a proportion needs n >= 1")
    z = z_of(level) if z is None else z
    share = successes / n
    denominator = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / denominator
    half = z / denominator * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return low, high


def clopper_pearson(successes: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Exact interval of a proportion, `n` >= 1: covers at least `level` (Clopper & Pearson 1934)."""
    _check_counts(successes, n)
    if n == 0:
        raise InvalidStatisticInput("an interval of a proportion needs n >= 1")
    tail = (1 - level) / 2
    return clopper_pearson_lower(successes, n, tail), clopper_pearson_upper(successes, n, tail)


def clopper_pearson_upper(successes: int, n: int, alpha: float) -> float:
    """One-sided exact upper bound: the true share lies above it with probability at most `alpha`."""
    _check_counts(successes, n)
    if successes == n:
        return 1.0
    from scipy.stats import beta

    return float(beta.ppf(1 - alpha, successes + 1, n - successes))


def clopper_pearson_lower(successes: int, n: int, alpha: float) -> float:
    """One-sided exact lower bound: the true share lies below it with probability at most `alpha`."""
    _check_counts(successes, n)
    if successes == 0:
        return 0.0
    from scipy.stats import beta

    return float(beta.ppf(alpha, successes, n - successes + 1))


def proportion(successes: int, n: int, *, level: float = 0.95, method: str = "wilson") -> Estimate:
    """A share with its counts. `method`: `wilson` (reports) or `clopper_pearson` (guarantees). n = 0: null `empty`."""
    _check_counts(successes, n)
    if method not in ("wilson", "clopper_pearson"):
        raise InvalidStatisticInput(f"unknown interval method {method!r}: wilson or clopper_pearson")
    if n == 0:
        return Estimate.undefined(Reason.EMPTY, 0, method, numerator=0, denominator=0)
    low, high = wilson(successes, n, level) if method == "wilson" else clopper_pearson(successes, n, level)
    share = successes / n
    return Estimate(
        share, min(low, share), max(high, share), n, method, numerator=successes, denominator=n, level=level
    )


def bonett_price(b: int, c: int, n: int, *, level: float = 0.95) -> Estimate:
    """Difference (b - c)/n of two shares on the same `n` cases; never of zero width (Bonett & Price 2012).

    `b` counts the cases won only by the first side, `c` those won only by the second. The interval is centred on the
    adjusted difference (b - c)/(n + 2). The ends are clipped to [-1, 1]. n = 0: null `empty`.
    """
    if b < 0 or c < 0 or b + c > n:
        raise InvalidStatisticInput(f"discordant counts {b} and {c} do not fit n = {n}")
    if n == 0:
        return Estimate.undefined(Reason.EMPTY, 0, "bonett_price")
    p12, p21 = (b + 1) / (n + 2), (c + 1) / (n + 2)
    difference = p12 - p21
    half = z_of(level) * math.sqrt((p12 + p21 - difference * difference) / (n + 2))
    return Estimate(
        (b - c) / n,
        max(-1.0, difference - half),
        min(1.0, difference + half),
        n,
        "bonett_price",
        numerator=b - c,
        denominator=n,
        level=level,
        details={"only_first": b, "only_second": c},
    )


def newcombe(successes_1: int, n_1: int, successes_2: int, n_2: int, *, level: float = 0.95) -> Estimate:
    """Difference of two shares on different cases, hybrid score interval (Newcombe 1998). n = 0: null `empty`."""
    _check_counts(successes_1, n_1)
    _check_counts(successes_2, n_2)
    if n_1 == 0 or n_2 == 0:
        return Estimate.undefined(Reason.EMPTY, n_1 + n_2, "newcombe")
    p1, p2 = successes_1 / n_1, successes_2 / n_2
    low1, high1 = wilson(successes_1, n_1, level)
    low2, high2 = wilson(successes_2, n_2, level)
    difference = p1 - p2
    return Estimate(
        difference,
        difference - math.hypot(p1 - low1, high2 - p2),
        difference + math.hypot(high1 - p1, p2 - low2),
        n_1 + n_2,
        "newcombe",
        level=level,
        details={"successes_1": successes_1, "n_1": n_1, "successes_2": successes_2, "n_2": n_2},
    )


def mean_t(values: Sequence[float] | NDArray[np.float64], *, level: float = 0.95, method: str = "t") -> Estimate:
    """Mean with Student's interval over independent values.

    Empty: null `empty`. One value: no interval, `n_below_2`. All equal: no interval, `zero_variance`.
    `details.se` is the standard error (null below two values).
    """
    x = np.asarray(values, dtype=np.float64)
    if x.size and not np.all(np.isfinite(x)):
        raise InvalidStatisticInput("values of a mean must be finite numbers")
    n = int(x.size)
    if n == 0:
        return Estimate.undefined(Reason.EMPTY, 0, method)
    mean = float(x.mean())
    if n == 1:
        return Estimate(mean, None, None, 1, method, interval_reason=Reason.N_BELOW_2, details={"se": None})
    if np.all(x == x[0]):
        return Estimate(mean, None, None, n, method, interval_reason=Reason.ZERO_VARIANCE, details={"se": 0.0})
    from scipy.stats import t as student

    se = float(x.std(ddof=1)) / math.sqrt(n)
    half = float(student.ppf(0.5 + level / 2, n - 1)) * se
    return Estimate(mean, mean - half, mean + half, n, method, level=level, details={"se": se})
