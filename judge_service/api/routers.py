"""All routers, in the order in which the documentation lists them."""

from fastapi import APIRouter, Depends, FastAPI

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
from judge_service.api.services import rubrics_in_step

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

WITHOUT_RUBRICS = (keys.router, users.router, health.router)
"""Routers whose routes name no rubric: they answer without looking at the table of declared ones."""


def include(app: FastAPI) -> None:
    """Put all routers into the application. Declared rubrics are kept in step here, for every route at once."""
    for router in ROUTERS:
        before = [] if router in WITHOUT_RUBRICS else [Depends(rubrics_in_step)]
        app.include_router(router, dependencies=before)
