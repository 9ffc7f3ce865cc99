"""From an open set to frozen versions over HTTP: groups, splits, the freeze, and what differs between two."""

from contextlib import nullcontext
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from judge_service.api.answering import answer, on_thread
from judge_service.api.documents import GUARDED, answers, problems
from judge_service.api.services import RubricRoute, services_of
from judge_service.api.set_documents import FROZEN, SPENT, Reference
from judge_service.domain.calibration_set import Split, ToldVersion
from judge_service.gate.audit import along, audited
from judge_service.gate.route import needs
from judge_service.security.roles import Permission
from judge_service.sets.grouping import freeze_set, propose_groups, split_set
from judge_service.sets.versions import difference

router = APIRouter(prefix="/v1", tags=["calibration sets"], route_class=RubricRoute)


class GroupsRequest(BaseModel):
    """How to look for groups."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"threshold": 0.8, "apply": False}]})

    threshold: float = Field(default=0.8, ge=0.05, le=1, allow_inf_nan=False)
    apply: bool = Field(default=False, description="Store the groups; otherwise they are only proposed.")


class SplitRequest(BaseModel):
    """Whole parts for each split."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"development": 1, "calibration": 2, "release": 1}]}
    )

    development: int = Field(default=1, ge=0, le=1000)
    calibration: int = Field(default=2, ge=0, le=1000)
    release: int = Field(default=1, ge=0, le=1000)
    monitoring: int = Field(default=0, ge=0, le=1000)
    stratify: bool = Field(default=False, description="Keep the labels balanced; otherwise by the hash of the group.")
    salt: str = Field(default="", max_length=200)
    seed: int = Field(default=1, ge=0, le=2**31)


@router.post(
    "/sets/{reference}/groups",
    summary="Propose groups",
    responses={
        **answers(
            "Groups of more than one case, the largest first.",
            {
                "set_id": "pairs@1",
                "threshold": 0.8,
                "n_cases": 3,
                "n_groups": 2,
                "largest": 2,
                "changed": 2,
                "flags": [],
                "groups": [{"name": "near-kettle-7", "case_ids": ["kettle-7", "kettle-8"]}],
                "applied": False,
            },
        ),
        **problems(*GUARDED, 400, 404, 409, 413, 415, 422),
    },
)
@needs(Permission.MANAGE_SETS)
async def group_cases(request: Request, reference: Reference, body: GroupsRequest) -> Response:
    """Cases that are near-duplicates, share a prompt, or were given one group."""
    store = services_of(request).store
    threshold, apply = body.threshold, body.apply
    return answer(await on_thread(lambda: propose_groups(store, reference, threshold=threshold, apply=apply)))


@router.post(
    "/sets/{reference}/splits",
    summary="Split a set",
    responses={
        **answers(
            "Cases and groups in each split.",
            {
                "set_id": "pairs@1",
                "method": "hash",
                "cases": {"calibration": 2, "release": 1},
                "groups": {"calibration": 1, "release": 1},
            },
        ),
        **problems(*GUARDED, 400, 404, 409, 413, 415, 422),
    },
)
@needs(Permission.MANAGE_SETS)
async def split_cases(request: Request, reference: Reference, body: SplitRequest) -> Response:
    """Put every group of an open set into one split."""
    store = services_of(request).store
    shares = {split: int(getattr(body, split.value)) for split in Split}
    return answer(
        await on_thread(
            lambda: split_set(store, reference, shares, stratify=body.stratify, salt=body.salt, seed=body.seed)
        )
    )


@router.post(
    "/sets/{reference}/freeze",
    summary="Freeze a set",
    responses={
        **answers("The frozen version with its hash.", FROZEN | {"spent": SPENT}, model=ToldVersion),
        **problems(*GUARDED, 404, 409, 422),
    },
)
@needs(Permission.MANAGE_SETS)
@audited("froze a set")
async def freeze(
    request: Request,
    reference: Reference,
    spend: Annotated[
        bool,
        Query(description="Give up cases as a test that are in another set's release split and in another one here."),
    ] = False,
) -> Response:
    """Check that nothing leaks between splits, then freeze. What leaks is listed and blocks."""
    store = services_of(request).store
    before = await on_thread(lambda: store.sets.get(reference))
    noting = along(request, store.audit, before.id) if before.status == "open" else nullcontext()
    with noting:
        frozen = await on_thread(lambda: freeze_set(store, before.id, spend=spend))
    return answer(frozen)


@router.get(
    "/sets/{reference}/differences",
    summary="Compare two versions",
    responses={
        **answers(
            "What differs from this version to the other.",
            {
                "old": "pairs@1",
                "new": "pairs@2",
                "same": False,
                "n_added": 1,
                "n_removed": 0,
                "n_changed": 0,
                "n_labels_added": 1,
                "n_labels_removed": 0,
                "n_labels_changed": 0,
                "added": ["kettle-9"],
                "removed": [],
                "changed": [],
                "labels_changed": [],
                "moved": {},
            },
        ),
        **problems(*GUARDED, 404, 422),
    },
)
@needs(Permission.READ_SETS)
async def compare(
    request: Request,
    reference: Reference,
    to: Annotated[str, Query(min_length=1, max_length=80, description="The newer version.")],
) -> Response:
    """Cases by id and labels by annotator: added, removed, changed, moved to another split."""
    store = services_of(request).store
    return answer(await on_thread(lambda: difference(store, reference, to)))
