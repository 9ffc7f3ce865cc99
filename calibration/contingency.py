"""Arithmetic of square tables of counts n[i, j] (judge i, human j) or of many such tables at once.

Every function takes shape (..., K, K) and gives shape (...), NaN where undefined; the callers map NaN to a reason.
Owns formulas only; reasons, intervals and labels are in `agreement`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_EPS = 1e-12


def _divide(numerator: Floats, denominator: Floats) -> Floats:
    result = np.full(np.broadcast(numerator, denominator).shape, np.nan)
    np.divide(numerator, denominator, out=result, where=np.abs(denominator) > _EPS)
    return result


def disagreement_weights(categories: int, weights: str | None) -> Floats:
    """Cost w[i, j]: None 0/1, `linear` |i-j|, `quadratic` (i-j)^2."""
    steps = np.arange(categories, dtype=np.float64)
    distance: Floats = np.abs(steps[:, None] - steps[None, :])
    if weights is None:
        return np.minimum(distance, 1)
    if weights == "linear":
        return distance
    if weights == "quadratic":
        return distance * distance
    raise ValueError(f"unknown weights {weights!r}: None, linear or quadratic")


def cohen(tables: Floats, weights: str | None = None) -> Floats:
    """Cohen's kappa 1 - sum(w p) / sum(w r c) (1960, weighted 1968); NaN where chance leaves no room."""
    cost = disagreement_weights(tables.shape[-1], weights)
    total = tables.sum(axis=(-2, -1))
    rows, columns = tables.sum(axis=-1), tables.sum(axis=-2)
    observed = (tables * cost).sum(axis=(-2, -1)) * total
    expected = ((rows @ cost) * columns).sum(axis=-1)
    return 1 - _divide(observed, expected)


def gwet(tables: Floats, weights: str | None = None) -> Floats:
    """Gwet's AC1 (no weights) or AC2 over the K declared categories (2008); NaN for an empty table or K = 1."""
    categories = tables.shape[-1]
    cost = disagreement_weights(categories, weights)
    if categories < 2:
        return np.full(tables.shape[:-2], np.nan)
    credit = 1 - cost / cost.max()
    total = tables.sum(axis=(-2, -1))
    observed = _divide((tables * credit).sum(axis=(-2, -1)), total)
    shares = _divide((tables.sum(axis=-1) + tables.sum(axis=-2)) / 2, total[..., None])
    chance = credit.sum() / (categories * (categories - 1)) * (shares * (1 - shares)).sum(axis=-1)
    return _divide(observed - chance, 1 - chance)


def alpha_from_coincidences(coincidences: Floats, distances: Floats | None = None) -> Floats:
    """Krippendorff's alpha 1 - D_o/D_e of coincidence matrices (2011); `distances` (..., K, K), None nominal."""
    margins = coincidences.sum(axis=-1)
    total = margins.sum(axis=-1)
    cost = disagreement_weights(coincidences.shape[-1], None) if distances is None else distances
    observed = (coincidences * cost).sum(axis=(-2, -1))
    expected = (margins[..., :, None] * margins[..., None, :] * cost).sum(axis=(-2, -1))
    return 1 - _divide(observed * (total - 1), expected)


def gorodkin(tables: Floats) -> Floats:
    """Multi-class Matthews correlation R_K (Gorodkin 2004); NaN when either side has one class only."""
    total = tables.sum(axis=(-2, -1))
    rows, columns = tables.sum(axis=-1), tables.sum(axis=-2)
    correct = np.trace(tables, axis1=-2, axis2=-1)
    covariance = correct * total - (rows * columns).sum(axis=-1)
    spread = (total**2 - (rows**2).sum(axis=-1)) * (total**2 - (columns**2).sum(axis=-1))
    return _divide(covariance, np.sqrt(np.maximum(spread, 0)))
