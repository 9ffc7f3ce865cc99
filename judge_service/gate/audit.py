"""Notes in the audit log what the principal of a request did: along with the change, or after it was done."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from starlette.requests import Request

from judge_service.gate.route import principal_of
from judge_service.store.audit import Audit


@contextmanager
def along(request: Request, audit: Audit, what: str, object_: str | Callable[[Any], str]) -> Iterator[None]:
    """Note what the next change inside does, in the change's own transaction. `object_` as in `noted`, or made of what
    the change gives.
    """
    principal = principal_of(request)
    with audit.along(principal.id, principal.name, what, object_):
        yield


async def noted(request: Request, audit: Audit, what: str, object_: str) -> None:
    """Add an entry. `object_` names the thing for people: an id, and a name where it has one. Never a secret."""
    principal = principal_of(request)
    await asyncio.to_thread(audit.add, principal.id, principal.name, what, object_)
