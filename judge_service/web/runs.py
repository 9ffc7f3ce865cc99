"""Pages of runs: the list, one run with its results, its report, and one judgment with its calls. Reads only.

Owns what is on a page and how a list is paged; every number is `reports.run_report`'s.
"""

import asyncio
import json
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from judge_service.domain.judgment import Judgment
from judge_service.domain.outcome import Outcome
from judge_service.domain.run import Run, RunStatus
from judge_service.errors import JudgeServiceError, NotFound
from judge_service.gate.route import GuardedRoute, needs
from judge_service.reports.render import OUTCOMES
from judge_service.security.roles import Permission
from judge_service.web.pages import render
from judge_service.web.services import services_of

router = APIRouter(include_in_schema=False, route_class=GuardedRoute)

PAGE = 50
"""Rows of a page."""
STATES: dict[RunStatus, str] = {
    RunStatus.QUEUED: "◷ Queued",
    RunStatus.RUNNING: "▶ Running",
    RunStatus.CANCELLING: "■ Being cancelled",
    RunStatus.CANCELLED: "■ Cancelled",
    RunStatus.FINISHED: "✓ Finished",
    RunStatus.FINISHED_WITH_ERRORS: "! Finished with errors",
    RunStatus.FAILED: "✕ Failed",
}
"""Mark and word of every state."""
Id = Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]


@router.get("/runs")
@needs(Permission.READ_RUNS)
async def runs_page(
    request: Request,
    state: Annotated[RunStatus | None, Query()] = None,
    before: Annotated[str | None, Query(max_length=64, pattern=r"^[A-Za-z0-9_-]+$")] = None,
) -> Response:
    """All runs, newest first."""
    store = services_of(request).store

    def work() -> list[Run]:
        last = None if before is None else store.runs.get(before)
        return list(store.runs.list(limit=PAGE + 1, before=last, status=state))

    found = await asyncio.to_thread(work)
    following = found[PAGE - 1].id if len(found) > PAGE else None
    return render(
        request,
        "runs.html.j2",
        runs=found[:PAGE],
        following=following,
        state=state,
        states=STATES,
        paged=before is not None,
    )


@router.get("/runs/{run_id}")
@needs(Permission.READ_RUNS)
async def run_page(
    request: Request,
    run_id: Id,
    outcome: Annotated[Outcome | None, Query()] = None,
    after: Annotated[int, Query(ge=-1)] = -1,
) -> Response:
    """One run: its state, how its cases ended, what to do about failures, and its results."""
    from judge_service.reports.run_forms import bar
    from judge_service.reports.run_report import run_report

    store = services_of(request).store

    def work() -> tuple[Run, dict[str, Any], list[tuple[int, Judgment]]]:
        run = _run(request, run_id)
        rows = store.runs.results(run_id, after=after, limit=PAGE + 1, outcome=outcome)
        return run, run_report(store, run_id), list(rows)

    run, report, rows = await asyncio.to_thread(work)
    return render(
        request,
        "run.html.j2",
        run=run,
        report=report,
        bar=bar(report),
        results=[judgment for _, judgment in rows[:PAGE]],
        following=rows[PAGE - 1][0] if len(rows) > PAGE else None,
        outcome=outcome,
        after=after,
        states=STATES,
        outcomes=OUTCOMES,
    )


@router.get("/runs/{run_id}/report")
@needs(Permission.READ_RUNS)
async def report_page(
    request: Request,
    run_id: Id,
    compare: Annotated[str | None, Query(max_length=64)] = None,
    by: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """The report of a run, and what changed since another one."""
    from judge_service.reports.run_forms import body
    from judge_service.reports.run_report import run_report

    store = services_of(request).store
    other, key = (compare or "").strip() or None, (by or "").strip() or None
    problem = None

    def work() -> tuple[Run, str, list[Run]]:
        nonlocal problem
        run = _run(request, run_id)
        near = [found for found in store.runs.list(limit=PAGE) if found.rubric == run.rubric and found.id != run.id]
        try:
            report = run_report(store, run_id, by=[key] if key else [], compare=other)
        except JudgeServiceError as error:
            problem = " ".join([error.message, *(f"{field.path}: {field.message}" for field in error.fields)])
            report = run_report(store, run_id)
        return run, body(report), near

    run, text, near = await asyncio.to_thread(work)
    values: dict[str, Any] = {"run": run, "body": text, "near": near, "compare": other, "by": key, "problem": problem}
    return render(request, "run_report.html.j2", status=200 if problem is None else 422, **values)


@router.get("/judgments/{judgment_id}")
@needs(Permission.READ_JUDGMENTS)
async def judgment_page(request: Request, judgment_id: Id) -> Response:
    """One judgment: how it ended, its record, how the orders folded, and its calls in order."""
    store = services_of(request).store
    judgment = await asyncio.to_thread(store.judgments.get, judgment_id)
    if judgment is None:
        raise NotFound(f"There is no judgment {judgment_id!r}.")
    record = None if judgment.record is None else json.dumps(judgment.record, indent=2, ensure_ascii=False)
    return render(request, "judgment.html.j2", judgment=judgment, record=record, outcomes=OUTCOMES)


def _run(request: Request, run_id: str) -> Run:
    run = services_of(request).store.runs.get(run_id)
    if run is None:
        raise NotFound(f"There is no run {run_id!r}.")
    return run
