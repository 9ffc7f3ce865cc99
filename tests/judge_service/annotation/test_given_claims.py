"""Claims that a case came with are what people are asked about."""

import json
from typing import Any

import pytest

from judge_service.annotation.adjudication import to_adjudicate
from judge_service.annotation.forms import form_of, read_answer
from judge_service.annotation.labelling import Labelling
from judge_service.domain.calibration_set import SetCase, claims_of
from judge_service.domain.case import Case
from judge_service.store import Store
from judge_service.web.label_view import view_of
from rubrics.registry import get_rubric
from tests.judge_service.annotation.projects import LEAD, a_person, a_project

FIELDS = {"question": "Q?", "contexts": ["Kettles boil. Water is wet."], "answer": "Kettles boil. So does water, too."}
CLAIMS = ["Kettles boil.", "Water boils."]


@pytest.mark.parametrize(
    ("kept", "claims"),
    [
        (None, ()),
        ("no list", ()),
        ('{"a": 1}', ()),
        ("[1]", ()),
        (7, ()),
        ('[" One ", "", "One", "Two"]', ("One", "Two")),
    ],
)
def test_only_a_list_of_texts_is_one_of_claims(kept: Any, claims: tuple[str, ...]) -> None:
    assert claims_of({} if kept is None else {"claims": kept}) == claims


def test_given_claims_stand_in_place_of_sentences_with_their_place_in_the_answer() -> None:
    rubric = get_rubric("faithfulness@1")
    form = form_of(rubric, FIELDS, claims=CLAIMS)
    assert [item.text for item in form.items] == CLAIMS
    first, second = form.items
    assert first.source is not None
    assert (first.source.start, first.source.end) == (0, 13)
    assert second.source is None
    assert len(form_of(rubric, FIELDS).items) == 2
    said = [("c1", CLAIMS[0], "supported"), ("c2", CLAIMS[1], "unsupported")]
    items = [{"id": name, "text": text, "answers": {"verdict": verdict}} for name, text, verdict in said]
    assert read_answer(rubric, FIELDS, {"answers": {}, "items": items}, claims=CLAIMS).label == "unsupported"
    pair = {"prompt": "P", "response_a": "So.", "response_b": "No."}
    assert form_of(get_rubric("pairwise@1"), pair, "AB", CLAIMS) == form_of(get_rubric("pairwise@1"), pair, "AB")


def test_people_and_the_final_word_see_the_claims_and_an_emptied_list_stays_empty(store: Store) -> None:
    store.sets.create("answers", "faithfulness@1")
    plain = Case(id="one", input=FIELDS)
    case = Case(id="one", input=FIELDS, metadata={"claims": json.dumps(CLAIMS)})
    assert case.content_hash == plain.content_hash
    store.sets.add_cases("answers@1", [SetCase(case=case)])
    person = a_person(store, "Ann")
    project = a_project(store, "answers@1", ("Ann",), labels_wanted=1)
    labelling = Labelling(store)
    shown = labelling.next(project.id, person)
    assert shown is not None
    assert [item.text for item in shown.form.items] == CLAIMS
    assert [row.text for row in view_of(shown).rows] == CLAIMS
    labelling.keep_draft(shown.case, person, {"answers": {}, "items": []}, shown.draft_version)
    emptied = labelling.show(shown.case, person)
    assert view_of(emptied).rows == ()
    items = [{"id": f"c{n}", "text": text, "answers": {"verdict": "supported"}} for n, text in enumerate(CLAIMS, 1)]
    labelling.save(shown.case, person, "Ann", {"answers": {}, "items": items}, emptied.version)
    assert [item.text for item in to_adjudicate(store, project.id, "one", LEAD).form.items] == CLAIMS
