"""An answer goes into a form's fields and comes back the same; lists of items change as the buttons say."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_service.annotation.forms import form_of
from judge_service.annotation.shapes import Answer, Evidence, Form, ItemAnswer
from judge_service.errors import InvalidInput
from judge_service.web.label_fields import added, answer_of, merged, removed
from rubrics.registry import get_rubric

CONTEXT = "Bread \U0001f35e is sold.\r\nMilk is not."
CLAIMS = form_of(
    get_rubric("faithfulness@1"),
    {"question": "What?", "contexts": [CONTEXT], "answer": "Bread is sold. Milk is sold. Eggs are."},
)
CITING = form_of(
    get_rubric("citation_support@1"),
    {"question": "What?", "contexts": ["Bread.", "Milk."], "answer": "Bread is sold [1][2]. Eggs are."},
)
VERDICTS = ("supported", "unsupported", "cannot_say")


def fields_of(answer: Answer) -> dict[str, list[str]]:
    """What a browser sends of an answer."""
    found: dict[str, list[str]] = {f"q.{name}": [value] for name, value in answer.answers.items()}
    found["item"] = [item.id for item in answer.items]
    for item in answer.items:
        found[f"text.{item.id}"] = [item.text.replace("\n", "\r\n")]
        found[f"from.{item.id}"] = [" ".join(item.from_ids)]
        for name, value in item.answers.items():
            found[f"a.{item.id}.{name}"] = [value]
        for name, passages in item.passages.items():
            for passage, value in passages.items():
                found[f"p.{item.id}.{name}.{passage}"] = [value]
        if item.evidence:
            found[f"e.{item.id}"] = [f"{one.text}:{one.start}:{one.end}" for one in item.evidence]
    return found


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    items = []
    for item in CLAIMS.items:
        start = draw(st.integers(0, len(CONTEXT) - 1))
        end = draw(st.integers(start + 1, len(CONTEXT)))
        verdict = draw(st.sampled_from((*VERDICTS, None)))
        quote = Evidence(text="ctx1", start=start, end=end, quote=CONTEXT[start:end])
        items.append(
            ItemAnswer(
                id=item.id,
                text=item.text,
                answers={} if verdict is None else {"verdict": verdict},
                evidence=draw(st.sampled_from(((), (quote,)))),
            )
        )
    unsupported = any(item.answers.get("verdict") == "unsupported" for item in items)
    mode = draw(st.sampled_from(("fabrication", None))) if unsupported else None
    return Answer(answers={} if mode is None else {"failure_mode": mode}, items=tuple(items))


@given(answers())
def test_an_answer_comes_back_as_it_was(answer: Answer) -> None:
    assert answer_of(CLAIMS, fields_of(answer)) == answer


def test_passages_are_answered_one_by_one() -> None:
    first, second = CITING.items
    fields = {
        "item": [first.id, second.id],
        f"a.{first.id}.support": ["partial"],
        f"p.{first.id}.helps.ctx1": ["yes"],
        f"p.{first.id}.helps.ctx2": ["no"],
        f"a.{second.id}.needed": ["yes"],
        f"p.{second.id}.helps.ctx1": ["yes"],
    }
    said = answer_of(CITING, fields)
    assert said.items[0].passages == {"helps": {"ctx1": "yes", "ctx2": "no"}}
    assert said.items[1].answers == {"needed": "yes"}
    assert said.items[1].passages == {}


def test_an_answer_to_a_question_that_is_not_asked_is_left_out() -> None:
    fields = {"item": ["c1"], "a.c1.verdict": ["supported"], "q.failure_mode": ["fabrication"]}
    assert answer_of(CLAIMS, fields).answers == {}


def test_an_edited_text_says_so_and_line_ends_are_no_edit() -> None:
    form = CLAIMS.model_copy(update={"items": (CLAIMS.items[0].model_copy(update={"text": "One\nclaim."}),)})
    same = answer_of(form, {"item": ["c1"], "text.c1": ["One\r\nclaim."]}).items[0]
    assert (same.origin, same.text) == ("proposed", "One\nclaim.")
    other = answer_of(form, {"item": ["c1"], "text.c1": ["Another claim. "]}).items[0]
    assert (other.origin, other.text) == ("edited", "Another claim.")


@pytest.mark.parametrize(
    "place", ["ctx1:0:0", "ctx1:3:2", "ctx1:0:999", "ctx2:0:1", "ctx1:-1:2", "ctx1", "", "ctx1:a:b"]
)
def test_evidence_that_is_no_place_of_a_text_is_refused(place: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        answer_of(CLAIMS, {"item": ["c1"], "e.c1": [place]})
    assert caught.value.fields[0].path == "evidence"


@pytest.mark.parametrize("item", ["", "a b", "x" * 65, "<b>"])
def test_items_with_odd_names_are_refused(item: str) -> None:
    with pytest.raises(InvalidInput):
        answer_of(CLAIMS, {"item": [item]})


def proposals(form: Form) -> Answer:
    return Answer(items=tuple(ItemAnswer(id=item.id, text=item.text) for item in form.items))


def test_items_are_added_merged_and_removed() -> None:
    answer = added(CLAIMS, proposals(CLAIMS), " Fish is sold. ")
    assert [(one.id, one.text, one.origin) for one in answer.items][-1] == ("n1", "Fish is sold.", "added")
    joined = merged(CLAIMS, answer, "c2")
    assert (joined.items[0].origin, joined.items[0].from_ids) == ("merged", ("c1", "c2"))
    assert joined.items[0].text == "Bread is sold. Milk is sold."
    again = merged(CLAIMS, joined, "c3")
    assert again.items[0].from_ids == ("c1", "c2", "c3")
    assert [one.id for one in removed(CLAIMS, again, "n1").items] == ["c1"]
    both = merged(CLAIMS, added(CLAIMS, Answer(items=answer.items[-1:]), "Figs."), "n2")
    assert (both.items[0].origin, both.items[0].from_ids) == ("added", ())


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda: added(CLAIMS, proposals(CLAIMS), " \n "), "new"),
        (lambda: added(CLAIMS, proposals(CLAIMS), "x" * 4001), "new"),
        (lambda: merged(CLAIMS, proposals(CLAIMS), "c1"), "text.c1"),
        (lambda: merged(CLAIMS, proposals(CLAIMS), "nowhere"), "text.nowhere"),
        (lambda: removed(CITING, proposals(CITING), "st1"), "item"),
    ],
)
def test_changes_that_make_no_list_are_refused(change: Any, path: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        change()
    assert caught.value.fields[0].path == path
