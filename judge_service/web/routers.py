"""All pages for people and the files they load."""

from fastapi import APIRouter

from judge_service.web import files, people, runs, selection_reports, start

ROUTERS: tuple[APIRouter, ...] = (
    start.router,
    people.router,
    selection_reports.router,
    runs.router,
    files.router,
)
