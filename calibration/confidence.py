"""Confidences and their outcomes as checked arrays: one confidence a case, that of the chosen verdict.

Owns what counts as usable; cases without a confidence stay in the coverage counts and nowhere else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.estimate import InvalidStatisticInput
from calibration.weighted import effective_size, uneven

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Forecasts:
    """Confidences in [0, 1] with whether the verdict was right (0 or 1), over the cases that have a confidence.

    `missing` counts the cases without one; `positions` says where the kept cases stood in the input. `weights`: one
    over the kept cases' probabilities of having been drawn, in any unit, where these differ.
    """

    confidence: Floats
    correct: Floats
    missing: int
    positions: NDArray[np.int64]
    groups: tuple[Hashable, ...] | None = None
    weights: Floats | None = None

    @classmethod
    def of(
        cls,
        confidence: Sequence[float | None] | Floats,
        correct: ArrayLike,
        *,
        groups: Sequence[Hashable] | None = None,
        weights: Floats | None = None,
    ) -> Forecasts:
        """From one entry a case, None for no confidence. NaN, values outside [0, 1] and odd lengths are refused.

        Weights are positive, one a case; those that are all the same count as none.
        """
        outcome = np.asarray(correct, dtype=np.float64)
        if outcome.ndim != 1 or len(confidence) != len(outcome) or (groups is not None and len(groups) != len(outcome)):
            raise InvalidStatisticInput("confidence, correct and groups must have one entry for each case")
        if weights is not None and (weights.shape != outcome.shape or not np.all(weights > 0)):
            raise InvalidStatisticInput("weights are one positive number for each case")
        present = np.array([value is not None for value in confidence], dtype=bool)
        values = np.array([value for value in confidence if value is not None], dtype=np.float64)
        if values.size and not np.all((values >= 0) & (values <= 1)):
            raise InvalidStatisticInput("a confidence must lie between 0 and 1")
        if not np.all((outcome == 0) | (outcome == 1)):
            raise InvalidStatisticInput("correct must be 0 or 1")
        kept = np.flatnonzero(present)
        return cls(
            values,
            outcome[kept],
            int((~present).sum()),
            kept,
            None if groups is None else tuple(groups[int(i)] for i in kept),
            None if weights is None else uneven(weights[kept]),
        )

    @property
    def effective_n(self) -> float:
        """How many evenly drawn cases say as much: their number without weights."""
        return effective_size(len(self), self.weights)

    def unweighted(self) -> Forecasts:
        """The same cases, each counting once."""
        return self if self.weights is None else dataclasses.replace(self, weights=None)

    def __len__(self) -> int:
        return len(self.confidence)
