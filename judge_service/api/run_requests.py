"""Requests that start a run, read and checked as a whole before anything is stored.

Owns their shapes: JSON with cases or the name of a set, a file as the body, a form with a file.
"""

import asyncio
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from starlette.datastructures import UploadFile

from judge_service.api.cases import cases_in
from judge_service.api.examples import PAIRWISE_CASE
from judge_service.api.services import named_in, services_of
from judge_service.api.uploads import MEDIA, held
from judge_service.domain.calibration_set import Split
from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.domain.run import OWN_SOURCES
from judge_service.errors import FieldProblem, InvalidInput, UnsupportedMediaType
from judge_service.files.rows import FileKind
from judge_service.gate.fields import field_problems
from judge_service.gate.reading import is_json, read_json
from judge_service.gate.route import gate_of
from judge_service.runs.casefile import read_cases
from judge_service.sets.judging import cases_to_judge
from rubrics.model import Rubric


class RunOptions(BaseModel):
    """What every way of starting a run states."""

    model_config = ConfigDict(extra="forbid")

    rubric: str = Field(min_length=1, max_length=200, description="`name@version`, or `name` for the newest.")
    judge: str = Field(min_length=1, max_length=64, description="Name of a configured judge.")
    require: Literal["calibrated"] | None = Field(
        default=None, description="Answer 409 instead of starting unless the judge is calibrated for this rubric."
    )
    source: str | None = Field(default=None, max_length=200, description="A name for people, such as a file name.")

    @field_validator("source")
    @classmethod
    def _names_no_set(cls, source: str | None) -> str | None:
        # Cases of a caller's own making under the ids of a set would count as the set's in its statistics.
        if source is not None and source.startswith(OWN_SOURCES):
            raise ValueError(f"must not begin with {' or '.join(map(repr, OWN_SOURCES))}: such runs are over sets")
        return source


class RunRequest(RunOptions):
    """A run with its cases inline, or over a set."""

    model_config = ConfigDict(extra="forbid", strict=True)

    cases: list[Any] | None = Field(
        default=None, min_length=1, description="Cases as in POST /v1/judgments. Ids must differ."
    )
    set: str | None = Field(
        default=None, min_length=1, max_length=80, description="Instead of cases: a set, `name@version` or `name`."
    )
    split: Literal["development", "calibration", "release", "monitoring"] | None = Field(
        default=None, description="Of the set. Without it the release split of a frozen set stays closed."
    )


class UploadOptions(RunOptions):
    """A run whose cases come as a file."""

    unknown_fields: Literal["refuse", "keep"] = Field(
        default="refuse",
        description="`keep`: scalar fields that the rubric does not know become metadata, others are dropped.",
    )
    kind: Literal["jsonl", "csv", "parquet"] | None = Field(
        default=None, description="What the file is. Default: by its name or type."
    )
    encoding: str | None = Field(default=None, max_length=40, description="Of a CSV file.")
    delimiter: str | None = Field(default=None, min_length=1, max_length=1, description="Of a CSV file.")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request to start a run, read and valid, before anything is stored. `content` says what was asked for."""

    rubric: Rubric[Any]
    judge: Judge
    cases: Iterable[Case]
    content: dict[str, Any]
    source: str | None
    calibrated: bool
    notices: list[str]


def _options(model: type[RunOptions], fields: dict[str, Any]) -> Any:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        problems_ = field_problems(error.errors(include_url=False, include_input=False))
        raise InvalidInput(problems_[0].message, fields=problems_) from None


async def _from_json(request: Request) -> Wanted:
    value = await read_json(request, max_depth=gate_of(request).max_json_depth)
    if not isinstance(value, dict):
        raise InvalidInput(fields=[FieldProblem("body", "body must be an object.")])
    options: RunRequest = _options(RunRequest, value)
    services = services_of(request)
    rubric, judge = await named_in(services, options.rubric, options.judge)
    calibrated = options.require is not None
    if options.set is None:
        if options.cases is None:
            raise InvalidInput(fields=[FieldProblem("cases", "cases is required, or set.")])
        if options.split is not None:
            raise InvalidInput(fields=[FieldProblem("split", "split is of a set, and none is named.")])
        cases = await asyncio.to_thread(cases_in, options.cases, rubric)
        return Wanted(rubric, judge, cases, value, options.source, calibrated, [])
    if options.cases is not None:
        raise InvalidInput(fields=[FieldProblem("cases", "cases and set exclude each other.")])
    if options.source is not None:
        raise InvalidInput(fields=[FieldProblem("source", "source is the set itself.")])
    split = None if options.split is None else Split(options.split)
    judge_hash = services.judging.judge_hash(judge)
    found = await asyncio.to_thread(cases_to_judge, services.store, options.set, split, judge.name, judge_hash)
    named = {**value, "set": found.version.id}
    return Wanted(rubric, judge, found(), named, found.source, calibrated, found.notices)


async def _from_file(
    request: Request, fields: dict[str, Any], name: str, content: bytes, kind: FileKind | None
) -> Wanted:
    options: UploadOptions = _options(UploadOptions, fields)
    rubric, judge = await named_in(services_of(request), options.rubric, options.judge)
    chosen = kind if options.kind is None else FileKind(options.kind)
    file = held(name, content, chosen, options.encoding, options.delimiter)
    strict = options.unknown_fields == "refuse"

    def check() -> tuple[int, list[str]]:
        reader = read_cases(file, rubric, strict=strict)
        return sum(1 for _ in reader), reader.notices

    n, notices = await asyncio.to_thread(check)
    if not n:
        raise InvalidInput(fields=[FieldProblem("file", "file holds no case.")])
    named = {**options.model_dump(mode="json"), "file": hashlib.sha256(content).hexdigest()}
    # Read again while it is stored: a small file may hold more cases than fit into memory.
    cases = read_cases(file, rubric, strict=strict)
    return Wanted(rubric, judge, cases, named, options.source, options.require is not None, notices)


async def _from_form(request: Request) -> Wanted:
    async with request.form(max_files=1, max_fields=24) as form:
        fields: dict[str, Any] = {}
        upload: UploadFile | None = None
        for name, value in form.multi_items():
            if name in fields or (name == "file" and upload is not None):
                raise InvalidInput(fields=[FieldProblem(name, f"{name} is there more than once.")])
            if name == "file" and isinstance(value, UploadFile):
                upload = value
            elif isinstance(value, str):
                fields[name] = value
            else:
                raise InvalidInput(fields=[FieldProblem(name, f"{name} must be text; the cases go into `file`.")])
        if upload is None:
            raise InvalidInput(fields=[FieldProblem("file", "file is required: JSON lines, CSV or Parquet.")])
        if upload.filename and "source" not in fields:
            fields["source"] = upload.filename[:200]
        content = await upload.read()
        name = upload.filename or "file"
    return await _from_file(request, fields, name, content, None)


async def read_wanted(request: Request) -> Wanted:
    """The run that a request asks for. Raises InvalidInput, UnsupportedMediaType, NotFound, Conflict."""
    content_type = request.headers.get("content-type", "")
    kind = content_type.partition(";")[0].strip().lower()
    if is_json(content_type):
        return await _from_json(request)
    if kind in MEDIA:
        doubled = [name for name in request.query_params if len(request.query_params.getlist(name)) > 1]
        if doubled:
            raise InvalidInput(fields=[FieldProblem(doubled[0], f"{doubled[0]} is there more than once.")])
        return await _from_file(request, dict(request.query_params), "The body", await request.body(), MEDIA[kind])
    if kind == "multipart/form-data":
        return await _from_form(request)
    raise UnsupportedMediaType(
        "Send cases as `application/json`, as a file with `application/x-ndjson`, `text/csv` or "
        "`application/vnd.apache.parquet`, or as a form with a `file`."
    )


_CSV_EXAMPLE = ",".join(PAIRWISE_CASE) + "\r\n" + ",".join(map(json.dumps, PAIRWISE_CASE.values())) + "\r\n"
_JSONL_EXAMPLE = json.dumps(PAIRWISE_CASE) + "\n"
REQUEST_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {
            "schema": RunRequest.model_json_schema(),
            "example": {"rubric": "pairwise@1", "judge": "longer", "cases": [PAIRWISE_CASE]},
        },
        "application/x-ndjson": {"schema": {"type": "string"}, "example": _JSONL_EXAMPLE},
        "text/csv": {"schema": {"type": "string"}, "example": _CSV_EXAMPLE},
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["rubric", "judge", "file"],
                "properties": {
                    **UploadOptions.model_json_schema()["properties"],
                    "file": {"type": "string", "contentMediaType": "application/octet-stream"},
                },
            },
            "example": {"rubric": "pairwise@1", "judge": "longer", "file": _JSONL_EXAMPLE},
        },
    },
}
QUERY: list[dict[str, Any]] = [
    {
        "name": name,
        "in": "query",
        "required": False,
        "schema": schema,
        "description": f"For a file as the body only. {schema.get('description', '')}".strip(),
    }
    for name, schema in UploadOptions.model_json_schema()["properties"].items()
]
