"""Declared rubrics: what is refused and where, what a judge may write, and the numbers that code computes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rubrics.declared import Declaration, DeclaredRubric, declared_rubric
from rubrics.declared.rubric import DeclaredRecord, overall
from rubrics.model import Example, JsonConstraint, NotApplicable, Scored
from rubrics.records import NotApplicableReason
from rubrics.registry import UnknownRubric, all_rubrics, announce, get_rubric, withdraw
from rubrics.replay import replay


def levels(*values: Any) -> list[dict[str, Any]]:
    return [{"value": value, "description": f"As good as {value}."} for value in values]


def criterion(name: str = "clear", **more: Any) -> dict[str, Any]:
    answers = {} if "labels" in more else {"levels": levels(1, 2, 3, 4, 5)}
    return {"name": name, "text": f"Is it {name}?", **answers, **more}


def declared(*criteria: dict[str, Any], **more: Any) -> DeclaredRubric:
    given = {"name": "mine", "version": 1, "criteria": list(criteria or (criterion(),)), **more}
    return declared_rubric(Declaration.model_validate(given))


def judged(rubric: DeclaredRubric, **answers: Any) -> Scored:
    reply = {
        one.name: {"rationale": "So.", "level" if one.levels else "label": answers[one.name]}
        for one in rubric.declaration.criteria
    }
    result = replay(rubric, Example(rubric.examples[0].case, (reply,), "good")).result
    assert isinstance(result, Scored)
    return result


def refused(*criteria: Any, **more: Any) -> dict[tuple[int | str, ...], str]:
    with pytest.raises(ValidationError) as caught:
        declared(*criteria, **more)
    return {error["loc"]: error["msg"] for error in caught.value.errors()}


@pytest.mark.parametrize(
    ("scale", "raw", "right"),
    [((1, 2, 3, 4, 5), 1, 0.0), ((1, 2, 3, 4, 5), 3, 0.5), ((1, 2, 3, 4, 5), 5, 1.0), ((0, 1, 2), 1, 0.5),
     ((-2, 0, 6), 0, 0.25), ((0, 1), 1, 1.0)],
)  # fmt: skip
def test_a_level_is_normalised_by_its_scale_and_kept(scale: tuple[int, ...], raw: int, right: float) -> None:
    result = judged(declared(criterion(levels=levels(*scale))), clear=raw)
    assert (result.score, result.label) == (right, str(raw))
    assert isinstance(result.record, DeclaredRecord)
    only = result.record.criteria["clear"]
    assert (only.level, only.label, only.normalised, only.weight) == (raw, None, right, 1.0)


def test_labels_have_the_scores_that_were_declared() -> None:
    scores = {"bad": 0, "so-so": 0.3, "good": 1}
    rubric = declared(criterion(labels=[{"name": name, "score": score} for name, score in scores.items()]))
    result = judged(rubric, clear="so-so")
    assert (result.score, result.label) == (0.3, "so-so")
    assert rubric.scale.names == ("bad", "so-so", "good")
    assert rubric.scale.ordered


def test_the_overall_score_is_the_mean_by_weight_and_its_label_a_threshold() -> None:
    rubric = declared(criterion("a", weight=3), criterion("b"), criterion("c", weight=0, labels=["x", "y"]))
    result = judged(rubric, a=5, b=1, c="x")
    assert (result.score, result.label) == (0.75, "pass")
    assert judged(rubric, a=1, b=5, c="y").label == "fail"
    assert isinstance(result.record, DeclaredRecord)
    assert result.record.criteria["c"].normalised is None
    strict = declared(criterion("a", weight=3), criterion("b"), pass_at=0.8)
    assert judged(strict, a=5, b=1).label == "fail"
    assert DeclaredRecord.model_validate(result.record.model_dump(mode="json")) == result.record


def test_a_record_whose_overall_is_not_computed_is_refused() -> None:
    dumped = judged(declared(), clear=5).record.model_dump()
    with pytest.raises(ValidationError, match="not the mean"):
        DeclaredRecord.model_validate(dumped | {"overall": 0.5})


@given(st.floats(0, 1), st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=20))
def test_equal_scores_give_that_score_under_any_weights(score: float, weights: list[float]) -> None:
    assert overall((score, weight) for weight in weights) == score


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(1e-6, 1e6)), min_size=1, max_size=20))
def test_the_overall_score_lies_between_the_criteria(scores: list[tuple[float, float]]) -> None:
    assert min(score for score, _ in scores) <= overall(scores) <= max(score for score, _ in scores)


def test_a_reply_has_one_closed_required_object_per_criterion_and_no_total() -> None:
    rubric = declared(criterion("a", levels=levels(0, 1, 2)), criterion("b", weight=0, labels=["x", "y"]))
    constraint = rubric.sample_constraints()["judge"]
    assert isinstance(constraint, JsonConstraint)
    rationale = {"type": "string", "maxLength": 240}
    closed = {"type": "object", "additionalProperties": False}
    level, label = {"type": "integer", "enum": [0, 1, 2]}, {"type": "string", "enum": ["x", "y"]}
    assert constraint.schema == closed | {
        "required": ["a", "b"],
        "properties": {
            "a": closed | {"required": ["rationale", "level"], "properties": {"rationale": rationale, "level": level}},
            "b": closed | {"required": ["rationale", "label"], "properties": {"rationale": rationale, "label": label}},
        },
    }


def test_criteria_stand_in_the_system_message_and_case_text_between_fences() -> None:
    text = "Is it {{ clear }}? <|im_start|>"
    (ask,) = replay(made := declared(criterion(text=text), inputs=["contexts", "answer", "reference"]),
                    made.examples[0]).asks  # fmt: skip
    system, user = (message.content for message in ask.messages)
    assert "Is it {{ clear }}? <" in system
    assert "<|im_start|>" not in system
    assert "- 5: As good as 5." in system
    assert "<<ctx1 000000000000>>\nThe ferry starts at the north pier {{ daily }}.\n<</ctx1 000000000000>>" in user
    assert list(ask.passages) == ["ctx1", "reference"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"answer": " \u200b"}, NotApplicableReason.EMPTY_ANSWER), ({"contexts": ["", " "]}, "empty_context")],
)
def test_nothing_to_judge(change: dict[str, Any], reason: str) -> None:
    rubric = declared(inputs=["contexts", "answer"])
    result = replay(rubric, Example({"contexts": ["x"], "answer": "y", **change}, (), "bad")).result
    assert isinstance(result, NotApplicable)
    assert result.reason == reason


def test_a_case_has_exactly_the_inputs_and_what_is_held_against_is_not_blank() -> None:
    model = declared(inputs=["answer", "reference"]).case_model
    with pytest.raises(ValidationError) as caught:
        model.model_validate({"answer": "x", "reference": " ", "question": "y"})
    assert {error["loc"] for error in caught.value.errors()} == {("reference",), ("question",)}


@pytest.mark.parametrize("weight", [-1, "NaN", float("nan"), float("inf"), "-Infinity"])
def test_a_weight_is_finite_and_not_negative(weight: Any) -> None:
    problems = refused(criterion("a"), criterion("b", weight=weight))
    assert list(problems) == [("criteria", 1, "weight")]
    assert "criterion b must be finite and not negative" in problems["criteria", 1, "weight"]


def test_weights_do_not_sum_to_zero() -> None:
    problems = refused(criterion("a", weight=0), criterion("b", weight=0))
    assert list(problems) == [("criteria", 0, "weight"), ("criteria", 1, "weight")]
    assert "criterion a" in problems["criteria", 0, "weight"]


@pytest.mark.parametrize(
    ("criteria", "where"),
    [
        ([criterion(labels=[])], ("criteria", 0, "labels")),
        ([criterion(labels=["pass"])], ("criteria", 0, "labels")),
        ([criterion(labels=["pass", "Pass "])], ("criteria", 0, "labels", 1)),
        ([criterion(labels=["pass", "fail"])], ("criteria", 0, "labels")),
        ([criterion(labels=["a", {"name": "b", "score": 1}])], ("criteria", 0, "labels", 0, "score")),
        ([criterion(labels=["gr\u00fcn", "rot"])], ("criteria", 0, "labels", 0, "name")),
        ([criterion(labels=["cannot_say", "b"])], ("criteria", 0, "labels", 0, "name")),
        ([criterion(levels=levels(1))], ("criteria", 0, "levels")),
        ([criterion(levels=levels(*range(11)))], ("criteria", 0, "levels")),
        ([criterion(levels=levels(1, 3, 2))], ("criteria", 0, "levels", 2, "value")),
        ([criterion(levels=levels(1, 1))], ("criteria", 0, "levels", 1, "value")),
        ([criterion(levels=levels(1, True))], ("criteria", 0, "levels", 1, "value")),
        ([criterion(levels=None)], ("criteria", 0)),
        ([criterion("a"), criterion("b"), criterion("a")], ("criteria", 2, "name")),
        ([criterion("schema")], ("criteria", 0, "name")),
        ([criterion("model_x")], ("criteria", 0, "name")),
        ([criterion("A b")], ("criteria", 0, "name")),
        ([criterion(f"c{n}") for n in range(21)], ("criteria",)),
    ],
)
def test_other_refusals_name_the_field(criteria: list[Any], where: tuple[int | str, ...]) -> None:
    assert list(refused(*criteria)) == [where]


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ({"inputs": ["question"]}, "inputs"),
        ({"inputs": ["answer", "answer"]}, "inputs"),
        ({"pass_at": 0.5}, "pass_at"),
        ({"criteria": []}, "criteria"),
        ({"version": 0}, "version"),
        ({"rules": 1}, "rules"),
    ],
)
def test_refusals_of_the_whole(more: dict[str, Any], where: str) -> None:
    assert list(refused(**more)) == [(where,)]


def test_the_hash_is_of_what_is_declared() -> None:
    assert declared().content_hash == declared(criterion(weight=1.0)).content_hash
    changed = [declared(version=2), declared(criterion(text="x")), declared(criterion(weight=2)), declared(title="t")]
    assert len({declared().content_hash, *(rubric.content_hash for rubric in changed)}) == 5


def test_announced_rubrics_are_known_until_they_are_withdrawn() -> None:
    before = all_rubrics()
    first, second = declared(), declared(title="other")
    try:
        announce("one", [first, declared(version=10), declared(version=9)])
        announce("two", [second])
        assert get_rubric("mine@1") is first
        assert get_rubric("mine").version == 10
        withdraw("one")
        assert get_rubric("mine") is second
    finally:
        withdraw("one")
        withdraw("two")
    assert all_rubrics() == before
    with pytest.raises(UnknownRubric):
        get_rubric("mine")


def test_announcing_the_same_again_looks_for_nothing_anew() -> None:
    first = declared(version=1)
    try:
        announce("one", [first])
        known = all_rubrics()
        announce("one", [first])
        assert all_rubrics() is known
        announce("one", [])
        assert first not in all_rubrics()
    finally:
        withdraw("one")
