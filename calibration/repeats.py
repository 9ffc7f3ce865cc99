"""The same judge asked again about the same case: stability, and how much of a score's variance is the judge's own.

Repeats are never extra cases.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from calibration.estimate import Estimate, InvalidStatisticInput, Reason
from calibration.intervals import mean_t
from calibration.resample import Resampler, ratio_replicates

Verdicts = Sequence[Sequence[object]]


def _per_case(
    verdicts: Verdicts,
    measure: Callable[[list[object]], float],
    name: str,
    resampler: Resampler | None,
    *,
    equal_only: bool,
) -> Estimate:
    """Mean of `measure` over the cases with two or more usable repeats (None is a failed repeat)."""
    usable = [[verdict for verdict in case if verdict is not None] for case in verdicts]
    counted = np.array([len(case) >= 2 for case in usable], dtype=bool)
    n = int(counted.sum())
    if n == 0:
        return Estimate.undefined(Reason.EMPTY if not verdicts else Reason.N_BELOW_2, 0, name)
    values = np.array([measure(case) if len(case) >= 2 else 0.0 for case in usable])
    sizes = {len(case) for case in usable if len(case) >= 2}
    # These two measures fall as the number of repeats grows, so unequal numbers are not comparable.
    flags = ("unequal_repeats",) if equal_only and len(sizes) > 1 else ()
    details: dict[str, object] = {"repeats": sorted(sizes), "cases_without_repeats": len(verdicts) - n}
    value = float(values[counted].mean())
    if resampler is None:
        return Estimate.point(value, n, name, flags=flags, details=details)
    sums = resampler.sums(np.column_stack([np.where(counted, values, 0.0), counted]))
    return resampler.interval(
        value,
        ratio_replicates(sums[:, 0], sums[:, 1]),
        n=n,
        method=f"{name}/{resampler.method}",
        flags=flags,
        details=details,
    )


def repetition_stability(verdicts: Verdicts, *, resampler: Resampler | None = None) -> Estimate:
    """Mean over cases of the share of the most frequent verdict (Shi et al. 2024); one run: null `n_below_2`."""
    return _per_case(
        verdicts,
        lambda case: Counter(case).most_common(1)[0][1] / len(case),
        "repetition_stability",
        resampler,
        equal_only=True,
    )


def all_identical_rate(verdicts: Verdicts, *, resampler: Resampler | None = None) -> Estimate:
    """Share of cases whose repeats all say the same."""
    return _per_case(
        verdicts, lambda case: float(len(set(case)) == 1), "all_identical_rate", resampler, equal_only=True
    )


def flipping_rate(verdicts: Verdicts, *, resampler: Resampler | None = None) -> Estimate:
    """Share of cases with at least one changed verdict."""
    return _per_case(verdicts, lambda case: float(len(set(case)) > 1), "flipping_rate", resampler, equal_only=True)


def minority_rate(verdicts: Verdicts, *, resampler: Resampler | None = None) -> Estimate:
    """Mean share of a case's repeats that differ from its most frequent verdict; 1 - `repetition_stability`."""
    return _per_case(
        verdicts,
        lambda case: 1 - Counter(case).most_common(1)[0][1] / len(case),
        "minority_rate",
        resampler,
        equal_only=True,
    )


def pairwise_repeat_agreement(verdicts: Verdicts, *, resampler: Resampler | None = None) -> Estimate:
    """Mean over cases of the share of pairs of repeats that say the same; comparable for unequal numbers."""

    def measure(case: list[object]) -> float:
        pairs = list(itertools.combinations(case, 2))
        return sum(a == b for a, b in pairs) / len(pairs)

    return _per_case(verdicts, measure, "pairwise_repeat_agreement", resampler, equal_only=False)


def mean_pairwise_kappa(verdicts: Verdicts, classes: Sequence[object]) -> Estimate:
    """Mean Cohen's kappa of the pairs of runs, each run a rater; undefined pairs are left out and counted."""
    from calibration.raters import pairwise

    runs = {len(case) for case in verdicts}
    if not verdicts:
        return Estimate.undefined(Reason.EMPTY, 0, "mean_pairwise_kappa")
    if len(runs) > 1:
        return Estimate.undefined(Reason.UNEQUAL_RATERS, len(verdicts), "mean_pairwise_kappa")
    by_run = list(zip(*verdicts, strict=True))
    if len(by_run) < 2:
        return Estimate.undefined(Reason.N_BELOW_2, len(verdicts), "mean_pairwise_kappa")
    kappas = [pair["cohen_kappa"] for pair in pairwise(by_run, classes).values()]
    defined = [kappa.value for kappa in kappas if kappa.value is not None]
    if not defined:
        return Estimate.undefined(Reason.ONE_CLASS, len(verdicts), "mean_pairwise_kappa")
    return Estimate.point(
        float(np.mean(defined)),
        len(verdicts),
        "mean_pairwise_kappa",
        details={"pairs": len(kappas), "undefined_pairs": len(kappas) - len(defined)},
    )


def score_variance(scores: Sequence[Sequence[float]]) -> dict[str, Estimate]:
    """Variance of a score within and between cases (Miller 2024), with equal numbers of repeats.

    Keys: `mean` (t interval over case means), `within_case_variance`, `variance_of_case_means`,
    `between_case_variance` (not clipped: flag `negative`), `se_of_mean`, `run_noise_share` of a single run's variance.
    """
    names = (
        "mean",
        "within_case_variance",
        "variance_of_case_means",
        "between_case_variance",
        "se_of_mean",
        "run_noise_share",
    )
    n = len(scores)

    def refused(reason: Reason) -> dict[str, Estimate]:
        return {name: Estimate.undefined(reason, n, "score_variance") for name in names}

    if n == 0:
        return refused(Reason.EMPTY)
    if len({len(case) for case in scores}) > 1:
        return refused(Reason.UNEQUAL_RATERS)
    x: NDArray[np.float64] = np.asarray(scores, dtype=np.float64)
    if not np.all(np.isfinite(x)):
        raise InvalidStatisticInput("scores must be finite numbers")
    repeats = x.shape[1]
    if n < 2 or repeats < 2:
        return refused(Reason.N_BELOW_2)
    means = x.mean(axis=1)
    within = float(x.var(axis=1, ddof=1).mean())
    of_means = float(means.var(ddof=1))
    between = of_means - within / repeats
    single = within + between
    figures = {
        "mean": mean_t(means, method="mean_of_case_means/t"),
        "within_case_variance": Estimate.point(within, n, "score_variance", details={"repeats": repeats}),
        "variance_of_case_means": Estimate.point(of_means, n, "score_variance"),
        "between_case_variance": Estimate.point(
            between, n, "score_variance", flags=("negative",) if between < 0 else ()
        ),
        "se_of_mean": Estimate.point(math.sqrt(of_means / n), n, "score_variance"),
    }
    figures["run_noise_share"] = (
        Estimate.point(within / single, n, "score_variance")
        if single > 1e-15
        else Estimate.undefined(Reason.ZERO_VARIANCE, n, "score_variance")
    )
    return figures
