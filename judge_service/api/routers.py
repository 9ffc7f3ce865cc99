"""All routers, in the order in which the documentation lists them."""

from fastapi import APIRouter

from judge_service.api import health, judges, judgments, keys, rubrics, run_reports, runs, sets, statistics, users

ROUTERS: tuple[APIRouter, ...] = (
    judgments.router,
    runs.router,
    run_reports.router,
    sets.router,
    statistics.router,
    rubrics.router,
    judges.router,
    keys.router,
    users.router,
    health.router,
)
