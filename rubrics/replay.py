"""Runs a rubric's plan on replies that are given beforehand: its examples, documentation, its identity.

Owns reading of example replies. No model is asked.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rubrics.model import Ask, ChoiceConstraint, Example, NotApplicable, PairFold, Reply, Rubric, Scored, SlotVerdict
from rubrics.prompt import Fence
from rubrics.records import Elicitation, Order, Outcome

FIXED_FENCE = Fence("0" * 12)
"""The marker of examples: known, so that rendered prompts can be compared and hashed."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What was asked in order, and how the plan ended. A pair ends with the record of this one order."""

    asks: tuple[Ask, ...]
    result: Scored | NotApplicable
    replies: tuple[Reply, ...] = field(repr=False, default=())


def read_reply(ask: Ask, raw: Any) -> Reply:
    """`raw` (a JSON value, or a label) as a validated reply to `ask`. Raises ValueError when it does not fit."""
    if isinstance(ask.constraint, ChoiceConstraint):
        if raw not in ask.constraint.choices:
            raise ValueError(f"step {ask.step}: {raw!r} is none of {', '.join(ask.constraint.choices)}")
        return Reply(str(raw))
    return Reply(ask.constraint.model.model_validate_json(json.dumps(raw)))


def replay(rubric: Rubric[Any], example: Example, elicitation: Elicitation | None = None) -> Replay:
    """Run the plan of `rubric` on `example` with the fixed fence.

    Without `elicitation` the reply decides: a bare label is a direct answer. Raises ValueError when the example
    has too few or too many replies, or one that does not fit what is asked.
    """
    case = rubric.case_model.model_validate(example.case)
    nothing = rubric.nothing_to_judge(case)
    if nothing is not None:
        return Replay((), nothing)
    if elicitation is None:
        bare = bool(example.replies) and isinstance(example.replies[0], str)
        elicitation = "direct" if bare and "direct" in rubric.elicitations else rubric.elicitations[0]
    plan = (
        rubric.plan_pair(case, example.order, FIXED_FENCE, elicitation)
        if rubric.kind == "pairwise"
        else rubric.plan(case, FIXED_FENCE, elicitation)
    )
    asks: list[Ask] = []
    replies: list[Reply] = []
    try:
        ask = next(plan)
        while True:
            asks.append(ask)
            if len(replies) == len(example.replies):
                raise ValueError(f"{rubric.id}: the example has no reply for step {ask.step}")
            replies.append(read_reply(ask, example.replies[len(replies)]))
            ask = plan.send(replies[-1])
    except StopIteration as stop:
        if len(replies) != len(example.replies):
            raise ValueError(f"{rubric.id}: the example has more replies than the plan asks for") from None
        result = stop.value
    if isinstance(result, SlotVerdict):
        result = single_order(rubric, result, example.order)
    return Replay(tuple(asks), result, tuple(replies))


def single_order(rubric: Rubric[Any], verdict: SlotVerdict, order: Order) -> Scored:
    """One order of a pair as a scored record of its own, under the policy that asks that order only."""
    winner = caller_verdict(verdict, order)
    fold = PairFold(
        policy=f"single_{order.lower()}",
        outcome=Outcome.SCORED,
        verdict=winner,
        ab=verdict if order == "AB" else None,
        ba=verdict if order == "BA" else None,
    )
    credit: Mapping[str, float] = {"A": 1.0, "tie": 0.5, "B": 0.0}
    return Scored(record=rubric.pair_record(fold), score=credit[winner], label=winner)


def caller_verdict(verdict: SlotVerdict, order: Order) -> Literal["A", "B", "tie"]:
    """`A`, `B` or `tie`: whom a verdict by position names in the caller's frame."""
    if verdict.slot == "tie":
        return "tie"
    return "A" if (verdict.slot == "first") == (order == "AB") else "B"


def check_direction(rubric: Rubric[Any]) -> None:
    """The self-test: every good example scores above every bad one (below, where lower is better).

    Raises ValueError when an example does not score, one kind is missing, or the direction is inverted.
    """
    scores: dict[str, list[float]] = {"good": [], "bad": []}
    for example in rubric.examples:
        result = replay(rubric, example).result
        if not isinstance(result, Scored):
            raise ValueError(f"{rubric.id}: an example is not applicable ({result.reason}) and shows no direction")
        scores[example.quality].append(result.score)
    if not scores["good"] or not scores["bad"]:
        raise ValueError(f"{rubric.id}: needs at least one good and one bad example")
    sign = 1 if rubric.scale.higher_is_better else -1
    if min(sign * score for score in scores["good"]) <= max(sign * score for score in scores["bad"]):
        raise ValueError(f"{rubric.id}: a bad example scores at least as well as a good one; the direction is inverted")
