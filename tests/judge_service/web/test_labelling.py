"""The labelling pages as a browser without script meets them: forms, redirects, errors, and nothing that unblinds."""

import re
from collections.abc import Callable
from datetime import timedelta

import httpx
import pytest
from fastapi import FastAPI

from judge_service.app import Service
from judge_service.domain.annotation import Project
from judge_service.domain.calibration_set import Label, LabelCondition, SetCase
from judge_service.domain.case import Case
from judge_service.domain.principal import Role
from judge_service.domain.user import User
from judge_service.security.sessions import PLAIN_COOKIE, new_id, new_session
from judge_service.store.store import utc_now
from tests.judge_service.annotation.projects import a_project

OURS = {"Origin": "http://judge.test"}
SYSTEM = "system-zebra"
OTHER_LABEL = "a note that only its author knows"
Browser = Callable[[str], httpx.AsyncClient]


@pytest.fixture
def browser(app: FastAPI, service: Service) -> Browser:
    def make(name: str) -> httpx.AsyncClient:
        user = service.store.users.named(name)
        if user is None:
            user = service.store.users.add(User(id=new_id(), name=name, role=Role.ANNOTATE, created_at=utc_now()))
        session, token = new_session(user_id=user.id, key_id=None, now=utc_now(), absolute=timedelta(hours=1))
        service.store.users.begin(session)
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app),
            base_url="http://judge.test",
            headers={"Accept": "text/html"},
            cookies={PLAIN_COOKIE: token},
        )

    return make


def opened(service: Service, n: int = 3, people: tuple[str, ...] = ("Ann", "Bob"), **more: object) -> Project:
    """A project of pairs; every case carries the name of a system and one has another person's label."""
    for name in people:
        if service.store.users.named(name) is None:
            service.store.users.add(User(id=new_id(), name=name, role=Role.ANNOTATE, created_at=utc_now()))
    version = service.store.sets.create(f"set-{new_id()}", "pairwise@1")
    cases = [
        SetCase(
            case=Case(
                id=f"{SYSTEM}/{i}",
                input={"prompt": f"Prompt {i}", "response_a": f"Teal {i}.", "response_b": f"Ochre {i}."},
                metadata={"system": SYSTEM},
            )
        )
        for i in range(n)
    ]
    service.store.sets.add_cases(version.id, cases)
    label = Label(
        set_id=version.id,
        case_id=f"{SYSTEM}/0",
        rubric="pairwise@1",
        annotator="Zed",
        label="A",
        condition=LabelCondition.BLIND,
        note=OTHER_LABEL,
        created_at=utc_now(),
    )
    service.store.labels.add(version.id, [label])
    return a_project(service.store, version.id, people, **more)


def fields_of(page: httpx.Response, form: str = "label-form") -> dict[str, str]:
    """The hidden fields of a form of the page."""
    part = page.text.split(f'id="{form}"', 1)[1]
    return dict(
        re.findall(r'<input type="hidden" name="(csrf|case|version|draft_version|seconds)" value="([^"]*)"', part)[:5]
    )


async def post(client: httpx.AsyncClient, project: Project, fields: dict[str, str], **more: str) -> httpx.Response:
    return await client.post(f"/label/{project.id}", data=fields | more, headers=OURS)


async def test_save_goes_on_by_a_redirect_that_says_so(browser, service) -> None:
    project = opened(service)
    client = browser("Ann")
    page = await client.get(f"/label/{project.id}")
    assert page.headers["cache-control"] == "no-store"
    assert "Case 1 of 3" in page.text
    done = await post(client, project, fields_of(page), do="save", **{"q.label": "first"})
    assert (done.status_code, done.headers["location"]) == (303, f"/label/{project.id}?done=saved")
    assert "Case 2 of 3" in (await client.get(done.headers["location"])).text


async def test_a_gap_is_an_error_that_keeps_the_entries(browser, service) -> None:
    project = opened(service)
    client = browser("Ann")
    page = await client.get(f"/label/{project.id}")
    wrong = await post(client, project, fields_of(page), do="save", note="my <note>")
    assert wrong.status_code == 422
    assert "<title>Error: Case 1 of 3" in wrong.text
    assert 'href="#g0"' in wrong.text
    assert "my &lt;note&gt;</textarea>" in wrong.text
    json = await client.post(
        f"/label/{project.id}", data=fields_of(page) | {"do": "save"}, headers=OURS | {"Accept": "application/json"}
    )
    assert json.status_code == 422
    assert json.json()["title"].startswith("Error: ")
    assert json.json()["html"].count("<h1") == 1
    assert "<html" not in json.json()["html"]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"do": "burn"}, 422),
        ({"do": "save", "version": "x"}, 422),
        ({"do": "save", "version": "-1"}, 422),
        ({"do": "save", "case": "0" * 32}, 404),
        ({"do": "save", "case": ""}, 404),
        ({"do": "save", "q.label": "owned"}, 422),
        ({"do": "save", "q.label": "first", "seconds": "NaN"}, 303),
        ({"do": "save", "q.label": "first", "seconds": "1e999"}, 303),
        ({"do": "save", "q.label": "first", "item": "c1"}, 303),
        ({"do": "skip", "reason": " "}, 422),
        ({"do": "skip", "reason": "x" * 4001}, 422),
        ({"do": "flag", "flag": ""}, 422),
        ({"do": "merge:c1"}, 422),
        ({"do": "add", "new": "A claim."}, 422),
        ({"do": "undo"}, 409),
        ({"do": "draft", "draft_version": "7", "q.label": "first"}, 409),
        ({"do": "save", "csrf": "0" * 64, "q.label": "first"}, 403),
    ],
    ids=str,
)
async def test_odd_forms_are_refused_and_lose_nothing(browser, service, fields, status) -> None:
    project = opened(service)
    client = browser("Ann")
    page = await client.get(f"/label/{project.id}")
    answer = await client.post(f"/label/{project.id}", data=fields_of(page) | fields, headers=OURS)
    assert answer.status_code == status, answer.text
    assert len([one for one in service.store.labels.of(project.set_id) if one.annotator == "Ann"]) == (status == 303)


async def test_another_persons_case_and_project_are_refused(browser, service) -> None:
    project = opened(service)
    other = opened(service, people=("Bob",))
    ann, bob = browser("Ann"), browser("Bob")
    page = await bob.get(f"/label/{project.id}")
    own = await ann.get(f"/label/{project.id}")
    stolen = fields_of(own) | {"case": fields_of(page)["case"], "do": "save", "q.label": "first"}
    assert (await ann.post(f"/label/{project.id}", data=stolen, headers=OURS)).status_code == 403
    assert (await ann.get(f"/label/{other.id}")).status_code == 403
    assert (await ann.get(f"/label/{other.id}/guidelines")).status_code == 403
    assert (await ann.get("/label/nowhere")).status_code == 404
    moved = fields_of(page) | {"do": "save", "q.label": "first"}
    assert (await bob.post(f"/label/{other.id}", data=moved, headers=OURS)).status_code == 404


async def test_a_closed_project_says_so_and_keeps_the_draft(browser, service) -> None:
    project = opened(service)
    client = browser("Ann")
    page = await client.get(f"/label/{project.id}")
    service.store.projects.close(project.id, closed=True)
    late = await post(client, project, fields_of(page), do="save", **{"q.label": "second"})
    assert late.status_code == 409
    assert "This project is closed. Your draft is kept." in late.text
    assert "This project is closed" in (await client.get(f"/label/{project.id}")).text
    service.store.projects.close(project.id, closed=False)
    again = await client.get(f"/label/{project.id}")
    assert re.search(r'value="second" checked', again.text)


async def test_a_case_that_others_finished_keeps_the_draft(browser, service) -> None:
    # A lease so short that it has run out before the next request.
    project = opened(service, n=1, labels_wanted=1, lease_minutes=1e-6)
    ann, bob = browser("Ann"), browser("Bob")
    page = await ann.get(f"/label/{project.id}")
    taken = await bob.get(f"/label/{project.id}")
    done = await post(bob, project, fields_of(taken), do="save", **{"q.label": "first"})
    assert done.status_code == 303
    late = await post(ann, project, fields_of(page), do="save", note="still here", **{"q.label": "second"})
    assert late.status_code == 409
    assert "This case now has enough labels. Your draft is kept." in late.text
    user = service.store.users.named("Ann")
    (kept,) = service.store.assignments.of(project.id, f"user:{user.id}")
    assert kept.draft == {"answers": {"label": "second"}, "items": [], "note": "still here"}


async def test_no_response_of_a_session_unblinds(browser, service) -> None:
    project = opened(service, n=4)
    client = browser("Ann")
    seen: list[httpx.Response] = [await client.get("/label"), await client.get(f"/label/{project.id}")]
    page = seen[-1]
    seen.append(await client.get(f"/label/{project.id}/guidelines"))
    json = OURS | {"Accept": "application/json"}
    for step in ({"do": "draft", "q.label": "first"}, {"do": "save"}, {"do": "flag", "flag": "odd"}):
        page = await client.get(f"/label/{project.id}")
        seen += [page, await client.post(f"/label/{project.id}", data=fields_of(page) | step, headers=json)]
    for step in ({"do": "save", "q.label": "first"}, {"do": "skip", "reason": "no"}, {"do": "undo"}):
        page = await client.get(f"/label/{project.id}")
        seen += [page, await client.post(f"/label/{project.id}", data=fields_of(page) | step, headers=OURS)]
        seen.append(await client.get(f"/v1/projects/{project.id}/next"))
    for _ in range(4):
        page = await client.get(f"/label/{project.id}")
        if "label-form" in page.text:
            step = {"do": "save", "q.label": "second"}
            seen.append(await client.post(f"/label/{project.id}", data=fields_of(page) | step, headers=json))
    seen.append(await client.get(f"/label/{project.id}"))
    assert "No cases left for you." in seen[-1].text
    assert len(seen) > 20
    for response in seen:
        whole = f"{response.headers} {response.text}"
        for secret in (SYSTEM, OTHER_LABEL, "Zed", "Bob", "labels_wanted"):
            assert secret not in whole, (response.request.method, response.request.url)
