"""Two plain pages for everyone: where to start, and every route. No script."""

import json
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from judge_service.gate.route import GuardedRoute, gate_of, public
from judge_service.web.pages import render

router = APIRouter(include_in_schema=False, route_class=GuardedRoute)


@router.get("/")
@public
async def index(request: Request) -> HTMLResponse:
    """Where to start."""
    await gate_of(request).visitor(request)
    return render(request, "index.html.j2")


def _example(operation: dict[str, Any]) -> str | None:
    """The first example of a request's body as text."""
    for media in operation.get("requestBody", {}).get("content", {}).values():
        examples = [media["example"]] if "example" in media else []
        examples += [example.get("value") for example in media.get("examples", {}).values()]
        if examples:
            first = examples[0]
            return first if isinstance(first, str) else json.dumps(first, indent=2, ensure_ascii=False)
    return None


def _route(method: str, path: str, operation: dict[str, Any]) -> dict[str, Any]:
    permission = operation.get("x-permission")
    roles = ", ".join(operation.get("x-roles", []))
    return {
        "method": method.upper(),
        "path": path,
        "summary": operation.get("summary", ""),
        "description": operation.get("description", ""),
        "needed": f"Permission {permission}: {roles}." if permission else "Open to everyone.",
        "example": _example(operation),
    }


@router.get("/docs")
@public
async def docs(request: Request) -> HTMLResponse:
    """Every route of the OpenAPI document, for reading."""
    await gate_of(request).visitor(request)
    paths = request.app.openapi()["paths"]
    routes = [_route(method, path, operation) for path, item in paths.items() for method, operation in item.items()]
    return render(request, "routes.html.j2", routes=routes)
