"""Maps from a raw to a calibrated confidence: fitting, applying, and the cross-fitted proof that a map helps.

A map is a frozen value that can be stored and applied without any library. Owns when a map may not be fitted.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.binning import bin_confidences
from calibration.confidence import Forecasts
from calibration.estimate import Estimate, InvalidStatisticInput, Reason
from calibration.probability import brier, case_log_losses, log_loss
from calibration.resample import DEFAULT_SEED, Resampler, group_codes, ratio_replicates

Floats = NDArray[np.float64]

EPS = 1e-6
"""Confidences are moved this far from 0 and 1 before a logit is taken."""

MIN_CASES: Mapping[str, int] = {"temperature": 100, "logistic": 100, "beta": 200, "histogram": 200, "isotonic": 500}
"""Cases from which each method may be used."""

MAX_HISTOGRAM_BINS = 5

COMPARISON_EPS = 1e-3
"""Clipping of the log losses whose improvement is tested: one exact 0 or 1 that is wrong must not decide alone."""


class CannotFit(ValueError):
    """The data do not determine a map; `reason` says why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason


@dataclasses.dataclass(frozen=True)
class ConfidenceMap:
    """A fitted map: `method` and the numbers that define it, JSON-ready by `to_dict` and back by `from_dict`.

    Methods and parameters: `identity`; `temperature` (temperature); `logistic` (intercept, slope on the logit);
    `beta` (a, b, c); `histogram` (edges, values: null where no case was seen, which keeps the raw confidence);
    `isotonic` (knots, values: linear between, constant outside).
    """

    method: str
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)
    n: int = 0

    def apply(self, confidence: Sequence[float] | Floats) -> Floats:
        """Calibrated confidences in [0, 1], in the order given."""
        raw = np.asarray(confidence, dtype=np.float64)
        if raw.size and not np.all((raw >= 0) & (raw <= 1)):
            raise InvalidStatisticInput("a confidence must lie between 0 and 1")
        return _APPLY[self.method](self.parameters, raw)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready object."""
        return {"method": self.method, "parameters": dict(self.parameters), "n": self.n}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> ConfidenceMap:
        """The map that `to_dict` described; an unknown method is refused."""
        if record["method"] not in _APPLY:
            raise InvalidStatisticInput(f"unknown recalibration method {record['method']!r}")
        return cls(record["method"], dict(record["parameters"]), int(record.get("n", 0)))


def _logit(confidence: Floats) -> Floats:
    p = np.clip(confidence, EPS, 1 - EPS)
    return np.asarray(np.log(p) - np.log1p(-p))


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(0.5 * (1 + np.tanh(x / 2)))


def _apply_histogram(parameters: Mapping[str, Any], raw: Floats) -> Floats:
    values = parameters["values"]
    index = bin_confidences(raw, len(values), "left_closed").index
    learned = np.array([np.nan if value is None else value for value in values], dtype=np.float64)[index]
    return np.where(np.isnan(learned), raw, learned)


def _apply_beta(parameters: Mapping[str, Any], raw: Floats) -> Floats:
    p = np.clip(raw, EPS, 1 - EPS)
    return _sigmoid(parameters["c"] + parameters["a"] * np.log(p) - parameters["b"] * np.log1p(-p))


_APPLY: dict[str, Callable[[Mapping[str, Any], Floats], Floats]] = {
    "identity": lambda parameters, raw: raw.copy(),
    "temperature": lambda parameters, raw: _sigmoid(_logit(raw) / parameters["temperature"]),
    "logistic": lambda parameters, raw: _sigmoid(parameters["intercept"] + parameters["slope"] * _logit(raw)),
    "beta": _apply_beta,
    "histogram": _apply_histogram,
    "isotonic": lambda parameters, raw: np.interp(raw, parameters["knots"], parameters["values"]),
}


def require_both_classes(forecasts: Forecasts) -> None:
    """Raise `CannotFit` unless there are right and wrong cases with a confidence."""
    if len(forecasts) == 0:
        raise CannotFit(Reason.NO_CONFIDENCE if forecasts.missing else Reason.EMPTY)
    if np.all(forecasts.correct == forecasts.correct[0]):
        raise CannotFit(Reason.ONE_CLASS)


def _regress(columns: Floats, outcome: Floats, *, intercept: bool) -> tuple[float, Floats]:
    """Unpenalised logistic regression: (intercept, slopes). A separated fit raises `CannotFit`."""
    for column in columns.T if intercept else ():
        wrong, right = column[outcome == 0], column[outcome == 1]
        if wrong.max() <= right.min() or right.max() <= wrong.min():
            raise CannotFit(Reason.SEPARATION)
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=np.inf, fit_intercept=intercept, solver="newton-cholesky", tol=1e-11, max_iter=500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        # Newton steps overflow on separated data; the size of the coefficients tells it below.
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        try:
            model.fit(columns, outcome)
        except ValueError as failed:
            raise CannotFit(Reason.SEPARATION) from failed
    slopes = np.asarray(model.coef_, dtype=np.float64).ravel()
    constant = float(np.ravel(model.intercept_)[0]) if intercept else 0.0
    # The optimiser stops early on separated data, where the likelihood has no maximum: look at the fit itself.
    missed = np.abs(outcome - _sigmoid(constant + columns @ slopes))
    if not np.all(np.isfinite(missed)) or missed.max() < 1e-6 or np.any(np.abs(slopes) > 50) or abs(constant) > 200:
        raise CannotFit(Reason.SEPARATION)
    return constant, slopes


def fit_temperature(forecasts: Forecasts) -> ConfidenceMap:
    """Divide the logit by one temperature (Guo 2017); keeps 0.5 fixed, so it is wrong for three-way verdicts.

    A best slope of 0 or below (confidence says nothing, or the opposite) cannot be a temperature: `separation`.
    """
    require_both_classes(forecasts)
    _, slopes = _regress(_logit(forecasts.confidence)[:, None], forecasts.correct, intercept=False)
    if slopes[0] <= 1e-6:
        raise CannotFit(Reason.SEPARATION)
    return ConfidenceMap("temperature", {"temperature": 1 / float(slopes[0])}, len(forecasts))


def fit_logistic(forecasts: Forecasts) -> ConfidenceMap:
    """Logistic regression on the logit (Platt 1999, no target smoothing): the default method."""
    require_both_classes(forecasts)
    logits = _logit(forecasts.confidence)
    if np.all(logits == logits[0]):
        raise CannotFit(Reason.ZERO_VARIANCE)
    intercept, slopes = _regress(logits[:, None], forecasts.correct, intercept=True)
    return ConfidenceMap("logistic", {"intercept": intercept, "slope": float(slopes[0])}, len(forecasts))


def fit_beta(forecasts: Forecasts) -> ConfidenceMap:
    """Beta calibration (Kull, Silva Filho & Flach 2017): logistic regression on ln p and -ln(1 - p) with a, b >= 0.

    A negative coefficient drops its column and the rest is fitted again.
    """
    require_both_classes(forecasts)
    p = np.clip(forecasts.confidence, EPS, 1 - EPS)
    columns = np.column_stack([np.log(p), -np.log1p(-p)])
    if np.all(columns == columns[0]):
        raise CannotFit(Reason.ZERO_VARIANCE)
    kept = [0, 1]
    slopes = np.zeros(2)
    intercept = 0.0
    while kept:
        intercept, fitted = _regress(columns[:, kept], forecasts.correct, intercept=True)
        if np.all(fitted >= 0):
            slopes[kept] = fitted
            break
        del kept[int(np.argmin(fitted))]
    else:
        base = float(forecasts.correct.mean())
        intercept = math.log(base / (1 - base))
    parameters = {"a": float(slopes[0]), "b": float(slopes[1]), "c": intercept}
    return ConfidenceMap("beta", parameters, len(forecasts))


def fit_histogram(forecasts: Forecasts, bins: int = MAX_HISTOGRAM_BINS) -> ConfidenceMap:
    """Accuracy of each equal-width, left-closed bin (Zadrozny & Elkan 2001); an empty bin keeps the raw value."""
    require_both_classes(forecasts)
    assigned = bin_confidences(forecasts.confidence, bins, "left_closed")
    size = np.bincount(assigned.index, minlength=bins)
    right = np.bincount(assigned.index, weights=forecasts.correct, minlength=bins)
    values = [float(hits / n) if n else None for hits, n in zip(right, size, strict=True)]
    return ConfidenceMap("histogram", {"values": values}, len(forecasts))


def fit_isotonic(forecasts: Forecasts) -> ConfidenceMap:
    """Pool adjacent violators (Zadrozny & Elkan 2002), equal confidences pooled first."""
    require_both_classes(forecasts)
    from sklearn.isotonic import IsotonicRegression

    knots, index = np.unique(forecasts.confidence, return_inverse=True)
    size = np.bincount(index).astype(np.float64)
    means = np.bincount(index, weights=forecasts.correct) / size
    values = IsotonicRegression(y_min=0, y_max=1).fit_transform(knots, means, sample_weight=size)
    parameters = {"knots": [float(x) for x in knots], "values": [float(x) for x in values]}
    return ConfidenceMap("isotonic", parameters, len(forecasts))


FITTERS: Mapping[str, Callable[[Forecasts], ConfidenceMap]] = {
    "temperature": fit_temperature,
    "logistic": fit_logistic,
    "beta": fit_beta,
    "histogram": fit_histogram,
    "isotonic": fit_isotonic,
}


def assign_folds(forecasts: Forecasts, folds: int = 5, *, seed: int = DEFAULT_SEED) -> NDArray[np.int64]:
    """Fold of each case: groups stay together, the share of right cases is kept even; -1 cannot occur."""
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    groups: Sequence[Hashable] = forecasts.groups if forecasts.groups is not None else range(len(forecasts))
    codes = group_codes(groups)
    n_groups = np.unique(codes).size
    if n_groups < folds:
        raise CannotFit(Reason.TOO_FEW_GROUPS)
    assigned = np.zeros(len(forecasts), dtype=np.int64)
    # Where no two cases belong together, a division of the cases does, which costs nothing a group.
    division = StratifiedKFold if n_groups == len(forecasts) else StratifiedGroupKFold
    splitter = division(n_splits=folds, shuffle=True, random_state=seed % 2**32)
    with warnings.catch_warnings():
        # It warns when a class has fewer members than folds; such folds are refused by the fit.
        warnings.simplefilter("ignore", UserWarning)
        try:
            parts = list(splitter.split(forecasts.confidence[:, None], forecasts.correct, codes))
        except ValueError as failed:
            raise CannotFit(Reason.ONE_CLASS) from failed
    for fold, (_, held_out) in enumerate(parts):
        assigned[held_out] = fold
    return assigned


def folds_of(forecasts: Forecasts) -> Sequence[int] | None:
    """`assign_folds` for several methods on the same cases: it costs more than a fit.

    None where there is no division; `cross_fit` says why, for each method.
    """
    try:
        return [int(fold) for fold in assign_folds(forecasts)]
    except CannotFit:
        return None


@dataclasses.dataclass(frozen=True, eq=False)
class CrossFit:
    """A method judged on confidences that its maps never saw, and the map refitted on everything.

    `improvement` is the mean drop of log loss per case, out of fold and clipped at COMPARISON_EPS, with its interval;
    `map` is the identity unless that interval is above 0. `undefined_reason` is set, and the estimates after are null,
    when the method could not be fitted.
    """

    method: str
    out_of_fold: Floats | None
    log_loss_before: Estimate
    log_loss_after: Estimate
    brier_before: Estimate
    brier_after: Estimate
    improvement: Estimate
    map: ConfidenceMap
    undefined_reason: Reason | None = None

    @property
    def kept(self) -> bool:
        """Whether the map is used instead of the identity."""
        return self.map.method != "identity"

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready object."""
        figures = ("log_loss_before", "log_loss_after", "brier_before", "brier_after", "improvement")
        return {
            "method": self.method,
            "kept": self.kept,
            "map": self.map.to_dict(),
            "undefined_reason": None if self.undefined_reason is None else self.undefined_reason.value,
            **{name: getattr(self, name).to_dict() for name in figures},
        }


def cross_fit(
    forecasts: Forecasts,
    method: str = "logistic",
    *,
    folds: Sequence[int] | None = None,
    n_folds: int = 5,
    resampler: Resampler | None = None,
    enforce_size: bool = True,
    seed: int = DEFAULT_SEED,
) -> CrossFit:
    """Fit on the other folds, apply to the left-out one; `folds` gives the fold of each case, else they are by group.

    Refused (identity kept, `undefined_reason` set): fewer cases than MIN_CASES unless `enforce_size` is False
    (`too_few_labels`), folds that lack a class (`one_class`), separation. The interval of the improvement is by
    Student's t, or by bootstrap with a `resampler`.
    """
    if method not in FITTERS:
        raise InvalidStatisticInput(f"unknown recalibration method {method!r}: {', '.join(FITTERS)}")
    before = log_loss(forecasts, resampler=resampler)
    brier_before = brier(forecasts, resampler=resampler)
    n = len(forecasts)
    try:
        require_both_classes(forecasts)
        if enforce_size and n < MIN_CASES[method]:
            raise CannotFit(Reason.TOO_FEW_LABELS)
        fold = assign_folds(forecasts, n_folds, seed=seed) if folds is None else np.asarray(folds, dtype=np.int64)
        if fold.shape != (n,):
            raise InvalidStatisticInput("folds must have one entry for each case with a confidence")
        calibrated = np.empty(n)
        for held_out in np.unique(fold):
            rest = fold != held_out
            training = Forecasts(forecasts.confidence[rest], forecasts.correct[rest], 0, np.flatnonzero(rest))
            calibrated[~rest] = FITTERS[method](training).apply(forecasts.confidence[~rest])
        final = FITTERS[method](forecasts)
    except CannotFit as failed:
        nothing = Estimate.undefined(failed.reason, n, f"cross_fit/{method}")
        identity = ConfidenceMap("identity", {}, n)
        return CrossFit(method, None, before, nothing, brier_before, nothing, nothing, identity, failed.reason)
    after = Forecasts(calibrated, forecasts.correct, forecasts.missing, forecasts.positions, forecasts.groups)
    drop = (
        case_log_losses(forecasts.confidence, forecasts.correct, COMPARISON_EPS)[0]
        - case_log_losses(calibrated, forecasts.correct, COMPARISON_EPS)[0]
    )
    improvement = _mean_drop(drop, method, resampler)
    useful = improvement.low is not None and improvement.low > 0
    return CrossFit(
        method,
        calibrated,
        before,
        log_loss(after, resampler=resampler),
        brier_before,
        brier(after, resampler=resampler),
        improvement,
        final if useful else ConfidenceMap("identity", {}, n),
    )


def _mean_drop(drop: Floats, method: str, resampler: Resampler | None) -> Estimate:
    from calibration.intervals import mean_t

    name = f"log_loss_improvement/{method}"
    if resampler is None:
        return mean_t(drop, method=f"{name}/t")
    sums = resampler.sums(np.column_stack([drop, np.ones(drop.size)]))
    return resampler.interval(
        float(drop.mean()), ratio_replicates(sums[:, 0], sums[:, 1]), method=f"{name}/{resampler.method}"
    )
