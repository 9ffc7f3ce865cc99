"""A run's judgments: pages, streams of JSON lines, Parquet files; and its events while it goes on."""

import asyncio
import json
import os
import pathlib
import tempfile
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, Response, StreamingResponse
from starlette.background import BackgroundTask

from judge_service.api.documents import GUARDED, problems
from judge_service.api.examples import JUDGMENT
from judge_service.api.run_documents import RunId, bad_cursor, run_in
from judge_service.api.services import RubricRoute, Services, services_of
from judge_service.api.uploads import MEDIA
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import Outcome
from judge_service.domain.run import Run
from judge_service.files.rows import FileKind
from judge_service.gate.route import needs
from judge_service.runs.exports import judgment_line, parquet
from judge_service.runs.watching import watch
from judge_service.security.roles import Permission
from judge_service.store import Only

router = APIRouter(prefix="/v1", tags=["runs"], route_class=RubricRoute)

PARQUET = "application/vnd.apache.parquet"
_JSONL = frozenset(name for name, kind in MEDIA.items() if kind is FileKind.JSONL)
_PAGE = 256
_EVENT_EXAMPLE = 'event: end\ndata: {"id":"run_1","status":"finished","n_total":2,"n_done":2}\n\n'


def _after(cursor: str | None) -> int:
    if cursor is None:
        return -1
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 15:
        raise bad_cursor()
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
    run = await run_in(services, run_id)
    key, equals, value = (of_slice or "").partition("=")
    only = Only((key, value) if equals else None, score_from, score_to)
    accept = request.headers.get("accept", "")
    if _wants(accept, _JSONL):
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
    run = await run_in(services, run_id)
    return StreamingResponse(
        watch(services.store, run), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )
