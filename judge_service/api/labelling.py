"""Labelling over the API: the next case, drafts, labels, skips, undo. Blind: nothing of others before the own label."""

import asyncio
from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from judge_service.annotation.labelling import Labelling, Saved, ShownCase
from judge_service.annotation.shapes import Answer, Draft
from judge_service.api.documents import GUARDED, answers, problems
from judge_service.api.projects import ProjectId
from judge_service.api.services import RubricRoute, services_of
from judge_service.domain.annotation import Progress
from judge_service.gate.route import needs, principal_of
from judge_service.security.roles import Permission

router = APIRouter(prefix="/v1", tags=["labelling"], route_class=RubricRoute)
T = TypeVar("T")

CaseToken = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$", description="The token under which a case was offered.")]

_PROGRESS = {
    "done": 37,
    "skipped": 1,
    "left": 82,
    "open_for_others": 12,
    "qualification_done": 0,
    "qualification_left": 0,
}
_FORM = {
    "rubric": "pairwise@1",
    "kind": "pairwise",
    "title": "Better of two answers",
    "question": "Which of the two answers serves the prompt better?",
    "rules": ["Length is not quality."],
    "texts": [
        {"id": "prompt", "role": "question", "title": "Prompt", "text": "Which colour?"},
        {"id": "first", "role": "answer", "title": "Answer 1", "text": "Teal."},
        {"id": "second", "role": "answer", "title": "Answer 2", "text": "Ochre."},
    ],
    "questions": [
        {
            "id": "label",
            "text": "Which of the two answers serves the prompt better?",
            "choices": [{"value": "first", "text": "Answer 1", "description": "", "key": "1"}],
            "required": True,
            "evidence": False,
            "per_passage": False,
            "when": None,
        }
    ],
    "items": [],
    "item_questions": [],
    "item_noun": "item",
    "items_editable": False,
    "one_question": True,
}
_TOKEN = "0f6c1d2e3b4a59687786a5b4c3d2e1f0"  # noqa: S105  # names a case in an example
_SHOWN = {
    "case": _TOKEN,
    "project": "r4t8w2q6y1u9",
    "project_name": "Helpdesk pairs",
    "number": 38,
    "of": 120,
    "progress": _PROGRESS,
    "condition": "blind",
    "state": "open",
    "version": 0,
    "form": _FORM,
    "draft": None,
    "draft_version": 0,
    "saved": None,
    "note": None,
    "flag": None,
    "seconds": None,
    "leased_until": "2026-01-15T10:30:00Z",
    "suggestions": [],
}
_SAVED = {"case": _TOKEN, "state": "saved", "version": 1, "draft_version": 1, "progress": _PROGRESS}


class DraftRequest(BaseModel):
    """An answer with gaps. `draft_version` is the one that was last seen."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"draft": {"answers": {}, "items": []}, "draft_version": 0, "seconds": 4.2}]},
    )

    draft: Draft
    draft_version: int = Field(ge=0)
    seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False, description="Active time so far.")


class LabelRequest(BaseModel):
    """A label to save. `version` is that of the case as it was shown; another one is answered 409 with both."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"answer": {"answers": {"label": "first"}}, "version": 0, "seconds": 6.5}]},
    )

    answer: Answer
    version: int = Field(ge=0)
    note: str | None = Field(default=None, max_length=4000)
    seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False, description="Active time, idle excluded.")


class SkipRequest(BaseModel):
    """A case to give back."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"version": 0, "reason": "A language I do not read."}]}
    )

    version: int = Field(ge=0)
    reason: str = Field(min_length=1, max_length=4000)


class FlagRequest(BaseModel):
    """A mark for the lead; null takes it off."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"text": "The context is cut off."}]})

    text: str | None = Field(max_length=4000)


class Next(BaseModel):
    """The case to label, or null with what is left for others."""

    case: ShownCase | None
    progress: Progress


async def _do(request: Request, work: Callable[[Labelling, str], T]) -> T:
    store, person = services_of(request).store, principal_of(request).id
    return await asyncio.to_thread(lambda: work(Labelling(store), person))


@router.get(
    "/projects/{project_id}/next",
    summary="The case to label now",
    responses={
        **answers("The case, or null when none is left for this person.", {"case": _SHOWN, "progress": _PROGRESS}),
        **problems(*GUARDED, 404, 409, 422),
    },
)
@needs(Permission.LABEL)
async def next_case(request: Request, project_id: ProjectId) -> Next:
    """Offer a case and hold it for the person. The same one, with its draft, until it is saved or skipped."""

    def work(labelling: Labelling, person: str) -> Next:
        shown = labelling.next(project_id, person)
        progress = labelling.progress(project_id, person) if shown is None else shown.progress
        return Next(case=shown, progress=progress)

    return await _do(request, work)


@router.get(
    "/projects/{project_id}/progress",
    summary="How far one is",
    responses={**answers("Counts of one's own.", _PROGRESS), **problems(*GUARDED, 404, 422)},
)
@needs(Permission.LABEL)
async def read_progress(request: Request, project_id: ProjectId) -> Progress:
    """What is done, skipped and left for this person, and how many cases are open for others."""
    return await _do(request, lambda labelling, person: labelling.progress(project_id, person))


@router.post(
    "/projects/{project_id}/undo",
    summary="Take back the last save or skip",
    responses={**answers("The case, open again.", {**_SHOWN, "version": 2}), **problems(*GUARDED, 404, 409, 422)},
)
@needs(Permission.LABEL)
async def undo(request: Request, project_id: ProjectId) -> ShownCase:
    """Open the newest saved or skipped case again, its answer as the draft. The history keeps all of it."""
    return await _do(request, lambda labelling, person: labelling.undo(project_id, person))


@router.get(
    "/labelling/{case}",
    summary="A case that one was offered",
    responses={**answers("The case with one's own answer.", _SHOWN), **problems(*GUARDED, 404, 422)},
)
@needs(Permission.LABEL)
async def read_case(request: Request, case: CaseToken) -> ShownCase:
    """One's own case, saved or not. Another person's is refused."""
    return await _do(request, lambda labelling, person: labelling.show(case, person))


@router.put(
    "/labelling/{case}/draft",
    summary="Keep a draft",
    responses={
        **answers("It is stored.", {**_SAVED, "state": "open", "version": 0}),
        **problems(*GUARDED, 400, 404, 409, 413, 415, 422),
    },
)
@needs(Permission.LABEL)
async def keep_draft(request: Request, case: CaseToken, body: DraftRequest) -> Saved:
    """Keep an answer with gaps; it survives a reload, another device and a new sign-in."""
    draft = body.draft.model_dump(mode="json", exclude_none=True)
    return await _do(
        request,
        lambda labelling, person: labelling.keep_draft(case, person, draft, body.draft_version, body.seconds),
    )


@router.post(
    "/labelling/{case}/label",
    summary="Save a label",
    responses={**answers("It is stored.", _SAVED), **problems(*GUARDED, 400, 404, 409, 413, 415, 422)},
)
@needs(Permission.LABEL)
async def save_label(request: Request, case: CaseToken, body: LabelRequest) -> Saved:
    """Save or change a label. The same save twice is one; a stale one is answered 409 with both answers."""
    name = principal_of(request).name
    answer = body.answer.model_dump(mode="json")
    return await _do(
        request,
        lambda labelling, person: labelling.save(
            case, person, name, answer, body.version, note=body.note, seconds=body.seconds
        ),
    )


@router.post(
    "/labelling/{case}/skip",
    summary="Skip a case",
    responses={
        **answers("It is given back.", {**_SAVED, "state": "skipped"}),
        **problems(*GUARDED, 400, 404, 409, 413, 415, 422),
    },
)
@needs(Permission.LABEL)
async def skip_case(request: Request, case: CaseToken, body: SkipRequest) -> Saved:
    """Give a case back with a reason. It is no label, and it is not offered to this person again."""
    return await _do(request, lambda labelling, person: labelling.skip(case, person, body.version, body.reason))


@router.post(
    "/labelling/{case}/flag",
    summary="Mark a case for the lead",
    responses={**answers("It is marked.", {**_SAVED, "state": "open"}), **problems(*GUARDED, 400, 404, 413, 415, 422)},
)
@needs(Permission.LABEL)
async def flag_case(request: Request, case: CaseToken, body: FlagRequest) -> Saved:
    """Say that something is wrong with a case, or take that back with null."""
    return await _do(request, lambda labelling, person: labelling.flag(case, person, body.text))
