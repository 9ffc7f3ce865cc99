"""How many labels a wanted precision or a wanted comparison needs."""

from __future__ import annotations

import math

from calibration.estimate import Estimate, InvalidStatisticInput, Reason
from calibration.intervals import z_of


def _shares(**rates: float) -> None:
    for name, rate in rates.items():
        if not 0 <= rate <= 1:
            raise InvalidStatisticInput(f"{name} must lie between 0 and 1")


def design_effect(group_size: float, icc: float) -> float:
    """Factor by which groups of `group_size` cases with intra-class correlation `icc` need more cases; at least 0."""
    return max(0.0, 1 + (group_size - 1) * icc)


def labels_for_half_width(p: float, half_width: float, *, level: float = 0.95, design: float = 1.0) -> Estimate:
    """Labels for an interval of +- `half_width` around a share near `p`: z^2 p(1-p)/h^2, times the design effect.

    The value is rounded up; `details.n_raw` is not.
    """
    _shares(p=p)
    if not 0 < half_width < 1:
        raise InvalidStatisticInput("half_width must lie between 0 and 1")
    raw = design * z_of(level) ** 2 * p * (1 - p) / half_width**2
    return Estimate.point(_ceil(raw), 0, "labels_for_half_width", details={"n_raw": raw, "design_effect": design})


def _ceil(raw: float) -> int:
    return math.ceil(raw - 1e-9)


def labels_for_difference(
    only_first: float, only_second: float, *, alpha: float = 0.05, power: float = 0.8
) -> Estimate:
    """Cases for McNemar's test to find the difference of two discordant shares (Miettinen 1968; Connor 1987).

    Equal shares: null `zero_variance` (no number finds a difference of 0). `details.power_at_n` is the power there; the
    exact test needs a few more.
    """
    _shares(only_first=only_first, only_second=only_second)
    _check_discordant(only_first, only_second)
    difference = abs(only_first - only_second)
    if difference == 0:
        return Estimate.undefined(Reason.ZERO_VARIANCE, 0, "labels_for_difference")
    from scipy.stats import norm

    discordant = only_first + only_second
    root = z_of(1 - alpha) * math.sqrt(discordant) + float(norm.ppf(power)) * math.sqrt(discordant - difference**2)
    raw = (root / difference) ** 2
    n = _ceil(raw)
    return Estimate.point(
        n,
        0,
        "labels_for_difference",
        details={"n_raw": raw, "power_at_n": power_of_difference(n, only_first, only_second, alpha=alpha).value},
    )


def _check_discordant(only_first: float, only_second: float) -> None:
    if only_first + only_second > 1:
        raise InvalidStatisticInput("the discordant shares sum to more than 1")


def power_of_difference(n: int, only_first: float, only_second: float, *, alpha: float = 0.05) -> Estimate:
    """Chance that McNemar's test on `n` cases finds these discordant shares different, normal approximation."""
    _shares(only_first=only_first, only_second=only_second)
    _check_discordant(only_first, only_second)
    discordant, difference = only_first + only_second, abs(only_first - only_second)
    if n < 1:
        return Estimate.undefined(Reason.EMPTY, 0, "power_of_difference")
    spread = discordant - difference**2
    from scipy.stats import norm

    reach = difference * math.sqrt(n) - z_of(1 - alpha) * math.sqrt(discordant)
    if spread <= 0:
        return Estimate.point(1.0 if reach > 0 else 0.0, n, "power_of_difference")
    return Estimate.point(float(norm.cdf(reach / math.sqrt(spread))), n, "power_of_difference")


def largest_unseen_rate(n: int) -> Estimate:
    """Rule of three: with no event in `n` cases, rates above 3/n are excluded at about 95%; n = 0: null `empty`."""
    if n == 0:
        return Estimate.undefined(Reason.EMPTY, 0, "rule_of_three")
    return Estimate.point(min(1.0, 3 / n), n, "rule_of_three")


TIERS = (
    (30, "counts only"),
    (100, "exploratory"),
    (200, "selection between clearly different judges"),
    (500, "normal report"),
)


def tier(labels: float) -> str:
    """What a number of labels licenses: below 30 counts only, and so on; from 500 `full report`.

    Of unevenly drawn cases their effective size.
    """
    for limit, name in TIERS:
        if labels < limit:
            return name
    return "full report"
