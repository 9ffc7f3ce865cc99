"""The queue of disagreements and the page of the final word: what is hidden before it is saved, and what is kept."""

import re
from typing import Any

import pytest

from judge_service.annotation.adjudication import adjudicate, to_adjudicate, waiting
from judge_service.annotation.labelling import Labelling
from judge_service.domain.annotation import Project, case_token
from judge_service.domain.calibration_set import SetCase
from judge_service.domain.case import Case
from judge_service.domain.principal import Principal, Role
from judge_service.reports.labelled_set import final_label
from judge_service.store import Store
from tests.judge_service.annotation.projects import LEAD, a_person, a_project, a_set
from tests.judge_service.web.conftest import words

NAMES = ("Ann Quill", "Bob Quill", "Cy Quill")


def pairs(store: Store, answers: dict[str, str], n: int = 2) -> Project:
    """Cases on which each person said one thing: A, B or tie."""
    a_set(store, n)
    people = {name: a_person(store, name) for name in answers}
    project = a_project(store, "pairs@1", tuple(answers), labels_wanted=len(answers), name="Kettles")
    labelling = Labelling(store)
    for name, said in answers.items():
        while (shown := labelling.next(project.id, people[name])) is not None:
            first = {text.id: text.text for text in shown.form.texts}["first"]
            value = said if said == "tie" else "first" if (said == "A") == first.startswith("Teal") else "second"
            labelling.save(
                shown.case, people[name], name, {"answers": {"label": value}}, shown.version, note=f"a note of {said}"
            )
    return project


def of_rubric(store: Store, rubric: str, fields: dict[str, Any], answers: dict[str, Any]) -> Project:
    """One case under a rubric with what each person answered."""
    version = store.sets.create("texts", rubric)
    store.sets.add_cases(version.id, [SetCase(case=Case(id="one", input=fields))])
    people = {name: a_person(store, name) for name in answers}
    project = a_project(store, "texts@1", tuple(answers), labels_wanted=len(answers))
    labelling = Labelling(store)
    for name, answer in answers.items():
        shown = labelling.next(project.id, people[name])
        assert shown is not None
        labelling.save(shown.case, people[name], name, answer, shown.version)
    return project


def path_of(project: Project, case_id: str) -> str:
    return f"/projects/{project.id}/disagreements/{case_token(project.id, case_id)}"


async def test_the_number_that_waits_comes_first(signed_in, service) -> None:
    project = pairs(service.store, {NAMES[0]: "A", NAMES[1]: "A", NAMES[2]: "B"})
    page = await signed_in().get(f"/projects/{project.id}/disagreements")
    assert re.search(r"<h1[^>]*>2 disagreements wait for a final word</h1>", page.text)
    assert "2 : 1 3 labels under a minute" in words(page)
    # A case's own id may name a system, and names would tell who said what.
    assert "model-x" not in page.text
    assert "Quill" not in page.text
    assert (await signed_in("Ann Quill", Role.ANNOTATE).get(f"/projects/{project.id}/disagreements")).status_code == 403


async def test_before_the_word_is_saved_names_ids_and_judges_are_absent(signed_in, service) -> None:
    project = pairs(service.store, {NAMES[0]: "A", NAMES[1]: "B"})
    page = await signed_in().get(path_of(project, "model-x/0"))
    assert page.status_code == 200
    for hidden in ("Quill", "model-x", *(member.person for member in service.store.projects.members(project.id))):
        assert hidden not in page.text
        assert hidden not in str(page.headers)
    assert "Person 1" in page.text
    assert "Person 2" in page.text
    assert "a note of A" in page.text
    assert "checked" not in page.text
    assert 'aria-describedby="reason-hint"' in page.text


async def test_people_are_shuffled_and_stay_so_on_reload(signed_in, service) -> None:
    project = pairs(service.store, {NAMES[0]: "A", NAMES[1]: "B"}, n=12)
    lead = signed_in()
    firsts = []
    for number in range(12):
        path = path_of(project, f"model-x/{number}")
        one, two = [re.findall(r"a note of (\w)", (await lead.get(path)).text) for _ in range(2)]
        assert one == two
        firsts.append(one[0])
    assert set(firsts) == {"A", "B"}


async def test_the_final_word_is_kept_with_its_reason_and_the_next_case_follows(signed_in, service) -> None:
    store = service.store
    project = pairs(store, {NAMES[0]: "A", NAMES[1]: "B"})
    lead = signed_in()
    first = await lead.get(f"/projects/{project.id}/disagreements/next")
    path = first.headers["location"]
    case_id = waiting(store, project.id)[0].case_id
    assert path == path_of(project, case_id)
    done = await lead.post(path, {"q.label": "first", "reason": " Only one of them\r\nanswers. "})
    assert done.status_code == 303
    (word,) = store.projects.adjudications(project.id)
    assert (word.case_id, word.name, word.reason) == (case_id, "Lea Example", "Only one of them\nanswers.")
    assert {one["annotator"] for one in word.seen} == set(NAMES[:2])
    # What was shown first is what was chosen, in the caller's frame.
    principal = Principal(user_id=lead.user.id, name="Lea Example", role=Role.LEAD)
    shown = to_adjudicate(store, project.id, case_id, principal)
    teal = {text.id: text.text for text in shown.form.texts}["first"].startswith("Teal")
    assert word.label == ("A" if teal else "B")
    mine = [one for one in store.labels.of("pairs@1", "pairwise@1") if one.case_id == case_id]
    assert len(mine) == 3
    assert final_label(mine).label == word.label
    other = waiting(store, project.id)[0].case_id
    assert done.headers["location"] == f"{path_of(project, other)}?saved={word.id}"
    after = words(await lead.get(done.headers["location"]))
    assert f"Saved: Answer {word.label}. Case {case_id} . 1 waits" in after
    assert f"{NAMES[0]}: Answer A. a note of A" in after
    last = await lead.post(path_of(project, other), {"q.label": "tie", "reason": "Both say so."})
    assert last.headers["location"].startswith(f"/projects/{project.id}/disagreements?saved=")
    page = words(await lead.get(last.headers["location"]))
    assert "0 disagreements wait for a final word" in page
    assert "Tie Both say so. Lea Example" in page
    nothing = await lead.get(f"/projects/{project.id}/disagreements/next")
    assert nothing.headers["location"] == f"/projects/{project.id}/disagreements"


async def test_a_decided_case_may_be_decided_again(signed_in, service) -> None:
    project = pairs(service.store, {NAMES[0]: "A", NAMES[1]: "B"}, n=1)
    lead, path = signed_in(), path_of(project, "model-x/0")
    await lead.post(path, {"q.label": "tie", "reason": "First thought."})
    assert "decided this case on" in words(await lead.get(path))
    await lead.post(path, {"q.label": "cannot_say", "reason": "Second thought."})
    assert [one.label for one in service.store.projects.adjudications(project.id)] == ["tie", None]


@pytest.mark.parametrize(
    ("fields", "anchors"),
    [
        ({}, ["q.label", "reason"]),
        ({"q.label": "first", "reason": "  "}, ["reason"]),
        ({"reason": "Because."}, ["q.label"]),
        ({"q.label": "third", "reason": "Because."}, ["reason"]),
        ({"q.label": "first", "reason": "x" * 4001}, ["reason"]),
    ],
)
async def test_what_is_missing_is_said_and_nothing_is_lost(signed_in, service, fields, anchors) -> None:
    project = pairs(service.store, {NAMES[0]: "A", NAMES[1]: "B"}, n=1)
    page = await signed_in().post(path_of(project, "model-x/0"), fields)
    assert page.status_code == 422
    assert "<title>Error: " in page.text
    assert re.findall(r'<li><a href="#([\w.-]+)">', page.text) == anchors
    assert f"\n{fields.get('reason', '')}</textarea>" in page.text
    assert ("checked" in page.text) == (fields.get("q.label") == "first")
    assert service.store.projects.adjudications(project.id) == []
    assert all(f'id="{anchor}"' in page.text for anchor in anchors)
    assert "Quill" not in page.text


async def test_a_frozen_set_takes_no_more_and_the_entries_stay(signed_in, service) -> None:
    project = pairs(service.store, {NAMES[0]: "A", NAMES[1]: "B"}, n=1)
    service.store.sets.freeze("pairs@1", service.store.sets.digest("pairs@1"))
    page = await signed_in().post(path_of(project, "model-x/0"), {"q.label": "first", "reason": "Kept words."})
    assert page.status_code == 409
    assert "frozen" in words(page)
    assert "Kept words.</textarea>" in page.text


ANSWER = "Tea is a leaf. It grows on the moon. It is drunk hot."
FAITH = {"question": "What is tea?", "contexts": [{"id": "model-x", "text": "Tea is a leaf."}], "answer": ANSWER}


def claims(*verdicts: str, failure: str | None = None) -> dict[str, Any]:
    texts = ("Tea is a leaf.", "It grows on the moon.", "It is drunk hot.")
    items = [
        {"id": f"c{place}", "text": text, "answers": {"verdict": verdict}}
        for place, (text, verdict) in enumerate(zip(texts, verdicts, strict=True), start=1)
    ]
    return {"answers": {} if failure is None else {"failure_mode": failure}, "items": items}


def edited() -> dict[str, Any]:
    said = claims("supported", "supported", "supported")
    said["items"][2] |= {"text": "Tea is drunk hot or cold.", "origin": "edited", "answers": {"verdict": "supported"}}
    return said


async def test_claims_are_decided_one_by_one(signed_in, service) -> None:
    store = service.store
    first = claims("supported", "unsupported", "supported", failure="fabrication")
    first["items"][0]["evidence"] = [{"text": "ctx1", "start": 0, "end": 3, "quote": "Tea"}]
    project = of_rubric(store, "faithfulness@1", FAITH, {NAMES[0]: first, NAMES[1]: edited()})
    lead, path = signed_in(), path_of(project, "one")
    page = await lead.get(path)
    seen = words(page)
    assert "It grows on the moon. Not supported" in seen
    assert "Context 1: “Tea”" in seen
    assert "Tea is drunk hot or cold. (edited) Supported" in seen
    assert "Claim as somebody edited it, in place of c3" in seen
    assert "model-x" not in page.text
    (own,) = re.findall(r'name="(a\.w[0-9a-f]{12}\.verdict)" value="supported"', page.text)
    said = {"a.c1.verdict": "supported", "a.c2.verdict": "unsupported", "q.failure_mode": "wrong_entity"}
    gaps = await lead.post(path, said | {"reason": "Read it."})
    assert gaps.status_code == 422
    assert re.findall(r'<li><a href="#([\w.-]+)">([^<]+)', gaps.text) == [("a.c3.verdict", "Claim 3 has no answer.")]
    assert gaps.text.count(" checked") == 3
    done = await lead.post(path, said | {own: "supported", "reason": "Read it."})
    assert done.status_code == 303, words(done)
    (word,) = store.projects.adjudications(project.id)
    assert (word.label, word.answer["answers"]) == ("unsupported", {"failure_mode": "wrong_entity"})
    made = [(one["origin"], list(one["from_ids"])) for one in word.answer["items"]]
    assert made == [("proposed", []), ("proposed", []), ("edited", ["c3"])]


async def test_a_question_that_does_not_apply_does_not_count(signed_in, service) -> None:
    first = claims("supported", "unsupported", "supported", failure="fabrication")
    second = claims("supported", "supported", "supported")
    project = of_rubric(service.store, "faithfulness@1", FAITH, {NAMES[0]: first, NAMES[1]: second})
    said = {f"a.c{place}.verdict": "supported" for place in (1, 2, 3)} | {"q.failure_mode": "fabrication"}
    done = await signed_in().post(path_of(project, "one"), said | {"reason": "All stands there."})
    assert done.status_code == 303
    (word,) = service.store.projects.adjudications(project.id)
    assert (word.label, word.answer["answers"]) == ("supported", {})


async def test_statements_are_decided_with_their_passages(signed_in, service) -> None:
    fields = {"answer": "Tea is a leaf [1][2]. It is hot.", "contexts": [{"text": "Tea is a leaf."}, {"text": "Hot."}]}
    fields = {"question": "What is tea?"} | fields

    def said(support: str) -> dict[str, Any]:
        return {
            "answers": {},
            "items": [
                {
                    "id": "st1",
                    "text": "Tea is a leaf.",
                    "answers": {"support": support},
                    "passages": {"helps": {"ctx1": "yes"}},
                },
                {"id": "st2", "text": "It is hot.", "answers": {"needed": "no"}},
            ],
        }

    project = of_rubric(service.store, "citation_support@1", fields, {NAMES[0]: said("full"), NAMES[1]: said("none")})
    lead, path = signed_in(), path_of(project, "one")
    gaps = await lead.post(path, {"a.st1.support": "full", "reason": "Read."})
    assert re.findall(r'<li><a href="#([\w.-]+)">([^<]+)', gaps.text) == [
        ("a.st2.needed", "Statement 2 has no answer.")
    ]
    done = await lead.post(
        path,
        {"a.st1.support": "full", "p.st1.helps.ctx2": "no", "a.st2.needed": "no", "reason": "Read."},
    )
    assert done.status_code == 303, words(done)
    (word,) = service.store.projects.adjudications(project.id)
    assert word.label == "full"
    assert word.answer["items"][0]["passages"] == {"helps": {"ctx2": "no"}}


async def test_hostile_text_stays_text(signed_in, service) -> None:
    fields = {"prompt": "<script>alert(1)</script>\u202eabc", "response_a": "x" * 20_000, "response_b": "{{ 7 * 7 }}"}
    answers = {name: {"answers": {"label": value}} for name, value in zip(NAMES, ("first", "tie"), strict=False)}
    project = of_rubric(service.store, "pairwise@1", fields, answers)
    lead = signed_in()
    for path in (path_of(project, "one"), f"/projects/{project.id}/disagreements"):
        page = await lead.get(path)
        assert "<script>alert" not in page.text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;[U+202E]abc" in page.text
        assert "\u202e" not in page.text
    assert "{{ 7 * 7 }}" in (await lead.get(path_of(project, "one"))).text


async def test_an_unknown_case_is_not_found(signed_in, service) -> None:
    project = pairs(service.store, {NAMES[0]: "A", NAMES[1]: "B"}, n=1)
    lead = signed_in()
    assert (await lead.get(f"/projects/{project.id}/disagreements/{'0' * 20}")).status_code == 404
    assert (await lead.get(f"/projects/{project.id}/disagreements?page=7")).status_code == 200
    adjudicate(service.store, project.id, "model-x/0", LEAD, {"answers": {"label": "tie"}}, "Said over the API.")
    assert "Said over the API." in words(await lead.get(f"/projects/{project.id}/disagreements"))
