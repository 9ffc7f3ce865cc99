"""Drift: have a judge's anchors judged again in the background, and read baselines and checks."""

import asyncio
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from judge_service.api.documents import GUARDED, answers, problems
from judge_service.api.services import RubricRoute, judge_in, rubric_in, services_of
from judge_service.domain.calibration_set import Split
from judge_service.domain.drift import DriftRecord, DriftTask
from judge_service.errors import NotFound
from judge_service.gate.route import needs
from judge_service.security.roles import Permission
from judge_service.sets.drift import MOST_REPEATS, REPEATS, Asked

router = APIRouter(prefix="/v1", tags=["drift"], route_class=RubricRoute)

_RECORD: dict[str, Any] = {
    "id": "drift_0d9c8b7a6f5e4d3c2b1a0f9e8d7c6b5a",
    "kind": "check",
    "set_id": "helpdesk@1",
    "judge": "longer",
    "look": 3,
    "n": 120,
    "verdict": "no change seen",
    "result": {
        "flip_rate": {"value": 0.008, "low": 0.001, "high": 0.046, "n": 120, "method": "wilson"},
        "noise": 0.039,
        "smallest_flip_rate": {"value": 0.107, "n": 120},
        "smallest_drop": {"value": 0.033, "n": 120},
    },
}
_ASKED: dict[str, Any] = {"set": "helpdesk@1", "judge": "longer", "rubric": None, "split": None, "repeats": 5}
_TASK: dict[str, Any] = {
    "id": "task_5f0c",
    "state": "running",
    "set": "helpdesk@1",
    "judge": "longer",
    "asked": _ASKED | {"new_baseline": False, "planned": None},
    "error": None,
    "record": None,
}


class DriftRequest(BaseModel):
    """What to check."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"set": "helpdesk@1", "judge": "longer", "repeats": 5}]}
    )

    set: str = Field(min_length=1, max_length=80, description="Frozen set: `name@version`, or `name` for the newest.")
    judge: str = Field(min_length=1, max_length=64, description="Name of a configured judge.")
    rubric: str | None = Field(default=None, max_length=200, description="Rubric whose labels count.")
    split: Split | None = Field(
        default=None, description="Anchors; by default monitoring, or all but release where the set has none."
    )
    repeats: int = Field(default=REPEATS, ge=2, le=MOST_REPEATS, description="Repeats of a baseline to be made.")
    new_baseline: bool = Field(default=False, description="Make a new baseline instead of a check.")
    planned: int | None = Field(default=None, ge=1, le=10_000, description="Looks that share the error level equally.")


def _shown(task: DriftTask, record: DriftRecord | None = None) -> dict[str, Any]:
    return {
        "id": task.id,
        "state": task.state.value,
        "set": task.set_id,
        "judge": task.judge,
        "asked": task.asked,
        "error": task.message,
        "record": None if record is None else document(record),
    }


def document(record: DriftRecord) -> dict[str, Any]:
    """A record as JSON."""
    return record.model_dump(mode="json")


@router.post(
    "/drift",
    status_code=202,
    summary="Check a judge for drift",
    response_class=Response,
    responses={
        **answers("The anchors are judged in the background.", _TASK, status=202),
        **problems(*GUARDED, 400, 404, 409, 415, 422, 503),
    },
)
@needs(Permission.CHECK_DRIFT)
async def start_check(request: Request, body: DriftRequest) -> JSONResponse:
    """Judge the anchors again, past the cache; the first time, several times for a baseline.

    The answer names a task; `GET /v1/drift/tasks/{task_id}` says when its record is there. A judge is checked on a set
    once at a time, whichever process is asked.
    """
    services = services_of(request)
    await services.stored_judges.fresh()
    judge_in(services, body.judge)
    if body.rubric is not None:
        rubric_in(body.rubric)
    task = await services.watch.start(Asked(**body.model_dump()))
    headers = {"Location": f"/v1/drift/tasks/{task.id}"}
    return JSONResponse(_shown(task), HTTPStatus.ACCEPTED, headers)


@router.get(
    "/drift/tasks/{task_id}",
    summary="Read the state of a drift check",
    responses={**answers("`running`, `done` with the record, or `failed`.", _TASK), **problems(*GUARDED, 404, 422)},
)
@needs(Permission.READ_STATISTICS)
async def read_task(
    request: Request, task_id: Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
) -> dict[str, Any]:
    """A check, whichever process makes it. One whose process ended has failed; `POST /v1/drift` with `asked` again uses
    what was judged. Of ended checks the newest 256 are kept, records for ever.
    """
    services = services_of(request)
    task = await services.watch.task(task_id)
    if task is None:
        raise NotFound(f"There is no task {task_id!r}.")
    record = None if task.record_id is None else await asyncio.to_thread(services.store.drift.get, task.record_id)
    return _shown(task, record)


@router.get(
    "/drift",
    summary="List baselines and checks",
    responses={**answers("Baselines and checks, newest first.", {"items": [_RECORD]}), **problems(*GUARDED, 422)},
)
@needs(Permission.READ_STATISTICS)
async def list_records(
    request: Request,
    set_id: Annotated[str | None, Query(alias="set", max_length=80, description="Only of this set version.")] = None,
    judge: Annotated[str | None, Query(max_length=64, description="Only of this judge.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> dict[str, Any]:
    """Baselines of anchors and the checks that were held against them."""
    store = services_of(request).store
    found = await asyncio.to_thread(store.drift.all, set_id=set_id, judge=judge, limit=limit)
    return {"items": [document(record) for record in found]}


@router.get(
    "/drift/{record_id}",
    summary="Read a baseline or a check",
    responses={
        **answers("A baseline, or a check with its verdict and figures.", _RECORD),
        **problems(*GUARDED, 404, 422),
    },
)
@needs(Permission.READ_STATISTICS)
async def read_record(
    request: Request, record_id: Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
) -> dict[str, Any]:
    """One baseline or check with all its figures."""
    record = await asyncio.to_thread(services_of(request).store.drift.get, record_id)
    if record is None:
        raise NotFound(f"There is no drift record {record_id!r}.")
    return document(record)
