"""Differences of two systems on the same cases: deltas, slices, clustered standard errors."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.estimate import Estimate, InvalidStatisticInput, Reason
from calibration.intervals import mean_t, z_of
from calibration.resample import MIN_GROUPS, group_codes

NO_VERDICT_BELOW = 30
_SMALL_GROUPS = 50


@dataclasses.dataclass(frozen=True)
class PairedDelta:
    """Candidate minus baseline over the cases both have; `unpaired` cases have one side only and are not in `n`."""

    mean: Estimate
    wins: int
    losses: int
    ties: int
    unpaired: int
    p_holm: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready object."""
        return {
            "mean": self.mean.to_dict(),
            "wins": self.wins,
            "losses": self.losses,
            "ties": self.ties,
            "unpaired": self.unpaired,
            "p_holm": self.p_holm,
        }


def paired_delta(
    baseline: Sequence[float | None],
    candidate: Sequence[float | None],
    *,
    groups: Sequence[Hashable] | None = None,
    level: float = 0.95,
) -> PairedDelta:
    """Mean of candidate - baseline with Student's interval, or the clustered one when `groups` hold several cases.

    All equal: interval null `zero_variance`; one pair: `n_below_2`. Below 30 pairs flag `no_verdict`.
    """
    if len(baseline) != len(candidate) or (groups is not None and len(groups) != len(baseline)):
        raise InvalidStatisticInput("baseline, candidate and groups must have one entry for each case")
    both = [i for i, (a, b) in enumerate(zip(baseline, candidate, strict=True)) if a is not None and b is not None]
    deltas = np.array([float(candidate[i] or 0) - float(baseline[i] or 0) for i in both])
    one_sided = sum((a is None) != (b is None) for a, b in zip(baseline, candidate, strict=True))
    mean = mean_t(deltas, level=level, method="paired_t")
    if groups is not None and mean.low is not None:
        kept = [groups[i] for i in both]
        if len(set(kept)) < len(kept):
            mean = clustered_mean(deltas, kept, level=level)
    if mean.defined and deltas.size < NO_VERDICT_BELOW:
        mean = mean.flagged("no_verdict")
    return PairedDelta(mean, int((deltas > 0).sum()), int((deltas < 0).sum()), int((deltas == 0).sum()), one_sided)


def paired_delta_by_slice(
    baseline: Sequence[float | None],
    candidate: Sequence[float | None],
    slices: Sequence[str],
    *,
    groups: Sequence[Hashable] | None = None,
) -> dict[str, PairedDelta]:
    """`paired_delta` of all cases under `all` and of each slice, with Holm over the slices' t-tests in `p_holm`."""
    from calibration.tests import holm

    if len(slices) != len(baseline):
        raise InvalidStatisticInput("slices must have one entry for each case")
    names = sorted(set(slices))
    if "all" in names:
        raise InvalidStatisticInput("a slice cannot be named 'all'")
    rows = {"all": paired_delta(baseline, candidate, groups=groups)}
    for name in names:
        chosen = [i for i, of in enumerate(slices) if of == name]
        rows[name] = paired_delta(
            [baseline[i] for i in chosen],
            [candidate[i] for i in chosen],
            groups=None if groups is None else [groups[i] for i in chosen],
        )
    adjusted = holm([_t_test(rows[name].mean) for name in names])
    for name, p in zip(names, adjusted, strict=True):
        rows[name] = dataclasses.replace(rows[name], p_holm=p)
    return rows


def _t_test(mean: Estimate) -> float | None:
    se = mean.details.get("gated_se", mean.details.get("se"))
    if mean.value is None or not se:
        return None
    from scipy.stats import t as student

    freedom = mean.details.get("groups", mean.n) - 1
    return float(2 * student.sf(abs(mean.value) / se, freedom))


@dataclasses.dataclass(frozen=True)
class ClusteredError:
    """Standard errors of a mean: `clustered` (Liang-Zeger), `naive`, their squared ratio and the ANOVA ICC.

    `design_effect` and `icc` are null where the values do not vary or every group has one case.
    """

    mean: float
    clustered: float
    naive: float | None
    design_effect: float | None
    icc: float | None
    groups: int


def clustered_error(values: Sequence[float] | NDArray[np.float64], groups: Sequence[Hashable]) -> ClusteredError:
    """Cluster-robust standard error sqrt(sum of squared group residuals)/n, no small-sample factor (Miller 2024).

    The naive one is sd(ddof 0)/sqrt(n), so that groups of one case give a design effect of 1.
    """
    x = np.asarray(values, dtype=np.float64)
    if x.size == 0 or len(groups) != x.size or not np.all(np.isfinite(x)):
        raise InvalidStatisticInput("values must be finite numbers, with one group for each, at least one")
    n = x.size
    codes = group_codes(groups)
    count = int(codes.max()) + 1
    mean = float(x.mean())
    residuals = np.bincount(codes, weights=x - mean, minlength=count)
    clustered = math.sqrt(float((residuals**2).sum())) / n
    naive = float(x.std()) / math.sqrt(n) if n > 1 else None
    size = np.bincount(codes, minlength=count).astype(np.float64)
    icc = None
    if 1 < count < n:
        group_means = np.bincount(codes, weights=x, minlength=count) / size
        between = float((size * (group_means - mean) ** 2).sum()) / (count - 1)
        within = float(((x - group_means[codes]) ** 2).sum()) / (n - count)
        typical = (n - float((size**2).sum()) / n) / (count - 1)
        total = between + (typical - 1) * within
        icc = (between - within) / total if abs(total) > 1e-15 else None
    effect = (clustered / naive) ** 2 if naive else None
    return ClusteredError(mean, clustered, naive, effect, icc, count)


def clustered_mean(
    values: Sequence[float] | NDArray[np.float64], groups: Sequence[Hashable], *, level: float = 0.95
) -> Estimate:
    """Mean with a clustered interval that is never narrower than the naive one.

    With under 50 groups the factor G/(G-1) and t(G-1). Fewer than 10 groups: interval null `too_few_groups`.
    `details` has both standard errors, the design effect and the ICC.
    """
    x = np.asarray(values, dtype=np.float64)
    if x.size == 0:
        return Estimate.undefined(Reason.EMPTY, 0, "clustered_t")
    error = clustered_error(x, groups)
    details: dict[str, object] = {
        "clustered_se": error.clustered,
        "se": error.naive,
        "design_effect": error.design_effect,
        "icc": error.icc,
        "groups": error.groups,
    }
    if error.groups < MIN_GROUPS:
        return Estimate(
            error.mean, None, None, x.size, "clustered_t", interval_reason=Reason.TOO_FEW_GROUPS, details=details
        )
    if error.naive == 0:
        return Estimate(
            error.mean, None, None, x.size, "clustered_t", interval_reason=Reason.ZERO_VARIANCE, details=details
        )
    clustered, quantile = error.clustered, z_of(level)
    if error.groups < _SMALL_GROUPS:
        from scipy.stats import t as student

        clustered *= math.sqrt(error.groups / (error.groups - 1))
        quantile = float(student.ppf(0.5 + level / 2, error.groups - 1))
    se = max(clustered, (error.naive or 0.0) * math.sqrt(x.size / (x.size - 1)))
    half = quantile * se
    return Estimate(
        error.mean,
        error.mean - half,
        error.mean + half,
        x.size,
        "clustered_t",
        level=level,
        details={**details, "gated_se": se},
    )
