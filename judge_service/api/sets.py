"""Calibration sets over HTTP: made, listed, read, looked at, exported. Imports and versions are `set_imports`' and
`set_versions`'. All of it is `judge_service.sets`'s; it blocks, so it runs on threads.
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Annotated, Any, BinaryIO, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from judge_service.api.answering import answer, on_thread
from judge_service.api.documents import GUARDED, answers, problems
from judge_service.api.idempotency import KEY_PARAMETER, Stored, key_in, scope_of
from judge_service.api.services import RubricRoute, services_of
from judge_service.api.set_documents import FROZEN, SPENT, VERSION, Reference
from judge_service.api.uploads import STUDIO, TASK
from judge_service.domain.calibration_set import SetName, Split, ToldVersion
from judge_service.errors import FieldProblem, InvalidInput, NotFound
from judge_service.files.rows import FileKind
from judge_service.files.writing import dump
from judge_service.gate.audit import along, audited
from judge_service.gate.route import needs, principal_of
from judge_service.security.roles import Permission
from judge_service.sets.exporting import export_lines, export_parquet, label_lines, label_parquet
from judge_service.sets.importing import read_rubric
from judge_service.sets.label_studio import label_studio
from judge_service.sets.summary import summarise
from judge_service.sets.versions import new_version, told, view_cases
from judge_service.store import Store

router = APIRouter(prefix="/v1", tags=["calibration sets"], route_class=RubricRoute)

_WRITTEN = {
    "jsonl": ("application/x-ndjson", "jsonl"),
    "csv": ("text/csv; charset=utf-8", "csv"),
    "parquet": ("application/vnd.apache.parquet", "parquet"),
    STUDIO: ("application/json", "json"),
}


class SetRequest(BaseModel):
    """A set to make: a new one, or with `from` the next version of one with all it holds."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        populate_by_name=True,
        json_schema_extra={"examples": [{"name": "pairs", "rubric": "pairwise@1"}]},
    )

    name: SetName
    rubric: str | None = Field(default=None, max_length=200, description="`name@version`, or `name` for the newest.")
    from_: str | None = Field(default=None, alias="from", max_length=80, description="A version of the same set.")
    note: str = Field(default="", max_length=2000)


@router.post(
    "/sets",
    status_code=201,
    summary="Make a set",
    openapi_extra={"parameters": [KEY_PARAMETER]},
    responses={
        **answers("The version, open for cases and labels.", VERSION | {"spent": SPENT}, status=201, model=ToldVersion),
        **problems(*GUARDED, 400, 404, 409, 413, 415, 422),
    },
)
@needs(Permission.MANAGE_SETS)
async def make_set(request: Request, body: SetRequest) -> Response:
    """Make an empty set, or the next version of one with all its cases and labels."""
    services = services_of(request)
    idempotency_key = key_in(request)
    rubric = read_rubric(body.rubric)

    def make() -> ToldVersion:
        if body.from_ is None:
            made = services.store.sets.create(body.name, None if rubric is None else rubric.id, note=body.note)
            return told(services.store, made)
        old = services.store.sets.get(body.from_)
        if old.name != body.name or rubric is not None:
            message = "a next version has the name and the rubric of the one it is made from."
            raise InvalidInput(fields=[FieldProblem("from", message)])
        return new_version(services.store, old.id, note=body.note)

    async def work() -> Stored[ToldVersion]:
        made = await on_thread(make)
        return Stored(made.id, made, 201)

    async def load(reference: str) -> ToldVersion | None:
        try:
            return await on_thread(lambda: told(services.store, services.store.sets.get(reference)))
        except NotFound:
            return None

    scope = scope_of(principal_of(request), "POST /v1/sets")
    stored, replayed = await services.once.make(scope, idempotency_key, body.model_dump(mode="json"), work, load)
    headers = {"Location": f"/v1/sets/{stored.identifier}"} | ({"Idempotent-Replayed": "true"} if replayed else {})
    return answer(stored.value, 201, headers)


@router.get(
    "/sets",
    summary="List sets",
    responses={**answers("Every version, by name, oldest first.", {"items": [FROZEN]}), **problems(*GUARDED)},
)
@needs(Permission.READ_SETS)
async def list_sets(request: Request) -> dict[str, Any]:
    """Every version of every set."""
    services = services_of(request)
    return {"items": [version.model_dump(mode="json") for version in await on_thread(services.store.sets.all)]}


@router.get(
    "/sets/{reference}",
    summary="Read a set",
    responses={
        **answers(
            "The version with its splits, labels and uses.",
            {
                "version": FROZEN,
                "n_groups": 2,
                "splits": {"development": 0, "calibration": 2, "release": 0, "monitoring": 0},
                "labels": {"blind": 2, "assisted": 0, "adjudicated": 0, "by_model": 0, "skipped": 0},
                "annotators": {"gold": 2},
                "uses": [],
                "uses_elsewhere": [],
                "spent": SPENT,
                "leaks": None,
            },
        ),
        **problems(*GUARDED, 404, 422),
    },
)
@needs(Permission.READ_SETS)
async def read_set(request: Request, reference: Reference) -> Response:
    """One version at a glance."""
    store = services_of(request).store
    return answer(await on_thread(lambda: summarise(store, reference)))


@router.get(
    "/sets/{reference}/cases",
    summary="Look at cases",
    response_class=Response,
    responses={
        200: {
            "description": "JSON lines, a case each with its split.",
            "content": {
                "application/x-ndjson": {
                    "example": '{"case": {"id": "kettle-7", "input": {}}, "split": "calibration"}\n'
                }
            },
        },
        **problems(*GUARDED, 404, 422),
    },
)
@needs(Permission.READ_SETS)
@audited("looked at a split")
async def read_cases(
    request: Request,
    reference: Reference,
    split: Annotated[
        Split | None, Query(description="Without it the release split of a frozen set stays closed.")
    ] = None,
) -> Response:
    """The cases of a version. Looking at the release split of a frozen one is recorded and moves it to development."""
    store = services_of(request).store
    version = await on_thread(lambda: store.sets.get(reference))
    who = principal_of(request).id
    with along(request, store.audit, f"{version.id} ({split})"):
        entries = await on_thread(lambda: view_cases(store, version.id, split, who=who))
    lines = (dump(entry.model_dump(mode="json")) + "\n" for entry in entries)
    return StreamingResponse(lines, media_type="application/x-ndjson")


@router.get(
    "/sets/{reference}/export",
    summary="Export a set",
    response_class=Response,
    responses={
        200: {
            "description": "The version with its labels; importing it again gives the same hash.",
            "content": {
                "application/x-ndjson": {"example": '{"id":"kettle-7","group":null,"split":"calibration"}\n'},
                "text/csv": {"example": "id,group,split\r\nkettle-7,,calibration\r\n"},
                "application/json": {"example": [TASK]},
                "application/vnd.apache.parquet": {"example": "PAR1..."},
            },
        },
        **problems(*GUARDED, 404, 422),
    },
)
@needs(Permission.MANAGE_SETS)
async def export(
    request: Request,
    reference: Reference,
    kind: Annotated[
        Literal["jsonl", "csv", "parquet", "label-studio"],
        Query(description="`label-studio`: the labels as tasks, in JSON."),
    ] = "jsonl",
    labels: Annotated[bool, Query(description="The labels alone, one a record.")] = False,
    lossless: Annotated[bool, Query(description="CSV without the apostrophes against formulas.")] = False,
) -> Response:
    """JSON lines, CSV that is safe for spreadsheets, or Parquet. The export of a frozen release split is recorded."""
    store = services_of(request).store
    who = principal_of(request).id

    def pieces() -> Iterator[str] | Iterator[bytes]:
        if kind == STUDIO:
            return label_studio(store, reference)
        if kind == "parquet":
            return _parquet(store, reference, labels=labels, who=who)
        if labels:
            return label_lines(store, reference, FileKind(kind), safe=not lossless)
        return export_lines(store, reference, FileKind(kind), safe=not lossless, note=who)

    version = await on_thread(lambda: store.sets.get(reference))
    media, ending = _WRITTEN[kind]
    name = f"{version.id.replace('@', '-')}{'-labels' if labels or kind == STUDIO else ''}.{ending}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(await on_thread(pieces), media_type=media, headers=headers)


def _parquet(store: Store, reference: str, *, labels: bool, who: str) -> Iterator[bytes]:
    """The file in pieces. Its end holds where everything is, so it is written as a whole first: on disk."""
    with ExitStack() as undo:
        file = undo.enter_context(tempfile.TemporaryFile())
        if labels:
            label_parquet(store, reference, file)
        else:
            export_parquet(store, reference, file, note=who)
        file.seek(0)
        undo.pop_all()
    return _pieces(file)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while piece := file.read(1 << 16):
            yield piece
