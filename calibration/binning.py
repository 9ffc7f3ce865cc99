"""Which bin a confidence falls into: the conventions of calibration error, each under its name."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from calibration.estimate import InvalidStatisticInput

Floats = NDArray[np.float64]

_MICRO = 1_000_000


def default_bins(n: int) -> int:
    """Bins for a headline: 5 below 200 cases, 10 up to 2,000, 15 above."""
    return 5 if n < 200 else 10 if n <= 2000 else 15


@dataclasses.dataclass(frozen=True, eq=False)
class Bins:
    """A partition of [0, 1]: the bin of each case, and the edges."""

    index: NDArray[np.int64]
    edges: Floats
    rule: str

    @property
    def count(self) -> int:
        """Number of bins, empty ones included."""
        return len(self.edges) - 1


def bin_confidences(confidence: Floats, bins: int, rule: str = "right_closed") -> Bins:
    """Assign each confidence to a bin.

    `right_closed`: equal width, (lo, hi], 0 in the first (default; Guo 2017). `left_closed`: [lo, hi), 1 in the last.
    Both from integers (millionths), so 0.3 never falls beside its edge. `equal_mass`: edges are the distinct linear
    quantiles, right-closed; equal confidences are never split, so there may be fewer bins. `equal_count`: cases sorted
    and cut into parts of equal number, which splits equal confidences by their order in the input. `equal_rank`: by the
    middle rank of equal confidences, which keeps them together.
    """
    if bins < 1:
        raise InvalidStatisticInput("at least one bin is needed")
    if rule in ("right_closed", "left_closed"):
        scaled = np.rint(confidence * _MICRO).astype(np.int64) * bins
        index = (scaled + _MICRO - 1) // _MICRO - 1 if rule == "right_closed" else scaled // _MICRO
        return Bins(np.clip(index, 0, bins - 1), np.linspace(0, 1, bins + 1), rule)
    if rule in ("equal_count", "equal_rank"):
        return _by_rank(confidence, bins, rule)
    if rule != "equal_mass":
        raise InvalidStatisticInput(
            f"unknown rule {rule!r}: right_closed, left_closed, equal_mass, equal_count or equal_rank"
        )
    if confidence.size == 0:
        return Bins(np.zeros(0, dtype=np.int64), np.array([0.0, 1.0]), rule)
    rounded = np.round(confidence, 12)
    edges = np.unique(np.round(np.quantile(rounded, np.linspace(0, 1, bins + 1)), 12))
    if edges.size == 1:
        edges = np.array([edges[0], edges[0]])
    return Bins(np.searchsorted(edges[1:-1], rounded, side="left").astype(np.int64), edges, rule)


def _by_rank(confidence: Floats, bins: int, rule: str) -> Bins:
    n = confidence.size
    index = np.zeros(n, dtype=np.int64)
    if rule == "equal_count":
        for number, part in enumerate(np.array_split(np.argsort(confidence, kind="stable"), bins)):
            index[part] = number
    elif n:
        _, block, size = np.unique(confidence, return_inverse=True, return_counts=True)
        first = np.cumsum(size) - size
        index = ((2 * first + size - 1) * bins // (2 * n))[block].astype(np.int64)
    edges = [float(confidence[index >= number].min(initial=1.0)) for number in range(bins)]
    return Bins(index, np.array([*edges, float(confidence.max(initial=1.0 if n == 0 else 0.0))]), rule)
