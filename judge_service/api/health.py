"""Is the process alive, and what can it do? Open to everyone, without a word about addresses or paths."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from judge_service import __version__
from judge_service.api.documents import answers
from judge_service.api.services import services_of
from judge_service.gate.route import GuardedRoute, public

router = APIRouter(tags=["health"], route_class=GuardedRoute)

_READY: dict[str, Any] = {
    "status": "degraded",
    "components": [
        {"name": "database", "status": "ok", "detail": "answers"},
        {
            "name": "embedded model",
            "status": "missing",
            "detail": "not installed: run `judge-service models pull`; judges with another backend work",
        },
        {"name": "judges", "status": "ok", "detail": "5 configured"},
    ],
}


@router.head("/healthz", include_in_schema=False)
@router.get(
    "/healthz",
    summary="Alive?",
    responses=answers("The process answers.", {"status": "ok", "version": "0.1.0"}),
)
@public
async def healthz() -> dict[str, str]:
    """Answers as long as the process does; asks nothing else."""
    return {"status": "ok", "version": __version__}


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz",
    summary="Ready?",
    response_class=JSONResponse,
    responses={
        **answers("It can serve. `status` is `degraded` when a component cannot; each says what to do.", _READY),
        503: {
            "description": "It cannot serve anything: the database does not answer.",
            "content": {
                "application/json": {
                    "example": {
                        "status": "down",
                        "components": [{"name": "database", "status": "down", "detail": "does not answer"}],
                    }
                }
            },
        },
    },
)
@public
async def readyz(request: Request) -> JSONResponse:
    """What each component can do. Without its embedded model the service is degraded, not down: other judges work."""
    components = await services_of(request).components()
    states = {component.status for component in components}
    status = "down" if "down" in states else "ok" if states == {"ok"} else "degraded"
    return JSONResponse(
        {"status": status, "components": [component.as_json() for component in components]},
        status_code=503 if status == "down" else 200,
        headers={"Retry-After": "5"} if status == "down" else None,
    )
