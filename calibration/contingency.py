"""Arithmetic of square tables of counts n[i, j] (judge i, human j) or of many such tables at once.

Every function takes shape (..., K, K) and gives shape (...), NaN where undefined; the callers map NaN to a reason.
Owns formulas only; reasons, intervals and labels are in `agreement`.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_EPS = 1e-12


def _divide(numerator: Floats, denominator: Floats) -> Floats:
    result = np.full(np.broadcast(numerator, denominator).shape, np.nan)
    np.divide(numerator, denominator, out=result, where=np.abs(denominator) > _EPS)
    return result


@functools.cache
def _margins(rows: int, columns: int) -> tuple[Floats, Floats]:
    """Projections of flattened tables on their row and column sums."""
    cells = np.arange(rows * columns)
    of_rows, of_columns = np.zeros((cells.size, rows)), np.zeros((cells.size, columns))
    of_rows[cells, cells // columns] = 1
    of_columns[cells, cells % columns] = 1
    return of_rows, of_columns


def row_sums(tables: Floats) -> Floats:
    """Sums of each row. One matrix product: summing many tiny axes one by one takes most of a bootstrap's time."""
    flat = tables.reshape(*tables.shape[:-2], -1)
    return np.asarray(flat @ _margins(*tables.shape[-2:])[0])


def column_sums(tables: Floats) -> Floats:
    """Sums of each column."""
    flat = tables.reshape(*tables.shape[:-2], -1)
    return np.asarray(flat @ _margins(*tables.shape[-2:])[1])


def weighted_sums(tables: Floats, weights: Floats) -> Floats:
    """Sum of all cells, each times its weight (of one table's shape)."""
    return np.asarray(tables.reshape(*tables.shape[:-2], -1) @ weights.ravel())


def _total(tables: Floats) -> Floats:
    return weighted_sums(tables, np.ones(tables.shape[-2:]))


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
    rows, columns = row_sums(tables), column_sums(tables)
    observed = weighted_sums(tables, cost) * _total(tables)
    expected = ((rows @ cost) * columns) @ np.ones(tables.shape[-1])
    return 1 - _divide(observed, expected)


def gwet(tables: Floats, weights: str | None = None) -> Floats:
    """Gwet's AC1 (no weights) or AC2 over the K declared categories (2008); NaN for an empty table or K = 1."""
    categories = tables.shape[-1]
    cost = disagreement_weights(categories, weights)
    if categories < 2:
        return np.full(tables.shape[:-2], np.nan)
    credit = 1 - cost / cost.max()
    total = _total(tables)
    observed = _divide(weighted_sums(tables, credit), total)
    shares = _divide((row_sums(tables) + column_sums(tables)) / 2, total[..., None])
    chance = credit.sum() / (categories * (categories - 1)) * ((shares * (1 - shares)) @ np.ones(categories))
    return _divide(observed - chance, 1 - chance)


def alpha_from_coincidences(coincidences: Floats, distances: Floats | None = None) -> Floats:
    """Krippendorff's alpha 1 - D_o/D_e of coincidence matrices (2011); `distances` (..., K, K), None nominal."""
    margins = row_sums(coincidences)
    total = margins @ np.ones(margins.shape[-1])
    cost = disagreement_weights(coincidences.shape[-1], None) if distances is None else distances
    if cost.ndim == 2:
        observed = weighted_sums(coincidences, cost)
        expected = ((margins @ cost) * margins) @ np.ones(margins.shape[-1])
    else:
        observed = _total(coincidences * cost)
        expected = _total(margins[..., :, None] * margins[..., None, :] * cost)
    return 1 - _divide(observed * (total - 1), expected)


def gorodkin(tables: Floats) -> Floats:
    """Multi-class Matthews correlation R_K (Gorodkin 2004); NaN when either side has one class only."""
    total = _total(tables)
    rows, columns = row_sums(tables), column_sums(tables)
    correct = weighted_sums(tables, np.eye(tables.shape[-1]))
    ones = np.ones(tables.shape[-1])
    covariance = correct * total - (rows * columns) @ ones
    spread = (total**2 - rows**2 @ ones) * (total**2 - columns**2 @ ones)
    return _divide(covariance, np.sqrt(np.maximum(spread, 0)))
