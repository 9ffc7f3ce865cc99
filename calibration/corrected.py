"""The human pass rate estimated from judged cases plus a part with human labels.

Prediction-powered inference when the labelled cases are a random sample of the judged population; Rogan-Gladen when
the judge's sensitivity and specificity come from a separate set. Both are shown beside the raw rate, never instead.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.estimate import Estimate, InvalidStatisticInput, Reason
from calibration.intervals import proportion, z_of
from calibration.resample import DEFAULT_RESAMPLES, DEFAULT_SEED, Resampler

Floats = NDArray[np.float64]

PPI_MIN_LABELS = 30
MIN_OF_CLASS = 10
WARN_YOUDEN = 0.2


def _values(values: ArrayLike, name: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.all(np.isfinite(array)):
        raise InvalidStatisticInput(f"{name} must be a list of finite numbers")
    return array


def _normal(value: float, se: float, n: int, method: str, level: float, details: dict[str, object]) -> Estimate:
    """Normal interval clipped to [0, 1] for display; the raw ends stay in `details`."""
    half = z_of(level) * se
    raw = [value - half, value + half]
    details = {**details, "se": se, "raw_value": value, "raw_interval": raw}
    shown = min(1.0, max(0.0, value))
    return Estimate(
        shown,
        min(shown, max(0.0, raw[0])),
        max(shown, min(1.0, raw[1])),
        n,
        method,
        level=level,
        details=details,
    )


def _too_few(human: Floats, method: str, enforce_size: bool) -> Estimate | None:
    n = int(human.size)
    if n == 0:
        return Estimate.undefined(Reason.EMPTY, 0, method)
    if n < 2:
        return Estimate.undefined(Reason.N_BELOW_2, n, method)
    if enforce_size and n < PPI_MIN_LABELS:
        return Estimate.undefined(Reason.TOO_FEW_LABELS, n, method)
    binary = bool(np.all((human == 0) | (human == 1)))
    if enforce_size and binary and min(human.sum(), n - human.sum()) < MIN_OF_CLASS:
        return Estimate.undefined(Reason.TOO_FEW_LABELS, n, method)
    return None


def classical_mean(human: ArrayLike, *, level: float = 0.95, enforce_size: bool = True) -> Estimate:
    """Mean of the human labels alone, the yardstick of the others; normal interval, s.e. sd(ddof 0)/sqrt(n).

    Below 30 labels or 10 of a class: null `too_few_labels`, unless `enforce_size` is False.
    """
    y = _values(human, "human")
    refused = _too_few(y, "classical_mean", enforce_size)
    if refused is not None:
        return refused
    return _normal(float(y.mean()), float(y.std()) / math.sqrt(y.size), y.size, "classical_mean", level, {})


def ppi_mean(
    human: ArrayLike,
    judge_on_labelled: ArrayLike,
    judge_on_unlabelled: ArrayLike,
    *,
    weight: float | None = None,
    predictions: str = "unlabelled",
    weight_variance: str = "pooled",
    level: float = 0.95,
    enforce_size: bool = True,
    labelled_groups: Sequence[Hashable] | None = None,
    unlabelled_groups: Sequence[Hashable] | None = None,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = DEFAULT_SEED,
) -> Estimate:
    """Prediction-powered mean (Angelopoulos et al. 2023): weight * mean(f') + mean(Y - weight * f).

    `weight` None: PPI++, Cov(Y, f)/((1 + n/N) Var(f)) clipped to [0, 1]; 1: PPI; 0: the classical mean. A constant
    judge gets weight 0. `predictions`: f' are the `unlabelled` cases (default) or `all`, the labelled ones too, as
    some tools do (the two parts are then dependent and the s.e. approximate). `weight_variance`: Var(f) over all cases
    `pooled` (default), or over the `labelled`. Values are 0/1 or scores in [0, 1].

    Valid only when the labelled cases are a random sample of the same population and not among the unlabelled ones.
    Value and interval are clipped to [0, 1] for display; `details` keeps the raw ones, the weight, the s.e. and the
    judge's own mean. With groups, the interval is a cluster bootstrap that estimates the weight again each time. Below
    30 labels or 10 of a class: null `too_few_labels`.
    """
    y = _values(human, "human")
    f = _values(judge_on_labelled, "judge_on_labelled")
    g = _values(judge_on_unlabelled, "judge_on_unlabelled")
    if predictions not in ("unlabelled", "all") or weight_variance not in ("pooled", "labelled"):
        raise InvalidStatisticInput("predictions are unlabelled or all, weight_variance is pooled or labelled")
    if y.size != f.size:
        raise InvalidStatisticInput("human and judge_on_labelled must have one entry for each labelled case")
    for values in (y, f, g):
        if values.size and not np.all((values >= 0) & (values <= 1)):
            raise InvalidStatisticInput("labels and scores must lie between 0 and 1")
    names: dict[float | None, str] = {None: "ppi_plus_plus", 1: "ppi", 0: "classical_mean"}
    method = names.get(weight, "ppi_weighted")
    refused = _too_few(y, method, enforce_size)
    if refused is not None:
        return refused
    if g.size == 0:
        return Estimate.undefined(Reason.EMPTY, int(y.size), method)
    lam = _best_weight(y, f, g, weight_variance) if weight is None else weight
    if predictions == "all":
        if labelled_groups is not None or unlabelled_groups is not None:
            raise InvalidStatisticInput("the cluster bootstrap needs predictions over the unlabelled cases")
        g = np.concatenate([f, g])
    value = lam * float(g.mean()) + float((y - lam * f).mean())
    se = math.sqrt(lam**2 * float(g.var()) / g.size + float((y - lam * f).var()) / y.size)
    details: dict[str, object] = {
        "lambda": lam,
        "judge_mean": float(g.mean()),
        "unlabelled": int(g.size),
        "effective_labels": float(y.var() / se**2) if se > 0 else None,
    }
    plain = _normal(value, se, int(y.size), method, level, details)
    if labelled_groups is None and unlabelled_groups is None:
        return plain
    labelled = Resampler(y.size, labelled_groups, resamples=resamples, seed=seed)
    unlabelled = Resampler(g.size, unlabelled_groups, resamples=resamples, seed=seed + 1)
    moments = labelled.sums(np.column_stack([np.ones(y.size), y, f, y * f, f * f]))
    others = unlabelled.sums(np.column_stack([np.ones(g.size), g, g * g]))
    n, big = moments[:, 0], others[:, 0]
    mean_y, mean_f, mean_g = moments[:, 1] / n, moments[:, 2] / n, others[:, 1] / big
    if weight is None:
        covariance = moments[:, 3] / n - mean_y * mean_f
        pooled = (moments[:, 2] + others[:, 1]) / (n + big)
        spread = ((moments[:, 4] + others[:, 2]) - (n + big) * pooled**2) / (n + big - 1)
        weights = np.divide(covariance, (1 + n / big) * spread, out=np.zeros_like(n), where=spread > 1e-15)
        weights = np.clip(weights, 0, 1)
    else:
        weights = np.full(n.size, weight)
    replicates = np.clip(weights * (mean_g - mean_f) + mean_y, 0, 1)
    smaller = labelled if labelled.n_groups <= unlabelled.n_groups else unlabelled
    return smaller.interval(
        plain.value if plain.value is not None else value,
        replicates,
        n=int(y.size),
        level=level,
        method=f"{method}/cluster_bootstrap_percentile",
        details=dict(plain.details),
    )


def _best_weight(y: Floats, f: Floats, g: Floats, variance: str) -> float:
    spread = float(f.var()) if variance == "labelled" else float(np.concatenate([f, g]).var(ddof=1))
    if spread <= 1e-15:
        return 0.0
    covariance = float(((y - y.mean()) * (f - f.mean())).mean())
    return min(1.0, max(0.0, covariance / ((1 + y.size / g.size) * spread)))


@dataclasses.dataclass(frozen=True)
class JudgeErrors:
    """Counts that say how the judge errs: right passes of `human_pass` cases, right fails of `human_fail` cases."""

    true_pass: int
    human_pass: int
    true_fail: int
    human_fail: int

    def __post_init__(self) -> None:
        if not (0 <= self.true_pass <= self.human_pass and 0 <= self.true_fail <= self.human_fail):
            raise InvalidStatisticInput("right passes and right fails cannot exceed the cases they are counted of")

    @property
    def sensitivity(self) -> Estimate:
        """Share of the human passes that the judge passes."""
        if self.human_pass == 0:
            return Estimate.undefined(Reason.NO_POSITIVE_LABELS, 0, "wilson", numerator=0, denominator=0)
        return proportion(self.true_pass, self.human_pass)

    @property
    def specificity(self) -> Estimate:
        """Share of the human fails that the judge fails."""
        if self.human_fail == 0:
            return Estimate.undefined(Reason.NO_NEGATIVE_LABELS, 0, "wilson", numerator=0, denominator=0)
        return proportion(self.true_fail, self.human_fail)


def corrected_share(passed: float, sensitivity: float, specificity: float) -> Estimate:
    """(p + specificity - 1)/(sensitivity + specificity - 1) clipped to [0, 1], of rates taken as known: no interval.

    Not better than chance: null.
    """
    for name, rate in (("passed", passed), ("sensitivity", sensitivity), ("specificity", specificity)):
        if not 0 <= rate <= 1:
            raise InvalidStatisticInput(f"{name} must lie between 0 and 1")
    youden = sensitivity + specificity - 1
    if youden <= 1e-12:
        return Estimate.undefined(Reason.JUDGE_NOT_BETTER_THAN_CHANCE, 0, "rogan_gladen_known_rates")
    raw = (passed + specificity - 1) / youden
    return Estimate.point(min(1.0, max(0.0, raw)), 0, "rogan_gladen_known_rates", details={"raw_value": raw})


def rogan_gladen(
    judge_pass: int,
    judged: int,
    errors: JudgeErrors,
    *,
    interval: str = "adjusted",
    level: float = 0.95,
    enforce_size: bool = True,
) -> Estimate:
    """Pass rate corrected for the judge's errors (Rogan & Gladen 1978), clipped to [0, 1]; raw value in `details`.

    `interval`: `adjusted` (default; after Lang & Reiczigel 2014 as in Lee et al. 2025) or `delta` (value +- z s.e.; by
    simulation it covers about 98% at 50 labels, more than its nominal 95%).
    Valid when sensitivity and specificity are the same in the labelled and the judged set. sensitivity + specificity
    <= 1: null `judge_not_better_than_chance`; flag `weak_judge` below 1.2. No or fewer than 10 labels of a class:
    `no_positive_labels`, `no_negative_labels`, `too_few_labels` (the last unless `enforce_size` is False).
    """
    if not 0 <= judge_pass <= judged:
        raise InvalidStatisticInput(f"{judge_pass} passes of {judged} is not a count")
    if interval not in ("adjusted", "delta"):
        raise InvalidStatisticInput(f"unknown interval {interval!r}: adjusted or delta")
    method = f"rogan_gladen/{interval}"
    m1, m0 = errors.human_pass, errors.human_fail
    reason = (
        Reason.EMPTY
        if judged == 0
        else Reason.NO_POSITIVE_LABELS
        if m1 == 0
        else Reason.NO_NEGATIVE_LABELS
        if m0 == 0
        else None
    )
    if reason is not None:
        return Estimate.undefined(reason, judged, method)
    q1, q0 = errors.true_pass / m1, errors.true_fail / m0
    youden = q0 + q1 - 1
    details: dict[str, object] = {
        "raw_rate": judge_pass / judged,
        "sensitivity": q1,
        "specificity": q0,
        "youden": youden,
        "human_pass": m1,
        "human_fail": m0,
    }
    if youden <= 1e-12:
        return Estimate.undefined(Reason.JUDGE_NOT_BETTER_THAN_CHANCE, judged, method, details=details)
    if enforce_size and min(m0, m1) < MIN_OF_CLASS:
        return Estimate.undefined(Reason.TOO_FEW_LABELS, judged, method, details=details)
    p = judge_pass / judged
    raw = (p + q0 - 1) / youden
    value = min(1.0, max(0.0, raw))
    z = z_of(level)
    # Standard errors and the centre use the value before clipping, as the published code does.
    delta = _delta_se(p, judged, q1, m1, q0, m0, raw)
    details |= {"raw_value": raw, "se": delta}
    centre, half = raw, z * delta
    if interval == "adjusted":
        n = judged + z * z
        adjusted_p = (judge_pass + z * z / 2) / n
        a1, a0 = (errors.true_pass + 1) / (m1 + 2), (errors.true_fail + 1) / (m0 + 2)
        if a0 + a1 - 1 <= 1e-12:
            return Estimate(
                value,
                None,
                None,
                judged,
                method,
                interval_reason=Reason.JUDGE_NOT_BETTER_THAN_CHANCE,
                flags=("weak_judge",),
                details=details,
            )
        theta = (adjusted_p + a0 - 1) / (a0 + a1 - 1)
        half = z * _delta_se(adjusted_p, n, a1, m1 + 2, a0, m0 + 2, theta)
        centre = theta + 2 * z * z * (theta * a1 * (1 - a1) / (m1 + 2) - (1 - theta) * a0 * (1 - a0) / (m0 + 2))
    low, high = (min(1.0, max(0.0, end)) for end in (centre - half, centre + half))
    return Estimate(
        value,
        low,
        high,
        judged,
        method,
        level=level,
        flags=("weak_judge",) if youden < WARN_YOUDEN else (),
        details=details,
    )


def _delta_se(p: float, n: float, q1: float, m1: float, q0: float, m0: float, theta: float) -> float:
    variance = p * (1 - p) / n + (1 - theta) ** 2 * q0 * (1 - q0) / m0 + theta**2 * q1 * (1 - q1) / m1
    return math.sqrt(variance) / (q0 + q1 - 1)
