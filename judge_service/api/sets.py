"""Calibration sets over HTTP: made, filled from files, grouped, split, frozen, compared, exported.

Owns the shapes of uploads. Everything else is `judge_service.sets`'s; it blocks, so it runs on threads.
"""

import asyncio
import io
import json
from collections.abc import Callable, Iterator
from typing import Annotated, Any, BinaryIO, Literal, TypeVar

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import UploadFile

from judge_service.api.documents import GUARDED, answers, problems
from judge_service.api.idempotency import IdempotencyKey, Stored, scope_of
from judge_service.api.services import Services, services_of
from judge_service.domain.calibration_set import LabelCondition, SetName, Split, ToldVersion
from judge_service.errors import FieldProblem, InvalidInput, NotFound, UnsupportedMediaType
from judge_service.gate.fields import field_problems
from judge_service.gate.route import GuardedRoute, needs, principal_of
from judge_service.security.roles import Permission
from judge_service.sets.exporting import export_lines, label_lines
from judge_service.sets.grouping import freeze_set, propose_groups, split_set
from judge_service.sets.importing import ImportOptions, import_cases, import_labels, read_rubric
from judge_service.sets.label_studio import label_studio
from judge_service.sets.recorded import VerdictOptions, import_verdicts
from judge_service.sets.summary import summarise
from judge_service.sets.tabular import FileKind, Source, dump, kind_of
from judge_service.sets.versions import difference, new_version, told, view_cases

router = APIRouter(prefix="/v1", tags=["calibration sets"], route_class=GuardedRoute)
T = TypeVar("T")

Reference = Annotated[
    str, Path(min_length=1, max_length=80, description="`name@version`, or `name` for the newest version.")
]
_MEDIA = {
    "application/x-ndjson": FileKind.JSONL,
    "application/ndjson": FileKind.JSONL,
    "application/jsonl": FileKind.JSONL,
    "application/x-jsonlines": FileKind.JSONL,
    "text/csv": FileKind.CSV,
    "application/vnd.apache.parquet": FileKind.PARQUET,
    "application/x-parquet": FileKind.PARQUET,
}
_VERSION: dict[str, Any] = {
    "id": "pairs@1",
    "name": "pairs",
    "version": 1,
    "rubric": "pairwise@1",
    "status": "open",
    "content_hash": None,
    "n_cases": 0,
    "n_labels": 0,
    "created_at": "2026-03-29T12:00:00Z",
    "frozen_at": None,
    "parent": None,
    "note": "",
    "release_demoted_at": None,
}
_FROZEN = _VERSION | {"status": "frozen", "content_hash": "5b1f" * 16, "frozen_at": "2026-03-29T12:30:00Z"}
_SPENT: dict[str, Any] = {"n": 0, "cases": []}
_COUNTED: dict[str, Any] = {"added": 2, "unchanged": 0, "unjoined": []}
_IMPORTED: dict[str, Any] = {
    "set_id": "pairs@1",
    "file": "cases.jsonl",
    "format": "plain",
    "rubric": "pairwise@1",
    "cases": _COUNTED,
    "labels": _COUNTED,
    "dropped": {},
    "spent": _SPENT,
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


class FileOptions(BaseModel):
    """What every upload may state."""

    model_config = ConfigDict(extra="forbid")

    rubric: str | None = Field(default=None, max_length=200, description="Default: the set's, else the format's.")
    map: list[str] = Field(default_factory=list, description="`SOURCE=TARGET`: read SOURCE as TARGET. Repeatable.")
    label: list[str] = Field(default_factory=list, description="`WORD=LABEL`: read WORD as LABEL. Repeatable.")
    kind: FileKind | None = Field(default=None, description="What the file is. Default: by its name or type.")
    encoding: str | None = Field(default=None, max_length=40, description="Of a CSV file.")
    delimiter: str | None = Field(default=None, min_length=1, max_length=1, description="Of a CSV file.")


class LabelOptions(FileOptions):
    """An upload with labels."""

    annotator: str = Field(default="gold", min_length=1, max_length=256, description="Of labels that name none.")
    condition: LabelCondition = Field(default=LabelCondition.BLIND, description="Of labels that do not say.")
    label_kind: Literal["human", "model"] = Field(default="human", description="Of labels that do not say.")


class CaseOptions(LabelOptions):
    """An upload of cases."""

    format: str | None = Field(default=None, max_length=40, description="Default: recognised by the first row.")
    split: Split = Field(default=Split.CALIBRATION, description="Of cases that name none.")


class VerdictFileOptions(FileOptions):
    """An upload of recorded verdicts."""

    threshold: float = Field(default=0.5, ge=0, le=1, allow_inf_nan=False, description="For scores without a verdict.")
    positive: str | None = Field(default=None, max_length=100)
    negative: str | None = Field(default=None, max_length=100)
    version: str | None = Field(
        default=None, min_length=1, max_length=40, description="Makes another recorded judge beside one of that name."
    )


def _upload(model: type[FileOptions], *, extra: tuple[str, ...] = ()) -> dict[str, Any]:
    """The OpenAPI description of an upload."""
    properties = model.model_json_schema()["properties"]
    files = {name: {"type": "string", "contentMediaType": "application/octet-stream"} for name in ("file", *extra)}
    schema = {"type": "object", "required": ["file"], "properties": {**files, **_inline(model, properties)}}
    line = '{"id": "kettle-7", "label": "A"}\n'
    return {
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {"schema": schema, "example": {"file": line}},
                "application/x-ndjson": {"schema": {"type": "string"}, "example": line},
                "text/csv": {"schema": {"type": "string"}, "example": "id,label\r\nkettle-7,A\r\n"},
            },
        },
        "parameters": [
            {"name": name, "in": "query", "required": False, "schema": described}
            for name, described in _inline(model, properties).items()
        ],
    }


def _inline(model: type[FileOptions], properties: dict[str, Any]) -> dict[str, Any]:
    definitions = model.model_json_schema().get("$defs", {})
    text = json.dumps(properties)
    for name, definition in definitions.items():
        text = text.replace(json.dumps({"$ref": f"#/$defs/{name}"}), json.dumps(definition))
        # A reference with a default or description beside it.
        text = text.replace(f'"$ref": "#/$defs/{name}"', json.dumps(definition)[1:-1])
    inlined: dict[str, Any] = json.loads(text)
    return inlined


async def _on_thread(work: Callable[[], T]) -> T:
    return await asyncio.to_thread(work)


def _answer(document: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    content = json.dumps(document.model_dump(mode="json"), ensure_ascii=True, allow_nan=False)
    return Response(content, status_code=status, media_type="application/json", headers=headers)


def _options(model: type[T], given: list[tuple[str, str]]) -> T:
    fields: dict[str, Any] = {}
    for name, value in given:
        if name in ("map", "label"):
            fields.setdefault(name, []).append(value)
        elif name in fields:
            raise InvalidInput(fields=[FieldProblem(name, f"{name} is there more than once.")])
        else:
            fields[name] = value
    try:
        return model(**fields)
    except ValidationError as error:
        found = field_problems(error.errors(include_url=False, include_input=False))
        raise InvalidInput(found[0].message, fields=found) from None


def _pairs(name: str, given: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in given:
        source, sign, target = text.partition("=")
        if not sign or not source:
            raise InvalidInput(fields=[FieldProblem(name, f"{name} must be written NAME=VALUE, not {text[:80]!a}.")])
        pairs[source] = target
    return pairs


def _source(name: str, content: bytes, kind: FileKind | None, options: FileOptions) -> Source:
    def opened() -> BinaryIO:
        return io.BytesIO(content)

    if not content:
        raise InvalidInput(fields=[FieldProblem("file", "file is empty.")])
    chosen = options.kind or kind or kind_of(name, content[:64])
    return Source(name, opened, chosen, options.encoding, options.delimiter)


O = TypeVar("O", bound=FileOptions)  # noqa: E741


async def _read(request: Request, model: type[O], extra: tuple[str, ...] = ()) -> tuple[O, dict[str, Source]]:
    """The options and the files of an upload: a form, or one file as the body with options in the query."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media in _MEDIA:
        options = _options(model, list(request.query_params.multi_items()))
        source = _source("body", await request.body(), _MEDIA[media], options)
        return options, {"file": source}
    if media != "multipart/form-data":
        known = ", ".join(f"`{name}`" for name in ("multipart/form-data", "application/x-ndjson", "text/csv"))
        raise UnsupportedMediaType(f"Send a file as one of {known} or `application/vnd.apache.parquet`.")
    files: dict[str, tuple[str, bytes]] = {}
    fields: list[tuple[str, str]] = list(request.query_params.multi_items())
    async with request.form(max_files=1 + len(extra), max_fields=200) as form:
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                if name not in ("file", *extra) or name in files:
                    raise InvalidInput(fields=[FieldProblem(name, f"{name} is no file of this form, or there twice.")])
                files[name] = (value.filename or name, await value.read())
            else:
                fields.append((name, value))
    if "file" not in files:
        raise InvalidInput(fields=[FieldProblem("file", "file is required: JSON lines, CSV or Parquet.")])
    options = _options(model, fields)
    return options, {
        name: _source(file, content, options.kind if name == "file" else None, options)
        for name, (file, content) in files.items()
    }


@router.post(
    "/sets",
    status_code=201,
    summary="Make a set",
    responses={
        **answers(
            "The version, open for cases and labels.", _VERSION | {"spent": _SPENT}, status=201, model=ToldVersion
        ),
        **problems(*GUARDED, 400, 404, 409, 413, 415, 422),
    },
)
@needs(Permission.MANAGE_SETS)
async def make_set(request: Request, body: SetRequest, idempotency_key: IdempotencyKey = None) -> Response:
    """Make an empty set, or the next version of one with all its cases and labels."""
    services = services_of(request)
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
        made = await _on_thread(make)
        return Stored(made.id, made, 201)

    async def load(reference: str) -> ToldVersion | None:
        try:
            return await _on_thread(lambda: told(services.store, services.store.sets.get(reference)))
        except NotFound:
            return None

    scope = scope_of(principal_of(request), "POST /v1/sets")
    stored, replayed = await services.once.make(scope, idempotency_key, body.model_dump(mode="json"), work, load)
    headers = {"Location": f"/v1/sets/{stored.identifier}"} | ({"Idempotent-Replayed": "true"} if replayed else {})
    return _answer(stored.value, 201, headers)


@router.get(
    "/sets",
    summary="List sets",
    responses={**answers("Every version, by name, oldest first.", {"items": [_FROZEN]}), **problems(*GUARDED)},
)
@needs(Permission.READ_SETS)
async def list_sets(request: Request) -> dict[str, Any]:
    """Every version of every set."""
    services = services_of(request)
    return {"items": [version.model_dump(mode="json") for version in await _on_thread(services.store.sets.all)]}


@router.get(
    "/sets/{reference}",
    summary="Read a set",
    responses={
        **answers(
            "The version with its splits, labels and uses.",
            {
                "version": _FROZEN,
                "n_groups": 2,
                "splits": {"development": 0, "calibration": 2, "release": 0, "monitoring": 0},
                "labels": {"blind": 2, "assisted": 0, "adjudicated": 0, "by_model": 0, "skipped": 0},
                "annotators": {"gold": 2},
                "uses": [],
                "uses_elsewhere": [],
                "spent": _SPENT,
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
    return _answer(await _on_thread(lambda: summarise(store, reference)))


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
async def read_cases(
    request: Request,
    reference: Reference,
    split: Annotated[
        Split | None, Query(description="Without it the release split of a frozen set stays closed.")
    ] = None,
) -> Response:
    """The cases of a version. Looking at the release split of a frozen one is recorded and moves it to development."""
    store = services_of(request).store
    version = await _on_thread(lambda: store.sets.get(reference))
    who = principal_of(request).id
    lines = (dump(entry.model_dump(mode="json")) + "\n" for entry in view_cases(store, version.id, split, who=who))
    return StreamingResponse(lines, media_type="application/x-ndjson")


@router.post(
    "/sets/{reference}/cases",
    summary="Import cases",
    response_class=Response,
    openapi_extra=_upload(CaseOptions, extra=("answers",)),
    responses={
        **answers("What was new and what was there already.", _IMPORTED),
        **problems(*GUARDED, 400, 404, 409, 413, 415, 422),
    },
)
@needs(Permission.MANAGE_SETS)
async def add_cases(request: Request, reference: Reference) -> Response:
    """Import a file of cases with the labels in their rows. Refused as a whole; the same file again changes nothing."""
    store = services_of(request).store
    options, files = await _read(request, CaseOptions, ("answers",))
    wanted = ImportOptions(
        shape=options.format,
        rubric=options.rubric,
        names=_pairs("map", options.map),
        labels=_pairs("label", options.label),
        split=options.split,
        annotator=options.annotator,
        condition=options.condition,
        kind=options.label_kind,
        answers=files.get("answers"),
    )
    return _answer(await _on_thread(lambda: import_cases(store, reference, files["file"], wanted)))


@router.post(
    "/sets/{reference}/labels",
    summary="Import labels",
    response_class=Response,
    openapi_extra=_upload(LabelOptions),
    responses={
        **answers("What was new; ids of no case are listed under `labels.unjoined`.", _IMPORTED),
        **problems(*GUARDED, 400, 404, 409, 413, 415, 422),
    },
)
@needs(Permission.MANAGE_SETS)
async def add_labels(request: Request, reference: Reference) -> Response:
    """Import a table of labels. Another answer of an annotator who answered already is refused."""
    store = services_of(request).store
    options, files = await _read(request, LabelOptions)
    wanted = ImportOptions(
        rubric=options.rubric,
        names=_pairs("map", options.map),
        labels=_pairs("label", options.label),
        annotator=options.annotator,
        condition=options.condition,
        kind=options.label_kind,
    )
    return _answer(await _on_thread(lambda: import_labels(store, reference, files["file"], wanted)))


@router.post(
    "/sets/{reference}/verdicts",
    summary="Import recorded verdicts",
    response_class=Response,
    openapi_extra=_upload(VerdictFileOptions),
    responses={
        **answers(
            "The recorded judges with their runs; ids of no case are listed under `unjoined`.",
            {
                "set_id": "pairs@1",
                "file": "verdicts.jsonl",
                "rubric": "pairwise@1",
                "lines": 4,
                "judges": [
                    {
                        "judge": "GPT-4--Swap",
                        "model": "GPT-4",
                        "strategy": "Swap",
                        "run_id": "run_0d9c8b7a6f5e4d3c2b1a0f9e8d7c6b5a",
                        "orders": "both_orders",
                        "lines": 4,
                        "judgments": 2,
                        "added": 2,
                        "not_judged": 0,
                        "outcomes": {"inconsistent": 1, "scored": 1},
                        "n_unjoined": 0,
                        "unjoined": [],
                    }
                ],
                "unjoined": [],
                "n_unjoined": 0,
            },
        ),
        **problems(*GUARDED, 400, 404, 409, 413, 415, 422),
    },
)
@needs(Permission.MANAGE_SETS)
async def add_verdicts(request: Request, reference: Reference) -> Response:
    """Import verdicts of judges that were run elsewhere, as judgments of recorded judges."""
    store = services_of(request).store
    options, files = await _read(request, VerdictFileOptions)
    wanted = VerdictOptions(
        rubric=options.rubric,
        names=_pairs("map", options.map),
        labels=_pairs("label", options.label),
        threshold=options.threshold,
        positive=options.positive,
        negative=options.negative,
        version=options.version,
    )
    taken = {judge.name for judge in services_of(request).roster.all()}
    return _answer(await _on_thread(lambda: import_verdicts(store, reference, files["file"], wanted, taken=taken)))


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
    return _answer(await _on_thread(lambda: propose_groups(store, reference, threshold=threshold, apply=apply)))


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
    return _answer(
        await _on_thread(
            lambda: split_set(store, reference, shares, stratify=body.stratify, salt=body.salt, seed=body.seed)
        )
    )


@router.post(
    "/sets/{reference}/freeze",
    summary="Freeze a set",
    responses={
        **answers("The frozen version with its hash.", _FROZEN | {"spent": _SPENT}, model=ToldVersion),
        **problems(*GUARDED, 404, 409, 422),
    },
)
@needs(Permission.MANAGE_SETS)
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
    return _answer(await _on_thread(lambda: freeze_set(store, reference, spend=spend)))


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
    return _answer(await _on_thread(lambda: difference(store, reference, to)))


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
        Literal["jsonl", "csv", "label-studio"],
        Query(description="`label-studio`: the labels as tasks, in JSON. Parquet: from the command line."),
    ] = "jsonl",
    labels: Annotated[bool, Query(description="The labels alone, one a record.")] = False,
    lossless: Annotated[bool, Query(description="CSV without the apostrophes against formulas.")] = False,
) -> Response:
    """JSON lines, or CSV that is safe for spreadsheets. The export of a frozen release split is recorded."""
    services: Services = services_of(request)
    who = principal_of(request).id
    studio = kind == "label-studio"
    chosen = FileKind.JSONL if studio else FileKind(kind)

    def lines() -> Iterator[str]:
        if studio:
            return label_studio(services.store, reference)
        if labels:
            return label_lines(services.store, reference, chosen, safe=not lossless)
        return export_lines(services.store, reference, chosen, safe=not lossless, note=who)

    version = await _on_thread(lambda: services.store.sets.get(reference))
    media = "application/x-ndjson" if chosen is FileKind.JSONL else "text/csv; charset=utf-8"
    media = "application/json" if studio else media
    ending = "json" if studio else chosen.value
    name = f"{version.id.replace('@', '-')}{'-labels' if labels or studio else ''}.{ending}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(await _on_thread(lines), media_type=media, headers=headers)
