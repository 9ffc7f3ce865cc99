"""Faults of other tools in labelling, by their case ids. Keys in text fields are tested with the page itself."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from judge_service.annotation.labelling import Labelling
from judge_service.annotation.projects import ProjectRequest, open_project
from judge_service.app import Service
from judge_service.domain.principal import Role
from judge_service.domain.user import User
from judge_service.errors import InvalidInput
from judge_service.files.rows import FileKind
from judge_service.files.source import Source
from judge_service.security.passwords import hash_password
from judge_service.security.sessions import new_id
from judge_service.sets.exporting import export_lines
from judge_service.sets.importing import import_cases
from judge_service.store import Store
from judge_service.store.assignments import NothingToUndo
from judge_service.store.store import utc_now
from tests.judge_service.annotation.projects import LEAD, a_person, a_project, a_set, label_all, say
from tests.judge_service.api.conftest import app, connect, service, settings

__all__ = ["app", "connect", "service", "settings"]

PASSWORD = "four plain words here"
OURS = {"Origin": "http://judge.test"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'labels.sqlite3'}") as opened:
        yield opened


def test_case_057_one_state_a_person_and_skips_are_no_labels(store: Store) -> None:
    reference = a_set(store, 1)
    ann, bob, cy = (a_person(store, name) for name in ("ann", "bob", "cy"))
    project = a_project(store, reference, ("ann", "bob", "cy"))
    labelling = Labelling(store)
    assert label_all(labelling, project, ann, "ann") == 1
    shown = labelling.next(project.id, bob)
    assert shown is not None
    labelling.skip(shown.case, bob, shown.version, "A language I do not read.")
    assert labelling.next(project.id, bob) is None
    assert labelling.progress(project.id, bob).open_for_others == 1
    assert label_all(labelling, project, cy, "cy") == 1
    for person in (ann, bob, cy):
        assert labelling.next(project.id, person) is None
    skipped = store.assignments.get(shown.case)
    assert skipped.skip_reason == "A language I do not read."
    (event,) = store.assignments.history(shown.case)
    assert event.at is not None
    assert sorted(label.annotator for label in store.labels.of(reference)) == ["ann", "cy"]


async def signed_in(app: FastAPI, service: Service, name: str) -> httpx.AsyncClient:
    stored = hash_password(PASSWORD)
    user = User(id=new_id(), name=name, role=Role.ANNOTATE, password_hash=stored, created_at=utc_now())
    service.store.users.add(user)
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://judge.test")
    done = await client.post("/sign-in", data={"name": name, "password": PASSWORD}, headers=OURS)
    assert done.status_code == 303
    return client


async def test_case_059_nothing_unblinds_and_orders_differ(app: FastAPI, service: Service) -> None:
    ann, bob = await signed_in(app, service, "Ann"), await signed_in(app, service, "Bob")
    reference = a_set(service.store, 12)
    request = ProjectRequest.model_validate({"name": "Blind", "set": reference, "annotators": ["Ann", "Bob"]})
    project = open_project(service.store, request, LEAD)
    base = f"/v1/projects/{project.id}"
    page = await ann.get("/people", headers={"Accept": "text/html"})
    assert page.status_code == 403
    from judge_service.security.sessions import PLAIN_COOKIE, csrf_token

    def ours(client: httpx.AsyncClient) -> dict[str, str]:
        return OURS | {"X-CSRF-Token": csrf_token(client.cookies[PLAIN_COOKIE])}

    prompts: dict[str, list[str]] = {"Ann": [], "Bob": []}
    tokens: list[str] = []
    for name, client in (("Ann", ann), ("Bob", bob)):
        while True:
            response = await client.get(f"{base}/next")
            case = response.json()["case"]
            if case is None:
                break
            assert (await client.get(f"{base}/next")).json()["case"]["form"] == case["form"]
            for secret in ("model-x", "the note of Ann", "Ann" if name == "Bob" else "Bob", "verdict"):
                assert secret not in response.text
            prompts[name].append(case["form"]["texts"][0]["text"])
            tokens.append(case["case"])
            body = {"answer": {"answers": {"label": "first"}}, "version": 0, "note": f"the note of {name}"}
            saved = await client.post(f"/v1/labelling/{case['case']}/label", json=body, headers=ours(client))
            assert saved.status_code == 200, saved.text
            assert "the note of Ann" not in saved.text
    assert sorted(prompts["Ann"]) == sorted(prompts["Bob"])
    assert prompts["Ann"] != prompts["Bob"]
    assert (await bob.get(f"/v1/labelling/{tokens[0]}")).status_code == 403
    closed = ("quality", "disagreements", "adjudications", "adjudications/case?case_id=x")
    for path in (*(f"{base}/{name}" for name in closed), f"/v1/sets/{reference}/export", f"/v1/sets/{reference}"):
        assert (await bob.get(path)).status_code == 403, path
    shown = (await bob.get(base)).json()
    assert set(shown) == {"id", "name", "rubric", "condition", "due_at", "closed_at"}
    await ann.aclose()
    await bob.aclose()


def test_case_061_undo_takes_back_one_and_is_recorded(store: Store) -> None:
    reference = a_set(store, 2)
    ann = a_person(store, "ann")
    project = a_project(store, reference, ("ann",))
    labelling = Labelling(store)
    shown = labelling.next(project.id, ann)
    assert shown is not None
    say(labelling, shown, ann, "ann", "first", note="a1b2 n")
    assert labelling.undo(project.id, ann).note == "a1b2 n"
    assert [event.action.value for event in store.assignments.history(shown.case)] == ["saved", "undone"]
    with pytest.raises(NothingToUndo):
        labelling.undo(project.id, ann)


ROWS = [
    ("00123", 'He said "no", then left.\nSecond line'),
    ("2718281828459045235", "tab\there, emoji 🙂, שלום, zero\u200bwidth"),
    ("12e5", "; semicolon"),
    ("n4", ""),
]


def written(delimiter: str, end: str) -> str:
    def cell(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    rows = [("id", "prompt", "response_a", "response_b"), *((name, "p", text, "b") for name, text in ROWS)]
    return "".join(delimiter.join(map(cell, row)) + end for row in rows)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", written(",", "\n").encode()),
        ("a.csv", b"\xef\xbb\xbf" + written(",", "\n").encode()),
        ("a.csv", b"\xef\xbb\xbf" + written(";", "\n").encode()),
        ("a.csv", written(",", "\r\n").encode()),
        ("a.csv", written(",", "\n").encode("utf-16")),
        (
            "a.jsonl",
            "".join(
                json.dumps({"id": name, "prompt": "p", "response_a": text, "response_b": "b"}) + "\n"
                for name, text in ROWS
            ).encode(),
        ),
    ],
    ids=["utf-8", "bom", "semicolon", "crlf", "utf-16", "jsonl"],
)
def test_case_063_every_file_gives_the_same_records(store: Store, name: str, content: bytes) -> None:
    def opened(name: str, content: bytes) -> Source:
        kind = FileKind.JSONL if name.endswith("jsonl") else FileKind.CSV
        return Source(name, lambda: io.BytesIO(content), kind, None, None)

    store.sets.create("first", "pairwise@1")
    import_cases(store, "first", opened(name, content))
    cases = list(store.sets.cases("first@1"))
    assert [(entry.case.id, entry.case.input["response_a"]) for entry in cases] == ROWS
    for kind in (FileKind.JSONL, FileKind.CSV):
        out = "".join(export_lines(store, "first", kind)).encode()
        copy = store.sets.create(f"copy-{kind.value}", "pairwise@1").id
        import_cases(store, copy, opened(f"x.{kind.value}", out))
        assert "".join(export_lines(store, copy, kind)).encode() == out


def test_case_063_one_bad_row_is_named_and_nothing_is_stored(store: Store) -> None:
    store.sets.create("first", "pairwise@1")
    lines = ['{"id": "a", "prompt": "p", "response_a": "x", "response_b": "y"}', '{"id": "b", "prompt": 7}']
    content = "\n".join(lines).encode()
    with pytest.raises(InvalidInput) as caught:
        import_cases(store, "first", Source("x.jsonl", lambda: io.BytesIO(content), FileKind.JSONL, None, None))
    assert "line 2" in caught.value.message + "".join(problem.path for problem in caught.value.fields)
    assert list(store.sets.cases("first@1")) == []
