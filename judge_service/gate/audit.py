"""What a route notes in the audit log: declared beside its permission, written in the transaction of the change."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from starlette.requests import Request

from judge_service.gate.route import principal_of
from judge_service.store.audit import Audit

F = TypeVar("F", bound=Callable[..., Any])
_ATTRIBUTE = "__judge_service_audited__"


def audited(what: str) -> Callable[[F], F]:
    """Declare what stands in the audit log for a change by this endpoint, such as `made a key`."""

    def mark(endpoint: F) -> F:
        setattr(endpoint, _ATTRIBUTE, what)
        return endpoint

    return mark


def audited_as(endpoint: Callable[..., Any]) -> str | None:
    """What an endpoint declares to note; None for one that notes nothing."""
    what: str | None = getattr(endpoint, _ATTRIBUTE, None)
    return what


@contextmanager
def along(
    request: Request, audit: Audit, object_: str | Callable[[Any], str], *, by: tuple[str, str] | None = None
) -> Iterator[None]:
    """Note what the next change inside does, in the change's own transaction: both are kept, or neither.

    What it is called is declared with `audited`. `object_` names the thing for people, an id and a name where it has
    one, or is made of what the change gives; never a secret. `by` is an id and a name where nobody is signed in.
    Raises TypeError on a route that declares nothing.
    """
    endpoint = request.scope["endpoint"]
    what = audited_as(endpoint)
    if what is None:
        raise TypeError(f"{endpoint.__qualname__} does not declare what it notes (`audited`)")
    if by is None:
        principal = principal_of(request)
        by = principal.id, principal.name
    with audit.along(*by, what, object_):
        yield
