"""Agreement of several raters with gaps: alpha, AC1, Fleiss' kappa, single votes against a judge and each other.

A rating that is None is missing data: never a class, never an agreement.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration import contingency
from calibration.agreement import FAILED, code_labels
from calibration.estimate import Estimate, InvalidStatisticInput, Reason, finite
from calibration.resample import Resampler, ratio_replicates
from calibration.weighted import WEIGHTED

Floats = NDArray[np.float64]

_MAX_VALUES = 40  # above this the resampled coincidence matrices no longer fit in memory
CEILING_MIN_CASES = 30


def distances(margins: Floats, metric: str, values: Floats | None = None) -> Floats:
    """Krippendorff's squared distance between values, shape (..., K, K); only `ordinal` depends on the margins."""
    k = margins.shape[-1]
    if metric == "nominal":
        return contingency.disagreement_weights(k, None)
    if metric == "ordinal":
        middle = np.cumsum(margins, axis=-1) - margins / 2
        return np.asarray((middle[..., :, None] - middle[..., None, :]) ** 2)
    if values is None:
        raise InvalidStatisticInput(f"the metric {metric} needs numbers, not labels")
    difference = values[:, None] - values[None, :]
    if metric == "interval":
        return np.asarray(difference**2)
    if metric == "ratio":
        if np.any(values < 0):
            raise InvalidStatisticInput("the metric ratio needs values of 0 or more")
        total = values[:, None] + values[None, :]
        return np.asarray(np.divide(difference, total, out=np.zeros_like(total), where=total != 0) ** 2)
    raise InvalidStatisticInput(f"unknown metric {metric!r}: nominal, ordinal, interval or ratio")


def _code_ratings(
    ratings: Sequence[Sequence[object]], classes: Sequence[object] | None
) -> tuple[NDArray[np.int64], tuple[object, ...]]:
    """Codes (raters x units, -1 missing) and the declared or, for numbers, the sorted observed values."""
    if len({len(row) for row in ratings}) > 1:
        raise InvalidStatisticInput("every rater has one entry for each unit")
    if classes is None:
        observed = {value for row in ratings for value in row if value is not None}
        if not all(isinstance(value, int | float) and np.isfinite(value) for value in observed):
            raise InvalidStatisticInput("labels that are no finite numbers need their classes declared, in order")
        classes = sorted(observed)  # type: ignore[type-var]
    units = len(ratings[0]) if ratings else 0
    codes = np.full((len(ratings), units), FAILED, dtype=np.int64)
    for rater, row in enumerate(ratings):
        codes[rater] = code_labels(row, classes, f"rater {rater}")
    return codes, tuple(classes)


def _unit_counts(codes: NDArray[np.int64], k: int) -> Floats:
    counts = np.zeros((codes.shape[1], k))
    for row in codes:
        known = row != FAILED
        counts[np.flatnonzero(known), row[known]] += 1
    return counts


def alpha(
    ratings: Sequence[Sequence[object]],
    metric: str = "nominal",
    *,
    classes: Sequence[object] | None = None,
    resampler: Resampler | None = None,
) -> Estimate:
    """Krippendorff's alpha (2011) of `ratings` (raters x units, None missing); nominal, ordinal, interval, ratio.

    `classes` declares the labels (in order for `ordinal`); numbers need none. No unit with two ratings: null
    `no_pairable_units`; one value only: null `one_class`. The interval is over what the resampler draws.
    """
    codes, values = _code_ratings(ratings, classes)
    k = len(values)
    name = f"krippendorff_alpha_{metric}"
    counts = _unit_counts(codes, k)
    rated = counts.sum(axis=1)
    pairable = rated >= 2
    n = int(pairable.sum())
    if n == 0:
        return Estimate.undefined(Reason.NO_PAIRABLE_UNITS, 0, name)
    numbers = np.array(values, dtype=np.float64) if all(isinstance(value, int | float) for value in values) else None
    weight = np.where(pairable, 1 / np.maximum(rated - 1, 1), 0.0)
    coincidences = np.einsum("u,uc,uk->uck", weight, counts, counts)
    index = np.arange(k)
    coincidences[:, index, index] -= weight[:, None] * counts
    total = coincidences.sum(axis=0)

    def formula(matrices: Floats) -> Floats:
        return contingency.alpha_from_coincidences(matrices, distances(matrices.sum(axis=-1), metric, numbers))

    value = finite(float(formula(total)))
    details: dict[str, object] = {"units": counts.shape[0], "ratings": int(rated[pairable].sum())}
    if value is None:
        return Estimate.undefined(Reason.ONE_CLASS, n, name, details=details)
    return _with_interval(value, n, name, coincidences.reshape(-1, k * k), formula, (k, k), resampler, details)


def _with_interval(
    value: float,
    n: int,
    name: str,
    features: Floats,
    formula: Callable[[Floats], Floats],
    shape: tuple[int, ...],
    resampler: Resampler | None,
    details: dict[str, object],
) -> Estimate:
    if resampler is None or shape[0] > _MAX_VALUES:
        return Estimate.point(value, n, name, details=details)
    replicates = formula(resampler.sums(features).reshape(-1, *shape))
    return resampler.interval(value, replicates, n=n, method=f"{name}/{resampler.method}", details=details)


def ac1(
    ratings: Sequence[Sequence[object]],
    *,
    classes: Sequence[object] | None = None,
    resampler: Resampler | None = None,
) -> Estimate:
    """Gwet's AC1 (2008) of several raters with missing ratings, over the declared `classes`.

    Agreement is over units with two or more ratings, class shares over units with one or more; units without any are
    dropped. `details` holds the percent agreement and chance.
    """
    codes, values = _code_ratings(ratings, classes)
    k = len(values)
    counts = _unit_counts(codes, k)
    rated = counts.sum(axis=1)
    pairable = rated >= 2
    n = int(pairable.sum())
    if n == 0:
        return Estimate.undefined(Reason.NO_PAIRABLE_UNITS, 0, "gwet_ac1")
    if k < 2:
        return Estimate.undefined(Reason.ONE_CLASS, n, "gwet_ac1")
    within = np.where(pairable, (counts * (counts - 1)).sum(axis=1) / np.maximum(rated * (rated - 1), 1), 0.0)
    shares = counts / np.maximum(rated, 1)[:, None]
    features = np.column_stack([within, pairable, rated >= 1, shares])

    def formula(sums: Floats) -> Floats:
        agreement = ratio_replicates(sums[..., 0], sums[..., 1])
        prevalence = ratio_replicates(sums[..., 3:], sums[..., 2:3])
        chance = (prevalence * (1 - prevalence)).sum(axis=-1) / (k - 1)
        return np.asarray((agreement - chance) / (1 - chance))

    total = features.sum(axis=0)
    prevalence = total[3:] / total[2]
    details: dict[str, object] = {
        "percent_agreement": float(total[0] / total[1]),
        "chance": float((prevalence * (1 - prevalence)).sum() / (k - 1)),
    }
    return _with_interval(
        float(formula(total)), n, "gwet_ac1", features, formula, (features.shape[1],), resampler, details
    )


def fleiss_kappa(counts: ArrayLike, *, resampler: Resampler | None = None) -> Estimate:
    """Fleiss' kappa (1971) of `counts` (units x classes), the same number of raters for every unit.

    Unequal numbers: null `unequal_raters` (alpha and AC1 do without); one class only: null `one_class`.
    """
    table = np.asarray(counts, dtype=np.float64)
    if table.size == 0:
        return Estimate.undefined(Reason.EMPTY, 0, "fleiss_kappa")
    if table.ndim != 2 or np.any(table < 0):
        raise InvalidStatisticInput("counts have shape (units, classes)")
    n = table.shape[0]
    raters = table.sum(axis=1)
    if np.any(raters != raters[0]):
        return Estimate.undefined(Reason.UNEQUAL_RATERS, n, "fleiss_kappa")
    r = float(raters[0])
    if r < 2:
        return Estimate.undefined(Reason.NO_PAIRABLE_UNITS, n, "fleiss_kappa")
    within = (table * (table - 1)).sum(axis=1) / (r * (r - 1))
    features = np.column_stack([within, np.ones(n), table / r])

    def formula(sums: Floats) -> Floats:
        observed = sums[..., 0] / sums[..., 1]
        chance = ((sums[..., 2:] / sums[..., 1:2]) ** 2).sum(axis=-1)
        room = np.where(1 - chance > 1e-12, 1 - chance, np.nan)
        return np.asarray((observed - chance) / room)

    value = finite(float(formula(features.sum(axis=0))))
    if value is None:
        return Estimate.undefined(Reason.ONE_CLASS, n, "fleiss_kappa")
    details: dict[str, object] = {"raters": int(r)}
    return _with_interval(value, n, "fleiss_kappa", features, formula, (features.shape[1],), resampler, details)


def pairwise(
    ratings: Sequence[Sequence[object]], classes: Sequence[object]
) -> dict[tuple[int, int], dict[str, Estimate]]:
    """Raw agreement and Cohen's kappa of every pair of raters, each over the units both rated (their own n)."""
    from calibration.agreement import Agreement, PairedLabels

    result = {}
    for first, second in itertools.combinations(range(len(ratings)), 2):
        both = [(a, b) for a, b in zip(ratings[first], ratings[second], strict=True) if a is not None and b is not None]
        agreement = Agreement(PairedLabels.of([a for a, _ in both], [b for _, b in both], classes))
        result[first, second] = {"raw_agreement": agreement.raw(), "cohen_kappa": agreement.kappa()}
    return result


def _vote_pairs(left: Sequence[object], right: Sequence[object]) -> tuple[int, int, int, int]:
    """(agreeing, all, agreeing decided, decided) over pairs of votes; an invalid left vote never agrees."""
    agree = total = agree_decided = decided = 0
    for a, b in zip(left, right, strict=True):
        total += 1
        agree += a == b
        if b != "tie" and a != "tie":
            decided += 1
            agree_decided += a == b
    return agree, total, agree_decided, decided


def votes(
    judge: Sequence[str | None], human_votes: Sequence[Sequence[str]], *, resampler: Resampler | None = None
) -> dict[str, Estimate]:
    """Judge against single human votes, and humans against each other, in setups S1 and S2 (Zheng et al. 2023).

    The unit is a pair of votes. `judge_s1`: all pairs, tie is its own class (chance 1/3). `judge_s2`: pairs where
    neither side is a tie (chance 1/2): its denominator depends on the judge. An invalid verdict (None) disagrees in S1
    and, when the human decided, in S2. `human_s1`, `human_s2`: over all pairs of votes of a case. Intervals are by
    bootstrap over cases, since votes of one case are dependent. No decided pair: null `all_ties`. With the resampler's
    weights the pairs of a case count by its weight; numerator and denominator are the pairs as they are.
    """
    if len(judge) != len(human_votes):
        raise InvalidStatisticInput("judge and votes must have one entry for each case")
    features = np.zeros((len(judge), 8))
    for case, (verdict, cast) in enumerate(zip(judge, human_votes, strict=True)):
        features[case, :4] = _vote_pairs([verdict] * len(cast), cast)
        pairs = list(itertools.combinations(cast, 2))
        features[case, 4:] = _vote_pairs([a for a, _ in pairs], [b for _, b in pairs])
    names = ("judge_s1", "judge_s2", "human_s1", "human_s2")
    weights = None if resampler is None else resampler.weights
    weighted = features if weights is None else features * weights[:, None]
    replicates = resampler.sums(weighted) if resampler is not None and len(judge) else None
    result = {}
    for position, name in enumerate(names):
        agree, total = (int(x) for x in features[:, 2 * position : 2 * position + 2].sum(axis=0))
        if total == 0:
            whole = int(features[:, 2 * position - 1].sum()) if name.endswith("s2") else 0
            reason = Reason.ALL_TIES if whole else Reason.NO_PAIRABLE_UNITS
            result[name] = Estimate.undefined(reason, 0, "votes", numerator=0, denominator=0)
        elif replicates is None or resampler is None:
            result[name] = Estimate.point(agree / total, total, "votes", numerator=agree, denominator=total)
        else:
            mass, whole_mass = (float(x) for x in weighted[:, 2 * position : 2 * position + 2].sum(axis=0))
            result[name] = resampler.interval(
                mass / whole_mass,
                ratio_replicates(replicates[:, 2 * position], replicates[:, 2 * position + 1]),
                n=total,
                method=resampler.method if weights is None else f"{WEIGHTED}_{resampler.method}",
                numerator=agree,
                denominator=total,
            )
    return result


def human_ceiling(human_votes: Sequence[Sequence[str]], *, resampler: Resampler | None = None) -> dict[str, Estimate]:
    """Human-human agreement `s1` and `s2` over all pairs of votes of a case: what a judge can be held to.

    Null `too_few_labels` when fewer than 30 cases have two votes: then no ceiling is known.
    """
    figures = votes([None] * len(human_votes), human_votes, resampler=resampler)
    doubled = sum(len(cast) >= 2 for cast in human_votes)
    if doubled < CEILING_MIN_CASES:
        return {name: Estimate.undefined(Reason.TOO_FEW_LABELS, doubled, "human_ceiling") for name in ("s1", "s2")}
    return {"s1": figures["human_s1"], "s2": figures["human_s2"]}
