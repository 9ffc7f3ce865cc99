"""A route that states who may use it. One that states nothing cannot be made.

Key, rate, permission and the strict reading of the body all happen before FastAPI reads a byte of the body.
"""

from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from typing import Any, TypeVar
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute

from judge_service.domain.principal import Principal
from judge_service.errors import FieldProblem, InvalidInput, Unauthenticated
from judge_service.gate.authentication import Gate
from judge_service.gate.reading import strict_request
from judge_service.security.roles import Permission, roles_with

F = TypeVar("F", bound=Callable[..., Any])
SECURITY_SCHEME = "apiKey"
"""Name of the key scheme in the OpenAPI document."""
_ATTRIBUTE = "__judge_service_permission__"


def needs(permission: Permission) -> Callable[[F], F]:
    """Declare the permission that a caller of this endpoint needs."""

    def mark(endpoint: F) -> F:
        setattr(endpoint, _ATTRIBUTE, permission)
        return endpoint

    return mark


def public(endpoint: F) -> F:
    """Declare an endpoint open to everyone, without a key."""
    setattr(endpoint, _ATTRIBUTE, None)
    return endpoint


def permission_of(endpoint: Callable[..., Any]) -> Permission | None:
    """The declared permission, None for a public endpoint. Raises TypeError where nothing is declared."""
    if not hasattr(endpoint, _ATTRIBUTE):
        name = getattr(endpoint, "__qualname__", repr(endpoint))
        raise TypeError(f"{name} declares neither a permission (`needs`) nor that it is public (`public`)")
    permission: Permission | None = getattr(endpoint, _ATTRIBUTE)
    return permission


def principal_of(request: Request) -> Principal:
    """The principal of a request to a guarded route."""
    principal = request.state.principal
    if not isinstance(principal, Principal):
        raise TypeError("this route is public: it has no principal")
    return principal


def gate_of(request: Request) -> Gate:
    """The gate in front of a request."""
    gate: Gate = request.app.state.gate
    return gate


def _is_page(request: Request) -> bool:
    """True for what a person opens in a browser: those are led to the sign-in, programs get 401."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/v1/")


def _sign_in(request: Request) -> str:
    if request.method not in ("GET", "HEAD"):
        # What was posted is gone; its own page has the draft.
        return f"/sign-in?{urlencode({'next': request.url.path})}"
    query = f"?{request.url.query}" if request.url.query else ""
    return f"/sign-in?{urlencode({'next': request.url.path + query})}"


def _query_of(dependant: Dependant) -> Iterator[str]:
    """The query parameters that an endpoint and what it depends on declare."""
    yield from (field.alias for field in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _query_of(inner)


def refuse_unknown(given: Iterable[str], known: Collection[str]) -> None:
    """Raise InvalidInput naming query parameters that a route does not know: ignored they would mislead."""
    unknown = [name for name in dict.fromkeys(given) if name not in known]
    if unknown:
        said = f"known here: {', '.join(sorted(known))}" if known else "none is known here"
        raise InvalidInput(
            fields=[FieldProblem(f"query.{name[:80]}", f"query.{name[:80]} is not known; {said}.") for name in unknown]
        )


class GuardedRoute(APIRoute):
    """Admits a request, reads its JSON body strictly, then lets FastAPI do its part."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.permission = permission_of(endpoint)
        extra = dict(options.pop("openapi_extra", None) or {})
        if self.permission is not None:
            extra["security"] = [{SECURITY_SCHEME: []}]
            extra["x-permission"] = self.permission.value
            extra["x-roles"] = [role.value for role in roles_with(self.permission)]
        self._described = frozenset(one["name"] for one in extra.get("parameters", ()) if one["in"] == "query")
        super().__init__(path, endpoint, openapi_extra=extra, **options)

    async def prepare(self, request: Request) -> None:
        """What is to be done before an admitted request is answered; nothing, where a kind of route needs nothing."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The endpoint behind the gate."""
        permission = self.permission
        reads_json = self.body_field is not None
        query = self._described.union(_query_of(self.dependant)) if self.path.startswith("/v1/") else None
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await admitted(request)
            finally:
                # Files of a form that was read, by the route or for its token.
                await request.close()

        async def admitted(request: Request) -> Response:
            gate = gate_of(request)
            if permission is not None:
                try:
                    await gate.admit(request, permission)
                except Unauthenticated:
                    if not _is_page(request):
                        raise
                    return RedirectResponse(_sign_in(request), status_code=303)
            if query is not None:
                refuse_unknown(request.query_params.keys(), query)
            if reads_json:
                request = await strict_request(request, max_depth=gate.max_json_depth)
            await self.prepare(request)
            return await inner(request)

        return handle
