"""Pages of runs: the list, one run with its results and its buttons, and its report.

Owns what is on a page, how a list is paged and which button is offered; the numbers are `reports`'.
"""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import RedirectResponse, Response

from judge_service.domain.judgment import Judgment
from judge_service.domain.outcome import Outcome
from judge_service.domain.run import Run, RunStatus
from judge_service.errors import Conflict, JudgeServiceError, NotFound
from judge_service.gate.route import GuardedRoute, needs, principal_of
from judge_service.reports.render import OUTCOMES
from judge_service.security.roles import Permission, may
from judge_service.web.forms import NOTHING, Refused, refused, text_fields
from judge_service.web.judges import MARKS
from judge_service.web.pages import render
from judge_service.web.run_view import RunState, state_of
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
    return await _run_page(request, run_id, outcome=outcome, after=after)


async def _run_page(
    request: Request, run_id: str, *, outcome: Outcome | None = None, after: int = -1, problems: Refused = NOTHING
) -> Response:
    from judge_service.reports.run_forms import patterns

    services = services_of(request)

    def work() -> tuple[RunState, list[tuple[int, Judgment]]]:
        state = _state(request, run_id)
        found = services.store.runs.results(run_id, after=after, limit=PAGE + 1, outcome=outcome)
        now = services.judging.as_of_now
        return state, [(place, now(judgment, state.run.judge)) for place, judgment in found]

    state, rows = await asyncio.to_thread(work)
    return render(
        request,
        "run.html.j2",
        status=problems.status,
        state=state,
        run=state.run,
        results=[judgment for _, judgment in rows[:PAGE]],
        following=rows[PAGE - 1][0] if len(rows) > PAGE else None,
        outcome=outcome,
        after=after,
        problems=problems,
        states=STATES,
        outcomes=OUTCOMES,
        trust=MARKS,
        patterns=patterns(),
        allowed=_allowed(request, state.run),
    )


@router.get("/runs/{run_id}/state")
@needs(Permission.READ_RUNS)
async def run_state(request: Request, run_id: Id) -> Response:
    """The part of a run's page that changes while it goes on, for the script that asks for it again."""
    state = await asyncio.to_thread(_state, request, run_id)
    return render(request, "run_state.html.j2", state=state, run=state.run, states=STATES, outcomes=OUTCOMES)


@router.post("/runs/{run_id}/cancel")
@needs(Permission.CANCEL_RUNS)
async def cancel(request: Request, run_id: Id) -> Response:
    """Ask for the end of a run: no new case starts, calls in flight are finished and recorded."""
    try:
        await services_of(request).background.cancel(run_id)
    except Conflict as error:
        return await _run_page(request, run_id, problems=refused(error, "Nothing was changed.", (), "state"))
    return RedirectResponse(f"/runs/{run_id}", status_code=303)


@router.post("/runs/{run_id}/resume")
@needs(Permission.START_RUNS)
async def resume(request: Request, run_id: Id) -> Response:
    """Go on with an ended run: what is missing, and what failed where that is wanted."""
    fields = await text_fields(request, "retry")
    try:
        await services_of(request).background.resume(run_id, retry_errors=fields["retry"] == "yes")
    except Conflict as error:
        return await _run_page(request, run_id, problems=refused(error, "Nothing was changed.", (), "state"))
    return RedirectResponse(f"/runs/{run_id}", status_code=303)


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


def _run(request: Request, run_id: str) -> Run:
    run = services_of(request).store.runs.get(run_id)
    if run is None:
        raise NotFound(f"There is no run {run_id!r}.")
    return run


def _state(request: Request, run_id: str) -> RunState:
    services = services_of(request)
    live = services.background.progress(run_id)
    counts = services.store.runs.counts(run_id)
    return state_of(_run(request, run_id), counts, None if live is None else live.eta_s)


def _allowed(request: Request, run: Run) -> frozenset[str]:
    """What this person may do to the run as it stands: `cancel`, `resume`, or neither."""
    role = principal_of(request).role
    found = set()
    if run.status in (RunStatus.QUEUED, RunStatus.RUNNING) and may(role, Permission.CANCEL_RUNS):
        found.add("cancel")
    # A run over anchors goes on when its check is asked for again, and no other way.
    drift = run.of_drift
    ended = run.status.ended and run.status is not RunStatus.FINISHED
    if ended and run.planned and not drift and may(role, Permission.START_RUNS):
        found.add("resume")
    return frozenset(found)
