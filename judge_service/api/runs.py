"""Runs: many cases under one rubric and judge, in the background; their state and end."""

import asyncio
import uuid
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Body, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from judge_service.api.documents import GUARDED, answers, problems
from judge_service.api.examples import RUN
from judge_service.api.idempotency import KEY_PARAMETER, Stored, key_in, scope_of
from judge_service.api.preflight import demand_calibrated
from judge_service.api.run_documents import RunId, answered, bad_cursor, describe, run_in
from judge_service.api.run_requests import QUERY, REQUEST_BODY, read_wanted
from judge_service.api.services import RubricRoute, services_of
from judge_service.domain.run import Run, RunStatus
from judge_service.gate.route import needs, principal_of
from judge_service.security.roles import Permission

router = APIRouter(prefix="/v1", tags=["runs"], route_class=RubricRoute)


class ResumeRequest(BaseModel):
    """How to resume a run."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{"retry_errors": True}]})

    retry_errors: bool = Field(default=True, description="Judge cases that ended in `judge_error` again.")


@router.post(
    "/runs",
    status_code=202,
    summary="Start a run",
    response_class=Response,
    openapi_extra={"requestBody": REQUEST_BODY, "parameters": [*QUERY, KEY_PARAMETER]},
    responses={
        **answers(
            "The run is stored with all its cases and goes on in the background.", {**RUN, "notices": []}, status=202
        ),
        **problems(*GUARDED, 400, 404, 409, 413, 415, 422, 503),
    },
)
@needs(Permission.START_RUNS)
async def start_run(request: Request) -> Response:
    """Judge many cases in the background. Refused as a whole when one case is not valid; nothing is judged then.

    Cases come inline as JSON, or as the name of a set; or as a file (JSON lines, CSV, Parquet), either as the body
    with `rubric` and `judge` in the query or as the `file` of a form. Work that is recorded already is not asked again.
    """
    services = services_of(request)
    idempotency_key = key_in(request)
    await services.stored_judges.fresh()
    wanted = await read_wanted(request)
    judge = wanted.judge
    if wanted.calibrated:
        demand_calibrated(services.preflight.trust(wanted.rubric, judge), judge, wanted.rubric)
    await services.preflight.check(wanted.rubric, judge)

    async def work(run_id: str) -> Stored[Run]:
        run = await services.background.submit(wanted.cases, wanted.rubric, judge, run_id=run_id, source=wanted.source)
        return Stored(run.id, run, 202)

    async def load(run_id: str) -> Run | None:
        run = await asyncio.to_thread(services.store.runs.get, run_id)
        return run if run is not None and run.planned else None

    scope = scope_of(principal_of(request), "POST /v1/runs")
    stored, replayed = await services.once.make_under(
        f"run_{uuid.uuid4().hex}", scope, idempotency_key, wanted.content, work, load
    )
    headers = {"Location": f"/v1/runs/{stored.identifier}"}
    if replayed:
        headers["Idempotent-Replayed"] = "true"
    document = await describe(services, stored.value)
    return answered({**document, "notices": wanted.notices}, HTTPStatus.ACCEPTED, headers)


@router.get(
    "/runs",
    summary="List runs",
    response_class=Response,
    responses={
        **answers("Runs, newest first.", {"items": [RUN], "next_cursor": None}),
        **problems(*GUARDED, 422),
    },
)
@needs(Permission.READ_RUNS)
async def list_runs(
    request: Request,
    status: Annotated[RunStatus | None, Query(description="Only runs in this state.")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Annotated[
        str | None,
        Query(max_length=64, pattern=r"^[A-Za-z0-9_-]+$", description="`next_cursor` of the page before."),
    ] = None,
) -> Response:
    """Runs with their state and numbers, newest first."""
    services = services_of(request)
    before: Run | None = None
    if cursor is not None:
        before = await asyncio.to_thread(services.store.runs.get, cursor)
        if before is None:
            raise bad_cursor()

    def page() -> list[Run]:
        return list(services.store.runs.list(limit=limit + 1, before=before, status=status))

    runs = await asyncio.to_thread(page)
    more = len(runs) > limit
    items = [await describe(services, run) for run in runs[:limit]]
    return answered({"items": items, "next_cursor": runs[limit - 1].id if more else None}, 200)


@router.get(
    "/runs/{run_id}",
    summary="Read a run",
    response_class=Response,
    responses={**answers("State, progress and numbers.", RUN), **problems(*GUARDED, 404, 422)},
)
@needs(Permission.READ_RUNS)
async def read_run(request: Request, run_id: RunId) -> Response:
    """A run's state (`queued`, `running`, `cancelling`, then an end state), how far it is, and its aggregate."""
    services = services_of(request)
    return answered(await describe(services, await run_in(services, run_id)), 200)


@router.delete(
    "/runs/{run_id}",
    summary="Delete a run",
    response_class=Response,
    responses={
        **answers("The run is gone, and so many judgments with it.", {"id": "run_1", "n_judgments": 2}),
        **problems(*GUARDED, 404, 409, 422),
    },
)
@needs(Permission.DELETE_RUNS)
async def delete_run(request: Request, run_id: RunId) -> Response:
    """Delete an ended run with its cases and every judgment that no other run planned. 409 until it has ended."""
    services = services_of(request)
    n = await asyncio.to_thread(services.store.runs.delete, run_id)
    return answered({"id": run_id, "n_judgments": n}, 200)


@router.post(
    "/runs/{run_id}/cancel",
    status_code=202,
    summary="Cancel a run",
    response_class=Response,
    responses={
        **answers("No further case is started.", {**RUN, "status": "cancelling"}, status=202),
        **problems(*GUARDED, 404, 409, 422),
    },
)
@needs(Permission.CANCEL_RUNS)
async def cancel_run(request: Request, run_id: RunId) -> Response:
    """Ask for the end of a run: calls in flight are finished and recorded. Twice is harmless; 409 when it has ended."""
    services = services_of(request)
    await services.background.cancel(run_id)
    return answered(await describe(services, await run_in(services, run_id)), HTTPStatus.ACCEPTED)


@router.post(
    "/runs/{run_id}/resume",
    status_code=202,
    summary="Resume a run",
    response_class=Response,
    responses={
        **answers("The run goes on with what is missing.", RUN, status=202),
        **problems(*GUARDED, 400, 404, 409, 415, 422),
    },
)
@needs(Permission.START_RUNS)
async def resume_run(request: Request, run_id: RunId, body: Annotated[ResumeRequest | None, Body()] = None) -> Response:
    """Go on with a run that was cancelled, failed or finished with errors: only missing and failed cases are judged."""
    services = services_of(request)
    retry = body.retry_errors if body is not None else True
    await services.background.resume(run_id, retry_errors=retry)
    return answered(await describe(services, await run_in(services, run_id)), HTTPStatus.ACCEPTED)
