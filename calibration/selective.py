"""Answering only when confident: risk against coverage, and thresholds with and without a guarantee."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.confidence import Forecasts
from calibration.estimate import Estimate, InvalidStatisticInput, Reason
from calibration.intervals import clopper_pearson_upper
from calibration.resample import Resampler

Floats = NDArray[np.float64]

_FEW_BLOCKS = 500  # distinct confidences up to which a resample is summed by confidence
_ROWS = 16  # resamples followed at once: their running totals stay in the processor's cache


def risk_coverage(forecasts: Forecasts) -> list[dict[str, float | int]]:
    """Points of the curve from the most confident on: threshold, accepted, coverage, risk; equal confidences together.

    Coverage is over all cases: those without a confidence are never accepted.
    """
    total = len(forecasts) + forecasts.missing
    values, index = np.unique(-forecasts.confidence, return_inverse=True)
    accepted = np.cumsum(np.bincount(index, minlength=values.size))
    errors = np.cumsum(np.bincount(index, weights=1 - forecasts.correct, minlength=values.size))
    return [
        {
            "threshold": float(-value),
            "accepted": int(n),
            "errors": int(wrong),
            "coverage": float(n / total),
            "risk": float(wrong / n),
        }
        for value, n, wrong in zip(values, accepted, errors, strict=True)
    ]


def _blocks(forecasts: Forecasts) -> tuple[NDArray[np.int64], int]:
    """Number of each case's block of equal confidence, the most confident first."""
    values, index = np.unique(-forecasts.confidence, return_inverse=True)
    return index.astype(np.int64), int(values.size)


def _aurc(size: NDArray[Any], errors: NDArray[Any], ties: str) -> Floats:
    """Mean over cases of the risk at the case's own coverage; arrays (..., blocks), most confident block first."""
    accepted, wrong = _running_totals(size, errors)
    if ties == "together":
        summed = np.divide(wrong, np.maximum(accepted, 1), out=wrong)
        summed *= size
    else:
        from scipy.special import digamma

        before, wrong_before = accepted - size, wrong - errors
        # Sums of 1/(before + t) and t/(before + t) over the places t = 1..size of the block.
        harmonic = digamma(accepted + 1) - digamma(before + 1)
        summed = wrong_before * harmonic + errors / np.maximum(size, 1) * (size - before * harmonic)
    return np.asarray(summed.sum(axis=-1) / accepted[..., -1])


def _running_totals(size: NDArray[Any], errors: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Totals of both up to each block. Counts take one pass, with the errors in the upper half of a word."""
    if size.dtype.kind != "u":
        return np.cumsum(size, axis=-1), np.cumsum(errors, axis=-1)
    few = int(size.sum(axis=-1, dtype=np.uint32).max(initial=0)) < 1 << 16
    word, half = (np.uint32, 16) if few else (np.uint64, 32)
    upper: NDArray[Any] = np.left_shift(errors.astype(word), half)
    both: NDArray[Any] = np.cumsum(size + upper, axis=-1, dtype=word)
    # Every count is exact in the result: below 2**16 in single precision, below 2**32 in double.
    exact = np.float32 if few else np.float64
    lower: NDArray[Any] = np.bitwise_and(both, (1 << half) - 1)
    return lower.astype(exact), np.right_shift(both, half).astype(exact)


def _oracle(n: int, errors: int) -> float:
    """Smallest possible AURC: all right cases come before all wrong ones."""
    return float(sum(wrong / (n - errors + wrong) for wrong in range(1, errors + 1)) / n)


def aurc(forecasts: Forecasts, *, ties: str = "together", resampler: Resampler | None = None) -> Estimate:
    """Area under the risk-coverage curve: mean risk over coverages 1/n .. 1 (Geifman et al. 2019).

    Equal confidences enter `together` (default), or one by one in random order, of which `expected` is the mean.
    `details` has `oracle` (the best order of the same cases) and `excess`, which compares judges of unequal accuracy.
    """
    if ties not in ("together", "expected"):
        raise InvalidStatisticInput(f"unknown treatment of ties {ties!r}: together or expected")
    n = len(forecasts)
    name = f"aurc/ties_{ties}"
    if n == 0:
        return Estimate.undefined(Reason.NO_CONFIDENCE if forecasts.missing else Reason.EMPTY, 0, name)
    block, blocks = _blocks(forecasts)
    wrong = 1 - forecasts.correct
    size = np.bincount(block, minlength=blocks).astype(np.float64)
    value = float(_aurc(size, np.asarray(np.bincount(block, weights=wrong, minlength=blocks), dtype=np.float64), ties))
    oracle = _oracle(n, int(wrong.sum()))
    details: dict[str, object] = {
        "oracle": oracle,
        "excess": value - oracle,
        "without_confidence": forecasts.missing,
    }
    if resampler is None:
        return Estimate.point(value, n, name, details=details)
    if blocks <= _FEW_BLOCKS:
        membership = np.zeros((n, 2 * blocks), dtype=np.float32)
        membership[np.arange(n), block] = 1
        membership[np.arange(n), blocks + block] = wrong
        sums = resampler.sums(membership)
        replicates = _aurc(sums[:, :blocks], sums[:, blocks:], ties)
    else:
        order = np.argsort(block, kind="stable")
        starts = np.searchsorted(block[order], np.arange(blocks))
        wrong_in_order = wrong[order].astype(np.uint8)

        def of_rows(weights: NDArray[np.unsignedinteger[Any]]) -> Floats:
            drawn = weights[:, order]
            mistakes = drawn * wrong_in_order
            if blocks < n:
                drawn = np.add.reduceat(drawn, starts, axis=1, dtype=np.uint32)
                mistakes = np.add.reduceat(mistakes, starts, axis=1, dtype=np.uint32)
            return _aurc(drawn, mistakes, ties)

        parts = [
            of_rows(weights[row : row + _ROWS])
            for weights in resampler.case_weights()
            for row in range(0, len(weights), _ROWS)
        ]
        replicates = np.concatenate(parts)
    return resampler.interval(value, replicates, method=f"{name}/{resampler.method}", details=details)


def lowest_threshold(forecasts: Forecasts, target: float) -> Estimate:
    """Lowest threshold whose point agreement reaches `target`: descriptive only, without any guarantee.

    Null `too_few_labels` when no threshold reaches it. `details` has accepted, coverage and risk there.
    """
    _check_target(target)
    n = len(forecasts)
    if n == 0:
        return Estimate.undefined(Reason.NO_CONFIDENCE if forecasts.missing else Reason.EMPTY, 0, "lowest_threshold")
    reaching = [point for point in risk_coverage(forecasts) if point["risk"] <= 1 - target + 1e-12]
    if not reaching:
        return Estimate.undefined(Reason.TOO_FEW_LABELS, n, "lowest_threshold", details={"target": target})
    best = reaching[-1]
    return Estimate.point(
        best["threshold"],
        n,
        "lowest_threshold",
        details={"target": target, **{name: best[name] for name in ("accepted", "coverage", "risk")}},
    )


def threshold_by_f1(scores: Sequence[float], positive: Sequence[bool], grid: Sequence[float] | None = None) -> Estimate:
    """First of `grid` (0.00, 0.01 .. 0.99) with the best F1 of "positive if score > threshold"; F1 is in `details`.

    Chosen and judged on the same labels it is optimistic. No positive label: null `no_positive_labels`.
    """
    values, truth = np.asarray(scores, dtype=np.float64), np.asarray(positive, dtype=bool)
    if values.shape != truth.shape or not np.all(np.isfinite(values)):
        raise InvalidStatisticInput("scores must be finite numbers, with one label for each")
    if not truth.any():
        reason = Reason.NO_POSITIVE_LABELS if truth.size else Reason.EMPTY
        return Estimate.undefined(reason, int(truth.size), "threshold_by_f1")
    cuts = [step / 100 for step in range(100)] if grid is None else list(grid)
    best, chosen = -1.0, cuts[0]
    for cut in cuts:
        said = values > cut
        f1 = 2 * float((said & truth).sum()) / float(said.sum() + truth.sum())
        if f1 > best + 1e-12:
            best, chosen = f1, cut
    return Estimate.point(chosen, int(truth.size), "threshold_by_f1", details={"f1": best})


def guaranteed_threshold(
    forecasts: Forecasts, thresholds: Sequence[float], target: float, *, alpha: float = 0.05
) -> Estimate:
    """Lowest of the pre-declared `thresholds` whose agreement is at least `target`, with probability 1 - alpha.

    One-sided Clopper-Pearson upper bound of the risk of each threshold at alpha/K: the Bonferroni form of
    Learn-then-Test (Angelopoulos et al. 2021). The thresholds must have been fixed before the labels were seen.
    `details.rows` has every threshold; none passes: null `too_few_labels`.
    """
    _check_target(target)
    grid = sorted(set(thresholds))
    if not grid or not all(math.isfinite(value) for value in grid):
        raise InvalidStatisticInput("thresholds must be finite numbers, at least one")
    rows = []
    chosen = None
    for threshold in grid:
        accepted = forecasts.confidence >= threshold - 1e-12
        n = int(accepted.sum())
        errors = int((1 - forecasts.correct[accepted]).sum())
        upper = clopper_pearson_upper(errors, n, alpha / len(grid)) if n else 1.0
        passes = upper <= 1 - target
        rows.append({"threshold": threshold, "accepted": n, "errors": errors, "risk_upper": upper, "ok": passes})
        if passes and chosen is None:
            chosen = threshold
    details: dict[str, object] = {"rows": rows, "target": target, "alpha": alpha}
    total = len(forecasts)
    if chosen is None:
        return Estimate.undefined(Reason.TOO_FEW_LABELS, total, "guaranteed_threshold", details=details)
    return Estimate.point(chosen, total, "guaranteed_threshold", details=details)


def _check_target(target: float) -> None:
    if not 0 < target < 1:
        raise InvalidStatisticInput("the target agreement must lie between 0 and 1")
