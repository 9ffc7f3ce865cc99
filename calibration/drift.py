"""The same anchor cases judged again later: did verdicts change, did correctness change, how often may one look.

Owns the comparison with a baseline of one run (`drift`) and of several repeats (`drift_from_repeats`).
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from calibration.agreement import FAILED, code_labels
from calibration.estimate import Estimate, InvalidStatisticInput, Reason
from calibration.intervals import bonett_price, clopper_pearson_upper
from calibration.paired import PairedDelta, paired_delta
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


def exchangeable_test(baseline_hits: Sequence[int], repeats: Sequence[int], now: Sequence[bool]) -> Estimate:
    """Exact two-sided p-value that the new run is a further repeat like those of the baseline.

    `baseline_hits` of `repeats` runs had the property (were right, gave a verdict) for each case, and `now` says
    whether the new run has it. Without a change every one of a case's repeats + 1 results is as likely to be the new
    one, so the new hits are a sum of independent draws with probability hits/(repeats + 1), all hits counted:
    Poisson-binomial, conditional on the totals. With one repeat it is the exact McNemar test. No case that can differ:
    null `no_discordant_pairs`.
    """
    if not len(baseline_hits) == len(repeats) == len(now):
        raise InvalidStatisticInput("baseline_hits, repeats and now must have one entry for each case")
    method = "exchangeable_repeats"
    distribution = np.ones(1)
    informative, observed = 0, 0
    for hits, runs, new in zip(baseline_hits, repeats, now, strict=True):
        if runs < 1 or not 0 <= hits <= runs:
            raise InvalidStatisticInput(f"{hits} hits of {runs} repeats is not a count")
        total = hits + bool(new)
        if total in (0, runs + 1):
            continue
        p = total / (runs + 1)
        distribution = np.convolve(distribution, (1 - p, p))
        informative += 1
        observed += bool(new)
    if informative == 0:
        return Estimate.undefined(Reason.NO_DISCORDANT_PAIRS, 0, method)
    below, above = float(distribution[: observed + 1].sum()), float(distribution[observed:].sum())
    details = {"hits_now": observed, "cases_that_differ": informative}
    return Estimate.point(min(1.0, 2 * min(below, above)), informative, method, details=details)


def smallest_detectable_rate(n: int, noise: float, alpha: float, *, power: float = 0.8) -> Estimate:
    """Smallest true flip rate that the one-sided binomial test against `noise` finds with `power` on `n` cases.

    `details.critical`: the flips from which it alarms. Null where no number of flips would (`n` too small, or `noise`
    too high), and for n = 0.
    """
    method = "smallest_detectable_rate"
    if n == 0:
        return Estimate.undefined(Reason.EMPTY, 0, method)
    from scipy.optimize import brentq
    from scipy.stats import binom

    critical = int(binom.isf(alpha, n, noise)) + 1
    if critical > n:
        return Estimate.undefined(Reason.TOO_FEW_CASES, n, method)
    reach = brentq(lambda rate: float(binom.sf(critical - 1, n, rate)) - power, 0.0, 1.0)
    return Estimate.point(float(reach), n, method, details={"critical": critical, "power": power, "noise": noise})


@dataclasses.dataclass(frozen=True)
class RepeatedDrift:
    """A new run of the anchors against a baseline of several repeats.

    `noise` is the upper bound of the flip rate between repeats, `noise_rate` the rate itself. Flips are counted against
    the baseline's most frequent verdict, which a further repeat meets at least as often as a single one. `correctness`
    is now - mean of the repeats over labelled cases, failed verdicts wrong; `usable` the same for having a verdict.
    `smallest_flip_rate` and `smallest_drop` (a share of the labelled cases) are what this look could have seen.
    """

    noise_rate: Estimate
    noise: float
    flip_rate: Estimate
    flip_test: Estimate
    correctness: PairedDelta
    correctness_test: Estimate
    usable: PairedDelta
    usable_test: Estimate
    look: int
    alpha: float
    alarm: tuple[str, ...]
    largest_unseen: Estimate | None
    smallest_flip_rate: Estimate
    smallest_drop: Estimate

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready object."""
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        return {
            name: value.to_dict() if isinstance(value, Estimate | PairedDelta) else value
            for name, value in (values | {"alarm": list(self.alarm)}).items()
        }


def usual_verdicts(repeats: Sequence[Sequence[str | None]]) -> list[str | None]:
    """The most frequent verdict of each case over repeats; of equals the first given, null where all failed."""
    usual: list[str | None] = []
    for given in zip(*repeats, strict=True):
        counts = Counter(verdict for verdict in given if verdict is not None)
        usual.append(counts.most_common(1)[0][0] if counts else None)
    return usual


def noise_between(repeats: Sequence[Sequence[str | None]]) -> tuple[Estimate, float]:
    """The share of pairs of repeats that differ, and its exact 95% upper bound with the cases as independent units.

    The bound takes the sum of the cases' shares, rounded up, as flips of as many cases: a share varies less than a
    flip, so it is no narrower than it must be. Raises InvalidStatisticInput without a case that has two verdicts.
    """
    shares = []
    for given in zip(*repeats, strict=True):
        known = [verdict for verdict in given if verdict is not None]
        pairs = len(known) * (len(known) - 1) // 2
        if pairs:
            same = sum(count * (count - 1) // 2 for count in Counter(known).values())
            shares.append(1 - same / pairs)
    total = sum(shares)
    bound = noise_upper_bound(math.ceil(total - 1e-9), len(shares))
    return Estimate.point(total / len(shares), len(shares), "mean_pairwise_flips"), bound


def drift_from_repeats(
    repeats: Sequence[Sequence[str | None]],
    now: Sequence[str | None],
    human: Sequence[str | None],
    classes: Sequence[str],
    *,
    look: int = 1,
    alpha: float = 0.05,
    planned: int | None = None,
) -> RepeatedDrift:
    """Compare a run of the anchors with `repeats` of the baseline, each a verdict (or null) for every anchor.

    Three questions, each at a third of the look's level: do verdicts flip more than repeats do, did correctness change,
    did the share of usable verdicts change. Needs two repeats.
    """
    if len(repeats) < 2:
        raise InvalidStatisticInput("a baseline needs at least two repeats")
    noise_rate, noise = noise_between(repeats)
    usual = usual_verdicts(repeats)
    plain = drift(usual, now, human, classes, noise=noise, look=look, alpha=alpha, planned=planned)
    level = plain.alpha / 3
    runs = len(repeats)
    labelled = [place for place, label in enumerate(human) if label is not None]
    right = [sum(run[place] == human[place] for run in repeats) for place in labelled]
    right_now = [now[place] == human[place] for place in labelled]
    given = [sum(verdict is not None for verdict in column) for column in zip(*repeats, strict=True)]
    given_now = [verdict is not None for verdict in now]
    correctness_test = exchangeable_test(right, [runs] * len(right), right_now)
    usable_test = exchangeable_test(given, [runs] * len(given), given_now)
    tests = (("verdicts", plain.flip_test), ("correctness", correctness_test), ("failures", usable_test))
    return RepeatedDrift(
        noise_rate=noise_rate,
        noise=noise,
        flip_rate=plain.flip_rate,
        flip_test=plain.flip_test,
        correctness=paired_delta([hits / runs for hits in right], [float(hit) for hit in right_now]),
        correctness_test=correctness_test,
        usable=paired_delta([hits / runs for hits in given], [float(hit) for hit in given_now]),
        usable_test=usable_test,
        look=look,
        alpha=plain.alpha,
        alarm=tuple(name for name, test in tests if test.value is not None and test.value <= level),
        largest_unseen=plain.largest_unseen,
        smallest_flip_rate=smallest_detectable_rate(plain.flip_rate.n, noise, level),
        smallest_drop=_smallest_drop(right, runs, level),
    )


def _smallest_drop(right: Sequence[int], runs: int, level: float) -> Estimate:
    """The fewest cases that would have to turn wrong to raise the alarm, over the labelled ones.

    Everything else being as usual, and the steadiest right cases turning first. Null where not even all would.
    """
    method = "smallest_detectable_drop"
    n = len(right)
    if n == 0:
        return Estimate.undefined(Reason.EMPTY, 0, method)
    ordered = sorted(right, reverse=True)
    usually = sum(2 * hits > runs for hits in ordered)

    def alarms(turned: int) -> bool:
        now = [turned <= place < usually for place in range(n)]
        p = exchangeable_test(ordered, [runs] * n, now).value
        return p is not None and p <= level

    if not alarms(usually):
        return Estimate.undefined(Reason.TOO_FEW_CASES, n, method)
    low, high = 0, usually
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if alarms(middle) else (middle, high)
    return Estimate.point(high / n, n, method, details={"cases": high})
