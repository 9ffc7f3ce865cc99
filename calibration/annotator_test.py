"""The alternative annotator test: may a judge stand in for one of several human annotators?

Calderon, Reichart & Dror 2025. Owns this one procedure; agreement of raters in general is in `raters`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from calibration.estimate import Estimate, InvalidStatisticInput, Reason
from calibration.resample import group_codes
from calibration.tests import benjamini_yekutieli

MIN_ANNOTATORS = 3
MIN_CASES = 30
RECOMMENDED_CASES = 50
PASS_OMEGA = 0.5

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class AnnotatorResult:
    """The judge against one annotator: share of cases where it is at least as close to the others, and the test."""

    annotator: int
    advantage: Estimate
    p_value: Estimate
    rejected: bool | None


@dataclasses.dataclass(frozen=True)
class AnnotatorTest:
    """`rho`, the mean advantage, ranks judges; `omega`, the share of rejected annotators, decides: pass at 0.5.

    `passed` is null when nothing could be tested. Flags: `two_annotators` (weak), `few_cases` under 50.
    """

    annotators: tuple[AnnotatorResult, ...]
    rho: Estimate
    omega: Estimate
    passed: bool | None
    epsilon: float
    flags: tuple[str, ...] = ()


def _alignment(value: object, others: Sequence[object], ordinal: bool) -> float:
    """Share of equal labels, or for ordinal labels minus the root mean squared distance; none for no verdict."""
    if value is None:
        return -math.inf if ordinal else 0.0
    if not ordinal:
        return sum(value == other for other in others) / len(others)
    squares = [(float(value) - float(other)) ** 2 for other in others]  # type: ignore[arg-type]
    return -math.sqrt(sum(squares) / len(squares))


def alternative_annotator_test(
    humans: Sequence[Sequence[object]],
    judge: Sequence[object],
    *,
    epsilon: float,
    q: float = 0.05,
    ordinal: bool = False,
    groups: Sequence[Hashable] | None = None,
    enforce_size: bool = True,
) -> AnnotatorTest:
    """Test the judge against each of `humans` (annotators x cases, None missing) on the cases that others labelled too.

    W_f and W_h say whether judge or annotator is at least as close to the other annotators (a tie counts for both). H0:
    mean(W_h - W_f) >= epsilon, one-sided t-test, Benjamini-Yekutieli at `q` over annotators. epsilon: 0.2 for experts,
    0.15 skilled, 0.1 crowd, fixed before the run. A failed verdict aligns with nobody. Under 30 common cases an
    annotator is null `too_few_labels`. Equal differences: p 0 if below epsilon, else 1, flag `zero_variance`. With
    `groups` the test is on group means. Fewer than two annotators are refused.
    """
    if len(humans) < 2:
        raise InvalidStatisticInput("the test needs at least two annotators, three are recommended")
    n = len(judge)
    if any(len(row) != n for row in humans) or (groups is not None and len(groups) != n):
        raise InvalidStatisticInput("humans, judge and groups must have one entry for each case")
    rows = [_against(number, humans, judge, epsilon, ordinal, groups, enforce_size) for number in range(len(humans))]
    adjusted = benjamini_yekutieli([p.value for _, p in rows])
    results = tuple(
        AnnotatorResult(number, advantage, p, None if value is None else value <= q)
        for number, ((advantage, p), value) in enumerate(zip(rows, adjusted, strict=True))
    )
    tested = [row for row in results if row.rejected is not None]
    flags: tuple[str, ...] = ("two_annotators",) if len(humans) < MIN_ANNOTATORS else ()
    if tested and min(row.advantage.n for row in tested) < RECOMMENDED_CASES:
        flags = (*flags, "few_cases")
    if not tested:
        nothing = Estimate.undefined(Reason.TOO_FEW_LABELS, 0, "alternative_annotator_test")
        return AnnotatorTest(results, nothing, nothing, None, epsilon, flags)
    advantages = [row.advantage.value for row in tested if row.advantage.value is not None]
    share = sum(bool(row.rejected) for row in tested) / len(tested)
    method = "alternative_annotator_test"
    return AnnotatorTest(
        results,
        Estimate.point(float(np.mean(advantages)), len(tested), method),
        Estimate.point(share, len(tested), method),
        share >= PASS_OMEGA,
        epsilon,
        flags,
    )


def _against(
    number: int,
    humans: Sequence[Sequence[object]],
    judge: Sequence[object],
    epsilon: float,
    ordinal: bool,
    groups: Sequence[Hashable] | None,
    enforce_size: bool,
) -> tuple[Estimate, Estimate]:
    wins_judge, wins_human, kept = [], [], []
    for case, verdict in enumerate(judge):
        own = humans[number][case]
        others = [row[case] for i, row in enumerate(humans) if i != number and row[case] is not None]
        if own is None or not others:
            continue
        of_judge, of_human = _alignment(verdict, others, ordinal), _alignment(own, others, ordinal)
        wins_judge.append(of_judge >= of_human)
        wins_human.append(of_human >= of_judge)
        kept.append(case)
    n = len(kept)
    method = "alternative_annotator_test"
    if n == 0 or (enforce_size and n < MIN_CASES):
        nothing = Estimate.undefined(Reason.TOO_FEW_LABELS if n else Reason.EMPTY, n, method)
        return nothing, nothing
    advantage = Estimate.point(float(np.mean(wins_judge)), n, method)
    differences: Floats = np.array(wins_human, dtype=np.float64) - np.array(wins_judge, dtype=np.float64)
    if groups is not None:
        codes = group_codes([groups[case] for case in kept])
        differences = np.bincount(codes, weights=differences) / np.bincount(codes)
    if differences.size < 2:
        return advantage, Estimate.undefined(Reason.N_BELOW_2, n, method)
    mean = float(differences.mean())
    if np.allclose(differences, differences[0], rtol=0, atol=1e-12):
        p = 0.0 if mean < epsilon - 1e-12 else 1.0
        return advantage, Estimate.point(p, n, method, flags=("zero_variance",))
    from scipy.stats import ttest_1samp

    return advantage, Estimate.point(float(ttest_1samp(differences, epsilon, alternative="less").pvalue), n, method)
