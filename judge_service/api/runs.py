"""Runs: many cases under one rubric and judge, in the background; their state, results and end.

Owns the three shapes of a request that starts one: JSON with cases, a JSONL body, a form with a JSONL file.
"""

import asyncio
import hashlib
import json
import os
import pathlib
import tempfile
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Path, Query, Request
from fastapi.responses import FileResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from starlette.background import BackgroundTask
from starlette.datastructures import UploadFile

from judge_service.api.cases import cases_in
from judge_service.api.documents import GUARDED, answers, problems
from judge_service.api.examples import JUDGMENT, PAIRWISE_CASE, RUN
from judge_service.api.idempotency import IdempotencyKey, Stored, scope_of
from judge_service.api.preflight import demand_calibrated
from judge_service.api.services import Services, hash_of, judge_in, rubric_in, services_of
from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import Outcome
from judge_service.domain.run import OWN_SOURCES, Run, RunStatus
from judge_service.errors import FieldProblem, InvalidInput, NotFound, UnsupportedMediaType
from judge_service.gate.fields import field_problems
from judge_service.gate.reading import is_json, read_json
from judge_service.gate.route import GuardedRoute, gate_of, needs, principal_of
from judge_service.runs.aggregate import aggregate
from judge_service.runs.casefile import read_cases
from judge_service.runs.exports import judgment_line, parquet
from judge_service.runs.watching import watch
from judge_service.security.roles import Permission
from judge_service.store import Only
from rubrics.model import Rubric
from rubrics.registry import UnknownRubric, get_rubric

router = APIRouter(prefix="/v1", tags=["runs"], route_class=GuardedRoute)

RunId = Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
JSONL = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"})
PARQUET = "application/vnd.apache.parquet"
_PAGE = 256
_EVENT_EXAMPLE = 'event: end\ndata: {"id":"run_1","status":"finished","n_total":2,"n_done":2}\n\n'


class RunOptions(BaseModel):
    """What every way of starting a run states."""

    model_config = ConfigDict(extra="forbid")

    rubric: str = Field(min_length=1, max_length=200, description="`name@version`, or `name` for the newest.")
    judge: str = Field(min_length=1, max_length=64, description="Name of a configured judge.")
    require: Literal["calibrated"] | None = Field(
        default=None, description="Answer 409 instead of starting unless the judge is calibrated for this rubric."
    )
    source: str | None = Field(default=None, max_length=200, description="A name for people, such as a file name.")

    @field_validator("source")
    @classmethod
    def _names_no_set(cls, source: str | None) -> str | None:
        # Cases of a caller's own making under the ids of a set would count as the set's in its statistics.
        if source is not None and source.startswith(OWN_SOURCES):
            raise ValueError(f"must not begin with {' or '.join(map(repr, OWN_SOURCES))}: such runs are over sets")
        return source


class RunRequest(RunOptions):
    """A run with its cases inline."""

    model_config = ConfigDict(extra="forbid", strict=True)

    cases: list[Any] = Field(min_length=1, description="Cases as in POST /v1/judgments. Ids must differ.")


class UploadOptions(RunOptions):
    """A run whose cases come as JSONL."""

    unknown_fields: Literal["refuse", "keep"] = Field(
        default="refuse",
        description="`keep`: scalar fields that the rubric does not know become metadata, others are dropped.",
    )


class ResumeRequest(BaseModel):
    """How to resume a run."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{"retry_errors": True}]})

    retry_errors: bool = Field(default=True, description="Judge cases that ended in `judge_error` again.")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A request to start a run, read and valid, before anything is stored."""

    options: RunOptions
    rubric: Rubric[Any]
    cases: list[Case]
    content: dict[str, Any]
    notices: list[str]


def _options(model: type[RunOptions], fields: dict[str, Any]) -> Any:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        problems_ = field_problems(error.errors(include_url=False, include_input=False))
        raise InvalidInput(problems_[0].message, fields=problems_) from None


async def _from_json(request: Request) -> _Wanted:
    value = await read_json(request, max_depth=gate_of(request).max_json_depth)
    if not isinstance(value, dict):
        raise InvalidInput(fields=[FieldProblem("body", "body must be an object.")])
    options: RunRequest = _options(RunRequest, value)
    rubric = rubric_in(options.rubric)
    judge_in(services_of(request), options.judge)
    cases = await asyncio.to_thread(cases_in, options.cases, rubric)
    return _Wanted(options, rubric, cases, value, [])


async def _from_lines(request: Request, fields: dict[str, Any], content: bytes) -> _Wanted:
    options: UploadOptions = _options(UploadOptions, fields)
    rubric = rubric_in(options.rubric)
    judge_in(services_of(request), options.judge)

    def read() -> tuple[list[Case], list[str]]:
        reader = read_cases(content, rubric, strict=options.unknown_fields == "refuse")
        return list(reader), reader.notices

    cases, notices = await asyncio.to_thread(read)
    if not cases:
        raise InvalidInput(fields=[FieldProblem("file", "file holds no case.")])
    named = {**options.model_dump(mode="json"), "file": hashlib.sha256(content).hexdigest()}
    return _Wanted(options, rubric, cases, named, notices)


async def _from_form(request: Request) -> _Wanted:
    async with request.form(max_files=1, max_fields=16) as form:
        fields: dict[str, Any] = {}
        upload: UploadFile | None = None
        for name, value in form.multi_items():
            if name in fields or (name == "file" and upload is not None):
                raise InvalidInput(fields=[FieldProblem(name, f"{name} is there more than once.")])
            if name == "file" and isinstance(value, UploadFile):
                upload = value
            elif isinstance(value, str):
                fields[name] = value
            else:
                raise InvalidInput(fields=[FieldProblem(name, f"{name} must be text; the cases go into `file`.")])
        if upload is None:
            raise InvalidInput(fields=[FieldProblem("file", "file is required: the cases as JSON lines.")])
        if upload.filename and "source" not in fields:
            fields["source"] = upload.filename[:200]
        content = await upload.read()
    return await _from_lines(request, fields, content)


async def _wanted(request: Request) -> _Wanted:
    content_type = request.headers.get("content-type", "")
    kind = content_type.partition(";")[0].strip().lower()
    if is_json(content_type):
        return await _from_json(request)
    if kind in JSONL:
        doubled = [name for name in request.query_params if len(request.query_params.getlist(name)) > 1]
        if doubled:
            raise InvalidInput(fields=[FieldProblem(doubled[0], f"{doubled[0]} is there more than once.")])
        return await _from_lines(request, dict(request.query_params), await request.body())
    if kind == "multipart/form-data":
        return await _from_form(request)
    raise UnsupportedMediaType(
        "Send cases as `application/json`, as JSON lines with `application/x-ndjson`, or as a form with a `file`."
    )


async def describe(services: Services, run: Run) -> dict[str, Any]:
    """A run as callers see it: state, progress and the numbers recorded so far."""
    counts = await asyncio.to_thread(services.store.runs.counts, run.id)
    n_judged = sum(count.n for count in counts)
    numbers: dict[str, Any] | None = None
    try:
        rubric = get_rubric(run.rubric)
    except UnknownRubric:
        # The run was made by another version of the program: its rows are still readable.
        rubric = None
    if rubric is not None:
        panel = bool(run.judge.panel)
        numbers = aggregate(rubric, counts, max(run.n_planned, n_judged), panel=panel).model_dump(mode="json")
    live = services.background.progress(run.id)
    return {
        **run.model_dump(mode="json", exclude={"judge", "worker", "heartbeat_at", "planned", "n_planned"}),
        "judge": run.judge.name,
        "judge_hash": hash_of(services, run.judge),
        "progress": {
            "n_total": run.n_planned,
            "n_done": n_judged,
            "rate_per_s": live.rate if live is not None else None,
            "eta_s": live.eta_s if live is not None else None,
        },
        "aggregate": numbers,
        "results_url": f"/v1/runs/{run.id}/results",
    }


def _json(document: dict[str, Any], status: int, headers: dict[str, str] | None = None) -> Response:
    content = json.dumps(document, ensure_ascii=True, allow_nan=False)
    return Response(content, status_code=status, media_type="application/json", headers=headers)


_JSONL_EXAMPLE = json.dumps(PAIRWISE_CASE) + "\n"
_REQUEST_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {
            "schema": RunRequest.model_json_schema(),
            "example": {"rubric": "pairwise@1", "judge": "longer", "cases": [PAIRWISE_CASE]},
        },
        "application/x-ndjson": {"schema": {"type": "string"}, "example": _JSONL_EXAMPLE},
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["rubric", "judge", "file"],
                "properties": {
                    **UploadOptions.model_json_schema()["properties"],
                    "file": {"type": "string", "contentMediaType": "application/x-ndjson"},
                },
            },
            "example": {"rubric": "pairwise@1", "judge": "longer", "file": _JSONL_EXAMPLE},
        },
    },
}
_QUERY: list[dict[str, Any]] = [
    {
        "name": name,
        "in": "query",
        "required": False,
        "schema": schema,
        "description": f"For `application/x-ndjson` only. {schema.get('description', '')}".strip(),
    }
    for name, schema in UploadOptions.model_json_schema()["properties"].items()
]


@router.post(
    "/runs",
    status_code=202,
    summary="Start a run",
    response_class=Response,
    openapi_extra={"requestBody": _REQUEST_BODY, "parameters": _QUERY},
    responses={
        **answers(
            "The run is stored with all its cases and goes on in the background.", {**RUN, "notices": []}, status=202
        ),
        **problems(*GUARDED, 400, 409, 413, 415, 422, 503),
    },
)
@needs(Permission.START_RUNS)
async def start_run(request: Request, idempotency_key: IdempotencyKey = None) -> Response:
    """Judge many cases in the background. Refused as a whole when one case is not valid; nothing is judged then.

    Cases come inline as JSON; or as JSON lines, either as the body (`application/x-ndjson`, with `rubric` and
    `judge` in the query) or as the `file` of a form. Work that is recorded already is not asked again.
    """
    services = services_of(request)
    await services.stored_judges.fresh()
    wanted = await _wanted(request)
    judge = judge_in(services, wanted.options.judge)
    if wanted.options.require is not None:
        demand_calibrated(services.preflight.trust(wanted.rubric, judge), judge, wanted.rubric)
    await services.preflight.check(wanted.rubric, judge)

    async def work(run_id: str) -> Stored[Run]:
        run = await services.background.submit(
            wanted.cases, wanted.rubric, judge, run_id=run_id, source=wanted.options.source
        )
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
    return _json({**document, "notices": wanted.notices}, HTTPStatus.ACCEPTED, headers)


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
            raise _bad_cursor()

    def page() -> list[Run]:
        return list(services.store.runs.list(limit=limit + 1, before=before, status=status))

    runs = await asyncio.to_thread(page)
    more = len(runs) > limit
    items = [await describe(services, run) for run in runs[:limit]]
    return _json({"items": items, "next_cursor": runs[limit - 1].id if more else None}, 200)


def _bad_cursor() -> InvalidInput:
    message = "query.cursor is none that this service gave."
    return InvalidInput(message, fields=[FieldProblem("query.cursor", message)])


async def _run(services: Services, run_id: str) -> Run:
    run = await asyncio.to_thread(services.store.runs.get, run_id)
    if run is None:
        raise NotFound(f"There is no run {run_id}.")
    return run


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
    return _json(await describe(services, await _run(services, run_id)), 200)


def _after(cursor: str | None) -> int:
    if cursor is None:
        return -1
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 15:
        raise _bad_cursor()
    return int(cursor)


@router.get(
    "/runs/{run_id}/results",
    summary="Read a run's judgments",
    response_class=Response,
    responses={
        200: {
            "description": "Judgments in the order of the cases: a page as JSON, or all of them as a file.",
            "content": {
                "application/json": {"example": {"items": [JUDGMENT], "next_cursor": None, "complete": True}},
                "application/x-ndjson": {"example": json.dumps(JUDGMENT) + "\n"},
                PARQUET: {"schema": {"type": "string", "format": "binary"}, "example": "PAR1"},
            },
        },
        **problems(*GUARDED, 404, 422),
    },
)
@needs(Permission.READ_RUNS)
async def read_results(
    request: Request,
    run_id: RunId,
    limit: Annotated[int, Query(ge=1, le=1000, description="Judgments on a page of JSON.")] = 100,
    cursor: Annotated[str | None, Query(max_length=32, description="`next_cursor` of the page before.")] = None,
    outcome: Annotated[Outcome | None, Query(description="Only judgments with this outcome.")] = None,
    of_slice: Annotated[
        str | None,
        Query(
            alias="slice",
            max_length=1000,
            pattern=r"(?s)^[^=]+=.*$",
            description="`key=value`: only cases with this metadata value (or `group=...`).",
        ),
    ] = None,
    score_from: Annotated[float | None, Query(allow_inf_nan=False, description="Only scores of at least this.")] = None,
    score_to: Annotated[float | None, Query(allow_inf_nan=False, description="Only scores of at most this.")] = None,
) -> Response:
    """The current judgments of a run's cases, in the order of the cases. Cases without one are left out.

    With `Accept: application/x-ndjson` everything after `cursor` comes as one stream of JSON lines, with
    `application/vnd.apache.parquet` everything as a Parquet file. `complete` says that the run has ended: until then
    a case may still get its judgment behind the cursor.
    """
    services = services_of(request)
    after = _after(cursor)
    run = await _run(services, run_id)
    key, equals, value = (of_slice or "").partition("=")
    only = Only((key, value) if equals else None, score_from, score_to)
    accept = request.headers.get("accept", "")
    if _wants(accept, JSONL):
        return StreamingResponse(
            _lines(services, run.judge, run_id, after, outcome, only), media_type="application/x-ndjson"
        )
    if _wants(accept, frozenset({PARQUET})):
        return await _parquet(services, run, outcome, only)

    def page() -> list[tuple[int, str]]:
        found = services.store.runs.results(run_id, after=after, limit=limit + 1, outcome=outcome, only=only)
        now = services.judging.as_of_now
        return [(position, judgment_line(now(judgment, run.judge)).rstrip("\n")) for position, judgment in found]

    rows = await asyncio.to_thread(page)
    cursor_after = json.dumps(str(rows[limit - 1][0])) if len(rows) > limit else "null"
    items = ",".join(text for _, text in rows[:limit])
    content = f'{{"items":[{items}],"next_cursor":{cursor_after},"complete":{json.dumps(run.status.ended)}}}'
    return Response(content, media_type="application/json")


def _wants(accept: str, wanted: frozenset[str]) -> bool:
    kinds = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    return any(kind in wanted for kind in kinds)


async def _lines(
    services: Services, judge: Judge, run_id: str, after: int, outcome: Outcome | None, only: Only
) -> AsyncIterator[str]:
    while True:

        def page(start: int = after) -> list[tuple[int, str]]:
            found = services.store.runs.results(run_id, after=start, limit=_PAGE, outcome=outcome, only=only)
            now = services.judging.as_of_now
            return [(position, judgment_line(now(judgment, judge))) for position, judgment in found]

        rows = await asyncio.to_thread(page)
        yield "".join(text for _, text in rows)
        if len(rows) < _PAGE:
            return
        after = rows[-1][0]


async def _parquet(services: Services, run: Run, outcome: Outcome | None, only: Only) -> Response:
    """A file made on the disk and sent from there: a million rows never stand in memory."""
    handle, name = tempfile.mkstemp(suffix=".parquet")
    os.close(handle)
    path = pathlib.Path(name)

    def make() -> None:
        now = services.judging.as_of_now
        try:
            parquet(services.store, run.id, path, outcome=outcome, only=only, now=lambda one: now(one, run.judge))
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    await asyncio.to_thread(make)
    return FileResponse(
        path, media_type=PARQUET, filename=f"{run.id}.parquet", background=BackgroundTask(path.unlink, missing_ok=True)
    )


@router.get(
    "/runs/{run_id}/events",
    summary="Watch a run",
    response_class=Response,
    responses={
        200: {
            "description": "Server-sent events: `progress` while the run goes on, one `end`, and then no more.",
            "content": {"text/event-stream": {"example": _EVENT_EXAMPLE}},
        },
        **problems(*GUARDED, 404, 422),
    },
)
@needs(Permission.READ_RUNS)
async def watch_run(request: Request, run_id: RunId) -> Response:
    """The run's state and counts when they change, every 2 seconds at most, from whichever process works on it.

    The last event is `end` with the end state. A client that comes back gets the state of then.
    """
    services = services_of(request)
    run = await _run(services, run_id)
    return StreamingResponse(
        watch(services.store, run), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )


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
    return _json({"id": run_id, "n_judgments": n}, 200)


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
    return _json(await describe(services, await _run(services, run_id)), HTTPStatus.ACCEPTED)


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
    return _json(await describe(services, await _run(services, run_id)), HTTPStatus.ACCEPTED)
