"""The same anchor cases judged again later: did verdicts change, did correctness change, how often may one look."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calibration.agreement import FAILED, code_labels
from calibration.estimate import Estimate, InvalidStatisticInput
from calibration.intervals import bonett_price, clopper_pearson_upper
from calibration.power import largest_unseen_rate
from calibration.resample import share
from calibration.tests import binomial_test, mcnemar


def alpha_at_look(look: int, alpha: float = 0.05, *, planned: int | None = None) -> float:
    """Level of the look numbered from 1: alpha * 6/(pi^2 k^2), which sums to alpha, or alpha/planned for planned looks.

    Valid under any dependence, so also when the same anchors are run against the same baseline.
    """
    if look < 1 or not 0 < alpha < 1:
        raise InvalidStatisticInput("looks count from 1 and alpha lies between 0 and 1")
    if planned is not None:
        if look > planned:
            raise InvalidStatisticInput("this look is beyond the planned number")
        return alpha / planned
    return alpha * 6 / (math.pi**2 * look**2)


@dataclasses.dataclass(frozen=True)
class Drift:
    """What a run of the anchors shows against its baseline.

    `flip_rate` over cases with both verdicts and its p-value against the repeat noise (`flip_test`); `accuracy_change`
    (now - baseline, failed verdicts wrong) with its McNemar `accuracy_test`; `alarm` names what is significant at the
    level of this look; `largest_unseen` is given when nothing changed.
    """

    flip_rate: Estimate
    flip_test: Estimate
    accuracy_change: Estimate
    accuracy_test: Estimate
    look: int
    alpha: float
    alarm: tuple[str, ...]
    largest_unseen: Estimate | None

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready object."""
        figures = ("flip_rate", "flip_test", "accuracy_change", "accuracy_test")
        return {
            **{name: getattr(self, name).to_dict() for name in figures},
            "look": self.look,
            "alpha": self.alpha,
            "alarm": list(self.alarm),
            "largest_unseen": None if self.largest_unseen is None else self.largest_unseen.to_dict(),
        }


def noise_upper_bound(flips: int, pairs_of_repeats: int, alpha: float = 0.05) -> float:
    """Exact one-sided upper bound of the flip rate between baseline repeats: what drift is tested against."""
    if pairs_of_repeats < 1:
        raise InvalidStatisticInput("the baseline noise needs at least one pair of repeats")
    return clopper_pearson_upper(flips, pairs_of_repeats, alpha)


def drift(
    baseline: Sequence[str | None],
    now: Sequence[str | None],
    human: Sequence[str | None],
    classes: Sequence[str],
    *,
    noise: float,
    look: int = 1,
    alpha: float = 0.05,
    planned: int | None = None,
) -> Drift:
    """Compare two runs of the same anchors. `noise` is the upper bound of the judge's own flip rate between repeats.

    A changed model, prompt, rubric or parser is not drift: it voids the calibration.
    """
    before = code_labels(baseline, classes, "baseline")
    after = code_labels(now, classes, "now")
    truth = code_labels(human, classes, "human")
    if not len(before) == len(after) == len(truth):
        raise InvalidStatisticInput("baseline, now and human must have one entry for each anchor")
    if not 0 <= noise <= 1:
        raise InvalidStatisticInput("noise must lie between 0 and 1")
    both = (before != FAILED) & (after != FAILED)
    flipped = both & (before != after)
    flips, n = int(flipped.sum()), int(both.sum())
    labelled = truth != FAILED
    right_before, right_after = labelled & (before == truth), labelled & (after == truth)
    b = int((right_after & ~right_before).sum())
    c = int((right_before & ~right_after).sum())
    level = alpha_at_look(look, alpha, planned=planned)
    flip_test = binomial_test(flips, n, noise, alternative="greater")
    accuracy_test = mcnemar(b, c)
    # Both questions are asked at every look, so each gets half of the look's level.
    alarm = tuple(
        name
        for name, test in (("verdicts", flip_test), ("correctness", accuracy_test))
        if test.value is not None and test.value <= level / 2
    )
    return Drift(
        share(flipped, both),
        flip_test,
        bonett_price(b, c, int(labelled.sum())),
        accuracy_test,
        look,
        level,
        alarm,
        largest_unseen_rate(n) if flips == 0 else None,
    )


def drifted_towards(baseline: Sequence[str | None], now: Sequence[str | None], classes: Sequence[str]) -> np.ndarray:
    """Counts of changes, shape (K, K): from the baseline's class to the new one; unusable verdicts are left out."""
    before, after = code_labels(baseline, classes, "baseline"), code_labels(now, classes, "now")
    both = (before != FAILED) & (after != FAILED)
    table = np.zeros((len(classes), len(classes)), dtype=np.int64)
    np.add.at(table, (before[both], after[both]), 1)
    return table
