"""Notes in the audit log what the principal of a request did, after it was done."""

import asyncio

from starlette.requests import Request

from judge_service.gate.route import principal_of
from judge_service.store.audit import Audit


async def noted(request: Request, audit: Audit, what: str, object_: str) -> None:
    """Add an entry. `object_` names the thing for people: an id, and a name where it has one. Never a secret."""
    principal = principal_of(request)
    await asyncio.to_thread(audit.add, principal.id, principal.name, what, object_)
