"""The pages on which leads open projects and see how far the labels can be trusted."""

import html
import re

import pytest

from judge_service.annotation.labelling import Labelling
from judge_service.domain.annotation import State
from judge_service.domain.calibration_set import LabelCondition, Split
from judge_service.domain.principal import Role
from tests.judge_service.annotation.projects import a_person, a_project, a_set, label_all, say
from tests.judge_service.web.conftest import words

ENTRIES = {
    "id": "r4t8w2q6y1u9",
    "name": "Helpdesk pairs",
    "set": "pairs@1",
    "annotators": ["Ann"],
    "labels_wanted": "3",
    "overlap": "40",
    "condition": "blind",
    "guidelines": "Judge *help*.",
    "splits": [split.value for split in Split],
    "selection": "all",
    "lease_minutes": "30",
    "due_at": "2027-05-31",
}


async def test_pages_of_projects_are_for_leads(signed_in, service) -> None:
    a_set(service.store, 2)
    project = a_project(service.store, "pairs@1", ())
    annotator = signed_in("Ann", Role.ANNOTATE)
    for path in ("/projects", "/projects/new", f"/projects/{project.id}"):
        assert (await annotator.get(path)).status_code == 403
        assert (await signed_in().get(path)).status_code == 200
    assert "/projects" not in (await annotator.get("/")).text
    assert (await annotator.post(f"/projects/{project.id}/close")).status_code == 403
    assert service.store.projects.get(project.id).open


async def test_a_lead_opens_a_project(signed_in, service) -> None:
    a_set(service.store, 10)
    a_person(service.store, "Ann")
    lead = signed_in()
    known = '{"input": {"prompt": "P", "response_a": "1", "response_b": "2"}, "label": "A"}\n\n'
    done = await lead.post("/projects/new", ENTRIES | {"qualification": known})
    assert done.status_code == 303, words(done)
    again = await lead.post("/projects/new", ENTRIES)
    assert again.headers["location"] == done.headers["location"]
    (project,) = service.store.projects.all()
    assert done.headers["location"] == f"/projects/{project.id}"
    assert (project.name, project.set_id, project.rubric) == ("Helpdesk pairs", "pairs@1", "pairwise@1")
    assert (project.labels_wanted, project.overlap, project.lease_minutes) == (3, 0.4, 30)
    assert (project.condition, project.splits, project.created_by) == (LabelCondition.BLIND, (), "Lea Example")
    assert project.due_at is not None
    assert project.due_at.isoformat() == "2027-05-31T23:59:00+00:00"
    cases = service.store.projects.cases(project.id)
    assert sorted(case.wanted for case in cases if not case.qualification) == [1] * 6 + [3] * 4
    assert [case.answer for case in cases if case.qualification] == [{"label": "A"}]
    page = words(await lead.get(done.headers["location"]))
    assert "0 of 10 cases have enough labels." in page
    assert "Not computed: 0 of 30 pairs of labels." in page
    assert "3 per case in 40% of the cases" in page
    assert "Due 2027-05-31 23:59 UTC" in page


async def test_a_selection_of_cases_is_drawn(signed_in, service) -> None:
    a_set(service.store, 10)
    done = await signed_in().post(
        "/projects/new", ENTRIES | {"annotators": [], "selection": "random", "selected": "4", "splits": ["development"]}
    )
    assert done.status_code == 303, words(done)
    (project,) = service.store.projects.all()
    assert [case.probability for case in service.store.projects.cases(project.id)] == [0.4] * 4
    assert project.splits == (Split.DEVELOPMENT,)


@pytest.mark.parametrize(
    ("changed", "field", "said"),
    [
        ({"name": " "}, "name", "Give the project a name."),
        ({"set": ""}, "set", "Choose a set."),
        ({"set": "pairs@9"}, "set", "pairs@9"),
        ({"rubric": "refusal@1"}, "rubric", "the set pairs@1 is labelled under pairwise@1"),
        ({"annotators": ["Nobody"]}, "annotators", "there is nobody named 'Nobody'"),
        ({"annotators": ["Sam"]}, "annotators", "the role `score` may not label"),
        ({"labels_wanted": "0"}, "labels_wanted", "Labels per case must be a whole number from 1 to 20."),
        ({"labels_wanted": "1e9"}, "labels_wanted", "Labels per case must be a whole number from 1 to 20."),
        ({"overlap": "101"}, "overlap", "The share of cases must be a whole number from 0 to 100."),
        ({"condition": "both"}, "condition", "Choose blind or assisted."),
        ({"splits": []}, "splits", "Choose at least one split."),
        ({"splits": ["release"]}, "set", "pairs@1 has no case in these splits"),
        ({"splits": ["north"]}, "splits", "splits[0]"),
        ({"selection": "random", "selected": "11"}, "selection", "there are 10 cases"),
        ({"selection": "random", "selected": ""}, "selected", "The number of cases must be a whole number"),
        ({"selection": "best", "selected": "3"}, "selection", "selection.by"),
        ({"qualification": "{}\n["}, "qualification", "Line 2 of the known answers is not a JSON object."),
        ({"qualification": '{"input": {}, "label": "A"}'}, "qualification", "prompt"),
        ({"due_at": "tomorrow"}, "due_at", "The due date must be a date such as 2026-05-31."),
    ],
)
async def test_what_is_wrong_stands_at_its_field_and_the_entries_stay(signed_in, service, changed, field, said) -> None:
    a_set(service.store, 10)
    a_person(service.store, "Ann")
    a_person(service.store, "Sam", Role.SCORE)
    page = await signed_in().post("/projects/new", ENTRIES | {"guidelines": "Kept <b>text</b>\r\nas it is"} | changed)
    assert page.status_code in (409, 422)
    assert service.store.projects.all() == []
    assert "<title>Error: Open a project" in page.text
    assert "The project was not opened yet. Your entries are kept." in page.text
    listed = re.findall(r'<li><a href="#(\w+)">([^<]*)</a>', page.text)
    assert [name for name, text in listed if said in html.unescape(text)] == [field]
    assert re.search(rf'id="{field}"', page.text)
    assert "Kept &lt;b&gt;text&lt;/b&gt;\nas it is</textarea>" in page.text


async def test_guidelines_are_shown_before_they_are_kept(signed_in, service) -> None:
    a_set(service.store, 2)
    lead = signed_in()
    text = "# One\n\n## Two\n\n<script>x</script> [go](javascript:x) \u202eturned"
    page = await lead.post("/projects/new", ENTRIES | {"guidelines": text, "do": "preview"})
    assert page.status_code == 200
    assert service.store.projects.all() == []
    assert "<h3>One</h3>\n<h4>Two</h4>" in page.text
    assert "&lt;script&gt;x&lt;/script&gt;" in page.text
    assert "<script>x" not in page.text
    assert 'href="javascript' not in page.text
    assert "[U+202E]turned</p>" in page.text
    # The field itself keeps the exact text.
    assert "\u202eturned</textarea>" in page.text


async def test_guidelines_get_versions_with_what_changed(signed_in, service) -> None:
    a_set(service.store, 2)
    project = a_project(service.store, "pairs@1", (), guidelines="First text.")
    lead, path = signed_in(), f"/projects/{project.id}/guidelines"
    shown = await lead.post(path, {"text": "Second text.", "note": "", "do": "preview"})
    assert "Preview, not saved" in words(shown)
    refused = await lead.post(path, {"text": "Second text.", "note": " ", "do": "save"})
    assert refused.status_code == 422
    assert "Say what changed" in words(refused)
    assert "Second text.</textarea>" in refused.text
    assert len(service.store.projects.guidelines(project.id)) == 1
    long = await lead.post(path, {"text": "x" * 200_001, "note": "n" * 2001, "do": "save"})
    assert "The guidelines must have at most 200,000 characters." in words(long)
    assert "What changed must have at most 2,000 characters." in words(long)
    done = await lead.post(path, {"text": "Second text.", "note": "It is the second.", "do": "save"})
    assert done.status_code == 303
    page = words(await lead.get(f"/projects/{project.id}"))
    assert "Guidelines, version 2 It is the second. Lea Example" in page
    assert "Version 1" in page
    assert [one.text for one in service.store.projects.guidelines(project.id)] == ["Second text.", "First text."]


async def test_people_are_added_removed_and_invited(signed_in, service) -> None:
    a_set(service.store, 3)
    ann = a_person(service.store, "Ann")
    project = a_project(service.store, "pairs@1", ())
    lead, path = signed_in(), f"/projects/{project.id}"
    nobody = await lead.post(f"{path}/annotators", {})
    assert (nobody.status_code, "Choose at least one person." in words(nobody)) == (422, True)
    assert (await lead.post(f"{path}/annotators", {"annotators": ["Ann"]})).status_code == 303
    assert [one.name for one in service.store.projects.members(project.id)] == ["Ann"]
    assert (await lead.post(f"{path}/annotators/remove", {"person": ann})).status_code == 303
    assert service.store.projects.members(project.id)[0].left_at is not None
    assert "left" in words(await lead.get(path))
    wrong = await lead.post(f"{path}/invite", {"name": "\u200b"})
    assert (wrong.status_code, "No link was made." in words(wrong)) == (422, True)
    page = await lead.post(f"{path}/invite", {"name": "Bob"})
    link = re.search(r"http://judge\.test(/invitations/ji_[\w-]+)", page.text)
    assert link
    assert (await lead.client.get(link[1])).status_code == 200
    (invitation,) = service.store.users.invitations()
    assert (invitation.project, invitation.role, invitation.name) == (project.id, Role.ANNOTATE, "Bob")


async def test_a_closed_project_can_be_opened_again(signed_in, service) -> None:
    a_set(service.store, 3)
    project = a_project(service.store, "pairs@1", ())
    lead = signed_in()
    await lead.post(f"/projects/{project.id}/close")
    assert not service.store.projects.get(project.id).open
    assert "State closed" in words(await lead.get(f"/projects/{project.id}"))
    await lead.post(f"/projects/{project.id}/reopen")
    assert service.store.projects.get(project.id).open


async def test_an_unknown_project_is_a_page_that_says_so(signed_in) -> None:
    page = await signed_in().get("/projects/aaaaaaaaaaaa")
    assert page.status_code == 404
    assert "There is no such project." in words(page)


async def test_figures_of_people_have_their_n_or_a_reason(signed_in, service) -> None:
    store, labelling = service.store, Labelling(service.store)
    a_set(store, 31)
    ann, bob, cy = (a_person(store, name) for name in ("Ann", "Bob", "Cy"))
    known = [{"input": {"prompt": "P", "response_a": "1", "response_b": "1"}, "label": "tie"}]
    project = a_project(store, "pairs@1", ("Ann", "Bob", "Cy"), qualification=known)
    path = f"/projects/{project.id}"
    label_all(labelling, project, ann, "Ann", "tie")
    few = words(await signed_in().get(path))
    assert "31 labels so far, 0 pairs on the same case, 0 cases on which people differ, 0 adjudicated." in few
    assert "Ann 31 0 cannot say" in few
    assert "Nothing decided" in few
    assert "Not measured 0 of 20 labels" in few
    shown = labelling.next(project.id, bob)
    assert shown is not None
    say(labelling, shown, bob, "Bob", "first")
    while (shown := labelling.next(project.id, bob)) is not None:
        first = shown.number == 2
        say(labelling, shown, bob, "Bob", "first" if first else "tie", seconds=0.0)
    assert len([one for one in store.assignments.of(project.id) if one.state is State.SAVED]) == 64
    page = words(await signed_in().get(path))
    assert "31 of 31 cases have enough labels." in page
    assert "n = 31 pairs" in page
    assert "Ann and Bob" in page
    assert "30 of 31" in page
    assert "1 of 1 right" in page
    assert "0 of 1 right" in page
    assert "1 of 1 pairs decided" in page
    assert "Cy 0 0 cannot say Not measured Nothing decided 0 No case in common Not begun 1 to do" in page
    assert "nan" not in page.lower().split()
    assert cy
