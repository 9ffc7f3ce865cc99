"""All routers, in the order in which the documentation lists them."""

from fastapi import APIRouter

from judge_service.api import health, judges, judgments, keys, pages, rubrics

ROUTERS: tuple[APIRouter, ...] = (
    judgments.router,
    rubrics.router,
    judges.router,
    keys.router,
    health.router,
    pages.router,
)
