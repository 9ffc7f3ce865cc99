"""All routers, in the order in which the documentation lists them."""

from fastapi import APIRouter, FastAPI

from judge_service.api import (
    adjudication,
    calibrations,
    drift,
    health,
    judges,
    judgments,
    keys,
    labelling,
    projects,
    rubrics,
    run_reports,
    run_results,
    runs,
    selection_reports,
    set_imports,
    set_versions,
    sets,
    statistics,
    users,
)

ROUTERS: tuple[APIRouter, ...] = (
    judgments.router,
    runs.router,
    run_results.router,
    run_reports.router,
    sets.router,
    set_imports.router,
    set_versions.router,
    statistics.router,
    selection_reports.router,
    drift.router,
    calibrations.router,
    rubrics.router,
    judges.router,
    keys.router,
    users.router,
    projects.router,
    labelling.router,
    adjudication.router,
    health.router,
)


def include(app: FastAPI) -> None:
    """Put all routers into the application."""
    for router in ROUTERS:
        app.include_router(router)
