"""Every route that declares an audit entry writes it with its change, on both databases: both are kept, or neither."""

from collections.abc import AsyncIterator, Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from sqlalchemy import create_engine, select, text

from judge_service.api.routers import ROUTERS
from judge_service.app import Service, create_app
from judge_service.domain.calibration_set import Split
from judge_service.domain.judge import Judge
from judge_service.domain.principal import Role
from judge_service.domain.user import User
from judge_service.gate.audit import along, audited_as
from judge_service.gate.route import GuardedRoute
from judge_service.security.keys import issue
from judge_service.security.sessions import new_id, new_invitation
from judge_service.settings import Settings
from judge_service.store import Store
from judge_service.store.store import utc_now
from judge_service.store.tables import Base
from judge_service.web.routers import ROUTERS as PAGES
from tests.judge_service.annotation.projects import a_project, pair
from tests.judge_service.api.conftest import Connect, connect
from tests.judge_service.store.databases import database_url, postgres
from tests.judge_service.web.conftest import Person, SignedIn, signed_in

__all__ = ["connect", "database_url", "postgres", "signed_in"]

ROUTES = [
    (method, route)
    for router in (*ROUTERS, *PAGES)
    for route in router.routes
    if isinstance(route, GuardedRoute)
    for method in sorted(route.methods or ())
]
AUDITED = {(method, route.path): audited_as(route.endpoint) for method, route in ROUTES if audited_as(route.endpoint)}
NOT_AUDITED = {
    # What is judged, labelled or measured: kept as judgments, runs, labels and reports with who and when.
    "/v1/judgments",
    "/v1/runs",
    "/v1/runs/{run_id}",
    "/v1/runs/{run_id}/resume",
    "/v1/runs/{run_id}/cancel",
    "/v1/judges/{name}/check",
    "/v1/calibrations",
    "/v1/drift",
    "/v1/labelling/{case}/draft",
    "/v1/labelling/{case}/label",
    "/v1/labelling/{case}/skip",
    "/v1/labelling/{case}/flag",
    "/v1/projects/{project_id}/undo",
    "/v1/projects/{project_id}/adjudications",
    "/runs/{run_id}/cancel",
    "/runs/{run_id}/resume",
    "/label/{project_id}",
    "/projects/{project_id}/disagreements/{token}",
    # What an open set holds: the freeze is what counts.
    "/v1/sets",
    "/v1/sets/{reference}/cases",
    "/v1/sets/{reference}/labels",
    "/v1/sets/{reference}/verdicts",
    "/v1/sets/{reference}/groups",
    "/v1/sets/{reference}/splits",
    "/v1/sets/{reference}/samples",
    "/sets",
    "/sets/{reference}/groups",
    "/sets/{reference}/splits",
    "/sets/{reference}/version",
    "/sets/{reference}/import",
    # Rubric versions never change and are listed for good.
    "/v1/rubrics",
    # Sessions.
    "/sign-in",
    "/sign-out",
}


@dataclass
class Prepared:
    """A request that changes something: where to, with which body or form."""

    path: str
    json: dict[str, Any] | None = None
    form: dict[str, Any] = field(default_factory=dict)


PASSWORD = "four plain words here"
_numbers = count(1)


def fresh(word: str) -> str:
    """A name that no other request of this test has."""
    return f"{word}-{next(_numbers)}"


def a_key(store: Store, role: Role = Role.SCORE) -> str:
    key, _ = issue("ci", role)
    return store.keys.add(key).id


def an_invitation(store: Store) -> tuple[str, str]:
    invitation, token = new_invitation(
        role=Role.ANNOTATE, made_by="command line", now=utc_now(), name=None, project=None, life=timedelta(days=1)
    )
    return store.users.invite(invitation).id, token


def a_user(store: Store) -> User:
    return store.users.add(User(id=new_id(), name=fresh("Ann"), role=Role.ANNOTATE, created_at=utc_now()))


def disabled(store: Store) -> str:
    return store.users.disable(a_user(store).id).id


def the_set(store: Store, *, frozen: bool = False) -> str:
    """A set with its case, which no other set has, in release."""
    reference = store.sets.create(fresh("pairs"), "pairwise@1").id
    store.sets.add_cases(reference, [pair(next(_numbers)).model_copy(update={"split": Split.RELEASE})])
    if frozen:
        store.sets.freeze(reference, store.sets.digest(reference))
    return reference


def project(store: Store, *people: str, closed: bool = False) -> str:
    made = a_project(store, the_set(store), people)
    return store.projects.close(made.id, closed=closed).id


def judge(*, stored: Store | None = None) -> dict[str, Any]:
    fields = {"name": fresh("careful"), "backend": "baseline", "model": "longer"}
    if stored is not None:
        stored.judges.put(Judge.model_validate(fields))
    return fields


def opening(store: Store) -> dict[str, Any]:
    fields = {"labels_wanted": "1", "overlap": "100", "condition": "blind", "selection": "all", "lease_minutes": "60"}
    more = {"annotators": [a_user(store).name], "splits": [split.value for split in Split]}
    return {"id": new_id(), "name": "P", "set": the_set(store)} | fields | more


def joining(store: Store) -> dict[str, Any]:
    return {"annotators": [a_user(store).name]}


def leaving(store: Store, pattern: str, kind: str) -> Prepared:
    user = a_user(store)
    return Prepared(pattern.format(project(store, user.name)), **{kind: {"person": f"user:{user.id}"}})


def putting() -> Prepared:
    fields = judge()
    return Prepared(f"/v1/judges/{fields['name']}", fields)


def freezing(store: Store) -> Prepared:
    reference = the_set(store)
    return Prepared(f"/sets/{reference}/freeze", form={"typed": reference})


def looking(store: Store) -> Prepared:
    reference = the_set(store, frozen=True)
    return Prepared(f"/sets/{reference}/cases", form={"split": "release", "typed": reference})


PREPARED: dict[tuple[str, str], Callable[[Store], Prepared]] = {
    ("POST", "/v1/keys"): lambda _: Prepared("/v1/keys", {"name": "ci", "role": "score"}),
    ("POST", "/v1/keys/{key_id}/revoke"): lambda store: Prepared(f"/v1/keys/{a_key(store)}/revoke"),
    ("POST", "/keys"): lambda _: Prepared("/keys", form={"name": "ci", "role": "score"}),
    ("POST", "/keys/{key_id}/revoke"): lambda store: Prepared(f"/keys/{a_key(store)}/revoke"),
    ("POST", "/v1/users/{user_id}/disable"): lambda store: Prepared(f"/v1/users/{a_user(store).id}/disable"),
    ("POST", "/v1/users/{user_id}/enable"): lambda store: Prepared(f"/v1/users/{disabled(store)}/enable"),
    ("POST", "/people/{user_id}/disable"): lambda store: Prepared(f"/people/{a_user(store).id}/disable"),
    ("POST", "/people/{user_id}/enable"): lambda store: Prepared(f"/people/{disabled(store)}/enable"),
    ("POST", "/v1/invitations"): lambda _: Prepared("/v1/invitations", {"role": "annotate"}),
    ("POST", "/v1/invitations/{invitation_id}/revoke"): lambda store: Prepared(
        f"/v1/invitations/{an_invitation(store)[0]}/revoke"
    ),
    ("POST", "/people/invite"): lambda _: Prepared("/people/invite", form={"role": "lead", "name": "Bob"}),
    ("POST", "/people/{invitation_id}/revoke"): lambda store: Prepared(f"/people/{an_invitation(store)[0]}/revoke"),
    ("POST", "/invitations/{token}"): lambda store: Prepared(
        f"/invitations/{an_invitation(store)[1]}", form={"name": "Bob Example", "password": PASSWORD}
    ),
    ("POST", "/v1/judges"): lambda _: Prepared("/v1/judges", judge()),
    ("PUT", "/v1/judges/{name}"): lambda _: putting(),
    ("DELETE", "/v1/judges/{name}"): lambda store: Prepared(f"/v1/judges/{judge(stored=store)['name']}"),
    ("POST", "/v1/projects"): lambda store: Prepared(
        "/v1/projects", {"name": "P", "set": the_set(store), "annotators": [a_key(store, Role.ANNOTATE)]}
    ),
    ("POST", "/projects/new"): lambda store: Prepared("/projects/new", form=opening(store)),
    ("POST", "/v1/projects/{project_id}/annotators"): lambda store: Prepared(
        f"/v1/projects/{project(store)}/annotators", joining(store)
    ),
    ("POST", "/projects/{project_id}/annotators"): lambda store: Prepared(
        f"/projects/{project(store)}/annotators", form=joining(store)
    ),
    ("POST", "/v1/projects/{project_id}/annotators/remove"): lambda store: leaving(
        store, "/v1/projects/{}/annotators/remove", "json"
    ),
    ("POST", "/projects/{project_id}/annotators/remove"): lambda store: leaving(
        store, "/projects/{}/annotators/remove", "form"
    ),
    ("POST", "/v1/projects/{project_id}/close"): lambda store: Prepared(f"/v1/projects/{project(store)}/close"),
    ("POST", "/projects/{project_id}/close"): lambda store: Prepared(f"/projects/{project(store)}/close"),
    ("POST", "/v1/projects/{project_id}/reopen"): lambda store: Prepared(
        f"/v1/projects/{project(store, closed=True)}/reopen"
    ),
    ("POST", "/projects/{project_id}/reopen"): lambda store: Prepared(
        f"/projects/{project(store, closed=True)}/reopen"
    ),
    ("POST", "/v1/projects/{project_id}/guidelines"): lambda store: Prepared(
        f"/v1/projects/{project(store)}/guidelines", {"text": "New.", "note": "More."}
    ),
    ("POST", "/projects/{project_id}/guidelines"): lambda store: Prepared(
        f"/projects/{project(store)}/guidelines", form={"text": "New.", "note": "More.", "do": "save"}
    ),
    ("POST", "/projects/{project_id}/invite"): lambda store: Prepared(
        f"/projects/{project(store)}/invite", form={"name": "Bob"}
    ),
    ("POST", "/v1/sets/{reference}/freeze"): lambda store: Prepared(f"/v1/sets/{the_set(store)}/freeze"),
    ("POST", "/sets/{reference}/freeze"): freezing,
    ("GET", "/v1/sets/{reference}/cases"): lambda store: Prepared(
        f"/v1/sets/{the_set(store, frozen=True)}/cases?split=release"
    ),
    ("POST", "/sets/{reference}/cases"): looking,
}


@pytest.fixture
async def app(database_url: str, tmp_path: Path) -> AsyncIterator[FastAPI]:
    app = create_app(Settings(data_dir=tmp_path, database_url=database_url, requests_per_minute=1_000_000))
    async with app.router.lifespan_context(app):
        yield app


@pytest.fixture
def service(app: FastAPI) -> Service:
    found: Service = app.state.service
    return found


class Peek:
    """The database from outside: all rows but the times of use, and a log that can be put out of the way."""

    def __init__(self, url: str) -> None:
        self._engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1))

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        found = {}
        with self._engine.connect() as connection:
            for name, rows in Base.metadata.tables.items():
                columns = [column for column in rows.c if column.name not in ("last_used_at", "seen_at")]
                order = list(rows.primary_key)
                found[name] = [dict(row) for row in connection.execute(select(*columns).order_by(*order)).mappings()]
        return found

    def rename_log(self, old: str, new: str) -> None:
        with self._engine.begin() as connection:
            connection.execute(text(f"ALTER TABLE {old} RENAME TO {new}"))

    def close(self) -> None:
        self._engine.dispose()


def test_every_route_that_changes_something_is_audited_or_said_not_to_be() -> None:
    changing = {(method, route.path) for method, route in ROUTES if method not in ("GET", "HEAD")}
    assert {path for method, path in changing - set(AUDITED)} == NOT_AUDITED
    assert set(AUDITED) - changing == {("GET", "/v1/sets/{reference}/cases")}
    assert set(PREPARED) == set(AUDITED)


async def test_a_change_and_its_entry_are_kept_both_or_neither(
    service: Service, connect: Connect, signed_in: SignedIn, database_url: str
) -> None:
    person, program = signed_in("Root", Role.ADMIN), connect(Role.ADMIN)
    with closing(Peek(database_url)) as peek:
        for (method, path), prepare in PREPARED.items():
            api, told = path.startswith("/v1/"), f"{method} {path}"
            # The invitation signs somebody else in.
            browser = signed_in("Visitor") if path == "/invitations/{token}" else person
            prepared = prepare(service.store)

            async def send(
                api: bool = api, method: str = method, prepared: Prepared = prepared, browser: Person = browser
            ) -> int:
                if api:
                    return (await program.request(method, prepared.path, json=prepared.json)).status_code
                return (await browser.post(prepared.path, prepared.form)).status_code

            before = peek.rows()
            peek.rename_log("audit_log", "gone")
            assert await send() >= 500, told
            peek.rename_log("gone", "audit_log")
            assert peek.rows() == before, told

            assert await send() in (200, 201, 303), told
            after = peek.rows()
            (entry,) = after.pop("audit_log")[len(before.pop("audit_log")) :]
            assert entry["what"] == AUDITED[method, path], told
            assert entry["who"] == ("test admin" if api else "Root" if browser is person else "Bob Example"), told
            assert after != before, told


async def test_what_a_route_does_not_declare_it_cannot_note(service: Service) -> None:
    request = Request({"type": "http", "endpoint": a_key})
    with (
        pytest.raises(TypeError, match="a_key does not declare what it notes"),
        along(request, service.store.audit, "x"),
    ):
        pass
