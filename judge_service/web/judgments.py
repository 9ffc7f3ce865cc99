"""The page of one judgment: its case, its record, how the orders folded, and its calls with prompt and reply.

Owns what is withheld: the texts of a case that stands in a closed release split are not shown here, since looking at
them would spend it.
"""

import asyncio
import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from judge_service.domain.case import Case
from judge_service.domain.judgment import Judgment
from judge_service.domain.run import OWN_SOURCES, Run
from judge_service.errors import NotFound
from judge_service.gate.route import GuardedRoute, needs
from judge_service.reports.render import OUTCOMES
from judge_service.security.roles import Permission
from judge_service.store import Store
from judge_service.web.judges import MARKS
from judge_service.web.judgment_view import ShownCall, prompt_text, readings_of, shown_record, texts_of
from judge_service.web.pages import render
from judge_service.web.services import Services, services_of
from rubrics.registry import UnknownRubric, get_rubric

router = APIRouter(include_in_schema=False, route_class=GuardedRoute)

Id = Annotated[str, Path(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9_-]+$")]
_ALONE = "This case was judged outside a run: its texts were not kept, only their hash. Whoever sent it has them."
_CLOSED = (
    "This case is a test in the release split of a frozen set. Its texts are not shown: looking at them would make it "
    "a development case. The set's page opens them and records that."
)
_CHANGED = (
    "The prompt is not kept, and cannot be rendered again: the rubric, the case or this installation's fence key is "
    "another one by now."
)


@dataclass(frozen=True, slots=True)
class _Found:
    judgment: Judgment
    runs: list[Run]
    case: Case | None
    withheld: str
    calls: list[ShownCall]


@router.get("/judgments/{judgment_id}")
@needs(Permission.READ_JUDGMENTS)
async def judgment_page(request: Request, judgment_id: Id) -> Response:
    """One judgment: how it ended, its case and record, how the orders folded, and its calls in order."""
    found = await asyncio.to_thread(_find, services_of(request), judgment_id)
    judgment = found.judgment
    values: dict[str, Any] = {"judgment": judgment, "runs": found.runs, "withheld": found.withheld}
    return render(
        request,
        "judgment.html.j2",
        texts=[] if found.case is None else texts_of(found.case.input),
        record=None if judgment.record is None else shown_record(judgment.record),
        whole=None if judgment.record is None else json.dumps(judgment.record, indent=2, ensure_ascii=False),
        readings=readings_of(judgment),
        calls=found.calls,
        unknown=found.withheld or _CHANGED,
        outcomes=OUTCOMES,
        trust=MARKS,
        **values,
    )


@router.get("/judgments/{judgment_id}/calls/{number}/{what}")
@needs(Permission.READ_JUDGMENTS)
async def call_text(
    request: Request,
    judgment_id: Id,
    number: Annotated[int, Path(ge=1, le=10_000)],
    what: Annotated[str, Path(pattern=r"^(prompt|reply)$")],
) -> Response:
    """What one call asked or answered, as a plain text file."""
    found = await asyncio.to_thread(_find, services_of(request), judgment_id)
    call = found.calls[number - 1] if number <= len(found.calls) else None
    text = None if call is None else call.prompt if what == "prompt" else call.call.raw
    if text is None:
        raise NotFound(f"Judgment {judgment_id!r} has no {what} of a call {number}.")
    name = f"{judgment_id}-call-{number}-{what}.txt"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return Response(text, status_code=HTTPStatus.OK, media_type="text/plain; charset=utf-8", headers=headers)


def _find(services: Services, judgment_id: str) -> _Found:
    judgment = services.store.judgments.get(judgment_id)
    if judgment is None:
        raise NotFound(f"There is no judgment {judgment_id!r}.")
    planned = services.store.runs.planning(judgment.identity)
    judge = next((run.judge for run, _ in planned if run.judge.name == judgment.judge), None)
    withheld = _ALONE if not planned else ""
    if any(_closed(services.store, run, case) for run, case in planned):
        withheld = _CLOSED
    case = planned[0][1] if planned and not withheld else None
    prompts: list[str | None] = [None for _ in judgment.calls]
    if case is not None:
        try:
            again = services.judging.prompts(judgment, case, get_rubric(judgment.rubric))
        except UnknownRubric:
            again = ()
        prompts = [None if one is None else prompt_text(one) for one in again] or prompts
    calls = [ShownCall(call, prompt) for call, prompt in zip(judgment.calls, prompts, strict=True)]
    return _Found(services.judging.as_of_now(judgment, judge), [run for run, _ in planned], case, withheld, calls)


def _closed(store: Store, run: Run, case: Case) -> bool:
    """True for a case of a set's run that is a test in a frozen release split."""
    for source in OWN_SOURCES:
        if run.source is not None and run.source.startswith(source):
            try:
                closed = store.sets.cases(run.source.removeprefix(source), closed=True)
                return any(one.case.id == case.id for one in closed)
            except NotFound:
                return False
    return False
