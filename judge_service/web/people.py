"""Signing in and out, accepting an invitation, and the page on which leads invite people.

Owns forms and what a person is told. How a sign-in is decided is `gate.signing_in`'s.
"""

import asyncio
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from judge_service.annotation.projects import join
from judge_service.domain.annotation import Member
from judge_service.domain.audit import told_invitation, told_user
from judge_service.domain.principal import Role
from judge_service.errors import FieldProblem, Forbidden, InvalidInput, JudgeServiceError, RateLimited
from judge_service.gate.audit import along, audited
from judge_service.gate.authentication import address_of
from judge_service.gate.people import change_user, invite
from judge_service.gate.problem import RETRY_AFTER_S
from judge_service.gate.route import GuardedRoute, gate_of, needs, principal_of, public
from judge_service.gate.sessions import Sessions
from judge_service.gate.signing_in import checked_name
from judge_service.security.passwords import SHORTEST
from judge_service.security.roles import Permission
from judge_service.security.sessions import may_grant, safe_next
from judge_service.web.forms import text_fields
from judge_service.web.pages import render
from judge_service.web.services import services_of

router = APIRouter(include_in_schema=False, route_class=GuardedRoute)


def _sessions(request: Request) -> Sessions:
    sessions = gate_of(request).sessions
    if sessions is None:
        raise Forbidden("Nobody can sign in here: the service runs without sessions.")
    return sessions


def _headers(error: JudgeServiceError) -> dict[str, str]:
    return {"Retry-After": str(error.extra.get("retry_after", RETRY_AFTER_S))} if isinstance(error, RateLimited) else {}


def _go(path: str) -> RedirectResponse:
    return RedirectResponse(path, status_code=303)


async def _begin(request: Request, token: str, path: str) -> Response:
    """A new session for the browser; the one it came with ends, so that nobody else knows the new one."""
    sessions = _sessions(request)
    before = await gate_of(request).visitor(request)
    if before is not None and before.session is not None:
        await services_of(request).signing_in.end(before)
        sessions.forget(session=before.session)
    response = _go(path)
    sessions.set_cookie(request, response, token)
    return response


@router.get("/sign-in")
@public
async def sign_in_page(request: Request) -> Response:
    """The one form."""
    way = safe_next(request.query_params.get("next"))
    principal = await gate_of(request).visitor(request)
    if principal is not None and principal.session is not None:
        return _go(way)
    expired = _sessions(request).token(request) is not None
    return _sign_in(request, way, expired=expired)


def _sign_in(request: Request, way: str, *, error: JudgeServiceError | None = None, **values: Any) -> HTMLResponse:
    said = {"name": "", "expired": False} | values
    return render(
        request,
        "sign_in.html.j2",
        status=200 if error is None else error.status,
        headers=None if error is None else _headers(error),
        way=way,
        problem=None if error is None else error.message,
        **said,
    )


@router.post("/sign-in")
@public
async def sign_in(request: Request) -> Response:
    """Begin a session with a name and a password, or with an API key."""
    _sessions(request).check_site(request)
    fields = await text_fields(request, "name", "password", "key", "next")
    way = safe_next(fields["next"])
    signing_in, address = services_of(request).signing_in, address_of(request)
    try:
        if fields["key"].strip():
            token = await signing_in.by_key(fields["key"], address=address)
        else:
            token = await signing_in.by_password(fields["name"], fields["password"], address=address)
    except JudgeServiceError as error:
        if error.status >= 500:
            raise
        return _sign_in(request, way, error=error, name=fields["name"][:120])
    return await _begin(request, token, way)


@router.post("/sign-out")
@public
async def sign_out(request: Request) -> Response:
    """End the session."""
    sessions = _sessions(request)
    principal = await gate_of(request).visitor(request)
    if principal is not None and principal.session is not None:
        await sessions.check_change(request)
        await services_of(request).signing_in.end(principal)
        sessions.forget(session=principal.session)
    response = _go("/sign-in")
    sessions.clear_cookie(request, response)
    return response


@router.get("/invitations/{token}")
@public
async def invitation_page(request: Request, token: str) -> Response:
    """Where an invited person chooses a name and a password."""
    invitation = await services_of(request).signing_in.invitation(token, address=address_of(request))
    return _invitation(request, token, invitation.role, invitation.name or "")


def _invitation(
    request: Request, token: str, role: Role, name: str, error: JudgeServiceError | None = None
) -> HTMLResponse:
    problems = [] if error is None else list(error.fields) or [FieldProblem("name", error.message)]
    return render(
        request,
        "invitation.html.j2",
        status=200 if error is None else error.status,
        address=f"/invitations/{quote(token)}",
        role=role.value,
        name=name,
        problems=problems,
        shortest=SHORTEST,
    )


@router.post("/invitations/{token}")
@public
@audited("accepted an invitation")
async def accept_invitation(request: Request, token: str) -> Response:
    """Make the user and sign in."""
    _sessions(request).check_site(request)
    fields = await text_fields(request, "name", "password")
    signing_in, address = services_of(request).signing_in, address_of(request)
    invitation = await signing_in.invitation(token, address=address)
    store, by = services_of(request).store, (f"invitation:{invitation.id}", fields["name"].strip())
    try:
        with along(request, store.audit, lambda used: f"{used.used_by} as {used.role.value}", by=by):
            session, user, used = await signing_in.accept(token, fields["name"], fields["password"], address=address)
    except JudgeServiceError as error:
        if error.status not in (409, 422):
            raise
        return _invitation(request, token, invitation.role, fields["name"][:120], error)
    if used.project is not None:
        person = Member(person=f"user:{user.id}", name=user.name, joined_at=user.created_at)
        await asyncio.to_thread(join, store, used.project, [person])
    return await _begin(request, session, "/" if used.project is None else f"/label/{used.project}")


@router.get("/people")
@needs(Permission.MANAGE_USERS)
async def people_page(request: Request) -> HTMLResponse:
    """Who can sign in, and the links that wait."""
    return await _people(request)


async def _people(request: Request, *, link: str | None = None, error: JudgeServiceError | None = None) -> HTMLResponse:
    users = services_of(request).store.users
    everybody, invitations = await asyncio.gather(asyncio.to_thread(users.all), asyncio.to_thread(users.invitations))
    own = principal_of(request)
    return render(
        request,
        "people.html.j2",
        status=200 if error is None else error.status,
        users=everybody,
        invitations=[one for one in invitations if one.used_at is None and one.revoked_at is None],
        roles=[role.value for role in (Role.ANNOTATE, Role.LEAD, Role.SCORE, Role.ADMIN) if may_grant(own.role, role)],
        own=own,
        manageable=lambda user: may_grant(own.role, user.role) and user.id != own.user_id,
        link=link,
        problem=None if error is None else error.message,
    )


@router.post("/people/invite")
@needs(Permission.MANAGE_USERS)
@audited("invited a person")
async def invite_person(request: Request) -> HTMLResponse:
    """Make an invitation and show its link once."""
    services, principal = services_of(request), principal_of(request)
    fields = await text_fields(request, "role", "name")
    try:
        if fields["role"] not in list(Role):
            raise InvalidInput("Choose a role.", fields=[FieldProblem("role", "Choose a role.")])
        name = checked_name(fields["name"]) if fields["name"].strip() else None
        role = Role(fields["role"])
        with along(request, services.store.audit, told_invitation):
            _, path = await asyncio.to_thread(
                lambda: invite(services.store.users, principal, role=role, name=name, project=None, days=7)
            )
    except (InvalidInput, Forbidden) as error:
        return await _people(request, error=error)
    base = services.settings.public_url or str(request.base_url).rstrip("/")
    return await _people(request, link=f"{base}{path}")


@router.post("/people/{user_id}/disable")
@needs(Permission.MANAGE_USERS)
@audited("disabled a person")
async def disable_person(request: Request, user_id: str) -> Response:
    """End a person's sessions and refuse new ones."""
    return await _change(request, user_id, disable=True)


@router.post("/people/{user_id}/enable")
@needs(Permission.MANAGE_USERS)
@audited("enabled a person")
async def enable_person(request: Request, user_id: str) -> Response:
    """Let a disabled person sign in again."""
    return await _change(request, user_id, disable=False)


async def _change(request: Request, user_id: str, *, disable: bool) -> Response:
    store, principal = services_of(request).store, principal_of(request)
    with along(request, store.audit, told_user):
        await asyncio.to_thread(lambda: change_user(store.users, principal, user_id, disable=disable))
    _sessions(request).forget(principal=f"user:{user_id}")
    return _go("/people")


@router.post("/people/{invitation_id}/revoke")
@needs(Permission.MANAGE_USERS)
@audited("revoked an invitation")
async def revoke_invitation(request: Request, invitation_id: str) -> Response:
    """The link works no more."""
    store = services_of(request).store
    with along(request, store.audit, invitation_id):
        await asyncio.to_thread(store.users.revoke_invitation, invitation_id)
    return _go("/people")
