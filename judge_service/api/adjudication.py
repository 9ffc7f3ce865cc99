"""What leads see of a project: its quality, the disagreements, and the final word on them."""

import asyncio
from typing import Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from judge_service.annotation.adjudication import Decided, ToAdjudicate, adjudicate, to_adjudicate, waiting
from judge_service.annotation.estimates import estimates
from judge_service.annotation.quality import Quality, quality
from judge_service.annotation.shapes import Answer
from judge_service.api.documents import GUARDED, answers, problems
from judge_service.api.projects import ProjectId
from judge_service.api.services import RubricRoute, services_of
from judge_service.gate.route import needs, principal_of
from judge_service.security.roles import Permission

router = APIRouter(prefix="/v1", tags=["labelling"], route_class=RubricRoute)

_SHARE = {"value": 0.9, "low": 0.74, "high": 0.97, "n": 30, "method": "wilson", "undefined_reason": None}
_PERSON = {
    "person": "user:p5h2k8m1n4q7",
    "name": "Ann Example",
    "done": 40,
    "cannot_say": 1,
    "skipped": 2,
    "flagged": 0,
    "open": 1,
    "median_seconds": 6.5,
    "n_seconds": 40,
    "first_side": _SHARE,
    "agreement": _SHARE,
    "qualification": {**_SHARE, "of": 5},
    "drift": {"early": None, "late": None, "difference": None, "n": 12, "reason": "few_labels"},
}
_QUALITY = {
    "n_cases": 120,
    "n_with_enough_labels": 38,
    "n_labels": 80,
    "n_pairs": 40,
    "n_disagreements": 6,
    "n_adjudicated": 2,
    "reason": None,
    "alpha": {**_SHARE, "method": "krippendorff_nominal"},
    "pairs": [{"people": ["Ann Example", "Bob Example"], "n": 40, "same": 34, "kappa": _SHARE, "agreement": _SHARE}],
    "people": [_PERSON],
}
_WAITING = {"case_id": "kettle-7", "n": 2, "spread": [1, 1], "since": "2026-01-15T09:30:00Z", "flags": []}
_OPINION = {"person": "Person 1", "value": "first", "items": None, "note": "Answers the question."}
_ADJUDICATION = {
    "id": "z9x8c7v6b5n4",
    "project_id": "r4t8w2q6y1u9",
    "case_id": "kettle-7",
    "by": "user:l1k2j3h4g5f6",
    "name": "Lea Example",
    "label": "A",
    "answer": {"answers": {"label": "first"}},
    "reason": "Only one of them answers.",
    "seen": [{"annotator": "Ann Example", "label": "A", "detail": {"label": "A"}, "items": None, "note": None}],
    "at": "2026-01-16T09:30:00Z",
}


class AdjudicationRequest(BaseModel):
    """A final word. `answer` is in the frame of the form that was shown."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "case_id": "kettle-7",
                    "answer": {"answers": {"label": "first"}},
                    "reason": "Only one of them answers.",
                }
            ]
        },
    )

    case_id: str = Field(min_length=1, max_length=512)
    answer: Answer
    reason: str = Field(min_length=1, max_length=4000)


@router.get(
    "/projects/{project_id}/quality",
    summary="How far the labels can be trusted",
    responses={
        **answers("Agreement among people, and each person's figures.", _QUALITY),
        **problems(*GUARDED, 404, 422),
    },
)
@needs(Permission.MANAGE_PROJECTS)
async def read_quality(request: Request, project_id: ProjectId) -> Quality:
    """Live figures. Under 30 pairs of labels: counts only, with the reason `few_pairs`."""
    return await asyncio.to_thread(quality, services_of(request).store, project_id)


@router.get(
    "/projects/{project_id}/estimates",
    summary="Agreement of judges, weighted by how cases were drawn",
    responses={
        **answers(
            "One entry a judge.",
            {"items": [{"judge": "small", "n": 80, "reason": None, "weighted": _SHARE, "unweighted": _SHARE}]},
        ),
        **problems(*GUARDED, 404, 422),
    },
)
@needs(Permission.MANAGE_PROJECTS)
async def read_estimates(request: Request, project_id: ProjectId) -> dict[str, Any]:
    """Each labelled case counts by one over its stored probability. Under 30 labelled cases there is no estimate."""
    found = await asyncio.to_thread(estimates, services_of(request).store, project_id)
    return {"items": [one.model_dump(mode="json") for one in found]}


@router.get(
    "/projects/{project_id}/disagreements",
    summary="Cases that wait for a final word",
    responses={**answers("Oldest first.", {"items": [_WAITING]}), **problems(*GUARDED, 404, 422)},
)
@needs(Permission.MANAGE_PROJECTS)
async def list_disagreements(
    request: Request,
    project_id: ProjectId,
    limit: int = Query(default=1000, ge=1, le=1000, description="At most so many."),
    offset: int = Query(default=0, ge=0, le=10_000_000, description="Leave out so many of the oldest."),
) -> dict[str, Any]:
    """Cases whose labels differ, oldest first. Agreed cases pass by themselves."""
    found = await asyncio.to_thread(waiting, services_of(request).store, project_id, limit=limit, offset=offset)
    return {"items": [one.model_dump(mode="json") for one in found]}


@router.get(
    "/projects/{project_id}/adjudications/case",
    summary="A case to adjudicate",
    responses={
        **answers(
            "The case with all labels, without names.",
            {
                "project": "r4t8w2q6y1u9",
                "case_id": "kettle-7",
                "form": {"rubric": "pairwise@1"},
                "opinions": [_OPINION],
            },
        ),
        **problems(*GUARDED, 404, 422),
    },
)
@needs(Permission.MANAGE_PROJECTS)
async def read_disagreement(
    request: Request, project_id: ProjectId, case_id: str = Query(max_length=512, description="The case's id.")
) -> ToAdjudicate:
    """The form of the case and what people said, as Person 1 to k, shuffled; names and verdicts stay hidden."""
    store, principal = services_of(request).store, principal_of(request)
    return await asyncio.to_thread(to_adjudicate, store, project_id, case_id, principal)


@router.get(
    "/projects/{project_id}/adjudications",
    summary="Final words of a project",
    responses={
        **answers("Oldest first, replaced ones too.", {"items": [_ADJUDICATION]}),
        **problems(*GUARDED, 404, 422),
    },
)
@needs(Permission.MANAGE_PROJECTS)
async def list_adjudications(request: Request, project_id: ProjectId) -> dict[str, Any]:
    """Every final word with its reason and the labels that it was made from."""
    store = services_of(request).store

    def read() -> list[dict[str, Any]]:
        store.projects.get(project_id)
        return [one.model_dump(mode="json") for one in store.projects.adjudications(project_id)]

    return {"items": await asyncio.to_thread(read)}


@router.post(
    "/projects/{project_id}/adjudications",
    status_code=201,
    summary="Say the final word",
    responses={
        **answers("It is stored; the names are shown now.", {"adjudication": _ADJUDICATION, "waiting": 5}, status=201),
        **problems(*GUARDED, 400, 404, 409, 413, 415, 422),
    },
)
@needs(Permission.MANAGE_PROJECTS)
async def make_adjudication(request: Request, project_id: ProjectId, body: AdjudicationRequest) -> Decided:
    """Give a case its final label, with a reason. All other labels stay beside it."""
    store, principal = services_of(request).store, principal_of(request)
    answer = body.answer.model_dump(mode="json")
    return await asyncio.to_thread(adjudicate, store, project_id, body.case_id, principal, answer, body.reason)
