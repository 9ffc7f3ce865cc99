"""Labelling over HTTP, from a project to the report: what people see, what labels keep, and the figures."""

from typing import Any

import pytest

from calibration.annotator_test import alternative_annotator_test
from judge_service.annotation.labelling import Labelling
from judge_service.app import Service
from judge_service.domain.principal import Role
from tests.judge_service.annotation.projects import a_person, a_project, a_set
from tests.judge_service.annotation.test_quality import by_content
from tests.judge_service.api.test_sets import NDJSON, lines
from tests.judge_service.sets.labels import cases


def wanted(name: str, number: int) -> str:
    """Ann is right, Bob errs on every fifth case, Cy on every seventh."""
    truth = "A" if number % 2 else "B"
    errs = {"Ann": False, "Bob": number % 5 == 0, "Cy": number % 7 == 0}[name]
    return truth if not errs else "BA"[truth == "B"]


def verdicts(n: int, judge: str, says: Any, **more: Any) -> list[dict[str, Any]]:
    """Both orders of a judge's answers, as a verdict file has them."""
    found = []
    for number in range(n):
        first = {"A": "first", "B": "second"}[says(number)]
        second = {"first": "second", "second": "first"}[first]
        for order, verdict in (("AB", first), ("BA", second)):
            row = {"case_id": f"model-x/{number}", "judge": judge, "order": order, "verdict": verdict}
            found.append(row | more)
    return found


async def labelled(service: Service, client: Any, n: int = 35, **more: Any) -> Any:
    """A project whose three people labelled all its cases, and a judge's verdicts."""
    reference = a_set(service.store, n)
    people = {name: a_person(service.store, name) for name in ("Ann", "Bob", "Cy")}
    project = a_project(service.store, reference, tuple(people), labels_wanted=3, **more)
    for name, person in people.items():
        by_content(Labelling(service.store), project, person, name, lambda number, name=name: wanted(name, number))
    judge = verdicts(n, "small", lambda number: wanted("Cy", number))
    given = await client.post(f"/v1/sets/{reference}/verdicts", content=lines(judge), headers=NDJSON)
    assert given.status_code == 200, given.text
    return project


async def test_three_people_on_thirty_cases_are_compared_with_the_judge(connect, service: Service) -> None:
    client = connect(Role.LEAD)
    await labelled(service, client)
    assert (await client.post("/v1/sets/pairs/freeze")).status_code == 200
    answer = await client.get("/v1/sets/pairs/report", params={"resamples": 100})
    assert answer.status_code == 200, answer.text
    found = next(part["data"] for part in answer.json()["sections"] if part["id"] == "labels")
    assert {row["annotator"]: row["labels"] for row in found["annotators"]} == {"Ann": 35, "Bob": 35, "Cy": 35}
    test = found["annotator_test"]
    assert test["measured"] is True
    row = next(one for one in test["judges"] if one["judge"] == "small")
    people = [[wanted(name, number) for number in range(35)] for name in ("Ann", "Bob", "Cy")]
    expected = alternative_annotator_test(people, people[2], epsilon=test["epsilon"])
    assert row["advantage"]["value"] == pytest.approx(expected.rho.value)
    assert row["share_rejected"]["value"] == pytest.approx(expected.omega.value)
    assert row["passed"] == expected.passed


async def test_estimates_are_made_of_labels_and_verdicts(connect, service: Service) -> None:
    client = connect(Role.LEAD)
    project = await labelled(service, client, selection={"n": 32})
    answer = await client.get(f"/v1/projects/{project.id}/estimates")
    (row,) = answer.json()["items"]
    assert (row["judge"], row["n"], row["reason"]) == ("small", 32, None)
    drawn = [int(case.case_id.split("/")[1]) for case in service.store.projects.cases(project.id)]
    truth = [max("AB", key=[wanted(name, n) for name in ("Ann", "Bob", "Cy")].count) for n in drawn]
    same = sum(truth[place] == wanted("Cy", n) for place, n in enumerate(drawn)) / 32
    assert row["weighted"]["value"] == pytest.approx(same)
    assert row["unweighted"]["value"] == pytest.approx(same)
    assert (await connect(Role.ANNOTATE).get(f"/v1/projects/{project.id}/estimates")).status_code == 403


@pytest.mark.parametrize("condition", ["blind", "assisted"])
async def test_verdicts_are_shown_in_assisted_projects_only(connect, service: Service, condition: str) -> None:
    lead, person = connect(Role.LEAD), connect(Role.ANNOTATE)
    a_set(service.store, 3)
    await lead.post("/v1/sets/pairs/verdicts", content=lines(verdicts(3, "small", lambda n: "A")), headers=NDJSON)
    key = next(key for key in service.store.keys.all() if key.role is Role.ANNOTATE)
    body = {"name": "P", "set": "pairs@1", "annotators": [key.id], "labels_wanted": 1, "condition": condition}
    project = (await lead.post("/v1/projects", json=body)).json()["id"]
    for _ in range(3):
        shown = (await person.get(f"/v1/projects/{project}/next")).json()["case"]
        teal = next(text["id"] for text in shown["form"]["texts"] if text["text"].startswith("Teal"))
        said = [(one["judge"], one["value"]) for one in shown["suggestions"]]
        assert said == ([("small", teal)] if condition == "assisted" else [])
        label = {"version": shown["version"], "answer": {"answers": {"label": teal}, "items": []}}
        saved = await person.post(f"/v1/labelling/{shown['case']}/label", json=label)
        assert saved.status_code == 200, saved.text
    labels = (await lead.get("/v1/sets/pairs")).json()["labels"]
    assert (labels["blind"], labels["assisted"]) == ((3, 0) if condition == "blind" else (0, 3))
    assert {label.condition for label in service.store.labels.of("pairs@1")} == {condition}
    await lead.post("/v1/sets/pairs/freeze")
    report = (await lead.get("/v1/sets/pairs/report", params={"resamples": 100})).json()
    data = next(part["data"] for part in report["sections"] if part["id"] == "labels")
    assert data["n"] == (3 if condition == "blind" else 0)


async def test_uncertain_cases_have_a_higher_probability(connect, service: Service) -> None:
    lead = connect(Role.LEAD)
    a_set(service.store, 20)
    rows = verdicts(20, "small", lambda n: "A") + verdicts(20, "large", lambda n: "B" if n == 1 else "A")
    # Case 0: the small judge says the first answer in both orders.
    rows = [
        row | {"verdict": "first"} if row["case_id"] == "model-x/0" and row["judge"] == "small" else row for row in rows
    ]
    given = await lead.post("/v1/sets/pairs/verdicts", content=lines(rows), headers=NDJSON)
    assert given.status_code == 200, given.text
    body = {"name": "P", "set": "pairs@1", "selection": {"n": 4, "by": "uncertain"}}
    project = (await lead.post("/v1/projects", json=body)).json()
    assert project["selection"] == "sampled"
    # By hand: eighteen cases weigh 1, the two that disagree 3 each.
    for case in service.store.projects.cases(project["id"]):
        weight = 3 if case.case_id in ("model-x/0", "model-x/1") else 1
        assert case.probability == pytest.approx(4 * weight / 24)


async def test_guidelines_have_versions_with_what_changed(connect, service: Service) -> None:
    lead = connect(Role.LEAD)
    a_set(service.store, 1)
    body = {"name": "P", "set": "pairs@1", "guidelines": "Judge *help*."}
    path = f"/v1/projects/{(await lead.post('/v1/projects', json=body)).json()['id']}/guidelines"
    changed = await lead.post(path, json={"text": "<b>Length</b> is no reason.", "note": "On length."})
    assert (changed.status_code, changed.json()["version"]) == (201, 2)
    found = (await lead.get(path)).json()["items"]
    assert [(one["version"], one["text"], one["note"]) for one in found] == [
        (2, "<b>Length</b> is no reason.", "On length."),
        (1, "Judge *help*.", "First version."),
    ]
    assert "<b>" not in found[0]["html"]
    assert found[1]["html"] == "<p>Judge <em>help</em>.</p>\n"
    assert (await lead.post(path, json={"text": "x", "note": ""})).status_code == 422
    assert (await connect(Role.ANNOTATE).get(path)).status_code == 404


async def test_an_invitation_joins_the_project(connect, service: Service) -> None:
    lead, guest = connect(Role.LEAD), connect(None)
    guest.headers["Origin"] = "http://judge.test"
    a_set(service.store, 2)
    project = (await lead.post("/v1/projects", json={"name": "P", "set": "pairs@1"})).json()["id"]
    made = await lead.post("/v1/invitations", json={"role": "annotate", "name": "Bob", "project": project})
    assert made.status_code == 201, made.text
    path = "/invitations/" + made.json()["link"].rpartition("/")[2]
    done = await guest.post(path, data={"name": "Bob", "password": "four plain words here"})
    assert done.status_code == 303
    assert (await guest.get(f"/v1/projects/{project}/next")).json()["case"]["of"] == 2
    members = (await lead.get(f"/v1/projects/{project}")).json()["members"]
    assert [one["name"] for one in members] == ["Bob"]
    unknown = await lead.post("/v1/invitations", json={"role": "annotate", "project": "a" * 12})
    assert unknown.status_code == 404


async def test_a_monitoring_sample_takes_more_of_what_was_marked_bad(connect, service: Service) -> None:
    lead = connect(Role.LEAD)
    await lead.post("/v1/sets", json={"name": "production", "rubric": "pairwise@1"})
    rows = [one | ({"feedback": "down"} if place == 0 else {}) for place, one in enumerate(cases(10))]
    await lead.post("/v1/sets/production/cases", content=lines(rows), headers=NDJSON)
    judged = verdicts(10, "small", lambda n: "A")
    given = await lead.post("/v1/sets/production/verdicts", content=lines(judged), headers=NDJSON)
    run = given.json()["judges"][0]["run_id"]
    await lead.post("/v1/sets", json={"name": "monitor", "rubric": "pairwise@1"})
    drawn = await lead.post("/v1/sets/monitor/samples", json={"run": run, "n": 10, "random_share": 0.8})
    assert drawn.status_code == 201, drawn.text
    assert (drawn.json()["judged"], drawn.json()["random"]) == (10, 8)
    chances = {one.case.id: one.case.metadata["inclusion_probability"] for one in service.store.sets.cases("monitor@1")}
    assert 8 <= len(chances) == drawn.json()["drawn"]
    # By hand: eight of ten blindly; two by weight, of which the marked case has 4 and each other 1.
    for case_id, chance in chances.items():
        weight = 4 if case_id == "model-x/0" else 1
        assert chance == pytest.approx(1 - 0.2 * (1 - 2 * weight / 13))


async def test_low_confidence_raises_the_probability(connect, service: Service) -> None:
    lead = connect(Role.LEAD)
    await lead.post("/v1/sets", json={"name": "answers", "rubric": "faithfulness@1"})
    rows = [{"id": f"c{n}", "contexts": [f"Day {n}."], "answer": f"It is day {n}."} for n in range(10)]
    assert (await lead.post("/v1/sets/answers/cases", content=lines(rows), headers=NDJSON)).status_code == 200
    judged = [{"case_id": f"c{n}", "judge": "small", "score": 0.6 if n == 0 else 0.95} for n in range(10)]
    given = await lead.post("/v1/sets/answers/verdicts", content=lines(judged), headers=NDJSON)
    assert given.status_code == 200, given.text
    body = {"name": "P", "set": "answers@1", "selection": {"n": 3, "by": "uncertain"}}
    project = (await lead.post("/v1/projects", json=body)).json()
    # By hand: nine cases weigh 1 + 2 (1 - 0.95), one 1 + 2 (1 - 0.6).
    for case in service.store.projects.cases(project["id"]):
        weight = 1.8 if case.case_id == "c0" else 1.1
        assert case.probability == pytest.approx(3 * weight / (9 * 1.1 + 1.8))
