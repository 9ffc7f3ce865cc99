"""Pages of labelling projects for leads: the list, one project as it stands, its people, guidelines and end.

How a project is opened is `opening`'s; what people disagree on is `disagreements`'.
"""

import asyncio
import re
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markupsafe import Markup

from judge_service.annotation.projects import add_annotators, rendered_guidelines
from judge_service.annotation.quality import FEWEST_PAIRS, quality
from judge_service.domain.audit import told_invitation, told_members, told_project
from judge_service.domain.principal import Role
from judge_service.domain.user import User
from judge_service.errors import FieldProblem, InvalidInput, JudgeServiceError
from judge_service.gate.audit import along, audited
from judge_service.gate.people import invite
from judge_service.gate.route import GuardedRoute, needs, principal_of
from judge_service.gate.signing_in import checked_name
from judge_service.security.roles import Permission, may
from judge_service.store import Store
from judge_service.web.forms import NOTHING, Refused, refused, text_fields, text_list
from judge_service.web.pages import render
from judge_service.web.services import services_of

router = APIRouter(include_in_schema=False, route_class=GuardedRoute)

ProjectId = Annotated[str, Path(pattern=r"^[a-z0-9]{12}$")]
LONGEST_GUIDELINES = 200_000
LONGEST_NOTE = 2000
_HEADING = re.compile(r"<(/?)h([1-6])>")
_SAFE = "Nothing was changed. Your entries are kept."


def may_label(users: list[User]) -> list[User]:
    """Those who can sign in and label, by name."""
    able = [user for user in users if user.live and may(user.role, Permission.LABEL)]
    return sorted(able, key=lambda user: user.name.casefold())


def guidelines_html(text: str) -> Markup:
    """Guidelines for a page: no raw HTML, misleading characters written out, headings below those of the page."""
    html = rendered_guidelines(text)
    down = 3 - min((int(level) for _, level in _HEADING.findall(html)), default=3)
    html = _HEADING.sub(lambda tag: f"<{tag[1]}h{min(6, int(tag[2]) + down)}>", html)
    return Markup(html)  # noqa: S704  # the renderer escapes all HTML of the text


@router.get("/projects")
@needs(Permission.MANAGE_PROJECTS)
async def list_projects(request: Request) -> HTMLResponse:
    """Every project, newest first."""
    projects = await asyncio.to_thread(services_of(request).store.projects.all)
    return render(request, "projects.html.j2", projects=projects)


@router.get("/projects/{project_id}")
@needs(Permission.MANAGE_PROJECTS)
async def show_project(request: Request, project_id: ProjectId) -> HTMLResponse:
    """One project: how many cases have enough labels, how far people agree, and each person's figures."""
    return await _project(request, project_id)


async def _project(
    request: Request,
    project_id: str,
    *,
    problems: Refused = NOTHING,
    link: str | None = None,
    entries: dict[str, str] | None = None,
) -> HTMLResponse:
    store = services_of(request).store
    facts = await asyncio.to_thread(_facts, store, project_id)
    newest = facts["guidelines"][0]
    entries = entries or {}
    said = {"text": newest.text, "note": "", "name": ""} | entries
    return render(
        request,
        "project.html.j2",
        status=problems.status,
        problems=problems,
        said=said,
        preview=guidelines_html(entries["text"]) if "text" in entries else None,
        link=link,
        fewest=FEWEST_PAIRS,
        html=guidelines_html,
        **facts,
    )


def _facts(store: Store, project_id: str) -> dict[str, Any]:
    project = store.projects.get(project_id)
    members = store.projects.members(project_id)
    inside = {one.name for one in members if one.left_at is None}
    return {
        "project": project,
        "figures": quality(store, project_id),
        "gone": {one.person for one in members if one.left_at is not None},
        "others": [user for user in may_label(store.users.all()) if user.name not in inside],
        "guidelines": store.projects.guidelines(project_id),
        "waiting": store.projects.count_waiting(project_id),
    }


def _back(project_id: str, part: str = "") -> RedirectResponse:
    return RedirectResponse(f"/projects/{quote(project_id)}{part}", status_code=303)


@router.post("/projects/{project_id}/close")
@needs(Permission.MANAGE_PROJECTS)
@audited("closed a project")
async def close_project(request: Request, project_id: ProjectId) -> Response:
    """Offer and take nothing any more."""
    store = services_of(request).store
    with along(request, store.audit, told_project):
        await asyncio.to_thread(lambda: store.projects.close(project_id, closed=True))
    return _back(project_id)


@router.post("/projects/{project_id}/reopen")
@needs(Permission.MANAGE_PROJECTS)
@audited("opened a project again")
async def reopen_project(request: Request, project_id: ProjectId) -> Response:
    """Go on."""
    store = services_of(request).store
    with along(request, store.audit, told_project):
        await asyncio.to_thread(lambda: store.projects.close(project_id, closed=False))
    return _back(project_id)


@router.post("/projects/{project_id}/annotators")
@needs(Permission.MANAGE_PROJECTS)
@audited("added people to a project")
async def add_people(request: Request, project_id: ProjectId) -> Response:
    """Add people who can sign in already."""
    store, names = services_of(request).store, await text_list(request, "annotators")
    try:
        if not names:
            raise InvalidInput(fields=[FieldProblem("annotators", "Choose at least one person.")])
        with along(request, store.audit, lambda added: told_members(project_id, added)):
            await asyncio.to_thread(add_annotators, store, project_id, names)
    except JudgeServiceError as error:
        problems = refused(error, _SAFE, ("annotators",), "annotators")
        return await _project(request, project_id, problems=problems)
    return _back(project_id, "#people")


@router.post("/projects/{project_id}/annotators/remove")
@needs(Permission.MANAGE_PROJECTS)
@audited("took a person out of a project")
async def remove_person(request: Request, project_id: ProjectId) -> Response:
    """Offer a person nothing any more. Labels stay."""
    fields = await text_fields(request, "person")
    store = services_of(request).store
    with along(request, store.audit, f"{project_id} ({fields['person']})"):
        await asyncio.to_thread(store.projects.leave, project_id, fields["person"])
    return _back(project_id, "#people")


@router.post("/projects/{project_id}/invite")
@needs(Permission.MANAGE_USERS)
@audited("invited a person")
async def invite_person(request: Request, project_id: ProjectId) -> Response:
    """Make a link for one new person, who joins this project with it."""
    services, principal = services_of(request), principal_of(request)
    fields = await text_fields(request, "name")
    await asyncio.to_thread(services.store.projects.get, project_id)
    try:
        name = checked_name(fields["name"]) if fields["name"].strip() else None
        users = services.store.users
        with along(request, services.store.audit, told_invitation):
            _, path = await asyncio.to_thread(
                lambda: invite(users, principal, role=Role.ANNOTATE, name=name, project=project_id, days=7)
            )
    except JudgeServiceError as error:
        problems = refused(error, "No link was made.", ("name",), "name")
        return await _project(request, project_id, problems=problems, entries={"name": fields["name"]})
    base = services.settings.public_url or str(request.base_url).rstrip("/")
    return await _project(request, project_id, link=f"{base}{path}")


@router.post("/projects/{project_id}/guidelines")
@needs(Permission.MANAGE_PROJECTS)
@audited("changed guidelines")
async def change_guidelines(request: Request, project_id: ProjectId) -> Response:
    """Show the entries as a person would read them, or keep them as a new version with what changed."""
    store, principal = services_of(request).store, principal_of(request)
    fields = await text_fields(request, "text", "note", "do")
    entries = {"text": fields["text"], "note": fields["note"]}
    try:
        problems = []
        if len(fields["text"]) > LONGEST_GUIDELINES:
            message = f"The guidelines must have at most {LONGEST_GUIDELINES:,} characters."
            problems.append(FieldProblem("text", message))
        if fields["do"] == "save" and not fields["note"].strip():
            problems.append(FieldProblem("note", "Say what changed, for people who know the last version."))
        if len(fields["note"]) > LONGEST_NOTE:
            problems.append(FieldProblem("note", f"What changed must have at most {LONGEST_NOTE:,} characters."))
        if problems:
            raise InvalidInput(fields=problems)
    except InvalidInput as error:
        return await _project(
            request, project_id, problems=refused(error, _SAFE, ("text", "note"), "text"), entries=entries
        )
    if fields["do"] != "save":
        return await _project(request, project_id, entries=entries)
    note = fields["note"].strip()
    with along(request, store.audit, lambda made: f"{project_id} (version {made.version})"):
        await asyncio.to_thread(store.projects.add_guidelines, project_id, fields["text"], note, principal.name)
    return _back(project_id, "#guidelines")
