"""Which judge to use, or that there is not enough evidence: floors, paired comparisons, cost, the fixed words.

All judges are compared on the same expected cases; a judge's missing verdicts count as wrong. The thresholds are
recommendations, declared before the labels are seen.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.agreement import Agreement, PairedLabels
from calibration.estimate import Estimate, InvalidStatisticInput, Reason
from calibration.intervals import bonett_price, wilson
from calibration.power import labels_for_difference, tier
from calibration.resample import DEFAULT_SEED, FAST_RESAMPLES, MIN_GROUPS, Resampler, joint_types, share
from calibration.tests import holm, mcnemar
from calibration.weighted import effective_size, t_test, weighted_mean

MIN_LABELS = 30
MIN_OF_CLASS = 10
VALID_RATE = 0.95
VALID_RATE_LOWER = 0.90
RATE_LOWER = 0.5
UNRELIABLE_BELOW = 0.4


@dataclasses.dataclass(frozen=True, eq=False)
class Candidate:
    """A judge's verdicts over the expected cases (None failed), and its cost a case with both orders and repeats.

    `usable` says where it gave valid output, where that is more than a verdict: a pair whose two orders disagree is
    valid output that agrees with nobody. None: wherever there is a verdict.
    """

    name: str
    verdicts: Sequence[object]
    cost: float | None = None
    usable: Sequence[bool] | None = None


@dataclasses.dataclass(frozen=True)
class Miss:
    """A floor that a judge does not meet: its `code`, a `text` with the bound found and the one needed, and `needed`.

    Codes: `valid_rate`, `constant_answer`, `agreement`, `kappa_null`, `kappa`, `tpr`, `tnr`, `tpr_tnr`.
    """

    code: str
    text: str
    needed: float | None = None
    found: Estimate | None = None


@dataclasses.dataclass(frozen=True)
class Floors:
    """Which floors a judge meets; `missed` names those it does not."""

    judge: str
    agreement: Estimate
    valid_rate: Estimate
    missed: tuple[Miss, ...]

    @property
    def failed(self) -> tuple[str, ...]:
        """The floors that are not met, in words."""
        return tuple(miss.text for miss in self.missed)

    @property
    def met(self) -> bool:
        """Whether every floor is met."""
        return not self.missed


@dataclasses.dataclass(frozen=True)
class PairedComparison:
    """Leader minus other judge on the same cases: difference, exact McNemar p, and p after Holm over all compared."""

    leader: str
    other: str
    difference: Estimate
    p_value: Estimate
    p_holm: float | None


@dataclasses.dataclass(frozen=True)
class Selection:
    """The recommendation in fixed words and everything it rests on.

    `verdict`: `select J`, `any of {...}`, `none meets the floor` or `not enough evidence`; `reasons` name what is
    missing. `leading` are the judges not significantly worse than the best. `labels_needed` is the number of labels
    that would separate the closest pair, where known.
    """

    verdict: str
    chosen: str | None
    reasons: tuple[str, ...]
    tier: str
    floors: tuple[Floors, ...]
    comparisons: tuple[PairedComparison, ...]
    leading: tuple[str, ...]
    pareto: tuple[str, ...]
    majority_baseline: Estimate
    optimism: Estimate | None = None
    labels_needed: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready object."""
        return {
            "verdict": self.verdict,
            "chosen": self.chosen,
            "reasons": list(self.reasons),
            "tier": self.tier,
            "leading": list(self.leading),
            "pareto": list(self.pareto),
            "majority_baseline": self.majority_baseline.to_dict(),
            "labels_needed": self.labels_needed,
            "optimism": None if self.optimism is None else self.optimism.to_dict(),
            "floors": [
                {
                    "judge": floors.judge,
                    "met": floors.met,
                    "failed": list(floors.failed),
                    "agreement": floors.agreement.to_dict(),
                    "valid_rate": floors.valid_rate.to_dict(),
                }
                for floors in self.floors
            ],
            "comparisons": [
                {
                    "leader": row.leader,
                    "other": row.other,
                    "difference": row.difference.to_dict(),
                    "p_value": row.p_value.to_dict(),
                    "p_holm": row.p_holm,
                }
                for row in self.comparisons
            ],
        }


def pareto_front(costs: Sequence[float], accuracies: Sequence[float]) -> list[int]:
    """Positions of the judges that no other beats on cost and accuracy, cheapest first.

    Of equal accuracy only the cheapest stays; of equal cost and accuracy, all stay.
    """
    if len(costs) != len(accuracies):
        raise InvalidStatisticInput("costs and accuracies must have one entry for each judge")
    front = []
    for i, (cost, accuracy) in enumerate(zip(costs, accuracies, strict=True)):
        beaten = any(
            other_cost <= cost and other_accuracy >= accuracy and (other_cost < cost or other_accuracy > accuracy)
            for other_cost, other_accuracy in zip(costs, accuracies, strict=True)
        )
        if not beaten:
            front.append(i)
    return sorted(front, key=lambda i: (costs[i], accuracies[i]))


def select(
    candidates: Sequence[Candidate],
    human: Sequence[object],
    classes: Sequence[object],
    *,
    groups: Sequence[Hashable] | None = None,
    margin: float = 0.02,
    alpha: float = 0.05,
    agreement_floor: float | None = None,
    human_agreement: Mapping[str, float | None] | None = None,
    min_labels: int = MIN_LABELS,
    resamples: int = FAST_RESAMPLES,
    seed: int = DEFAULT_SEED,
    resampler: Resampler | None = None,
    agreements: Sequence[Agreement] | None = None,
) -> Selection:
    """Choose among `candidates` by raw agreement over all expected cases, or say that it cannot be decided.

    `agreement_floor` None: human-human agreement - 5 points when `human_agreement["raw_agreement"]` is known, else only
    the majority class. `human_agreement` may also give `alpha` and `ac1`: both below 0.4 means unreliable labels and no
    verdict. Below `min_labels` (never less than 30) there is none either. `margin` is the non-inferiority margin for
    choosing a cheaper judge. Holm is over the judges compared with the leader. `optimism` is the bootstrap estimate of
    how much the best of these judges is overrated by having been chosen on these labels; it changes no verdict.
    `resampler` is a bootstrap over the same cases whose draws, and weights, are used; `agreements` are those of the
    candidates' verdicts, where they were made for other figures before.
    """
    if not candidates:
        raise InvalidStatisticInput("at least one judge is needed")
    if len({candidate.name for candidate in candidates}) != len(candidates):
        raise InvalidStatisticInput("two judges have the same name")
    labels = [PairedLabels.of(candidate.verdicts, human, classes, groups=groups) for candidate in candidates]
    n = len(labels[0])
    if resampler is not None and resampler.n_cases != n:
        raise InvalidStatisticInput("the resampler is not over these cases")
    draws = resampler or Resampler(n, labels[0].groups, resamples=resamples, seed=seed)
    # What labels license goes by how many evenly drawn ones would be as sure.
    size = effective_size(n, draws.weights)
    agreements = agreements or [
        Agreement(paired, draws.with_types(joint_types(paired.judge, paired.human)) if n else None) for paired in labels
    ]
    if any(not np.array_equal(made.labels.judge, own.judge) for made, own in zip(agreements, labels, strict=True)):
        raise InvalidStatisticInput("the agreements are not of the candidates' verdicts")
    baseline = agreements[0].majority_baseline()
    floors = tuple(
        _floors(candidate, agreement, baseline, agreement_floor, human_agreement or {})
        for candidate, agreement in zip(candidates, agreements, strict=True)
    )
    right = np.array([paired.judge == paired.human for paired in labels], dtype=bool).reshape(len(candidates), n)
    shares = _shares(right, draws)
    priced = [i for i, candidate in enumerate(candidates) if candidate.cost is not None]
    front = pareto_front([float(candidates[i].cost or 0) for i in priced], [float(shares[i]) for i in priced])
    pareto = tuple(candidates[priced[i]].name for i in front)

    def result(
        verdict: str,
        chosen: str | None,
        reasons: Sequence[str],
        *,
        comparisons: Sequence[PairedComparison] = (),
        leading: Sequence[str] = (),
        optimism: Estimate | None = None,
        needed: int | None = None,
    ) -> Selection:
        return Selection(
            verdict, chosen, tuple(reasons), tier(size), floors, tuple(comparisons), tuple(leading), pareto, baseline,
            optimism, needed,
        )  # fmt: skip

    missing = _missing_evidence(labels[0], size, human_agreement or {}, max(min_labels, MIN_LABELS))
    if missing:
        return result("not enough evidence", None, missing)
    eligible = [i for i, floor in enumerate(floors) if floor.met]
    if not eligible:
        return result("none meets the floor", None, [f"{f.judge}: {', '.join(f.failed)}" for f in floors])
    best = max(eligible, key=lambda i: (shares[i], -(candidates[i].cost or 0.0)))
    others = [i for i in eligible if i != best]
    names = [candidate.name for candidate in candidates]
    comparisons = compare(names, right, [(best, other) for other in others], draws)
    worse = {row.other for row in comparisons if _is_worse(row, alpha, draws.clustered)}
    leading = [candidates[best].name] + [candidates[i].name for i in others if candidates[i].name not in worse]
    optimism = _optimism(right[eligible], draws)
    if len(leading) == 1:
        return result(
            f"select {leading[0]}", leading[0], (), comparisons=comparisons, leading=leading, optimism=optimism
        )
    close = [row for row in comparisons if row.other in leading]
    chosen, reason = _cheapest(candidates, leading, close, margin)
    if chosen is not None:
        verdict = f"select {chosen[0]}" if len(chosen) == 1 else "any of {" + ", ".join(chosen) + "}"
        return result(
            verdict,
            chosen[0] if len(chosen) == 1 else None,
            (reason,),
            comparisons=comparisons,
            leading=leading,
            optimism=optimism,
        )
    needed = None if draws.weights is not None else _labels_needed(close[0])
    words = f"{close[0].other} is not separated from {leading[0]} and may be more than {margin:.0%} worse"
    if needed is not None:
        words += f"; about {needed} labels would separate them at the difference seen"
    return result(
        "not enough evidence",
        None,
        (words,),
        comparisons=comparisons,
        leading=leading,
        optimism=optimism,
        needed=needed,
    )


def _cheapest(
    candidates: Sequence[Candidate], leading: Sequence[str], close: Sequence[PairedComparison], margin: float
) -> tuple[tuple[str, ...] | None, str]:
    """The judges of the leading set that may be recommended although they are not separated, and why; else None.

    A difference whose interval holds both -margin and +margin decides nothing. Otherwise the cheapest is chosen, if it
    is the best itself or not worse than the best by the margin; without costs, any judge if none is worse.
    """
    if any(
        row.difference.low is None
        or row.difference.high is None
        or (row.difference.low <= -margin and row.difference.high >= margin)
        for row in close
    ):
        return None, ""
    within = {leading[0]} | {
        row.other for row in close if row.difference.high is not None and row.difference.high < margin
    }
    costs = {candidate.name: candidate.cost for candidate in candidates if candidate.name in leading}
    known = [cost for cost in costs.values() if cost is not None]
    if len(known) < len(leading):
        return (
            (tuple(leading), f"none is worse than the best by {margin:.0%}") if within == set(leading) else (None, "")
        )
    cheapest = tuple(name for name in leading if costs[name] == min(known))
    if not set(cheapest) <= within:
        return None, ""
    return cheapest, f"cheapest of the judges that are not worse than the best by {margin:.0%}"


def _missing_evidence(
    labels: PairedLabels, size: float, human_agreement: Mapping[str, float | None], min_labels: int
) -> list[str]:
    n = len(labels)
    missing = []
    if size < min_labels:
        as_sure = "" if size == n else f", as sure as {math.floor(size)} evenly drawn ones"
        missing.append(f"{n} human labels{as_sure}, at least {min_labels} are needed")
    support = np.bincount(labels.human, minlength=len(labels.classes))
    used = np.sort(support)[::-1]
    second = int(used[1]) if used.size > 1 else 0
    if n >= MIN_LABELS and second < MIN_OF_CLASS:
        missing.append(f"{second} labels of the second most frequent class, at least {MIN_OF_CLASS} are needed")
    groups = n if labels.groups is None else len(set(labels.groups))
    if n >= MIN_LABELS and groups < MIN_GROUPS:
        missing.append(f"{groups} independent groups of cases, at least {MIN_GROUPS} are needed")
    alpha, ac1 = human_agreement.get("alpha"), human_agreement.get("ac1")
    if alpha is not None and ac1 is not None and alpha < UNRELIABLE_BELOW and ac1 < UNRELIABLE_BELOW:
        missing.append(f"humans agree too little (alpha {alpha:.2f}, AC1 {ac1:.2f}): no judge can be shown good")
    return missing


def _floors(
    candidate: Candidate,
    agreement: Agreement,
    baseline: Estimate,
    declared: float | None,
    human_agreement: Mapping[str, float | None],
) -> Floors:
    raw = agreement.raw()
    valid = agreement.valid_rate()
    if candidate.usable is not None:
        if len(candidate.usable) != len(agreement.labels) + agreement.labels.unlabelled:
            raise InvalidStatisticInput("usable must have one entry for each case")
        if agreement.labels.unlabelled:
            raise InvalidStatisticInput("usable needs a human label for every case")
        valid = share(np.array(candidate.usable, dtype=bool), None, agreement.resampler)
    failed: list[Miss] = []
    low = raw.low if raw.low is not None else 0.0
    if valid.value is None or valid.value < VALID_RATE or (valid.low or 0.0) < VALID_RATE_LOWER:
        text = f"valid rate {_shown(valid)} below {VALID_RATE:.2f} (lower bound {VALID_RATE_LOWER:.2f})"
        failed.append(Miss("valid_rate", text, VALID_RATE, valid))
    if baseline.value is not None and low < baseline.value:
        text = f"agreement {_shown(raw)}: lower bound under the constant answer's {baseline.value:.3f}"
        failed.append(Miss("constant_answer", text, baseline.value, raw))
    kappa = agreement.kappa()
    if kappa.value is None:
        failed.append(Miss("kappa_null", "kappa null: it cannot be told from chance", None, kappa))
    floor = declared
    known = human_agreement.get("raw_agreement")
    if floor is None and known is not None:
        floor = known - 0.05
    if floor is not None and low < floor:
        failed.append(
            Miss("agreement", f"agreement {_shown(raw)}: lower bound under the floor {floor:.3f}", floor, raw)
        )
    failed += _rates(agreement)
    return Floors(candidate.name, raw, valid, tuple(failed))


def _rates(agreement: Agreement) -> list[Miss]:
    """Two classes: floors of sensitivity and specificity. More: kappa must be above 0 (rare classes have no floor)."""
    if len(agreement.labels.classes) != 2:
        kappa = agreement.kappa()
        # Perfect agreement is the same in every resample: no interval, and no reason to doubt it either.
        low = kappa.value if kappa.interval_reason is Reason.ZERO_VARIANCE else kappa.low
        if low is not None and low > 0:
            return []
        return [Miss("kappa", f"kappa {_shown(kappa)}: lower bound not above 0", 0.0, kappa)]
    failed = []
    tpr, tnr = (list(agreement.per_class().values())[-1][name] for name in ("tpr", "tnr"))
    if tpr.value is None or tnr.value is None:
        return []
    for kind, rate in (("TPR", tpr), ("TNR", tnr)):
        if rate.low is not None and rate.low < RATE_LOWER:
            text = f"{kind} {_shown(rate)}: lower bound under {RATE_LOWER}"
            failed.append(Miss(kind.lower(), text, RATE_LOWER, rate))
    # Two independent shares: the bound of the sum moves each by its own distance (as in Newcombe's interval).
    hit, kept = (_wilson(rate) for rate in (tpr, tnr))
    distance = float(np.hypot(tpr.value - hit[0], tnr.value - kept[0]))
    if tpr.value + tnr.value - 1 - distance <= 0:
        failed.append(Miss("tpr_tnr", "TPR + TNR - 1: lower bound not above 0", 0.0))
    return failed


def _wilson(rate: Estimate) -> tuple[float, float]:
    """Wilson's interval of a rate by its counts, or at the effective size of a weighted one."""
    size = float(rate.details.get("effective_n", rate.denominator or 1))
    return wilson((rate.value or 0.0) * size, size)


def _shown(estimate: Estimate) -> str:
    if estimate.value is None:
        return "null"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def _is_worse(row: PairedComparison, alpha: float, clustered: bool) -> bool:
    """Significantly behind the leader; with groups, whose cases are dependent, the interval must say so as well."""
    low = row.difference.low
    behind = not clustered or (low is not None and low > 0)
    return row.p_holm is not None and row.p_holm <= alpha and behind


def compare(
    names: Sequence[str], right: NDArray[np.bool_], pairs: Sequence[tuple[int, int]], resampler: Resampler | None = None
) -> list[PairedComparison]:
    """First minus second judge of each of `pairs`, with Holm over all of them; `right` has shape (judges, cases).

    Bonett-Price intervals, or the cluster bootstrap where the resampler's cases are grouped: groups are drawn once for
    both judges. `details` of a difference count the cases that only one of them has right. No case on which they
    differ: p null `no_discordant_pairs`. With the resampler's weights: Hajek's mean of the difference, and p of its
    Student's t in place of McNemar's.
    """
    if resampler is not None and resampler.weights is not None:
        return _adjusted(names, [(a, b, *_weighted(right[a], right[b], resampler)) for a, b in pairs])
    means: NDArray[np.float64] | None = None
    if resampler is not None and resampler.clustered and right.shape[1]:
        sums = resampler.sums(np.column_stack([right.T, np.ones(right.shape[1], dtype=bool)]))
        means = sums[:, :-1] / sums[:, -1:]
    rows = []
    for first, second in pairs:
        b, c = int((right[first] & ~right[second]).sum()), int((right[second] & ~right[first]).sum())
        difference = bonett_price(b, c, right.shape[1])
        if means is not None and resampler is not None and difference.value is not None:
            replicates = means[:, first] - means[:, second]
            difference = resampler.interval(
                difference.value,
                replicates,
                numerator=difference.numerator,
                denominator=difference.denominator,
                details=dict(difference.details),
            )
        rows.append((first, second, difference, mcnemar(b, c)))
    return _adjusted(names, rows)


def _weighted(first: NDArray[np.bool_], second: NDArray[np.bool_], resampler: Resampler) -> tuple[Estimate, Estimate]:
    """First minus second by the cases' weights, and p. Grouped: the interval is that of the cluster bootstrap."""
    weights = resampler.weights
    assert weights is not None  # noqa: S101  # the caller's case
    d = first.astype(np.float64) - second
    found = weighted_mean(d, weights.min() / weights)
    b, c = int((d > 0).sum()), int((d < 0).sum())
    counts = {**found.details, "only_first": b, "only_second": c}
    difference = dataclasses.replace(found, details=counts, method="hajek_t")
    if difference.low is not None and difference.high is not None:
        difference = dataclasses.replace(difference, low=max(-1.0, difference.low), high=min(1.0, difference.high))
    if resampler.clustered and found.value is not None:
        sums = resampler.sums(np.column_stack([d * weights, weights]))
        method = f"hajek_{resampler.method}"
        difference = resampler.interval(found.value, sums[:, 0] / sums[:, 1], method=method, details=counts)
    p = t_test(found)
    if p is None:
        reason = Reason.EMPTY if not found.n else Reason.NO_DISCORDANT_PAIRS if b + c == 0 else Reason.ZERO_VARIANCE
        return difference, Estimate.undefined(reason, b + c, "hajek_t")
    return difference, Estimate.point(p, found.n, "hajek_t")


def _adjusted(names: Sequence[str], rows: Sequence[tuple[int, int, Estimate, Estimate]]) -> list[PairedComparison]:
    """The comparisons with Holm over all of them."""
    adjusted = holm([p.value for _, _, _, p in rows])
    return [
        PairedComparison(names[first], names[second], difference, p, p_holm)
        for (first, second, difference, p), p_holm in zip(rows, adjusted, strict=True)
    ]


def _optimism(right: NDArray[np.bool_], resampler: Resampler) -> Estimate:
    """How much the best of these judges is overrated: in each resample the best there, minus its agreement here."""
    weights = np.ones(right.shape[1]) if resampler.weights is None else resampler.weights
    means = resampler.sums(right.T * weights[:, None]) / resampler.sums(weights[:, None])
    winners = means.argmax(axis=1)
    here = _shares(right, resampler)
    excess = means[np.arange(len(winners)), winners] - here[winners]
    return Estimate.point(
        float(excess.mean()),
        right.shape[1],
        "bootstrap_optimism_of_the_best",
        details={
            "resamples": resampler.resamples,
            "seed": resampler.seed,
            "corrected": float(here.max() - excess.mean()),
        },
    )


def _shares(right: NDArray[np.bool_], resampler: Resampler) -> NDArray[np.float64]:
    """The agreement of each judge, by the cases' weights where they have some; 0 without cases."""
    if not right.shape[1]:
        return np.zeros(len(right))
    return np.asarray(np.average(right, axis=1, weights=resampler.weights))


def _labels_needed(row: PairedComparison) -> int | None:
    b, c = row.difference.details["only_first"], row.difference.details["only_second"]
    n = row.difference.n
    if b == c or n == 0:
        return None
    needed = labels_for_difference(b / n, c / n).value
    return None if needed is None else int(needed)
