"""The pages of a person who labels: own projects, the case, the guidelines. What a button does is `label_turns`'s.

Forms post and links work without script. With script the same forms are sent by it and answered with the part of the
page that changes, as JSON: one rendering, one way to label.
"""

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from markupsafe import Markup

from judge_service.annotation.labelling import Labelling
from judge_service.domain.annotation import Progress, Project
from judge_service.errors import FieldProblem, Forbidden, InvalidInput
from judge_service.gate.route import GuardedRoute, needs, principal_of
from judge_service.gate.sessions import csrf_of, read_form
from judge_service.security.roles import Permission
from judge_service.web.label_keys import BADGES, KEYS
from judge_service.web.label_turns import Turn, shown_now, take
from judge_service.web.pages import environment, render
from judge_service.web.projects import guidelines_html
from judge_service.web.services import services_of

router = APIRouter(include_in_schema=False, route_class=GuardedRoute)

SKIP_REASONS = ("I do not read this language.", "It cannot be read, or a part is missing.", "I know its source.")
"""What people skip for most; others are written."""


@router.get("/label")
@needs(Permission.LABEL)
async def my_projects(request: Request) -> HTMLResponse:
    """What this person may label, and how far the person is."""
    store, person = services_of(request).store, principal_of(request).id

    def read() -> list[tuple[Project, Progress]]:
        labelling = Labelling(store)
        return [(one, labelling.progress(one.id, person)) for one in store.projects.all(person)]

    return render(request, "label_projects.html.j2", projects=await asyncio.to_thread(read))


@router.get("/label/{project_id}")
@needs(Permission.LABEL)
async def case_page(request: Request, project_id: str) -> HTMLResponse:
    """The case to label now. The same one, with its draft, until it is saved or skipped."""
    store, person = services_of(request).store, principal_of(request).id
    done = request.query_params.get("done", "")
    turn, project = await asyncio.to_thread(
        lambda: (shown_now(Labelling(store), project_id, person, done), store.projects.get(project_id))
    )
    return _page(request, project, turn)


@router.post("/label/{project_id}")
@needs(Permission.LABEL)
async def act(request: Request, project_id: str) -> Response:
    """Save, skip, undo, flag, keep a draft, or change the list of items: then the case that is next."""
    store, principal = services_of(request).store, principal_of(request)
    fields: dict[str, list[str]] = {}
    for name, value in (await read_form(request)).multi_items():
        if not isinstance(value, str):
            raise InvalidInput(fields=[FieldProblem(name[:80], "must be text, not a file")])
        fields.setdefault(name, []).append(value)
    turn, project = await asyncio.to_thread(
        lambda: (
            take(Labelling(store), project_id, principal.id, principal.name, fields),
            store.projects.get(project_id),
        )
    )
    if "application/json" in request.headers.get("accept", ""):
        return _part(request, project, turn)
    if turn.status == 200 and turn.done:
        return RedirectResponse(f"/label/{project_id}?done={turn.done}", status_code=303)
    return _page(request, project, turn)


@router.get("/label/{project_id}/guidelines")
@needs(Permission.LABEL)
async def guidelines_page(request: Request, project_id: str) -> HTMLResponse:
    """The newest guidelines, and what changed with each version."""
    store, person = services_of(request).store, principal_of(request).id

    def read() -> tuple[Project, list[Any], Markup]:
        project = store.projects.get(project_id)
        if all(one.person != person or one.left_at is not None for one in store.projects.members(project_id)):
            raise Forbidden("You do not belong to this project.")
        versions = store.projects.guidelines(project_id)
        return project, versions, guidelines_html(versions[0].text) if versions else Markup()

    project, versions, html = await asyncio.to_thread(read)
    return render(request, "label_guidelines.html.j2", project=project, versions=versions, html=html)


def _context(project: Project, turn: Turn) -> dict[str, Any]:
    return {
        "project": project,
        "turn": turn,
        "view": turn.view,
        "badges": BADGES,
        "keys": KEYS,
        "reasons": SKIP_REASONS,
    }


def _title(project: Project, turn: Turn) -> str:
    text = "No cases left for you" if turn.view is None else f"{turn.view.position}: {turn.view.form.question}"
    return f"{'Error: ' if turn.status >= 400 else ''}{text} - {project.name}"


def _page(request: Request, project: Project, turn: Turn) -> HTMLResponse:
    principal = principal_of(request)
    return render(
        request,
        "label.html.j2",
        status=turn.status,
        # Somebody's draft stands on it.
        headers={"Cache-Control": "no-store"},
        title=_title(project, turn),
        person=principal.id,
        **_context(project, turn),
    )


def _part(request: Request, project: Project, turn: Turn) -> JSONResponse:
    """What a script swaps in: the case, its place, the window's title, and what is spoken."""
    html = ""
    if not turn.quiet:
        values = _context(project, turn) | {"csrf": csrf_of(request)}
        html = environment().get_template("label_case.html.j2").render(values)
    content = {
        "html": html,
        "title": f"{_title(project, turn)} - Judge service",
        "position": turn.view.position if turn.view is not None else "",
        "said": turn.said,
        "done": turn.done,
        "draft_version": turn.view.draft_version if turn.view is not None else None,
    }
    return JSONResponse(content, status_code=turn.status, headers={"Cache-Control": "no-store"})
