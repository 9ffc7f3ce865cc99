"""The page on which a lead opens a labelling project, and how its entries become a request.

Owns the form. What a project may be, and every draw, is `annotation.projects`'.
"""

import asyncio
import re
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import ValidationError

from judge_service.annotation.entries import end_of, known_answers
from judge_service.annotation.projects import ProjectRequest, open_project
from judge_service.domain.annotation import Project
from judge_service.domain.audit import told_project
from judge_service.domain.calibration_set import LabelCondition, Split
from judge_service.domain.principal import Principal
from judge_service.errors import FieldProblem, InvalidInput, JudgeServiceError, NotFound
from judge_service.gate.audit import along, audited
from judge_service.gate.fields import field_problems
from judge_service.gate.route import GuardedRoute, needs, principal_of
from judge_service.security.roles import Permission
from judge_service.security.sessions import new_id
from judge_service.store import Store
from judge_service.web.forms import NOTHING, Refused, refused, text_fields, text_list, whole_number
from judge_service.web.pages import render
from judge_service.web.projects import guidelines_html, may_label
from judge_service.web.services import services_of
from rubrics.registry import all_rubrics

router = APIRouter(include_in_schema=False, route_class=GuardedRoute)

_TEXTS = {
    "name": "",
    "set": "",
    "rubric": "",
    "labels_wanted": "2",
    "overlap": "100",
    "condition": "blind",
    "guidelines": "",
    "qualification": "",
    "selection": "all",
    "selected": "",
    "due_at": "",
    "lease_minutes": "60",
    "keys": "",
    "id": "",
}
_FIELDS = (*_TEXTS, "annotators", "splits")
_ID = re.compile(r"[a-z0-9]{12}")
_SAFE = "The project was not opened yet. Your entries are kept."


@router.get("/projects/new")
@needs(Permission.MANAGE_PROJECTS)
async def opening_page(request: Request, set: str = "") -> HTMLResponse:  # noqa: A002  # the name in the address
    """The form, with a set chosen where the address names one."""
    return await _opening(request, _TEXTS | {"set": set, "id": new_id()}, (), tuple(split.value for split in Split))


async def _opening(
    request: Request,
    said: dict[str, str],
    people: tuple[str, ...],
    splits: tuple[str, ...],
    problems: Refused = NOTHING,
    *,
    preview: bool = False,
) -> HTMLResponse:
    store = services_of(request).store
    versions, users = await asyncio.gather(asyncio.to_thread(store.sets.all), asyncio.to_thread(store.users.all))
    return render(
        request,
        "project_new.html.j2",
        status=problems.status,
        problems=problems,
        said=said,
        people=people,
        splits=splits,
        sets=[one for one in versions if one.status == "open" and one.n_cases],
        rubrics=[rubric.id for rubric in all_rubrics()],
        users=may_label(users),
        every_split=list(Split),
        preview=guidelines_html(said["guidelines"]) if preview else None,
    )


@router.post("/projects/new")
@needs(Permission.MANAGE_PROJECTS)
@audited("opened a project")
async def open_it(request: Request) -> Response:
    """Open the project, or show its guidelines as people would read them."""
    store, principal = services_of(request).store, principal_of(request)
    said = await text_fields(request, *_TEXTS)
    people, splits = await text_list(request, "annotators"), await text_list(request, "splits")
    if (await text_fields(request, "do"))["do"] == "preview":
        return await _opening(request, said, people, splits, preview=True)
    try:
        wanted = _request(said, people, splits)
        with along(request, store.audit, told_project):
            project = await asyncio.to_thread(lambda: _once(store, said["id"], wanted, principal))
    except JudgeServiceError as error:
        if isinstance(error, NotFound):
            # The set that was chosen is gone, or was never there: an entry of this form.
            error = InvalidInput(fields=[FieldProblem("set", error.message)])
        return await _opening(request, said, people, splits, refused(error, _SAFE, _FIELDS, "name"))
    return RedirectResponse(f"/projects/{project.id}", status_code=303)


def _once(store: Store, identifier: str, wanted: ProjectRequest, principal: Principal) -> Project:
    """The project of the page's id: a second press of the button finds the first one's."""
    if not _ID.fullmatch(identifier):
        raise InvalidInput(fields=[FieldProblem("name", "This page is too old. Load it again.")])
    known = next((one for one in store.projects.all() if one.id == identifier), None)
    return known or open_project(store, wanted, principal, identifier=identifier)


def _request(said: dict[str, str], people: tuple[str, ...], splits: tuple[str, ...]) -> ProjectRequest:
    """The entries as a request. Raises InvalidInput with the problems of every field at once."""
    problems: list[FieldProblem] = []

    def number(name: str, low: int, high: int, words: str) -> int:
        try:
            return whole_number(said, name, low, high, words)
        except InvalidInput as error:
            problems.extend(error.fields)
            return low

    fields: dict[str, Any] = {
        "name": said["name"].strip(),
        "set": said["set"],
        "rubric": said["rubric"] or None,
        "annotators": [*people, *(line.strip() for line in said["keys"].splitlines() if line.strip())],
        "labels_wanted": number("labels_wanted", 1, 20, "Labels per case"),
        "overlap": number("overlap", 0, 100, "The share of cases") / 100,
        "lease_minutes": number("lease_minutes", 1, 10_080, "Minutes"),
        "condition": said["condition"],
        # All of them is the same as none named: cases that come later belong too.
        "splits": [] if set(splits) == set(Split) else list(splits),
        "guidelines": said["guidelines"],
    }
    if not fields["name"]:
        problems.append(FieldProblem("name", "Give the project a name."))
    if not fields["set"]:
        problems.append(FieldProblem("set", "Choose a set."))
    if not splits:
        problems.append(FieldProblem("splits", "Choose at least one split."))
    if said["condition"] not in list(LabelCondition):
        problems.append(FieldProblem("condition", "Choose blind or assisted."))
    if said["selection"] != "all":
        n = number("selected", 1, 1_000_000, "The number of cases")
        fields["selection"] = {"n": n, "by": said["selection"]}
    try:
        fields["qualification"] = known_answers(said["qualification"])
        fields["due_at"] = end_of(said["due_at"])
    except InvalidInput as error:
        problems.extend(error.fields)
    if problems:
        raise InvalidInput(fields=problems)
    try:
        return ProjectRequest.model_validate(fields)
    except ValidationError as error:
        found = field_problems(error.errors(include_url=False, include_input=False))
        raise InvalidInput(fields=found) from None
