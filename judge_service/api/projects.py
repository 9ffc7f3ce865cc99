"""Labelling projects for leads: opened, staffed, closed, with guidelines. What people label is `api.labelling`'s."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from judge_service.annotation.production import Sampled, SampleRequest, sample_run
from judge_service.annotation.projects import (
    ProjectRequest,
    add_annotators,
    open_project,
    project_for,
    rendered_guidelines,
    shown_project,
)
from judge_service.api.documents import GUARDED, answers, problems
from judge_service.api.services import RubricRoute, services_of
from judge_service.domain.annotation import PersonId
from judge_service.domain.audit import told_members, told_project
from judge_service.gate.audit import along, audited
from judge_service.gate.route import needs, principal_of
from judge_service.security.roles import Permission, may

router = APIRouter(prefix="/v1", tags=["labelling"], route_class=RubricRoute)

ProjectId = Annotated[str, Path(pattern=r"^[a-z0-9]{12}$", description="The id of a project.")]

PROJECT: dict[str, Any] = {
    "id": "r4t8w2q6y1u9",
    "name": "Helpdesk pairs",
    "set_id": "helpdesk-pairs@3",
    "rubric": "pairwise@1",
    "rubric_hash": "71643f09...",
    "labels_wanted": 2,
    "overlap": 1.0,
    "condition": "blind",
    "splits": [],
    "lease_minutes": 60.0,
    "selection": "random",
    "due_at": None,
    "created_at": "2026-01-15T09:30:00Z",
    "created_by": "Lea Example",
    "closed_at": None,
}
_MEMBER = {
    "person": "user:p5h2k8m1n4q7",
    "name": "Ann Example",
    "joined_at": "2026-01-15T09:30:00Z",
    "left_at": None,
}
_GUIDELINES = {
    "version": 2,
    "text": "Judge *help*, not length.",
    "html": "<p>Judge <em>help</em>, not length.</p>\n",
    "note": "Length is no reason.",
    "by": "Lea Example",
    "at": "2026-01-16T09:30:00Z",
}


class AnnotatorsRequest(BaseModel):
    """People to add."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"annotators": ["Ann Example"]}]})

    annotators: tuple[str, ...] = Field(min_length=1, max_length=200, description="Names of users, ids of API keys.")


class RemovalRequest(BaseModel):
    """A person to offer nothing any more."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"person": "user:p5h2k8m1n4q7"}]})

    person: PersonId


class GuidelinesRequest(BaseModel):
    """A new version of the guidelines."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"text": "Judge *help*, not length.", "note": "Length is no reason."}]},
    )

    text: str = Field(max_length=200_000, description="Markdown.")
    note: str = Field(min_length=1, max_length=2000, description="What changed, for people who know the last version.")


@router.post(
    "/projects",
    status_code=201,
    summary="Open a project",
    responses={**answers("The project.", PROJECT, status=201), **problems(*GUARDED, 400, 404, 409, 413, 415, 422)},
)
@needs(Permission.MANAGE_PROJECTS)
@audited("opened a project")
async def make_project(request: Request, body: ProjectRequest) -> dict[str, Any]:
    """Open a set version for labelling. Every case is checked for a form before anybody meets it."""
    services, principal = services_of(request), principal_of(request)
    with along(request, services.store.audit, told_project):
        project = await asyncio.to_thread(open_project, services.store, body, principal)
    return project.model_dump(mode="json")


@router.post(
    "/sets/{reference}/samples",
    status_code=201,
    summary="Draw cases of a run into the monitoring split",
    responses={
        **answers(
            "What was drawn.",
            {
                "set_id": "helpdesk-pairs@3",
                "run": "run-0a1b2c",
                "judged": 5000,
                "drawn": 49,
                "random": 25,
                "cases": {"added": 49, "unchanged": 0, "unjoined": []},
            },
            status=201,
        ),
        **problems(*GUARDED, 400, 404, 409, 413, 415, 422),
    },
)
@needs(Permission.MANAGE_SETS)
async def sample(request: Request, reference: str, body: SampleRequest) -> Sampled:
    """A random share of the run, and more of what has low confidence, orders that disagree, or a thumb down.

    Each case keeps the probability that it had, and so do its labels, so that estimates stay valid.
    """
    return await asyncio.to_thread(sample_run, services_of(request).store, reference, body)


@router.get(
    "/projects",
    summary="List projects",
    responses={**answers("Newest first.", {"items": [PROJECT]}), **problems(*GUARDED)},
)
@needs(Permission.LABEL)
async def list_projects(request: Request) -> dict[str, Any]:
    """A lead's: all. Another person's: those the person belongs to, without what would unblind."""
    store, principal = services_of(request).store, principal_of(request)
    person = None if may(principal.role, Permission.MANAGE_PROJECTS) else principal.id
    projects = await asyncio.to_thread(store.projects.all, person)
    return {"items": [shown_project(project, principal) for project in projects]}


@router.get(
    "/projects/{project_id}",
    summary="Read a project",
    responses={**answers("The project.", {**PROJECT, "members": [_MEMBER]}), **problems(*GUARDED, 404, 422)},
)
@needs(Permission.LABEL)
async def read_project(request: Request, project_id: ProjectId) -> dict[str, Any]:
    """One project; leads see its people too."""
    store, principal = services_of(request).store, principal_of(request)

    def read() -> dict[str, Any]:
        project = project_for(store, project_id, principal)
        if not may(principal.role, Permission.MANAGE_PROJECTS):
            return shown_project(project, principal)
        members = [one.model_dump(mode="json") for one in store.projects.members(project_id)]
        return shown_project(project, principal, {"members": members})

    return await asyncio.to_thread(read)


@router.post(
    "/projects/{project_id}/annotators",
    summary="Add annotators",
    responses={
        **answers("Those who were added.", {"items": [_MEMBER]}),
        **problems(*GUARDED, 400, 404, 409, 413, 415, 422),
    },
)
@needs(Permission.MANAGE_PROJECTS)
@audited("added people to a project")
async def add_people(request: Request, project_id: ProjectId, body: AnnotatorsRequest) -> dict[str, Any]:
    """Add people; each gets an own random order of the cases. One who left comes back to the old order."""
    store = services_of(request).store
    with along(request, store.audit, lambda added: told_members(project_id, added)):
        added = await asyncio.to_thread(add_annotators, store, project_id, body.annotators)
    return {"items": [one.model_dump(mode="json") for one in added]}


@router.post(
    "/projects/{project_id}/annotators/remove",
    summary="Remove an annotator",
    responses={**answers("Done.", {"removed": "user:p5h2k8m1n4q7"}), **problems(*GUARDED, 400, 404, 413, 415, 422)},
)
@needs(Permission.MANAGE_PROJECTS)
@audited("took a person out of a project")
async def remove_person(request: Request, project_id: ProjectId, body: RemovalRequest) -> dict[str, Any]:
    """Offer a person nothing any more. Labels stay."""
    store = services_of(request).store
    with along(request, store.audit, f"{project_id} ({body.person})"):
        await asyncio.to_thread(store.projects.leave, project_id, body.person)
    return {"removed": body.person}


@router.post(
    "/projects/{project_id}/close",
    summary="Close a project",
    responses={
        **answers("The project.", {**PROJECT, "closed_at": "2026-02-01T08:00:00Z"}),
        **problems(*GUARDED, 404, 422),
    },
)
@needs(Permission.MANAGE_PROJECTS)
@audited("closed a project")
async def close_project(request: Request, project_id: ProjectId) -> dict[str, Any]:
    """Offer and take nothing any more; drafts are kept."""
    store = services_of(request).store
    with along(request, store.audit, told_project):
        project = await asyncio.to_thread(lambda: store.projects.close(project_id, closed=True))
    return project.model_dump(mode="json")


@router.post(
    "/projects/{project_id}/reopen",
    summary="Open a closed project again",
    responses={**answers("The project.", PROJECT), **problems(*GUARDED, 404, 422)},
)
@needs(Permission.MANAGE_PROJECTS)
@audited("opened a project again")
async def reopen_project(request: Request, project_id: ProjectId) -> dict[str, Any]:
    """Go on with a closed project."""
    store = services_of(request).store
    with along(request, store.audit, told_project):
        project = await asyncio.to_thread(lambda: store.projects.close(project_id, closed=False))
    return project.model_dump(mode="json")


@router.get(
    "/projects/{project_id}/guidelines",
    summary="Read the guidelines",
    responses={**answers("Every version, newest first.", {"items": [_GUIDELINES]}), **problems(*GUARDED, 404, 422)},
)
@needs(Permission.LABEL)
async def read_guidelines(request: Request, project_id: ProjectId) -> dict[str, Any]:
    """The guidelines as Markdown and as HTML without raw HTML, with what changed when."""
    store, principal = services_of(request).store, principal_of(request)

    def read() -> list[dict[str, Any]]:
        project_for(store, project_id, principal)
        versions = store.projects.guidelines(project_id)
        return [one.model_dump(mode="json") | {"html": rendered_guidelines(one.text)} for one in versions]

    return {"items": await asyncio.to_thread(read)}


@router.post(
    "/projects/{project_id}/guidelines",
    status_code=201,
    summary="Change the guidelines",
    responses={
        **answers("The new version.", _GUIDELINES, status=201),
        **problems(*GUARDED, 400, 404, 413, 415, 422),
    },
)
@needs(Permission.MANAGE_PROJECTS)
@audited("changed guidelines")
async def change_guidelines(request: Request, project_id: ProjectId, body: GuidelinesRequest) -> dict[str, Any]:
    """Add a version; earlier ones stay readable."""
    store, principal = services_of(request).store, principal_of(request)
    with along(request, store.audit, lambda made: f"{project_id} (version {made.version})"):
        made = await asyncio.to_thread(store.projects.add_guidelines, project_id, body.text, body.note, principal.name)
    return made.model_dump(mode="json") | {"html": rendered_guidelines(made.text)}
