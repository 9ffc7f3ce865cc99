"""How a judge of pairs depends on which response it sees first, and what the policies for two orders are worth.

Verdicts name responses (`A`, `B`, `tie`, None unreadable), already mapped back from slots; order AB shows A first.
Knows nothing of lengths or model families.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.agreement import FAILED, code_labels
from calibration.estimate import Estimate, InvalidStatisticInput, Reason
from calibration.intervals import bonett_price, mean_t
from calibration.resample import Resampler, ratio_replicates, share
from calibration.tests import holm, mcnemar, sign_test

A, B, TIE = range(3)
_RESPONSES = ("A", "B", "tie")

Codes = NDArray[np.int64]
Mask = NDArray[np.bool_]


def _code(order_ab: Sequence[str | None], order_ba: Sequence[str | None]) -> tuple[Codes, Codes]:
    if len(order_ab) != len(order_ba):
        raise InvalidStatisticInput("both orders must have one verdict for each case")
    return code_labels(order_ab, _RESPONSES, "order_ab"), code_labels(order_ba, _RESPONSES, "order_ba")


FIGURES = (
    "consistency",
    "consistency_all",
    "hard_flip_rate",
    "soft_flip_rate",
    "flip_rate",
    "flip_rate_decided",
    "preference_fairness",
    "bias_test",
    "first_slot_share",
    "win_rate_a",
    "win_rate_a_consistent",
    "win_rate_a_per_verdict",
)


def position_sensitivity(
    order_ab: Sequence[str | None],
    order_ba: Sequence[str | None] | None,
    *,
    resampler: Resampler | None = None,
    first_slot_over: str = "decided",
) -> dict[str, Estimate]:
    """Position figures of one judge (see FIGURES), each with its own n.

    With V the cases that have two usable verdicts: `consistency` is the share of V with the same verdict (tie and tie
    counts), `consistency_all` that over all cases, `hard_flip_rate` A against B, `soft_flip_rate` a win against a tie;
    the three of V sum to 1. `flip_rate` is any change; `flip_rate_decided` A against B among the cases decided in both
    orders. `preference_fairness` is (recency - primacy)/|V|, negative for the first slot (Shi et al. 2024), `bias_test`
    the sign test of the two. `first_slot_share` is votes for the first slot over `first_slot_over`: `decided` verdicts
    (default; 0.5 is unbiased) or `all` verdicts. `win_rate_a` counts an inconsistent pair as half, over V;
    `win_rate_a_consistent` is over the pairs that A or B wins in both orders, `win_rate_a_per_verdict` the mean credit
    of single verdicts (tie half) over V.

    `order_ba` None: judged in one order, all null `single_order`. No intervals of bootstrap kind without a resampler.
    """
    if first_slot_over not in ("decided", "all"):
        raise InvalidStatisticInput(f"unknown denominator {first_slot_over!r} of the first-slot share: decided or all")
    if order_ba is None:
        return {name: Estimate.undefined(Reason.SINGLE_ORDER, len(order_ab), name) for name in FIGURES}
    ab, ba = _code(order_ab, order_ba)
    valid = (ab != FAILED) & (ba != FAILED)
    decided = valid & (ab != TIE) & (ba != TIE)
    same = valid & (ab == ba)
    hard = decided & (ab != ba)
    soft = valid & ~same & ~hard
    n = int(valid.sum())
    primacy, recency = _leanings(ab, ba, valid)
    p, r = int(primacy.sum()), int(recency.sum())
    credit = ((ab == A) * 1.0 + (ba == A) + 0.5 * (ab == TIE) + 0.5 * (ba == TIE)) / 2
    pair_credit = np.where(same, credit, 0.5)
    wins_both = same & (ab != TIE)
    bias = sign_test(r, p)
    fairness = bonett_price(r, p, n)
    if fairness.defined:
        fairness = dataclasses.replace(
            _clustered_mean(recency.astype(float) - primacy, valid, fairness, resampler),
            details={"primacy": p, "recency": r},
        )
    return {
        "consistency": share(same, valid, resampler),
        "consistency_all": share(same, None, resampler),
        "hard_flip_rate": share(hard, valid, resampler),
        "soft_flip_rate": share(soft, valid, resampler),
        "flip_rate": share(hard | soft, valid, resampler),
        "flip_rate_decided": share(hard, decided, resampler),
        "preference_fairness": fairness,
        "bias_test": dataclasses.replace(bias, details={"primacy": p, "recency": r}),
        "first_slot_share": _first_slot_share(ab, ba, first_slot_over, resampler),
        "win_rate_a": _mean(pair_credit, valid, resampler),
        "win_rate_a_consistent": share(wins_both & (ab == A), wins_both, resampler),
        "win_rate_a_per_verdict": _mean(credit, valid, resampler),
    }


def _leanings(ab: Codes, ba: Codes, valid: Mask) -> tuple[Mask, Mask]:
    """Inconsistent pairs leaning to the first slot (first-first, first-tie, tie-first), and to the second."""
    toward_first = (ab == A).astype(int) + (ba == B) - (ab == B) - (ba == A)
    changed = valid & (ab != ba)
    return changed & (toward_first > 0), changed & (toward_first < 0)


def _mean(values: NDArray[np.float64], known: Mask, resampler: Resampler | None) -> Estimate:
    n = int(known.sum())
    if n == 0:
        return Estimate.undefined(Reason.EMPTY, 0, "mean")
    if resampler is None:
        return mean_t(values[known])
    return _clustered_mean(
        values, known, Estimate.point(float(values[known].mean()), n, "mean"), resampler, always=True
    )


def _clustered_mean(
    values: NDArray[np.float64], known: Mask, plain: Estimate, resampler: Resampler | None, *, always: bool = False
) -> Estimate:
    if resampler is None or plain.value is None or not (always or resampler.clustered):
        return plain
    sums = resampler.sums(np.column_stack([np.where(known, values, 0.0), known.astype(float)]))
    return resampler.interval(
        plain.value,
        ratio_replicates(sums[:, 0], sums[:, 1]),
        n=plain.n,
        numerator=plain.numerator,
        denominator=plain.denominator,
    )


def _first_slot_share(ab: Codes, ba: Codes, over: str, resampler: Resampler | None) -> Estimate:
    first = (ab == A).astype(int) + (ba == B)
    second = (ab == B).astype(int) + (ba == A)
    among = first + second
    if over == "all":
        among = (ab != FAILED).astype(int) + (ba != FAILED)
    hits, n = int(first.sum()), int(among.sum())
    method = f"first_slot_share_of_{over}"
    if n == 0:
        undecided = int((ab == TIE).sum() + (ba == TIE).sum())
        return Estimate.undefined(Reason.ALL_TIES if undecided else Reason.EMPTY, 0, method, numerator=0, denominator=0)
    if resampler is None:
        return Estimate.point(hits / n, n, method, numerator=hits, denominator=n)
    sums = resampler.sums(np.column_stack([first, among]))
    return resampler.interval(
        hits / n,
        ratio_replicates(sums[:, 0], sums[:, 1]),
        n=n,
        method=f"{method}/{resampler.method}",
        numerator=hits,
        denominator=n,
    )


def flips_beyond_noise(
    order_ab: Sequence[str | None],
    order_ba: Sequence[str | None],
    repeat_of_ab: Sequence[str | None] | None,
    *,
    resampler: Resampler | None = None,
) -> Estimate:
    """Flips between orders minus flips between two repeats of the same order, over cases valid in all three.

    Without repeats noise and position cannot be told apart: null `n_below_2` (one run of each order).
    """
    if repeat_of_ab is None:
        return Estimate.undefined(Reason.N_BELOW_2, 0, "flips_beyond_noise")
    ab, ba = _code(order_ab, order_ba)
    again = code_labels(repeat_of_ab, _RESPONSES, "repeat_of_ab")
    known = (ab != FAILED) & (ba != FAILED) & (again != FAILED)
    by_order, by_noise = known & (ab != ba), known & (ab != again)
    b, c = int((by_order & ~by_noise).sum()), int((by_noise & ~by_order).sum())
    plain = bonett_price(b, c, int(known.sum()))
    return _clustered_mean(by_order.astype(float) - by_noise, known, plain, resampler)


@dataclasses.dataclass(frozen=True)
class PolicyResult:
    """A way of making one verdict of two orders, measured against humans.

    `versus_first` is its difference to `ab_only` (Bonett-Price), `p_value` the exact McNemar test of it, `p_holm` that
    adjusted over all policies compared; `versus_random` the difference to the expected accuracy of a random order.
    `verdict` is keep, drop or `not enough evidence` by the interval of `versus_random`, or of `versus_first` where all
    differences to random are equal.
    """

    name: str
    accuracy: Estimate
    calls: int
    decided_accuracy: Estimate | None = None
    versus_first: Estimate | None = None
    p_value: Estimate | None = None
    p_holm: float | None = None
    versus_random: Estimate | None = None
    verdict: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready object."""
        record: dict[str, Any] = {"policy": self.name, "calls": self.calls, "accuracy": self.accuracy.to_dict()}
        for name in ("decided_accuracy", "versus_first", "p_value", "versus_random"):
            estimate = getattr(self, name)
            record[name] = None if estimate is None else estimate.to_dict()
        return record | {"p_holm": self.p_holm, "verdict": self.verdict}


def fold_swap_tie(order_ab: Sequence[str | None], order_ba: Sequence[str | None]) -> list[str | None]:
    """A win only if the same response wins both orders, else tie; an unreadable order gives None."""
    folded: list[str | None] = []
    for ab, ba in zip(order_ab, order_ba, strict=True):
        folded.append(None if ab is None or ba is None else ab if ab == ba else "tie")
    return folded


def fold_swap_average(
    prob_a_ab: Sequence[float | None], prob_a_ba: Sequence[float | None], *, band: float = 0.05
) -> list[str | None]:
    """A above 0.5 + band, B below 0.5 - band of the mean probability of A, else tie; a missing one gives None."""
    if not 0 <= band < 0.5:
        raise InvalidStatisticInput("band must lie in [0, 0.5)")
    folded: list[str | None] = []
    for first, second in zip(prob_a_ab, prob_a_ba, strict=True):
        if first is None or second is None:
            folded.append(None)
            continue
        if not (0 <= first <= 1 and 0 <= second <= 1):
            raise InvalidStatisticInput("probabilities lie between 0 and 1")
        mean = (first + second) / 2
        # Means that differ from the edge by rounding only lie on the edge, and so are ties.
        on_edge = math.isclose(abs(mean - 0.5), band, rel_tol=0, abs_tol=1e-12)
        folded.append("tie" if on_edge or abs(mean - 0.5) < band else "A" if mean > 0.5 else "B")
    return folded


def fold_swap_average_vectors(vectors_ab: ArrayLike, vectors_ba: ArrayLike) -> list[str | None]:
    """The largest entry of the mean (A, B, tie) vector of both orders; a row with NaN gives None.

    Rows of `vectors_*` are probabilities of A, B, tie as responses. An exact draw of the two largest is a tie.
    """
    first, second = np.asarray(vectors_ab, dtype=np.float64), np.asarray(vectors_ba, dtype=np.float64)
    if first.shape != second.shape or first.ndim != 2 or first.shape[1] != 3:
        raise InvalidStatisticInput("vectors of both orders have shape (cases, 3)")
    folded: list[str | None] = []
    for row in (first + second) / 2:
        if not np.all(np.isfinite(row)):
            folded.append(None)
            continue
        best = np.flatnonzero(np.isclose(row, row.max(), rtol=0, atol=1e-12))
        folded.append(_RESPONSES[best[0]] if best.size == 1 else "tie")
    return folded


def order_policies(
    order_ab: Sequence[str | None],
    order_ba: Sequence[str | None],
    human: Sequence[str],
    *,
    prob_a_ab: Sequence[float | None] | None = None,
    prob_a_ba: Sequence[float | None] | None = None,
    band: float = 0.05,
    resampler: Resampler | None = None,
) -> dict[str, PolicyResult]:
    """Every policy for two orders on the same cases, an invalid verdict being wrong and in the denominator.

    `ab_only`, `ba_only`, `random_order` (expected accuracy: the mean of the two orders of a case, nothing is drawn),
    `swap_tie`, and `swap_average` when probabilities are given. `decided_accuracy` is over cases where neither the
    policy nor the human says tie. `random_order` is the baseline of the verdict keep / drop / not enough evidence.
    """
    ab, ba = _code(order_ab, order_ba)
    truth = code_labels(human, _RESPONSES, "human")
    if len(truth) != len(ab):
        raise InvalidStatisticInput("human must have one label for each case")
    if np.any(truth == FAILED):
        raise InvalidStatisticInput("a human label is missing")
    folded = {"swap_tie": code_labels(fold_swap_tie(order_ab, order_ba), _RESPONSES, "swap_tie")}
    if prob_a_ab is not None and prob_a_ba is not None:
        averaged = fold_swap_average(prob_a_ab, prob_a_ba, band=band)
        folded["swap_average"] = code_labels(averaged, _RESPONSES, "swap_average")
    right_ab, right_ba = ab == truth, ba == truth
    at_random = (right_ab.astype(float) + right_ba) / 2
    everything = np.ones(len(truth), dtype=bool)
    results = {
        name: PolicyResult(name, share(codes == truth, None, resampler), 1, _decided(codes, truth, resampler))
        for name, codes in (("ab_only", ab), ("ba_only", ba))
    }
    results["random_order"] = PolicyResult("random_order", _mean(at_random, everything, resampler), 1)
    p_values = {}
    for name, codes in folded.items():
        right = codes == truth
        b, c = int((right & ~right_ab).sum()), int((right_ab & ~right).sum())
        difference = right.astype(float) - right_ab
        versus_first = _clustered_mean(difference, everything, bonett_price(b, c, len(truth)), resampler)
        against = right - at_random
        versus_random = mean_t(against)
        if versus_random.defined and resampler is not None and resampler.clustered:
            clustered = _clustered_mean(against, everything, versus_random, resampler)
            versus_random = dataclasses.replace(clustered, details={**clustered.details, **versus_random.details})
        p_values[name] = mcnemar(b, c)
        results[name] = PolicyResult(
            name,
            share(right, None, resampler),
            2,
            _decided(codes, truth, resampler),
            dataclasses.replace(versus_first, details={"only_policy_right": b, "only_ab_right": c}),
            p_values[name],
            None,
            versus_random,
            # All cases alike leave the paired interval without a width: then the counts against the first order decide.
            keep_or_drop(versus_first if versus_random.interval_reason is Reason.ZERO_VARIANCE else versus_random),
        )
    adjusted = holm([p.value for p in p_values.values()])
    for name, p in zip(p_values, adjusted, strict=True):
        results[name] = dataclasses.replace(results[name], p_holm=p)
    return results


def _decided(codes: Codes, truth: Codes, resampler: Resampler | None) -> Estimate:
    decided = (codes != TIE) & (truth != TIE)
    estimate = share(codes == truth, decided, resampler)
    if estimate.undefined_reason is Reason.EMPTY and len(truth):
        return Estimate.undefined(Reason.ALL_TIES, 0, estimate.method, numerator=0, denominator=0)
    return estimate


def keep_or_drop(difference: Estimate) -> str:
    """`keep` when the whole interval is above 0, `drop` when below, else `not enough evidence`."""
    if difference.low is not None and difference.low > 0:
        return "keep"
    if difference.high is not None and difference.high < 0:
        return "drop"
    return "not enough evidence"
