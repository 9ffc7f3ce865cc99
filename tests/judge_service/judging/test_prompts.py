"""Prompts again: every call of every rubric's examples, by its hash; and none where something changed."""

from typing import Any

import pytest

from judge_service.domain.case import Case
from judge_service.domain.judge import ConfidenceSource, Judge
from judge_service.judging.prompts import prompts_again
from rubrics.model import Example, Rubric
from rubrics.registry import all_rubrics, get_rubric
from tests.judge_service.judging.test_judging import judging

EXAMPLES = [
    pytest.param(rubric, example, id=f"{rubric.id}-{place}")
    for rubric in all_rubrics()
    for place, example in enumerate(rubric.examples)
    if example.replies
]


def judge_of(example: Example) -> Judge:
    """Answers as the example says, in both orders the same."""
    replies = [one if isinstance(one, str) else {"value": one} for one in example.replies] * 2
    bare = isinstance(example.replies[0], str)
    return Judge.model_validate(
        {
            "name": "s",
            "backend": "scripted",
            "options": {"replies": replies, "enforcement": "grammar"},
            "elicitation": "direct" if bare else "reasoned",
            "confidence": ConfidenceSource.VERBALISED,
        }
    )


@pytest.mark.parametrize(("rubric", "example"), EXAMPLES)
async def test_every_call_of_an_example_is_rendered_again(rubric: Rubric[Any], example: Example) -> None:
    judge, case = judge_of(example), Case(id="c", input=example.case)
    core = judging(judge)
    made = await core.judge(case, rubric, judge)
    found = core.prompts(made, case, rubric)
    assert len(found) == len(made.calls) > 0
    assert all(found)
    assert all(message.content for messages in found if messages for message in messages)
    assert prompts_again(made, case, rubric, b"another key") == (None,) * len(found)


async def test_another_rubric_or_case_gives_no_prompt() -> None:
    rubric = get_rubric("pairwise@1")
    example = rubric.examples[0]
    judge, case = judge_of(example), Case(id="c", input=example.case)
    core = judging(judge)
    made = await core.judge(case, rubric, judge)
    nothing = (None,) * len(made.calls)
    other = Case(id="c", input={**example.case, "response_a": "Another."})
    assert core.prompts(made, other, rubric) == nothing
    assert core.prompts(made, Case(id="c", input={"no": "pair"}), rubric) == nothing
    assert core.prompts(made.model_copy(update={"rubric_hash": "0" * 64}), case, rubric) == nothing
