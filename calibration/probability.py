"""Whether stated confidences can be believed: calibration error, proper scores, reliability tables.

The event is "the final verdict equals the human label". Every result names its rule; how cases fall into bins is
decided in `binning`. Forecasts with weights count each case by its weight: methods then begin with `hajek`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.binning import Bins, bin_confidences, default_bins
from calibration.confidence import Forecasts
from calibration.estimate import Estimate, InvalidStatisticInput, Reason
from calibration.intervals import mean_t, wilson
from calibration.resample import DEFAULT_SEED, MIN_GROUPS, Resampler, group_codes, ratio_replicates
from calibration.weighted import WEIGHTED, weighted_mean, weighted_share

Floats = NDArray[np.float64]

HEADLINE_MIN_CASES = 100
GREYED_BELOW = 10
_NULL_SAMPLES = 10_000


def _sums(forecasts: Forecasts, bins: Bins) -> tuple[Floats, Floats, Floats]:
    """Mass, mass of confidence and mass of right cases in each bin; the mass of a case is its weight, or 1."""
    weight = np.ones(len(forecasts)) if forecasts.weights is None else forecasts.weights
    sums = [
        np.bincount(bins.index, weights=values * weight, minlength=bins.count)
        for values in (1.0, forecasts.confidence, forecasts.correct)
    ]
    size, confidence, correct = (np.asarray(one, dtype=np.float64) for one in sums)
    return size, confidence, correct


def _counts(bins: Bins) -> NDArray[np.int64]:
    return np.bincount(bins.index, minlength=bins.count).astype(np.int64)


def _name(forecasts: Forecasts, name: str) -> str:
    return name if forecasts.weights is None else f"{WEIGHTED}_{name}"


def reliability(forecasts: Forecasts, bins: int, rule: str = "right_closed") -> list[dict[str, object]]:
    """The table of a reliability diagram: non-empty bins with n, mean confidence, accuracy and its Wilson interval.

    `bin` counts from 0, `greyed` marks bins under 10 cases. With weights `n` stays the count of cases, and Wilson's
    interval is that at the bin's effective size.
    """
    assigned = bin_confidences(forecasts.confidence, bins, rule)
    rows = []
    counts = _counts(assigned)
    for number, (mass, confidence, correct) in enumerate(zip(*_sums(forecasts, assigned), strict=True)):
        n = int(counts[number])
        if n:
            rows.append(
                {
                    "bin": number,
                    "low": float(assigned.edges[number]),
                    "high": float(assigned.edges[number + 1]),
                    "n": n,
                    "mean_confidence": float(confidence / mass),
                    "accuracy": float(correct / mass),
                    "wilson95": _wilson(forecasts, assigned.index == number),
                    "greyed": n < GREYED_BELOW,
                }
            )
    return rows


def _wilson(forecasts: Forecasts, inside: NDArray[np.bool_]) -> list[float | None]:
    correct = forecasts.correct[inside]
    if forecasts.weights is None:
        return list(wilson(int(correct.sum()), correct.size))
    found = weighted_share(correct == 1, forecasts.weights[inside])
    return [found.low, found.high]


def ece(
    forecasts: Forecasts,
    bins: int | None = None,
    rule: str = "right_closed",
    *,
    null: bool = True,
    seed: int = DEFAULT_SEED,
) -> Estimate:
    """Expected calibration error, the case-weighted mean gap of accuracy and confidence (Naeini 2015; Guo 2017).

    `bins` None: by size (`default_bins`). No bootstrap interval, since duplicates of cases bias it upward; instead
    `details` has `null_mean` and `null_q95`, what a perfectly calibrated judge with these confidences would show, and
    `miscalibrated`, said only above `null_q95`. Below 100 cases flag `no_headline_below_100`. No case: null `empty`,
    or `no_confidence` when there are cases but none has a confidence.

    With weights bins and gaps are of masses, the number of bins and the flag go by the effective size, and the null
    mean is simulated as the quantile is. `equal_mass` has no weighted form: it is over the cases as they are.
    """
    return _binned(forecasts, bins, rule, "ece", lambda gap, size: float((gap * size).sum() / size.sum()), null, seed)


def mce(forecasts: Forecasts, bins: int | None = None, rule: str = "right_closed") -> Estimate:
    """Largest gap of a bin, with that bin's n in `details.bin_n`; dominated by the smallest bin, so never a gate."""
    estimate = _binned(forecasts, bins, rule, "mce", lambda gap, size: float(gap.max()), False, 0)
    if estimate.value is None:
        return estimate
    forecasts = _weighed(forecasts, rule)
    assigned = _bins_of(forecasts, bins, rule)
    size, confidence, correct = _sums(forecasts, assigned)
    gaps = np.full(size.size, -1.0)
    np.divide(np.abs(correct - confidence), size, out=gaps, where=size > 0)
    return dataclasses.replace(estimate, details={**estimate.details, "bin_n": int(_counts(assigned)[gaps.argmax()])})


def mean_gap(forecasts: Forecasts, bins: int | None = None, rule: str = "right_closed") -> Estimate:
    """Unweighted mean gap over the non-empty bins; some tools call this ACE."""
    return _binned(forecasts, bins, rule, "mean_gap", lambda gap, size: float(gap.mean()), False, 0)


def _bins_of(forecasts: Forecasts, bins: int | None, rule: str) -> Bins:
    number = default_bins(int(forecasts.effective_n)) if bins is None else bins
    return bin_confidences(forecasts.confidence, number, rule)


def _weighed(forecasts: Forecasts, rule: str) -> Forecasts:
    """Bins of equal mass would have to be of equal mass by weight: those count cases once."""
    return forecasts.unweighted() if rule == "equal_mass" else forecasts


def _nothing(forecasts: Forecasts, method: str) -> Estimate | None:
    if len(forecasts):
        return None
    reason = Reason.NO_CONFIDENCE if forecasts.missing else Reason.EMPTY
    return Estimate.undefined(reason, 0, method, details={"without_confidence": forecasts.missing})


def _binned(
    forecasts: Forecasts,
    bins: int | None,
    rule: str,
    name: str,
    fold: Callable[[Floats, Floats], float],
    null: bool,
    seed: int,
) -> Estimate:
    nothing = _nothing(forecasts, name)
    if nothing is not None:
        return nothing
    forecasts = _weighed(forecasts, rule)
    assigned = _bins_of(forecasts, bins, rule)
    size, confidence, correct = _sums(forecasts, assigned)
    used = size > 0
    gap = np.abs(correct[used] - confidence[used]) / size[used]
    value = fold(gap, size[used])
    n = len(forecasts)
    details: dict[str, object] = {
        "bins": assigned.count,
        "nonempty_bins": int(used.sum()),
        "rule": rule,
        "bin_n": _counts(assigned),
        "bin_confidence": [float(c / s) if s else None for c, s in zip(confidence, size, strict=True)],
        "bin_accuracy": [float(c / s) if s else None for c, s in zip(correct, size, strict=True)],
        "without_confidence": forecasts.missing,
    }
    if null:
        mean, q95 = _null_distribution(forecasts.confidence, assigned, seed, forecasts.weights)
        details |= {"null_mean": mean, "null_q95": q95, "miscalibrated": value > q95, "seed": seed}
    if forecasts.weights is not None:
        details["effective_n"] = forecasts.effective_n
    flags = ("no_headline_below_100",) if forecasts.effective_n < HEADLINE_MIN_CASES else ()
    method = f"{_name(forecasts, name)}/{rule}/{assigned.count}_bins"
    return Estimate.point(value, n, method, flags=flags, details=details)


def _successes(probabilities: Floats) -> Floats:
    """Distribution of the number of successes of independent trials (Poisson-binomial)."""
    distribution = np.ones(1)
    for p in probabilities:
        longer = np.zeros(distribution.size + 1)
        longer[:-1] = distribution * (1 - p)
        longer[1:] += distribution * p
        distribution = longer
    return distribution


def _null_distribution(confidence: Floats, bins: Bins, seed: int, weights: Floats | None = None) -> tuple[float, float]:
    """Exact mean and simulated 95% quantile of ECE when every confidence is true (Brocker & Smith 2007).

    With weights the mean is simulated too: sums of weights have no distribution that is small enough to write down.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    if weights is not None:
        return _weighted_null(confidence, bins, rng, weights)
    mean = 0.0
    simulated = np.zeros(_NULL_SAMPLES)
    for number in np.unique(bins.index):
        inside = confidence[bins.index == number]
        distribution = _successes(inside)
        gaps = np.abs(np.arange(distribution.size) - inside.sum())
        mean += float(distribution @ gaps)
        drawn = np.searchsorted(np.cumsum(distribution), rng.random(_NULL_SAMPLES), side="right")
        simulated += gaps[np.minimum(drawn, distribution.size - 1)]
    n = confidence.size
    return mean / n, float(np.quantile(simulated, 0.95)) / n


def _weighted_null(confidence: Floats, bins: Bins, rng: np.random.Generator, weights: Floats) -> tuple[float, float]:
    simulated = np.zeros(_NULL_SAMPLES)
    for number in np.unique(bins.index):
        inside = bins.index == number
        pairs = np.column_stack([confidence[inside], weights[inside]])
        # Cases that are alike differ in their number only.
        kinds, counts = np.unique(pairs, axis=0, return_counts=True)
        gap = np.zeros(_NULL_SAMPLES)
        for (p, weight), count in zip(kinds, counts, strict=True):
            right = rng.random(_NULL_SAMPLES) < p if count == 1 else rng.binomial(count, p, _NULL_SAMPLES)
            gap += weight * (right - count * p)
        simulated += np.abs(gap)
    simulated /= weights.sum()
    return float(simulated.mean()), float(np.quantile(simulated, 0.95))


def expected_ece(confidence: ArrayLike, bins: int, rule: str = "right_closed") -> Estimate:
    """Mean ECE of a perfectly calibrated judge with these confidences: an ECE below it says nothing against a judge."""
    values = np.asarray(confidence, dtype=np.float64)
    if values.size == 0:
        return Estimate.undefined(Reason.EMPTY, 0, "expected_ece")
    forecasts = Forecasts.of(list(values), np.zeros(values.size))
    mean, q95 = _null_distribution(forecasts.confidence, bin_confidences(values, bins, rule), DEFAULT_SEED)
    return Estimate.point(mean, int(values.size), f"expected_ece/{rule}/{bins}_bins", details={"null_q95": q95})


def _squared(size: Floats, confidence: Floats, correct: Floats, debias: bool) -> Floats:
    """Sum over bins of n/N times the squared gap; arrays (..., bins)."""
    safe = np.maximum(size, 1)
    accuracy = correct / safe
    gap = (accuracy - confidence / safe) ** 2
    if debias:
        gap = np.where(size > 1, gap - accuracy * (1 - accuracy) / np.maximum(size - 1, 1), 0.0)
    return np.asarray((size * np.where(size > 0, gap, 0.0)).sum(axis=-1) / size.sum(axis=-1))


def squared_error_plugin(forecasts: Forecasts, bins: int | None = None, rule: str = "right_closed") -> Estimate:
    """Case-weighted mean squared gap of the bins, biased upward by noise."""
    nothing = _nothing(forecasts, "squared_calibration_error_plugin")
    if nothing is not None:
        return nothing
    forecasts = forecasts.unweighted()
    assigned = _bins_of(forecasts, bins, rule)
    value = float(_squared(*_sums(forecasts, assigned), debias=False))
    return Estimate.point(value, len(forecasts), f"squared_calibration_error_plugin/{rule}/{assigned.count}_bins")


def squared_error_debiased(forecasts: Forecasts, bins: int | None = None, rule: str = "right_closed") -> Estimate:
    """Squared calibration error without the noise of the bins (Brocker 2012; Kumar, Liang & Ma 2019); may be negative.

    Bins with one case contribute 0 and are counted in `details.singleton_bins`. The interval is a delete-one-group
    jackknife with Student's t on groups - 1 degrees, since a bootstrap repeats cases and so adds noise to the bins.
    Weights do not count: the noise that is taken off is that of single cases.
    """
    name = "squared_calibration_error_debiased"
    nothing = _nothing(forecasts, name)
    if nothing is not None:
        return nothing
    forecasts = forecasts.unweighted()
    assigned = _bins_of(forecasts, bins, rule)
    sums = _sums(forecasts, assigned)
    value = float(_squared(*sums, debias=True))
    method = f"{name}/{rule}/{assigned.count}_bins"
    details: dict[str, object] = {"singleton_bins": int((sums[0] == 1).sum())}
    n = len(forecasts)
    codes = np.arange(n) if forecasts.groups is None else group_codes(forecasts.groups)
    groups = int(codes.max()) + 1
    if groups < MIN_GROUPS:
        return Estimate(
            value, None, None, n, method, interval_reason=Reason.TOO_FEW_GROUPS, details={**details, "groups": groups}
        )
    left_out = []
    for total, weights in zip(sums, (np.ones(n), forecasts.confidence, forecasts.correct), strict=True):
        own = np.zeros((groups, assigned.count))
        np.add.at(own, (codes, assigned.index), weights)
        left_out.append(total - own)
    replicates = _squared(left_out[0], left_out[1], left_out[2], debias=True)
    se = math.sqrt((groups - 1) / groups * float(((replicates - replicates.mean()) ** 2).sum()))
    from scipy.stats import t as student

    half = float(student.ppf(0.975, groups - 1)) * se
    return Estimate(
        value, value - half, value + half, n, f"{method}/jackknife", details={**details, "se": se, "groups": groups}
    )


def smooth_ece(forecasts: Forecasts) -> Estimate:
    """Calibration error without bins: reflected Gaussian kernel, bandwidth at its fixed point (Blasiok 2023).

    Discretised to 1/4000; a second opinion beside ECE, with no bins to choose. Weights do not count.
    """
    nothing = _nothing(forecasts, "smooth_ece")
    if nothing is not None:
        return nothing
    from scipy.fft import dct, idct

    cells = 4000
    n = len(forecasts)
    place = np.minimum((forecasts.confidence * cells).astype(np.int64), cells - 1)
    residuals = np.bincount(place, weights=forecasts.correct - forecasts.confidence, minlength=cells) / n

    # Smoothing with reflection at 0 and 1 is a product in the cosine basis.
    spectrum = dct(residuals)
    squares = (np.pi * np.arange(cells)) ** 2 / 2

    def error(width: float) -> float:
        return float(np.abs(idct(spectrum * np.exp(-squares * width**2))).sum())

    low, high = 1 / cells, 1.0
    # The error falls as the width grows, so the fixed point is found by halving.
    for _ in range(30):
        middle = (low + high) / 2
        if error(middle) > middle:
            low = middle
        else:
            high = middle
    return Estimate.point(error(high), n, "smooth_ece", details={"bandwidth": high})


def ace_nixon(probabilities: ArrayLike, classes: Sequence[object], human: Sequence[object], ranges: int) -> Estimate:
    """Adaptive calibration error of full probability vectors: gap over classes and equal-count ranges (Nixon 2019).

    `probabilities` has shape (cases, classes). Defined for probabilities without ties; flag `tied` when there are.
    """
    p, truth = _vectors(probabilities, classes, human)
    n = len(p)
    if n == 0:
        return Estimate.undefined(Reason.EMPTY, 0, "ace_nixon")
    if not 1 <= ranges <= n:
        raise InvalidStatisticInput("ranges must lie between 1 and the number of cases")
    gaps = []
    tied = False
    for column in range(p.shape[1]):
        order = np.argsort(p[:, column], kind="stable")
        tied |= np.unique(p[:, column]).size < n
        gaps += [
            abs(float((truth[part] == column).mean() - p[part, column].mean()))
            for part in np.array_split(order, ranges)
        ]
    return Estimate.point(float(np.mean(gaps)), n, f"ace_nixon/{ranges}_ranges", flags=("tied",) if tied else ())


def _vectors(
    probabilities: ArrayLike, classes: Sequence[object], human: Sequence[object]
) -> tuple[Floats, NDArray[np.int64]]:
    from calibration.agreement import FAILED, code_labels

    p = np.asarray(probabilities, dtype=np.float64)
    if p.size == 0:
        p = p.reshape(0, len(classes))
    if p.shape != (len(human), len(classes)):
        raise InvalidStatisticInput("probabilities must have shape (cases, classes)")
    if not np.all((p >= 0) & (p <= 1)) or not np.allclose(p.sum(axis=1), 1, atol=1e-6):
        raise InvalidStatisticInput("each row of probabilities lies in [0, 1] and sums to 1")
    truth = code_labels(human, classes, "human")
    if np.any(truth == FAILED):
        raise InvalidStatisticInput("a human label is missing")
    return p, truth


def _mean_loss(
    losses: Floats, name: str, forecasts: Forecasts, resampler: Resampler | None, details: dict[str, object]
) -> Estimate:
    weights = forecasts.weights
    if resampler is None:
        if weights is None:
            estimate = mean_t(losses, method=f"{name}/t")
        else:
            estimate = weighted_mean(losses, weights.min() / weights)
        method = f"{_name(forecasts, name)}/t"
        return dataclasses.replace(estimate, method=method, details={**estimate.details, **details})
    mass = np.ones(losses.size) if weights is None else weights
    sums = resampler.sums(np.column_stack([losses * mass, mass]))
    return resampler.interval(
        float(np.average(losses, weights=weights)),
        ratio_replicates(sums[:, 0], sums[:, 1]),
        method=f"{_name(forecasts, name)}/{resampler.method}",
        details=details,
    )


def brier(forecasts: Forecasts, *, resampler: Resampler | None = None) -> Estimate:
    """Mean squared difference of confidence and outcome; a resampler (over the forecasts) gives bootstrap intervals.

    With weights Hajek's mean: without a resampler its interval is that of `weighted_mean`.
    """
    nothing = _nothing(forecasts, "brier")
    if nothing is not None:
        return nothing
    return _mean_loss((forecasts.confidence - forecasts.correct) ** 2, "brier", forecasts, resampler, {})


def murphy(forecasts: Forecasts) -> dict[str, Estimate]:
    """Brier = reliability - resolution + uncertainty over the distinct confidences (Murphy 1973), exact only so."""
    names = ("reliability", "resolution", "uncertainty")
    nothing = _nothing(forecasts, "murphy")
    if nothing is not None:
        return dict.fromkeys(names, nothing)
    values, index = np.unique(np.round(forecasts.confidence, 12), return_inverse=True)
    weights = np.ones(len(forecasts)) if forecasts.weights is None else forecasts.weights
    size = np.bincount(index, weights=weights)
    accuracy = np.bincount(index, weights=forecasts.correct * weights) / size
    n, mass = len(forecasts), float(weights.sum())
    base = float(np.average(forecasts.correct, weights=forecasts.weights))
    parts = (
        float((size * (values - accuracy) ** 2).sum() / mass),
        float((size * (accuracy - base) ** 2).sum() / mass),
        base * (1 - base),
    )
    method, details = _name(forecasts, "murphy"), {"distinct_confidences": int(values.size)}
    return {name: Estimate.point(value, n, method, details=details) for name, value in zip(names, parts, strict=True)}


def log_loss(forecasts: Forecasts, *, eps: float = 1e-15, resampler: Resampler | None = None) -> Estimate:
    """Mean negative log probability of what happened, confidences clipped to [eps, 1 - eps].

    `details.clipped` counts the clipped cases: one that is wrong makes the value depend on `eps`.
    """
    nothing = _nothing(forecasts, "log_loss")
    if nothing is not None:
        return nothing
    losses, clipped = case_log_losses(forecasts.confidence, forecasts.correct, eps)
    return _mean_loss(losses, "log_loss", forecasts, resampler, {"eps": eps, "clipped": clipped})


def case_log_losses(confidence: Floats, correct: Floats, eps: float = 1e-15) -> tuple[Floats, int]:
    """Log loss of each case and the number of clipped confidences."""
    if not 0 < eps < 0.5:
        raise InvalidStatisticInput("eps must lie in (0, 0.5)")
    p = np.clip(confidence, eps, 1 - eps)
    return -(correct * np.log(p) + (1 - correct) * np.log1p(-p)), int((p != confidence).sum())


def brier_multiclass(probabilities: ArrayLike, classes: Sequence[object], human: Sequence[object]) -> Estimate:
    """Brier's original multi-category score: summed over classes, range 0..2 (not halved)."""
    p, truth = _vectors(probabilities, classes, human)
    if len(p) == 0:
        return Estimate.undefined(Reason.EMPTY, 0, "brier_multiclass_sum")
    outcome = np.eye(p.shape[1])[truth]
    return mean_t(((p - outcome) ** 2).sum(axis=1), method="brier_multiclass_sum/t")


def log_loss_multiclass(
    probabilities: ArrayLike, classes: Sequence[object], human: Sequence[object], *, eps: float = 1e-15
) -> Estimate:
    """Mean negative log probability of the human class, clipped below at `eps`."""
    p, truth = _vectors(probabilities, classes, human)
    if len(p) == 0:
        return Estimate.undefined(Reason.EMPTY, 0, "log_loss_multiclass")
    chosen = p[np.arange(len(p)), truth]
    estimate = mean_t(-np.log(np.maximum(chosen, eps)), method="log_loss_multiclass/t")
    return dataclasses.replace(estimate, details={**estimate.details, "eps": eps, "clipped": int((chosen < eps).sum())})


def top_label_accuracy(probabilities: ArrayLike, classes: Sequence[object], human: Sequence[object]) -> Estimate:
    """Share of cases whose most probable class is the human one (the first of equals)."""
    from calibration.intervals import proportion

    p, truth = _vectors(probabilities, classes, human)
    hits = int((p.argmax(axis=1) == truth).sum()) if len(p) else 0
    return proportion(hits, len(p))


def auroc(forecasts: Forecasts, *, resampler: Resampler | None = None) -> Estimate:
    """Probability that a right case has the higher confidence than a wrong one, ties half; null `one_class`.

    The bootstrap is of the linear part (Hoeffding's projection, as in DeLong 1988): each case's share of wrong cases
    below it, or of right cases above it. With weights each pair counts by the product of its cases' weights (Mann and
    Whitney's statistic of the population), and the shares are of masses.
    """
    nothing = _nothing(forecasts, "auroc")
    if nothing is not None:
        return nothing
    n = len(forecasts)
    right = forecasts.correct == 1
    if right.all() or not right.any():
        return Estimate.undefined(Reason.ONE_CLASS, n, "auroc")
    name = _name(forecasts, "auroc")
    weights = forecasts.weights
    mass = np.ones(n) if weights is None else weights
    c = forecasts.confidence
    below = _share_below(c, c[~right], mass[~right])
    above = 1 - _share_below(c, c[right], mass[right])
    value = float(np.average(below[right], weights=None if weights is None else weights[right]))
    if resampler is None:
        return Estimate.point(value, n, name)
    sums = resampler.sums(np.column_stack([below * right, right, above * ~right, ~right]) * mass[:, None])
    replicates = ratio_replicates(sums[:, 0], sums[:, 1]) + ratio_replicates(sums[:, 2], sums[:, 3]) - value
    return resampler.interval(value, replicates, method=f"{name}/linearised_{resampler.method}")


def _share_below(values: Floats, others: Floats, mass: Floats) -> Floats:
    """The share of the others' mass below each value, ties half."""
    order = np.argsort(others, kind="stable")
    others, reached = others[order], np.concatenate([[0.0], np.cumsum(mass[order])])
    left, right = np.searchsorted(others, values, "left"), np.searchsorted(others, values, "right")
    return np.asarray((reached[left] + reached[right]) / (2 * reached[-1]))
