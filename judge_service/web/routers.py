"""All pages for people and the files they load."""

from fastapi import APIRouter

from judge_service.web import (
    disagreements,
    files,
    imports,
    judges,
    judgments,
    keys,
    labelling,
    opening,
    people,
    projects,
    runs,
    selection_reports,
    sets,
    start,
)

ROUTERS: tuple[APIRouter, ...] = (
    start.router,
    labelling.router,
    # `/projects/new` before `/projects/{id}`.
    opening.router,
    projects.router,
    disagreements.router,
    sets.router,
    imports.router,
    judges.router,
    keys.router,
    selection_reports.router,
    runs.router,
    judgments.router,
    people.router,
    files.router,
)
