"""All pages for people and the files they load."""

from fastapi import APIRouter

from judge_service.web import files, start

ROUTERS: tuple[APIRouter, ...] = (start.router, files.router)
