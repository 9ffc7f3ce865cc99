"""Pages of API keys and of the audit log, for admins. A key is shown once, in the answer that made it."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import ValidationError

from judge_service.domain.audit import told_key
from judge_service.domain.principal import Role
from judge_service.errors import FieldProblem, InvalidInput
from judge_service.gate.audit import along, audited
from judge_service.gate.route import GuardedRoute, gate_of, needs
from judge_service.security.keys import issue
from judge_service.security.roles import Permission
from judge_service.web.forms import NOTHING, Refused, refused, text_fields
from judge_service.web.pages import render
from judge_service.web.services import services_of

router = APIRouter(include_in_schema=False, route_class=GuardedRoute)

NEWEST = 20
PAGE = 100
_ROLES = (
    ("score", "judges cases and reads runs"),
    ("annotate", "labels cases"),
    ("lead", "sets, projects, reports and people too"),
    ("admin", "everything, keys and judges too"),
)


@router.get("/keys")
@needs(Permission.MANAGE_KEYS)
async def keys_page(request: Request) -> HTMLResponse:
    """Live keys without their secrets, and the newest entries of the log."""
    return await _keys(request)


async def _keys(
    request: Request,
    problems: Refused = NOTHING,
    *,
    said: dict[str, str] | None = None,
    made: tuple[str, str] | None = None,
) -> HTMLResponse:
    store = services_of(request).store
    keys, entries = await asyncio.gather(
        asyncio.to_thread(store.keys.all), asyncio.to_thread(lambda: store.audit.entries(limit=NEWEST))
    )
    return render(
        request,
        "keys.html.j2",
        status=problems.status,
        # The answer that holds a key is kept nowhere.
        headers={"Cache-Control": "no-store"},
        problems=problems,
        said={"name": "", "role": "score"} | (said or {}),
        made=made,
        live=[key for key in keys if key.live],
        revoked=[key for key in keys if not key.live],
        roles=_ROLES,
        entries=entries,
    )


@router.post("/keys")
@needs(Permission.MANAGE_KEYS)
@audited("made a key")
async def make_key(request: Request) -> HTMLResponse:
    """Make a key and show it, this once."""
    store = services_of(request).store
    fields = await text_fields(request, "name", "role")
    try:
        if fields["role"] not in list(Role):
            raise InvalidInput(fields=[FieldProblem("role", "Choose a role.")])
        try:
            key, plain = issue(fields["name"].strip(), Role(fields["role"]))
        except ValidationError:
            message = "Name whose key it is or what it is for, in 1 to 120 characters on one line."
            raise InvalidInput(fields=[FieldProblem("name", message)]) from None
    except InvalidInput as error:
        return await _keys(request, refused(error, "No key was made.", ("name", "role"), "name"), said=fields)
    with along(request, store.audit, told_key(key)):
        await asyncio.to_thread(store.keys.add, key)
    return await _keys(request, made=(key.name, plain))


@router.post("/keys/{key_id}/revoke")
@needs(Permission.MANAGE_KEYS)
@audited("revoked a key")
async def revoke_key(request: Request, key_id: Annotated[str, Path(pattern=r"^[a-z0-9]{12}$")]) -> Response:
    """Revoke a key at once."""
    store = services_of(request).store
    with along(request, store.audit, told_key):
        await asyncio.to_thread(store.keys.revoke, key_id)
    gate = gate_of(request)
    gate.authenticator.forget(key_id)
    if gate.sessions is not None:
        gate.sessions.forget(principal=f"key:{key_id}")
    return RedirectResponse("/keys", status_code=303)


@router.get("/audit")
@needs(Permission.MANAGE_KEYS)
async def audit_page(request: Request, before: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None) -> HTMLResponse:
    """The log, newest first, a page at a time."""
    store = services_of(request).store
    entries = await asyncio.to_thread(lambda: store.audit.entries(before=before, limit=PAGE + 1))
    return render(request, "audit.html.j2", entries=entries[:PAGE], more=len(entries) > PAGE, before=before)
