"""All pages for people and the files they load."""

from fastapi import APIRouter

from judge_service.web import files, people, start

ROUTERS: tuple[APIRouter, ...] = (start.router, people.router, files.router)
