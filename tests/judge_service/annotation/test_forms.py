from typing import Any

import pytest

from judge_service.annotation.forms import form_of, read_answer
from judge_service.errors import InvalidInput
from rubrics.declared.declaration import Declaration
from rubrics.declared.rubric import declared_rubric
from rubrics.records import Order
from rubrics.registry import get_rubric

PAIR = get_rubric("pairwise@1")
FAITHFUL = get_rubric("faithfulness@1")
CITED = get_rubric("citation_support@1")
REFUSAL = get_rubric("refusal@1")
PAIR_CASE = {"prompt": "Which colour?", "response_a": "Teal.", "response_b": "Ochre."}
CLAIMS_CASE = {
    "question": "How many days?",
    "contexts": [{"text": "Five days may be carried over.", "id": "system-x/7", "title": "Leave"}],
    "answer": "Staff carry over five days. The rest is paid out.",
}
CITED_CASE = {
    "contexts": ["Ferries run daily.", "No ferry runs in June."],
    "answer": "Ferries run [1][2]. They are blue [1]. Welcome.",
}


def problems(rubric: Any, case: dict[str, Any], answer: dict[str, Any], order: Order | None = None) -> dict[str, str]:
    with pytest.raises(InvalidInput) as caught:
        read_answer(rubric, case, answer, order)
    return {problem.path: problem.message for problem in caught.value.fields}


def claim(number: int, verdict: str, **more: Any) -> dict[str, Any]:
    texts = {1: "Staff carry over five days.", 2: "The rest is paid out."}
    return {"id": f"c{number}", "text": texts[number], "answers": {"verdict": verdict}} | more


@pytest.mark.parametrize(
    ("order", "said", "label"),
    [
        ("AB", "first", "A"),
        ("AB", "second", "B"),
        ("BA", "first", "B"),
        ("BA", "second", "A"),
        ("AB", "tie", "tie"),
        ("BA", "tie", "tie"),
        ("BA", "cannot_say", None),
    ],
)
def test_a_pair_is_restored_to_the_callers_frame(order: Order, said: str, label: str | None) -> None:
    form = form_of(PAIR, PAIR_CASE, order)
    shown = {text.id: text.text for text in form.texts}
    assert shown["first"] == ("Teal." if order == "AB" else "Ochre.")
    assert form.one_question
    assert [choice.text for choice in form.questions[0].choices] == [
        "Answer 1",
        "Answer 2",
        "About the same",
        "Cannot tell",
    ]
    assert [choice.key for choice in form.questions[0].choices] == ["1", "2", "3", "4"]
    read = read_answer(PAIR, PAIR_CASE, {"answers": {"label": said}}, order)
    assert read.label == label
    assert read.detail == {"label": label or "cannot_say"}
    assert read.items is None


def test_what_is_shown_names_no_system() -> None:
    shown = form_of(FAITHFUL, CLAIMS_CASE).model_dump_json()
    assert "system-x" not in shown
    assert "Context 1: Leave" in shown


@pytest.mark.parametrize(
    ("answer", "path"),
    [
        ({}, "answers.label"),
        ({"answers": {"label": "A"}}, "answers.label"),
        ({"answers": {"label": "first", "more": "x"}}, "answers.more"),
        ({"answers": {"label": "first"}, "items": [{"id": "x", "text": "y"}]}, "items"),
        ({"answers": {"label": 1}}, "answers.label"),
        ({"verdict": "A"}, "verdict"),
    ],
)
def test_a_field_that_does_not_fit_is_named(answer: dict[str, Any], path: str) -> None:
    assert path in problems(PAIR, PAIR_CASE, answer, "AB")


def test_claims_are_proposed_from_sentences_and_folded() -> None:
    form = form_of(FAITHFUL, CLAIMS_CASE)
    assert [item.text for item in form.items] == ["Staff carry over five days.", "The rest is paid out."]
    assert form.items_editable
    assert not form.one_question
    read = read_answer(
        FAITHFUL,
        CLAIMS_CASE,
        {
            "answers": {"failure_mode": "fabrication"},
            "items": [
                claim(1, "supported", evidence=[{"text": "ctx1", "start": 0, "end": 9, "quote": "Five days"}]),
                claim(2, "unsupported"),
            ],
        },
    )
    assert read.label == "unsupported"
    assert read.detail == {
        "label": "unsupported",
        "failure_mode": "fabrication",
        "unsupported_spans": [{"start": 28, "end": 49}],
    }
    assert read.items is not None
    assert read.items["items"][0]["evidence"][0]["quote"] == "Five days"


@pytest.mark.parametrize(
    ("verdicts", "label"),
    [
        (["supported", "supported"], "supported"),
        (["supported", "cannot_say"], None),
        (["unsupported", "cannot_say"], "unsupported"),
    ],
)
def test_one_unsupported_claim_decides(verdicts: list[str], label: str | None) -> None:
    items = [claim(place, verdict) for place, verdict in enumerate(verdicts, start=1)]
    assert read_answer(FAITHFUL, CLAIMS_CASE, {"items": items}).label == label


def test_claims_are_added_edited_merged_and_removed() -> None:
    merged = {
        "id": "m1",
        "text": "Five days carry over and the rest is paid.",
        "origin": "merged",
        "from_ids": ["c1", "c2"],
        "answers": {"verdict": "unsupported"},
    }
    added = {"id": "a1", "text": "Staff exist.", "origin": "added", "answers": {"verdict": "supported"}}
    read = read_answer(FAITHFUL, CLAIMS_CASE, {"items": [merged, added]})
    assert read.label == "unsupported"
    assert len(read.detail["unsupported_spans"]) == 2
    changed = claim(1, "supported") | {"text": "Staff carry six days."}
    assert "items[0].text" in problems(FAITHFUL, CLAIMS_CASE, {"items": [changed]})
    blank = claim(1, "supported") | {"text": "...", "origin": "edited"}
    assert "items[0].text" in problems(FAITHFUL, CLAIMS_CASE, {"items": [blank]})
    wrong = claim(1, "supported", evidence=[{"text": "ctx1", "start": 0, "end": 9, "quote": "Six days."}])
    assert "items[0].evidence[0].quote" in problems(FAITHFUL, CLAIMS_CASE, {"items": [wrong]})
    twice = {"items": [claim(1, "supported"), claim(1, "supported")]}
    assert "items[1].id" in problems(FAITHFUL, CLAIMS_CASE, twice)


def test_a_gap_is_named_by_its_claim() -> None:
    found = problems(FAITHFUL, CLAIMS_CASE, {"items": [claim(1, "supported"), claim(2, "supported") | {"answers": {}}]})
    assert found == {"items[1].answers.verdict": "Claim 2 has no answer."}


def test_a_failure_is_asked_only_where_something_failed() -> None:
    answer = {"answers": {"failure_mode": "fabrication"}, "items": [claim(1, "supported")]}
    assert "answers.failure_mode" in problems(FAITHFUL, CLAIMS_CASE, answer)


def test_statements_stand_beside_exactly_what_they_cite() -> None:
    form = form_of(CITED, CITED_CASE)
    assert [(item.passages, item.asks) for item in form.items] == [
        (("ctx1", "ctx2"), ("support", "helps", "needed")),
        (("ctx1",), ("support", "needed")),
        ((), ("needed",)),
    ]
    items = [
        {"id": item.id, "text": item.text, "answers": dict(answers)}
        for item, answers in zip(
            form.items, ({"support": "full"}, {"support": "none", "needed": "yes"}, {"needed": "no"}), strict=True
        )
    ]
    read = read_answer(CITED, CITED_CASE, {"items": items})
    assert read.detail == {"label": "partial", "needs_citation": True}
    items[0]["passages"] = {"helps": {"ctx1": "yes", "ctx2": "no"}}
    assert read_answer(CITED, CITED_CASE, {"items": items}).label == "partial"
    items[1]["answers"] = {"support": "full"}
    assert read_answer(CITED, CITED_CASE, {"items": items}).label == "full"
    items[2]["answers"] = {"needed": "yes"}
    assert read_answer(CITED, CITED_CASE, {"items": items}).label == "partial"
    assert "items" in problems(CITED, CITED_CASE, {"items": items[:2]})
    items[1]["passages"] = {"helps": {"ctx2": "yes"}}
    assert "items[1].passages.helps" in problems(CITED, CITED_CASE, {"items": items})


def test_a_refusal_asks_for_the_duty_only_when_the_case_does_not_say() -> None:
    case = {"question": "How?", "answer": "I cannot say."}
    form = form_of(REFUSAL, case)
    assert [question.id for question in form.questions] == ["label", "should_refuse"]
    read = read_answer(REFUSAL, case, {"answers": {"label": "refusal", "should_refuse": "yes"}})
    assert read.detail == {"label": "refusal", "answerable": False}
    said = form_of(REFUSAL, case | {"answerable": True})
    assert said.one_question
    assert read_answer(REFUSAL, case | {"answerable": True}, {"answers": {"label": "partial"}}).detail == {
        "label": "partial",
        "answerable": None,
    }


def declared(criteria: list[dict[str, Any]]) -> Any:
    return declared_rubric(Declaration.model_validate({"name": "tone", "version": 1, "criteria": criteria}))


LEVELS = [
    {"value": 1, "description": "rude"},
    {"value": 2, "description": "plain"},
    {"value": 3, "description": "kind"},
]


def test_a_rubric_of_ones_own_needs_no_code() -> None:
    rubric = declared([{"name": "tone", "text": "How kind is it?", "levels": LEVELS}])
    case = {"question": "q", "answer": "a"}
    form = form_of(rubric, case)
    assert form.one_question
    assert [(choice.value, choice.description) for choice in form.questions[0].choices[:3]] == [
        ("1", "rude"),
        ("2", "plain"),
        ("3", "kind"),
    ]
    assert read_answer(rubric, case, {"answers": {"label": "3"}}).label == "3"


def test_several_criteria_fold_as_a_judges_do() -> None:
    rubric = declared(
        [
            {"name": "tone", "text": "How kind is it?", "levels": LEVELS, "weight": 3},
            {
                "name": "short",
                "text": "Is it short?",
                "labels": [{"name": "yes", "score": 1}, {"name": "no", "score": 0}],
            },
        ]
    )
    case = {"question": "q", "answer": "a"}
    read = read_answer(rubric, case, {"answers": {"tone": "3", "short": "no"}})
    assert read.label == "pass"
    assert read.items == {"answers": {"tone": "3", "short": "no"}, "items": []}
    assert read_answer(rubric, case, {"answers": {"tone": "1", "short": "yes"}}).label == "fail"
    assert read_answer(rubric, case, {"answers": {"tone": "cannot_say", "short": "yes"}}).label is None
    assert problems(rubric, case, {"answers": {"tone": "4"}}).keys() == {"answers.tone", "answers.short"}


def test_a_case_that_does_not_fit_its_rubric_is_said_so() -> None:
    with pytest.raises(InvalidInput) as caught:
        form_of(PAIR, {"prompt": "p"}, "AB")
    assert {problem.path for problem in caught.value.fields} == {"case.response_a", "case.response_b"}


@pytest.mark.parametrize(
    ("levels", "keys"),
    [
        ((1, 2, 3), ["1", "2", "3", "4"]),
        ((0, 1, 2), ["0", "1", "2", "3"]),
        ((5, 7, 9), ["5", "7", "9", "1"]),
        (tuple(range(10)), [*"0123456789", None]),
        ((0, 50, 100), ["1", "2", "3", "4"]),
    ],
    ids=str,
)
def test_a_level_is_chosen_by_its_own_digit(levels: tuple[int, ...], keys: list[str | None]) -> None:
    criteria = [
        {"name": "help", "text": "How helpful?", "levels": [{"value": one, "description": "."} for one in levels]}
    ]
    form = form_of(declared(criteria), {"question": "?", "answer": "Teal."})
    assert [choice.key for choice in form.questions[0].choices] == keys
