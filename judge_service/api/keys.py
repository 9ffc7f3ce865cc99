"""API keys, for admins: made and shown once, listed without secrets, revoked."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from judge_service.api.documents import GUARDED, answers, problems
from judge_service.api.services import services_of
from judge_service.domain.audit import told_key
from judge_service.domain.principal import ApiKey, KeyName, Role
from judge_service.gate.audit import along, audited
from judge_service.gate.route import GuardedRoute, gate_of, needs
from judge_service.security.keys import issue
from judge_service.security.roles import Permission

router = APIRouter(prefix="/v1", tags=["keys"], route_class=GuardedRoute)

KeyId = Annotated[str, Path(pattern=r"^[a-z0-9]{12}$", description="The public id of a key.")]

_EXAMPLE: dict[str, Any] = {
    "id": "k3v9x0a1b2c4",
    "name": "nightly pipeline",
    "role": "score",
    "last_four": "9fQz",
    "created_at": "2026-01-15T09:30:00Z",
    "last_used_at": None,
    "revoked_at": None,
}


class KeyRequest(BaseModel):
    """A key to make."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"name": "nightly pipeline", "role": "score"}]}
    )

    name: KeyName = Field(description="Whose key it is or what it is for.")
    role: Role = Field(description="What the key may do.")


def shown(key: ApiKey) -> dict[str, Any]:
    """A key as admins see it: neither the key nor what it is verified with."""
    return key.model_dump(mode="json", exclude={"salt", "digest"})


@router.post(
    "/keys",
    status_code=201,
    summary="Make an API key",
    responses={
        **answers("The key. It cannot be shown again.", {**_EXAMPLE, "key": "jk_<id>_<secret>"}, status=201),
        **problems(*GUARDED, 400, 413, 415, 422),
    },
)
@needs(Permission.MANAGE_KEYS)
@audited("made a key")
async def create_key(request: Request, body: KeyRequest) -> dict[str, Any]:
    """Make a key for a role. Copy `key` now: only a salted digest of it is kept."""
    key, plain = issue(body.name, body.role)
    store = services_of(request).store
    with along(request, store.audit, told_key(key)):
        await asyncio.to_thread(store.keys.add, key)
    return {**shown(key), "key": plain}


@router.get(
    "/keys",
    summary="List API keys",
    responses={**answers("All keys, revoked ones too.", {"items": [_EXAMPLE]}), **problems(*GUARDED)},
)
@needs(Permission.MANAGE_KEYS)
async def list_keys(request: Request) -> dict[str, Any]:
    """Every key with its role, last four characters and last use."""
    keys = await asyncio.to_thread(services_of(request).store.keys.all)
    return {"items": [shown(key) for key in keys]}


@router.post(
    "/keys/{key_id}/revoke",
    summary="Revoke an API key",
    responses={
        **answers("The revoked key.", {**_EXAMPLE, "revoked_at": "2026-02-01T08:00:00Z"}),
        **problems(*GUARDED, 404, 422),
    },
)
@needs(Permission.MANAGE_KEYS)
@audited("revoked a key")
async def revoke_key(request: Request, key_id: KeyId) -> dict[str, Any]:
    """Revoke a key. It stops working at once here and within seconds in other processes; twice is harmless."""
    store = services_of(request).store
    with along(request, store.audit, told_key):
        key = await asyncio.to_thread(store.keys.revoke, key_id)
    gate_of(request).authenticator.forget(key_id)
    return shown(key)
