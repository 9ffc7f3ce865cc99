"""Runs as callers see them, and what all routes about a run share."""

import asyncio
import json
from typing import Annotated, Any

from fastapi import Path
from fastapi.responses import Response

from judge_service.api.services import Services, hash_of
from judge_service.domain.run import Run
from judge_service.errors import FieldProblem, InvalidInput, NotFound
from judge_service.runs.aggregate import aggregate
from rubrics.registry import UnknownRubric, get_rubric

RunId = Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]


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


def answered(document: dict[str, Any], status: int, headers: dict[str, str] | None = None) -> Response:
    """A document as the answer."""
    content = json.dumps(document, ensure_ascii=True, allow_nan=False)
    return Response(content, status_code=status, media_type="application/json", headers=headers)


async def run_in(services: Services, run_id: str) -> Run:
    """The run of a path. Raises NotFound."""
    run = await asyncio.to_thread(services.store.runs.get, run_id)
    if run is None:
        raise NotFound(f"There is no run {run_id}.")
    return run


def bad_cursor() -> InvalidInput:
    """The refusal of a cursor."""
    message = "query.cursor is none that this service gave."
    return InvalidInput(message, fields=[FieldProblem("query.cursor", message)])
