"""Order policies, votes and quorums over raw verdicts."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_service.domain.judge import OrderPolicy
from judge_service.judging.policies import (
    IncompletePair,
    NoProbability,
    average_probability,
    fold_pair,
    majority,
    orders_of,
    quorum_of,
)
from rubrics.model import SlotVerdict
from rubrics.records import Outcome, Slot

SLOTS: tuple[Slot, ...] = ("first", "second", "tie")


def said(slot: Slot, first: float | None = None, second: float | None = None, tie: float = 0.0) -> SlotVerdict:
    if first is None or second is None:
        return SlotVerdict(slot, None, None)
    return SlotVerdict(slot, None, {"first": first, "second": second, "tie": tie})


@pytest.mark.parametrize(
    ("ab", "ba", "verdict"),
    [
        ("first", "second", "A"),
        ("second", "first", "B"),
        ("tie", "tie", "tie"),
        ("first", "first", None),
        ("second", "second", None),
        ("first", "tie", None),
        ("tie", "second", None),
    ],
)
def test_both_orders_needs_the_same_answer_twice(ab: Slot, ba: Slot, verdict: str | None) -> None:
    fold = fold_pair(OrderPolicy.BOTH_ORDERS, said(ab), said(ba))
    assert fold.verdict == verdict
    assert fold.outcome is (Outcome.INCONSISTENT if verdict is None else Outcome.SCORED)
    assert fold.ab is not None
    assert fold.ba is not None
    assert (fold.ab.slot, fold.ba.slot) == (ab, ba)


@pytest.mark.parametrize("policy", [OrderPolicy.BOTH_ORDERS, OrderPolicy.AVERAGE_PROBABILITY])
def test_a_missing_order_is_no_verdict(policy: OrderPolicy) -> None:
    for ab, ba in ((said("first", 0.9, 0.1), None), (None, said("first", 0.9, 0.1)), (None, None)):
        with pytest.raises(IncompletePair):
            fold_pair(policy, ab, ba)


@pytest.mark.parametrize(
    ("p_first_ab", "p_first_ba", "verdict"),
    [
        (0.9, 0.3, "A"),  # P(A) = (0.9 + 0.7) / 2 = 0.8
        (0.715, 0.715, "tie"),  # a pure preference for the first slot averages out
        (0.2, 0.9, "B"),
        (0.56, 0.46, "tie"),  # P(A) = 0.55 is not above 0.5 + 0.05
        (0.58, 0.46, "A"),
    ],
)
def test_average_probability_cancels_a_slot_preference(p_first_ab: float, p_first_ba: float, verdict: str) -> None:
    ab, ba = said("first", p_first_ab, 1 - p_first_ab), said("first", p_first_ba, 1 - p_first_ba)
    fold = fold_pair(OrderPolicy.AVERAGE_PROBABILITY, ab, ba)
    assert fold.verdict == verdict
    assert fold.probability_a == pytest.approx((p_first_ab + 1 - p_first_ba) / 2)


def test_average_probability_with_a_tie_label_takes_the_most_probable() -> None:
    assert average_probability({"A": 0.3, "B": 0.2, "tie": 0.5}, 0.05) == "tie"
    assert average_probability({"A": 0.45, "B": 0.15, "tie": 0.4}, 0.05) == "A"
    assert average_probability({"A": 0.0, "B": 0.0, "tie": 0.0}, 0.05) == "tie"


def test_average_probability_needs_probabilities_of_both_orders() -> None:
    with pytest.raises(NoProbability):
        fold_pair(OrderPolicy.AVERAGE_PROBABILITY, said("first", 0.9, 0.1), said("second"))


def test_single_orders_stand_alone() -> None:
    assert orders_of(OrderPolicy.SINGLE_AB) == ("AB",)
    assert orders_of(OrderPolicy.SINGLE_BA) == ("BA",)
    assert {orders_of(OrderPolicy.SINGLE_DRAWN, draw) for draw in range(4)} == {("AB",), ("BA",)}
    assert fold_pair(OrderPolicy.SINGLE_BA, None, said("first")).verdict == "B"
    with pytest.raises(IncompletePair):
        fold_pair(OrderPolicy.SINGLE_AB, said("first"), said("first"))


MIRROR: dict[str | None, str | None] = {"A": "B", "B": "A", "tie": "tie", None: None}


@given(
    *(st.sampled_from(SLOTS) for _ in range(2)),
    *(st.floats(0, 1) for _ in range(2)),
    st.sampled_from([OrderPolicy.BOTH_ORDERS, OrderPolicy.AVERAGE_PROBABILITY]),
)
def test_swapping_the_answers_swaps_the_verdict(ab: Slot, ba: Slot, p: float, q: float, policy: OrderPolicy) -> None:
    one, two = said(ab, p, 1 - p), said(ba, q, 1 - q)
    straight, swapped = fold_pair(policy, one, two), fold_pair(policy, two, one)
    assert swapped.outcome is straight.outcome
    if abs(abs((p + 1 - q) / 2 - 0.5) - 0.05) > 1e-9:  # exactly on the band rounding may decide
        assert swapped.verdict == MIRROR[straight.verdict]


def test_majority_needs_a_winner() -> None:
    vote = majority(["pass", "pass", "fail", "pass", "pass"])
    assert (vote.label, vote.share, vote.counts) == ("pass", 0.8, {"pass": 4, "fail": 1})
    assert majority(["A", "B"]).label is None
    assert majority(["A", "B", "tie"]).label is None
    with pytest.raises(ValueError, match="at least one"):
        majority([])


def test_the_order_of_votes_does_not_matter() -> None:
    for labels in itertools.permutations(["A", "A", "B", "tie"]):
        assert majority(labels).label == "A"


def test_quorum_defaults_to_more_than_half() -> None:
    assert [quorum_of(size, None) for size in (1, 2, 3, 4, 5)] == [1, 2, 2, 3, 3]
    assert quorum_of(3, 3) == 3
    assert quorum_of(3, 7) == 3
