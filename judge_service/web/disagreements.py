"""Pages of disagreements: the queue, and the page on which a lead says the final word on a case.

Owns the addresses: an opaque token instead of a case's id, which may name a system. Before the word is saved no page
here shows a name, a judge or an id of a case.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from judge_service.annotation.adjudication import ToAdjudicate, adjudicate, to_adjudicate, waiting
from judge_service.annotation.assisted import suggestions
from judge_service.annotation.forms import form_of
from judge_service.domain.annotation import Adjudication, Project, case_token
from judge_service.errors import InvalidInput, JudgeServiceError
from judge_service.gate.route import GuardedRoute, needs, principal_of
from judge_service.security.roles import Permission
from judge_service.store import Store
from judge_service.store.store import utc_now
from judge_service.web.deciding import answer_of, candidates, field_names, words_of
from judge_service.web.forms import NOTHING, Refused, refused, text_fields
from judge_service.web.label_keys import KEYS
from judge_service.web.pages import render
from judge_service.web.projects import ProjectId
from judge_service.web.services import services_of
from rubrics.registry import get_rubric

router = APIRouter(include_in_schema=False, route_class=GuardedRoute)

Token = Annotated[str, Path(pattern=r"^[0-9a-f]{20}$")]
PAGE = 50
"""Cases of the queue on one page."""
EXCERPT = 160
LONGEST_REASON = 4000
_HERE = ("choose", "save", "before", "after", "note", "keys", "leave")
_KEYS = tuple(
    key._replace(text="Write the reason") if key.action == "note" else key for key in KEYS if key.action in _HERE
)
"""The keys of labelling that have a meaning here."""
_SAFE = "Nothing was saved yet. Your entries are kept."


@dataclass(frozen=True, slots=True)
class Revealed:
    """A final word with what was hidden before it: names, what judges said, and the case's id."""

    word: Adjudication
    label: str
    people: tuple[tuple[str, str, str], ...]
    judges: tuple[tuple[str, str], ...]


def age(since: datetime, now: datetime) -> str:
    """How long something waits, in the largest whole unit."""
    gone = max(now - since, timedelta())
    for unit, seconds in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        n = int(gone.total_seconds() // seconds)
        if n:
            return f"{n} {unit}{'s' if n > 1 else ''}"
    return "under a minute"


@router.get("/projects/{project_id}/disagreements")
@needs(Permission.MANAGE_PROJECTS)
async def queue(
    request: Request,
    project_id: ProjectId,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    saved: Annotated[str | None, Query(pattern=r"^[a-z0-9]{12}$")] = None,
) -> HTMLResponse:
    """Cases whose labels differ, oldest first, and the final words so far."""
    store = services_of(request).store

    def read() -> dict[str, Any]:
        project = store.projects.get(project_id)
        part = waiting(store, project_id, limit=PAGE, offset=(page - 1) * PAGE)
        n = store.projects.count_waiting(project_id)
        words = store.projects.adjudications(project_id)
        newest = list({one.case_id: one for one in words}.values())[::-1]
        return {
            "project": project,
            "n": n,
            "rows": [(one, case_token(project_id, one.case_id), _excerpt(store, project, one.case_id)) for one in part],
            "pages": max(1, -(-n // PAGE)),
            "decided": [
                (one, case_token(project_id, one.case_id), _label(project, one.label)) for one in newest[:PAGE]
            ],
            "n_decided": len(newest),
            "revealed": _revealed(store, project, words, saved),
        }

    facts = await asyncio.to_thread(read)
    now = utc_now()
    return render(request, "disagreements.html.j2", page=page, age=lambda since: age(since, now), **facts)


@router.get("/projects/{project_id}/disagreements/next")
@needs(Permission.MANAGE_PROJECTS)
async def first(request: Request, project_id: ProjectId) -> Response:
    """To the case that has waited longest; to the queue where none waits."""
    found = await asyncio.to_thread(waiting, services_of(request).store, project_id, limit=1)
    return _to_next(project_id, [one.case_id for one in found])


@router.get("/projects/{project_id}/disagreements/{token}")
@needs(Permission.MANAGE_PROJECTS)
async def case_page(
    request: Request,
    project_id: ProjectId,
    token: Token,
    saved: Annotated[str | None, Query(pattern=r"^[a-z0-9]{12}$")] = None,
) -> HTMLResponse:
    """A case with what people said of it, without names; nothing is chosen."""
    return await _case(request, project_id, token, saved=saved)


async def _case(
    request: Request,
    project_id: str,
    token: str,
    *,
    problems: Refused = NOTHING,
    said: dict[str, str] | None = None,
    saved: str | None = None,
) -> HTMLResponse:
    store, principal = services_of(request).store, principal_of(request)

    def read() -> dict[str, Any]:
        project = store.projects.get(project_id)
        case_id = store.projects.case_of(project_id, token)
        place, n = store.projects.place_waiting(project_id, case_id)
        words = store.projects.adjudications(project_id)
        shown = to_adjudicate(store, project_id, case_id, principal)
        return {
            "project": project,
            "shown": shown,
            "items": candidates(shown),
            "place": place,
            "n": n,
            "revealed": _revealed(store, project, words, saved),
            "before": next((one for one in reversed(words) if one.case_id == case_id), None),
        }

    facts = await asyncio.to_thread(read)
    form = facts["shown"].form
    entries = dict.fromkeys((*field_names(form, facts["items"]), "reason"), "") | (said or {})
    return render(
        request,
        "adjudicate.html.j2",
        status=problems.status,
        problems=problems,
        said=entries,
        token_=token,
        keys=_KEYS,
        words=lambda value: words_of(form, value),
        titles={text.id: text.title for text in form.texts},
        **facts,
    )


@router.post("/projects/{project_id}/disagreements/{token}")
@needs(Permission.MANAGE_PROJECTS)
async def decide(request: Request, project_id: ProjectId, token: Token) -> Response:
    """Keep the final word, then go to the next case."""
    store, principal = services_of(request).store, principal_of(request)

    def look() -> tuple[str, ToAdjudicate]:
        case_id = store.projects.case_of(project_id, token)
        return case_id, to_adjudicate(store, project_id, case_id, principal)

    case_id, shown = await asyncio.to_thread(look)
    items = candidates(shown)
    names = field_names(shown.form, items)
    said = await text_fields(request, *names, "reason")
    answer, gaps = answer_of(shown.form, items, said)
    if not said["reason"].strip():
        gaps.append(("reason", "Say why: the reason stays with the label."))
    if gaps:
        return await _case(request, project_id, token, problems=Refused(422, _SAFE, tuple(gaps)), said=said)
    try:
        done = await asyncio.to_thread(
            adjudicate, store, project_id, case_id, principal, answer.model_dump(mode="json"), said["reason"]
        )
    except JudgeServiceError as error:
        otherwise = "reason" if isinstance(error, InvalidInput) else "decide"
        problems = refused(error, _SAFE, ("reason",), otherwise)
        return await _case(request, project_id, token, problems=problems, said=said)
    found = await asyncio.to_thread(waiting, store, project_id, limit=1)
    return _to_next(project_id, [one.case_id for one in found], done.adjudication.id)


def _to_next(project_id: str, cases: list[str], saved: str | None = None) -> RedirectResponse:
    path = f"/projects/{project_id}/disagreements"
    if cases:
        path += f"/{case_token(project_id, cases[0])}"
    return RedirectResponse(f"{path}?saved={saved}" if saved else path, status_code=303)


def _excerpt(store: Store, project: Project, case_id: str) -> str:
    """How the case begins, as it would be read."""
    entry = store.sets.case(project.set_id, case_id)
    if entry is None:
        return "This case is no longer in the set."
    text = form_of(get_rubric(project.rubric), entry.case.input, "AB").texts[0].text
    line = " ".join(text[: EXCERPT * 4].split())
    return line if len(line) <= EXCERPT else f"{line[:EXCERPT].rstrip()}…"


def _label(project: Project, label: str | None) -> str:
    if label is None:
        return "Cannot tell"
    if get_rubric(project.rubric).kind == "pairwise" and label in ("A", "B"):
        return f"Answer {label}"
    return label.replace("_", " ").capitalize()


def _revealed(store: Store, project: Project, words: Iterable[Adjudication], identifier: str | None) -> Revealed | None:
    """What may be shown of a case once its final word is saved."""
    word = next((one for one in words if one.id == identifier), None)
    if word is None:
        return None
    people = tuple((str(one["annotator"]), _label(project, one["label"]), one.get("note") or "") for one in word.seen)
    judges = tuple((one.judge, _label(project, one.value)) for one in suggestions(store, project, word.case_id, None))
    return Revealed(word, _label(project, word.label), people, judges)
