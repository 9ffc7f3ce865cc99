"""The baselines answer every released rubric through its own plan, without knowing any of them."""

from typing import Any

import pytest

from judge_service.backends.base import Request, Subject
from judge_service.backends.baseline import BaselineBackend, BaselineOptions, Kind
from judge_service.domain.judge import Sampling
from rubrics.model import ChoiceConstraint, Example, NotApplicable, Reply, Rubric, Scored, SlotVerdict
from rubrics.prompt import Fence
from rubrics.records import Elicitation
from rubrics.registry import all_rubrics, get_rubric

FENCE = Fence("0" * 12)


async def drive(backend: BaselineBackend, rubric: Rubric[Any], example: Example, elicitation: Elicitation) -> Any:
    case = rubric.case_model.model_validate(example.case)
    pair = rubric.kind == "pairwise"
    plan: Any = (
        rubric.plan_pair(case, example.order, FENCE, elicitation) if pair else rubric.plan(case, FENCE, elicitation)
    )
    subject = Subject(rubric.id, "case", example.case, order=example.order if pair else None)
    try:
        ask = next(plan)
        while True:
            made = await backend.complete(Request(ask, subject, Sampling(), 1000, 5.0))
            if isinstance(ask.constraint, ChoiceConstraint):
                assert made.text in ask.constraint.choices
                reply = Reply(made.text)
            else:
                reply = Reply(ask.constraint.model.model_validate_json(made.text))
            ask = plan.send(reply)
    except StopIteration as done:
        return done.value


CASES = [
    pytest.param(kind, rubric, example, elicitation, id=f"{kind}-{rubric.id}-{example.quality}-{elicitation}")
    for rubric in all_rubrics()
    for kind in (("constant", "longer", "overlap") if rubric.kind == "pairwise" else ("constant", "overlap"))
    for example in rubric.examples
    for elicitation in rubric.elicitations
]


@pytest.mark.parametrize(("kind", "rubric", "example", "elicitation"), CASES)
async def test_every_rubric_can_be_answered(
    kind: Kind, rubric: Rubric[Any], example: Example, elicitation: Elicitation
) -> None:
    found = await drive(BaselineBackend(kind), rubric, example, elicitation)
    assert isinstance(found, Scored | NotApplicable | SlotVerdict)
    if isinstance(found, Scored):
        assert found.label in rubric.scale.names


async def test_overlap_scores_claims_that_the_context_states_and_finds_its_own_quotes() -> None:
    rubric = get_rubric("faithfulness")
    case = {
        "question": None,
        "contexts": ["The bridge opened in 1931. It is 60 m long.", "It was repaired in 1988."],
        "answer": "The bridge opened in 1931. It is 80 m long. Penguins swim under it.",
    }
    found = await drive(BaselineBackend("overlap"), rubric, Example(case, (), "good"), "reasoned")
    assert found.score == pytest.approx(1 / 3)
    assert [claim.verdict for claim in found.record.claims] == ["supported", "fabrication", "fabrication"]
    assert found.record.claims[0].evidence.found
    everything = await drive(BaselineBackend("constant"), rubric, Example(case, (), "good"), "reasoned")
    assert (everything.score, everything.label) == (1.0, "supported")
    options = BaselineOptions(answer="unsupported")
    nothing = await drive(BaselineBackend("constant", options), rubric, Example(case, (), "good"), "reasoned")
    assert (nothing.score, nothing.label) == (0.0, "unsupported")


@pytest.mark.parametrize(("order", "slot"), [("AB", "first"), ("BA", "second")])
async def test_the_pair_baselines_keep_the_callers_frame(order: Any, slot: str) -> None:
    rubric = get_rubric("pairwise")
    case = {"prompt": "Say something.", "response_a": "A much longer answer.", "response_b": "Short."}
    for kind in ("constant", "longer"):
        for elicitation in rubric.elicitations:
            found = await drive(BaselineBackend(kind), rubric, Example(case, (), "good", order), elicitation)
            assert found.slot == slot
