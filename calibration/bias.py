"""Length and family bias of a judge of pairs, always against what humans prefer on the same cases.

Verdicts are `A`, `B`, `tie` or None; lengths are counts of one stated tokenizer. Position is in `position`.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from calibration.agreement import FAILED, code_labels
from calibration.estimate import Estimate, InvalidStatisticInput, Reason
from calibration.intervals import Z95, bonett_price, newcombe
from calibration.resample import MIN_GROUPS, Resampler, group_codes, joint_types, ratio_replicates, share
from calibration.tests import mcnemar

A, B, TIE = range(3)
_RESPONSES = ("A", "B", "tie")
MATCHED_RATIO = 1.10
NO_VERDICT_BELOW = 30
MAX_COEFFICIENT = 20.0
EVENTS_PER_COEFFICIENT = 10

Codes = NDArray[np.int64]
Mask = NDArray[np.bool_]


def _codes(judge: Sequence[str | None], human: Sequence[str | None]) -> tuple[Codes, Codes]:
    if len(judge) != len(human):
        raise InvalidStatisticInput("judge and human must have one entry for each case")
    return code_labels(judge, _RESPONSES, "judge"), code_labels(human, _RESPONSES, "human")


def _lengths(values: Sequence[float], n: int, name: str) -> NDArray[np.float64]:
    lengths = np.asarray(values, dtype=np.float64)
    if lengths.shape != (n,) or not np.all(np.isfinite(lengths) & (lengths >= 0)):
        raise InvalidStatisticInput(f"{name} must hold one length of 0 or more for each case")
    return lengths


def _paired_excess(
    by_judge: Mask, by_human: Mask, among: Mask, resampler: Resampler | None
) -> tuple[Estimate, Estimate]:
    """Difference of two shares on the same cases (judge - human), and its exact McNemar test."""
    b, c = int((by_judge & ~by_human & among).sum()), int((by_human & ~by_judge & among).sum())
    n = int(among.sum())
    excess = bonett_price(b, c, n)
    if resampler is not None and resampler.clustered and excess.value is not None:
        difference = np.where(among, by_judge.astype(float) - by_human, 0.0)
        sums = resampler.sums(np.column_stack([difference, among]))
        excess = resampler.interval(
            excess.value, ratio_replicates(sums[:, 0], sums[:, 1]), n=n, details=dict(excess.details)
        )
    return excess, mcnemar(b, c)


def length_preference(
    judge: Sequence[str | None],
    human: Sequence[str | None],
    len_a: Sequence[float],
    len_b: Sequence[float],
    *,
    resampler: Resampler | None = None,
) -> dict[str, Estimate]:
    """How often the longer response is preferred, over cases with unequal lengths.

    `judge_longer_rate` and `human_longer_rate` over what each decided; `judge_longer_on_both`, `human_longer_on_both`
    over cases both decided, and there `excess` (Bonett-Price, counts in `details`) with its exact McNemar
    `excess_test`. Only the excess is a bias: humans may prefer longer responses too. `length_matched_accuracy` is the
    agreement where longer/shorter <= 1.10, `length_unmatched_accuracy` that of the rest (failed verdicts are wrong);
    below 30 cases they carry the flag `no_verdict`.
    """
    said, truth = _codes(judge, human)
    n = len(said)
    a, b = _lengths(len_a, n, "len_a"), _lengths(len_b, n, "len_b")
    unequal = a != b
    longer = np.where(a > b, A, B)
    judge_decided = unequal & ((said == A) | (said == B))
    human_decided = unequal & ((truth == A) | (truth == B))
    both = judge_decided & human_decided
    by_judge, by_human = said == longer, truth == longer
    excess, test = _paired_excess(by_judge, by_human, both, resampler)
    matched = np.maximum(a, b) <= MATCHED_RATIO * np.minimum(a, b) + 1e-9
    labelled = truth != FAILED
    if resampler is not None:
        side = np.where(unequal, longer, TIE)
        resampler = resampler.with_types(joint_types(said, truth, side, matched))
    right = (said == truth) & labelled
    return {
        "judge_longer_rate": share(by_judge, judge_decided, resampler),
        "human_longer_rate": share(by_human, human_decided, resampler),
        "judge_longer_on_both": share(by_judge, both, resampler),
        "human_longer_on_both": share(by_human, both, resampler),
        "excess": excess,
        "excess_test": test,
        "length_matched_accuracy": _slice(share(right, labelled & matched, resampler)),
        "length_unmatched_accuracy": _slice(share(right, labelled & ~matched, resampler)),
    }


def _slice(estimate: Estimate) -> Estimate:
    return estimate.flagged("no_verdict") if estimate.defined and estimate.n < NO_VERDICT_BELOW else estimate


@dataclasses.dataclass(frozen=True)
class LengthRegression:
    """Coefficients of "the judge picks A" on the log length ratio and the human label, each an Estimate.

    The length coefficient at an equal human verdict is the one to read. Intervals use the plain standard errors, or
    cluster-robust ones when groups were given; the plain ones stay in `details.se`.
    """

    coefficients: dict[str, Estimate]
    n: int
    log_likelihood: float | None
    undefined_reason: Reason | None = None


def length_regression(
    judge: Sequence[str | None],
    human: Sequence[str | None],
    len_a: Sequence[float],
    len_b: Sequence[float],
    *,
    groups: Sequence[Hashable] | None = None,
) -> LengthRegression:
    """Unpenalised logistic regression over the cases the judge decided.

    Columns: intercept, log(len_a/len_b), human label (+1 A, -1 B, 0 tie or none). Null `separation` when it does not
    converge or a coefficient exceeds 20; `one_class` when the judge always picks the same side; `empty` without cases.
    Flag `few_events` below 10 events a coefficient. Cases with a response of length 0 are left out. With fewer than 10
    groups there is no interval: `too_few_groups`.
    """
    said, truth = _codes(judge, human)
    n_all = len(said)
    a, b = _lengths(len_a, n_all, "len_a"), _lengths(len_b, n_all, "len_b")
    used = ((said == A) | (said == B)) & (a > 0) & (b > 0)
    names = ("intercept", "log_length_ratio", "human")
    n = int(used.sum())

    def refused(reason: Reason) -> LengthRegression:
        nothing = Estimate.undefined(reason, n, "length_regression")
        return LengthRegression(dict.fromkeys(names, nothing), n, None, reason)

    if n == 0:
        return refused(Reason.EMPTY)
    outcome = (said[used] == A).astype(np.float64)
    if outcome.min() == outcome.max():
        return refused(Reason.ONE_CLASS)
    side = np.where(truth[used] == A, 1.0, np.where(truth[used] == B, -1.0, 0.0))
    columns = np.column_stack([np.ones(n), np.log(a[used] / b[used]), side])
    if np.linalg.matrix_rank(columns) < columns.shape[1]:
        return refused(Reason.ZERO_VARIANCE)
    from statsmodels.discrete.discrete_model import Logit
    from statsmodels.tools.sm_exceptions import PerfectSeparationError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = Logit(outcome, columns)
            fit = model.fit(disp=0, maxiter=200, tol=1e-12)
            clustered = None
            codes = None if groups is None else group_codes(groups)[used]
            few = codes is not None and np.unique(codes).size < MIN_GROUPS
            if codes is not None and not few:
                clustered = model.fit(disp=0, maxiter=200, tol=1e-12, cov_type="cluster", cov_kwds={"groups": codes})
        except (PerfectSeparationError, np.linalg.LinAlgError):
            return refused(Reason.SEPARATION)
    values = np.asarray(fit.params, dtype=np.float64)
    if not fit.mle_retvals["converged"] or not np.all(np.isfinite(values)) or np.any(np.abs(values) > MAX_COEFFICIENT):
        return refused(Reason.SEPARATION)
    plain = np.asarray(fit.bse, dtype=np.float64)
    errors = plain if clustered is None else np.asarray(clustered.bse, dtype=np.float64)
    if not np.all(np.isfinite(plain) & np.isfinite(errors)):
        return refused(Reason.SEPARATION)
    events = min(outcome.sum(), n - outcome.sum())
    flags = ("few_events",) if events < EVENTS_PER_COEFFICIENT * len(names) else ()
    method = "logit/wald" if groups is None else "logit/cluster_robust_wald"
    reach = Z95 * errors
    coefficients = {
        name: Estimate(
            float(value),
            None if few else float(value - half),
            None if few else float(value + half),
            n,
            method,
            interval_reason=Reason.TOO_FEW_GROUPS if few else None,
            flags=flags,
            details={"se": float(se)},
        )
        for name, value, half, se in zip(names, values, reach, plain, strict=True)
    }
    return LengthRegression(coefficients, n, float(fit.llf))


def self_preference(
    own_side: Sequence[str | None],
    judge: Sequence[str | None],
    human: Sequence[str | None],
    *,
    resampler: Resampler | None = None,
) -> dict[str, Estimate]:
    """Preference for responses of the judge's own model family, against the humans (Wataoka et al. 2024).

    `own_side` names the response of the family, None where neither or both are: such cases are left out. Over the cases
    that judge and human decided: `own_when_human_own`, `other_when_human_other`, and their difference
    `equal_opportunity_bias`, 0 = none; `judge_own_rate`,
    `human_own_rate`, `excess_own_rate` with `excess_test`. A side without cases: `no_positive_labels` or
    `no_negative_labels`. Flag `no_verdict` where a side has fewer than 10 cases. The family may truly be better: the
    human label removes that only as far as humans are right.
    """
    said, truth = _codes(judge, human)
    own = code_labels(own_side, ("A", "B"), "own_side")
    if len(own) != len(said):
        raise InvalidStatisticInput("own_side must have one entry for each case")
    decided = (own != FAILED) & ((said == A) | (said == B)) & ((truth == A) | (truth == B))
    judge_own, human_own = said == own, truth == own
    liked, other = decided & human_own, decided & ~human_own
    excess, test = _paired_excess(judge_own, human_own, decided, resampler)
    own_hits = int((judge_own & liked).sum())
    other_hits = int((~judge_own & other).sum())
    n_own, n_other = int(liked.sum()), int(other.sum())
    if n_own == 0 or n_other == 0:
        empty = n_own + n_other == 0
        reason = Reason.EMPTY if empty else Reason.NO_POSITIVE_LABELS if n_own == 0 else Reason.NO_NEGATIVE_LABELS
        bias = Estimate.undefined(reason, n_own + n_other, "equal_opportunity_bias")
    else:
        bias = newcombe(own_hits, n_own, other_hits, n_other)
        if resampler is not None and resampler.clustered and bias.value is not None:
            sums = resampler.sums(np.column_stack([judge_own & liked, liked, ~judge_own & other, other]))
            replicates = ratio_replicates(sums[:, 0], sums[:, 1]) - ratio_replicates(sums[:, 2], sums[:, 3])
            bias = resampler.interval(bias.value, replicates, n=bias.n, details=dict(bias.details))
        if min(n_own, n_other) < 10:
            bias = bias.flagged("no_verdict")
    return {
        "own_when_human_own": _side(share(judge_own, liked, resampler), Reason.NO_POSITIVE_LABELS),
        "other_when_human_other": _side(share(~judge_own, other, resampler), Reason.NO_NEGATIVE_LABELS),
        "equal_opportunity_bias": bias,
        "judge_own_rate": share(judge_own, decided, resampler),
        "human_own_rate": share(human_own, decided, resampler),
        "excess_own_rate": excess,
        "excess_test": test,
    }


def _side(estimate: Estimate, reason: Reason) -> Estimate:
    if estimate.undefined_reason is Reason.EMPTY:
        return Estimate.undefined(reason, 0, estimate.method, numerator=0, denominator=0)
    return estimate


def self_preference_against_control(
    own_side: Sequence[str | None],
    judge: Sequence[str | None],
    control: Sequence[str | None],
    human: Sequence[str | None],
    resampler: Resampler,
) -> Estimate:
    """Excess of the bias over that of a control judge of another family on the same cases, paired bootstrap.

    Difference of the two `equal_opportunity_bias`, over the cases that both judges and the human decided.
    """
    said, truth = _codes(judge, human)
    other_said, _ = _codes(control, human)
    own = code_labels(own_side, ("A", "B"), "own_side")
    decided = (own != FAILED) & ((truth == A) | (truth == B))
    for codes in (said, other_said):
        decided &= (codes == A) | (codes == B)
    liked, disliked = decided & (truth == own), decided & (truth != own)
    n = int(decided.sum())
    if not liked.any() or not disliked.any():
        reason = Reason.NO_POSITIVE_LABELS if not liked.any() else Reason.NO_NEGATIVE_LABELS
        return Estimate.undefined(reason, n, "difference_in_differences")
    gain = (said == own).astype(float) - (other_said == own)
    features = np.column_stack([gain * liked, liked, gain * disliked, disliked])

    def formula(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        # P(other | other) is 1 - P(own | other), so the own picks of both sides add up.
        return ratio_replicates(sums[..., 0], sums[..., 1]) + ratio_replicates(sums[..., 2], sums[..., 3])

    value = float(formula(features.sum(axis=0)))
    if not math.isfinite(value):
        return Estimate.undefined(Reason.EMPTY, n, "difference_in_differences")
    return resampler.interval(
        value, formula(resampler.sums(features)), n=n, method=f"difference_in_differences/{resampler.method}"
    )
