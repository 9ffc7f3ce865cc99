"""People: users and the links that invite them, for leads. Nobody manages a role above their own."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from judge_service.api.documents import GUARDED, answers, problems
from judge_service.api.services import services_of
from judge_service.domain.audit import told_invitation, told_user
from judge_service.domain.principal import Role
from judge_service.domain.user import Invitation, User, UserName
from judge_service.gate.audit import along, audited
from judge_service.gate.people import change_user, invite
from judge_service.gate.route import GuardedRoute, gate_of, needs, principal_of
from judge_service.security.roles import Permission

router = APIRouter(prefix="/v1", tags=["people"], route_class=GuardedRoute)

UserId = Annotated[str, Path(pattern=r"^[a-z0-9]{12}$", description="The id of a user.")]
InvitationId = Annotated[str, Path(pattern=r"^[a-z0-9]{12}$", description="The id of an invitation.")]

_USER: dict[str, Any] = {
    "id": "p5h2k8m1n4q7",
    "name": "Ann Example",
    "role": "annotate",
    "created_at": "2026-01-15T09:30:00Z",
    "disabled_at": None,
    "signed_in_at": "2026-01-16T08:00:00Z",
    "has_password": True,
}
_INVITATION: dict[str, Any] = {
    "id": "v7c3x9b1n5m2",
    "role": "annotate",
    "name": None,
    "project": None,
    "made_by": "user:p5h2k8m1n4q7",
    "created_at": "2026-01-15T09:30:00Z",
    "expires_at": "2026-01-22T09:30:00Z",
    "used_at": None,
    "used_by": None,
    "revoked_at": None,
}


class InvitationRequest(BaseModel):
    """A link to make."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"role": "annotate", "days": 7}]})

    role: Role = Field(default=Role.ANNOTATE, description="What the person may do; at most your own role.")
    name: UserName | None = Field(default=None, description="The name that is proposed to the person.")
    project: str | None = Field(default=None, max_length=64, description="Labelling project that the person joins.")
    days: int = Field(default=7, ge=1, le=90, description="Days until the link expires.")


def shown_user(user: User) -> dict[str, Any]:
    """A user as leads see one: without the hash of the password."""
    shown = user.model_dump(mode="json", exclude={"password_hash"})
    return {**shown, "has_password": user.password_hash is not None}


def shown_invitation(invitation: Invitation) -> dict[str, Any]:
    """An invitation as leads see it: the link cannot be shown again."""
    return invitation.model_dump(mode="json", exclude={"digest"})


@router.get(
    "/users",
    summary="List users",
    responses={**answers("All users, disabled ones too.", {"items": [_USER]}), **problems(*GUARDED)},
)
@needs(Permission.MANAGE_USERS)
async def list_users(request: Request) -> dict[str, Any]:
    """Everybody who can sign in or could."""
    users = await asyncio.to_thread(services_of(request).store.users.all)
    return {"items": [shown_user(user) for user in users]}


@router.post(
    "/users/{user_id}/disable",
    summary="Disable a user",
    responses={
        **answers("The disabled user.", {**_USER, "disabled_at": "2026-02-01T08:00:00Z"}),
        **problems(*GUARDED, 404, 422),
    },
)
@needs(Permission.MANAGE_USERS)
@audited("disabled a person")
async def disable_user(request: Request, user_id: UserId) -> dict[str, Any]:
    """End the user's sessions and refuse new ones. Labels stay. Twice is harmless."""
    services, principal = services_of(request), principal_of(request)
    with along(request, services.store.audit, told_user):
        user = await asyncio.to_thread(lambda: change_user(services.store.users, principal, user_id, disable=True))
    sessions = gate_of(request).sessions
    if sessions is not None:
        sessions.forget(principal=f"user:{user_id}")
    return shown_user(user)


@router.post(
    "/users/{user_id}/enable",
    summary="Enable a user",
    responses={**answers("The user.", _USER), **problems(*GUARDED, 404, 422)},
)
@needs(Permission.MANAGE_USERS)
@audited("enabled a person")
async def enable_user(request: Request, user_id: UserId) -> dict[str, Any]:
    """Let a disabled user sign in again."""
    services, principal = services_of(request), principal_of(request)
    with along(request, services.store.audit, told_user):
        user = await asyncio.to_thread(lambda: change_user(services.store.users, principal, user_id, disable=False))
    return shown_user(user)


@router.post(
    "/invitations",
    status_code=201,
    summary="Invite a person",
    responses={
        **answers(
            "The invitation and its link, which cannot be shown again.",
            {**_INVITATION, "link": "https://judge.example.org/invitations/ji_<secret>"},
            status=201,
        ),
        **problems(*GUARDED, 400, 404, 413, 415, 422),
    },
)
@needs(Permission.MANAGE_USERS)
@audited("invited a person")
async def make_invitation(request: Request, body: InvitationRequest) -> dict[str, Any]:
    """Make a link that lets one person choose a name and a password, once. Only a digest of it is kept."""
    services, principal = services_of(request), principal_of(request)
    if body.project is not None:
        await asyncio.to_thread(services.store.projects.get, body.project)
    with along(request, services.store.audit, told_invitation):
        invitation, path = await asyncio.to_thread(
            lambda: invite(
                services.store.users, principal, role=body.role, name=body.name, project=body.project, days=body.days
            )
        )
    base = services.settings.public_url or str(request.base_url).rstrip("/")
    return {**shown_invitation(invitation), "link": f"{base}{path}"}


@router.get(
    "/invitations",
    summary="List invitations",
    responses={
        **answers("All invitations, used and expired ones too.", {"items": [_INVITATION]}),
        **problems(*GUARDED),
    },
)
@needs(Permission.MANAGE_USERS)
async def list_invitations(request: Request) -> dict[str, Any]:
    """Every invitation, without its link."""
    invitations = await asyncio.to_thread(services_of(request).store.users.invitations)
    return {"items": [shown_invitation(invitation) for invitation in invitations]}


@router.post(
    "/invitations/{invitation_id}/revoke",
    summary="Revoke an invitation",
    responses={
        **answers("The revoked invitation.", {**_INVITATION, "revoked_at": "2026-01-16T08:00:00Z"}),
        **problems(*GUARDED, 404, 422),
    },
)
@needs(Permission.MANAGE_USERS)
@audited("revoked an invitation")
async def revoke_invitation(request: Request, invitation_id: InvitationId) -> dict[str, Any]:
    """The link works no more. A used one stays used."""
    store = services_of(request).store
    with along(request, store.audit, invitation_id):
        revoked = await asyncio.to_thread(store.users.revoke_invitation, invitation_id)
    return shown_invitation(revoked)
