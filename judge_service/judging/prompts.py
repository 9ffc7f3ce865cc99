"""The prompts of a judgment: their hash, their fence, and the same prompts again from what is stored.

Owns that a prompt is never stored: it is rendered again from rubric, case and earlier replies, and shown only where its
hash is the one that the call recorded. Knows no backend and no store.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from judge_service.domain.call import Call
from judge_service.domain.canonical import content_hash
from judge_service.domain.case import Case
from judge_service.domain.judgment import Judgment
from judge_service.errors import InvalidInput
from judge_service.judging.cases import read_case, texts_in
from judge_service.judging.reading import ReplyProblem, read_reply
from rubrics.model import Ask, LabelProbabilities, Message, PairPlan, Reply, Rubric, SinglePlan
from rubrics.prompt import Fence
from rubrics.records import Order


def storable(text: str) -> str:
    """`text` with lone surrogates spelled out: they cannot be written as UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def hash_of(ask: Ask) -> str:
    """What a call records of the prompt that it sent."""
    return content_hash([[message.role, storable(message.content)] for message in ask.messages])


def fence_of(key: bytes, rubric: Rubric[Any], case_hash: str, texts: Iterable[str]) -> Fence:
    """The fence of a case under a rubric: the same for every call, judge and time under one installation's key."""
    return Fence.derive(key, f"{rubric.content_hash}|{case_hash}", texts)


def prompts_again(
    judgment: Judgment, case: Case, rubric: Rubric[Any], key: bytes
) -> tuple[tuple[Message, ...] | None, ...]:
    """For each call of a judgment the messages that were sent; None where no prompt has the hash of the call.

    That is so when the rubric, the case or the installation's key is another one by now, and for judges whose replies
    were cut when they were stored.
    """
    nothing = tuple(None for _ in judgment.calls)
    if judgment.rubric_hash != rubric.content_hash:
        return nothing
    try:
        reading = read_case(rubric, case)
    except InvalidInput:
        return nothing
    fence = fence_of(key, rubric, judgment.case_hash, texts_in(reading.dumped))
    parts: dict[tuple[str, Order | None, int], list[Call]] = defaultdict(list)
    for call in judgment.calls:
        parts[call.judge, call.order, call.repeat].append(call)
    found: dict[str, tuple[Message, ...]] = {}
    for (_, order, _), calls in parts.items():
        # The judge may have been changed or removed since: the hash says which way it was asked.
        for elicitation in rubric.elicitations:
            plan: SinglePlan | PairPlan
            if order is None:
                plan = rubric.plan(reading.parsed, fence, elicitation)
            else:
                plan = rubric.plan_pair(reading.parsed, order, fence, elicitation)
            found.update(_asked(plan, calls))
    return tuple(found.get(call.prompt_hash) for call in judgment.calls)


def _asked(plan: SinglePlan | PairPlan, calls: Sequence[Call]) -> Mapping[str, tuple[Message, ...]]:
    """The prompts of a plan that is driven by the replies of these calls, by hash, as far as they go."""
    recorded = {call.prompt_hash for call in calls}
    answered = {call.prompt_hash: call for call in calls if call.error is None and call.raw is not None}
    found: dict[str, tuple[Message, ...]] = {}
    try:
        ask = next(plan)
        while (name := hash_of(ask)) in recorded:
            found[name] = ask.messages
            if name not in answered or answered[name].raw_cut:
                break
            ask = plan.send(_reply(ask, answered[name]))
    except (StopIteration, ReplyProblem):
        # The plan has ended, or the reply is of a program that read it otherwise.
        return found
    finally:
        plan.close()
    return found


def _reply(ask: Ask, call: Call) -> Reply:
    read = read_reply(call.raw or "", ask.constraint, frozenset(ask.items))
    masses = call.label_mass or {}
    given = {
        name: LabelProbabilities(values, masses.get(name, 1.0)) for name, values in (call.probabilities or {}).items()
    }
    return Reply(read.value, given)
