"""How several verdicts become one: order policies of a pair, repeats, panels. Pure functions.

A win needs the same answer in both orders; a disagreement is `inconsistent`, never a tie; a missing order is an
error, never a half verdict.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from judge_service.domain.judge import OrderPolicy
from rubrics.model import PairFold, SlotVerdict
from rubrics.records import Order, Outcome, Slot

Answer = Literal["A", "B", "tie"]

_ANSWER: Mapping[Order, Mapping[Slot, Answer]] = {
    "AB": {"first": "A", "second": "B", "tie": "tie"},
    "BA": {"first": "B", "second": "A", "tie": "tie"},
}


class IncompletePair(ValueError):
    """A verdict that the policy needs is missing."""


class NoProbability(ValueError):
    """The policy averages probabilities and an order has none."""


def orders_of(policy: OrderPolicy, draw: int = 0) -> tuple[Order, ...]:
    """The orders a policy asks for. `draw` decides a drawn order: even is AB, odd is BA."""
    if policy is OrderPolicy.SINGLE_AB:
        return ("AB",)
    if policy is OrderPolicy.SINGLE_BA:
        return ("BA",)
    if policy is OrderPolicy.SINGLE_DRAWN:
        return ("BA",) if draw % 2 else ("AB",)
    return ("AB", "BA")


def answer_of(order: Order, slot: Slot) -> Answer:
    """The caller's answer that a slot stands for in this order."""
    return _ANSWER[order][slot]


def answer_probabilities(order: Order, verdict: SlotVerdict) -> dict[Answer, float] | None:
    """Probabilities by the caller's answers; None where the order has none."""
    if verdict.probabilities is None:
        return None
    return {answer_of(order, slot): value for slot, value in verdict.probabilities.items()}


def mean_probabilities(ab: SlotVerdict | None, ba: SlotVerdict | None) -> dict[Answer, float] | None:
    """Mean over the orders that were asked; None where one of them has no probabilities."""
    orders: tuple[tuple[Order, SlotVerdict | None], ...] = (("AB", ab), ("BA", ba))
    vectors = [answer_probabilities(order, verdict) for order, verdict in orders if verdict is not None]
    known = [vector for vector in vectors if vector is not None]
    if not known or len(known) < len(vectors):
        return None
    answers: tuple[Answer, ...] = ("A", "B", "tie")
    return {answer: sum(vector.get(answer, 0.0) for vector in known) / len(known) for answer in answers}


def both_orders(ab: SlotVerdict, ba: SlotVerdict) -> tuple[Outcome, Answer | None]:
    """A win only if the same answer wins both orders; two ties are a tie; everything else is inconsistent."""
    first, second = answer_of("AB", ab.slot), answer_of("BA", ba.slot)
    return (Outcome.SCORED, first) if first == second else (Outcome.INCONSISTENT, None)


def average_probability(mean: Mapping[Answer, float], tie_band: float) -> Answer:
    """The answer that the order-averaged probabilities name.

    `tie` when it is the most probable of the three; otherwise A above 0.5 + band and B below 0.5 - band of
    P(A) / (P(A) + P(B)), and a tie in between.
    """
    if mean["tie"] > max(mean["A"], mean["B"]) or mean["A"] + mean["B"] <= 0:
        return "tie"
    share = mean["A"] / (mean["A"] + mean["B"])
    if share > 0.5 + tie_band:
        return "A"
    if share < 0.5 - tie_band:
        return "B"
    return "tie"


def fold_pair(policy: OrderPolicy, ab: SlotVerdict | None, ba: SlotVerdict | None, tie_band: float = 0.05) -> PairFold:
    """Fold what the orders said under `policy`. Both raw verdicts stay in the result.

    Raises IncompletePair when an order that the policy needs is missing, NoProbability when the policy averages
    probabilities that are not there.
    """
    mean = mean_probabilities(ab, ba)
    outcome: Outcome = Outcome.SCORED
    verdict: Answer | None
    if policy is OrderPolicy.BOTH_ORDERS:
        if ab is None or ba is None:
            raise IncompletePair("both orders are needed")
        outcome, verdict = both_orders(ab, ba)
    elif policy is OrderPolicy.AVERAGE_PROBABILITY:
        if ab is None or ba is None:
            raise IncompletePair("both orders are needed")
        if mean is None:
            raise NoProbability("an order came without token probabilities")
        verdict = average_probability(mean, tie_band)
    else:
        asked: tuple[tuple[Order, SlotVerdict | None], ...] = (("AB", ab), ("BA", ba))
        given = [(order, one) for order, one in asked if one is not None]
        if len(given) != 1:
            raise IncompletePair("exactly one order is needed")
        verdict = answer_of(given[0][0], given[0][1].slot)
    return PairFold(
        policy=policy.value,
        outcome=outcome,
        verdict=verdict,
        ab=ab,
        ba=ba,
        probability_a=None if mean is None else min(mean["A"] + mean["tie"] / 2, 1.0),
    )


@dataclass(frozen=True, slots=True)
class Vote:
    """The result of a vote: `label` is None on a split; `share` is the winner's part of the votes cast."""

    label: str | None
    share: float
    counts: Mapping[str, int]


def majority(labels: Sequence[str]) -> Vote:
    """The most frequent label with its share; a draw at the top has no winner. Raises ValueError without votes."""
    if not labels:
        raise ValueError("a vote needs at least one label")
    counts = Counter(labels)
    ranked = counts.most_common()
    top = ranked[0][1]
    split = len(ranked) > 1 and ranked[1][1] == top
    return Vote(None if split else ranked[0][0], top / len(labels), dict(counts))


def quorum_of(size: int, quorum: int | None) -> int:
    """Votes needed of `size`: the configured quorum, else more than half."""
    return min(quorum, size) if quorum is not None else size // 2 + 1
