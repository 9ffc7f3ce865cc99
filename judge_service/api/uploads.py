"""Files that are sent to a route: as a form, or as the body with options in the query.

Owns the options that every upload may state and how they are described. What a file means is the route's.
"""

import io
import json
from typing import Any, Literal, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import UploadFile

from judge_service.domain.calibration_set import LabelCondition, Split
from judge_service.errors import FieldProblem, InvalidInput, UnsupportedMediaType
from judge_service.files.rows import FileKind
from judge_service.files.source import Source, kind_of
from judge_service.gate.fields import field_problems

MEDIA = {
    "application/x-ndjson": FileKind.JSONL,
    "application/ndjson": FileKind.JSONL,
    "application/jsonl": FileKind.JSONL,
    "application/x-jsonlines": FileKind.JSONL,
    "text/csv": FileKind.CSV,
    "application/vnd.apache.parquet": FileKind.PARQUET,
    "application/x-parquet": FileKind.PARQUET,
}
"""Kinds of file by media type."""

STUDIO = "label-studio"
TASK: dict[str, Any] = {
    "data": {"case_id": "kettle-7"},
    "annotations": [
        {
            "completed_by": {"email": "Ann Example"},
            "result": [{"from_name": "label", "to_name": "case", "type": "choices", "value": {"choices": ["A"]}}],
        }
    ],
}
"""A labelled task of Label Studio, as an example."""


class FileOptions(BaseModel):
    """What every upload may state."""

    model_config = ConfigDict(extra="forbid")

    rubric: str | None = Field(default=None, max_length=200, description="Default: the set's, else the format's.")
    map: list[str] = Field(default_factory=list, description="`SOURCE=TARGET`: read SOURCE as TARGET. Repeatable.")
    label: list[str] = Field(default_factory=list, description="`WORD=LABEL`: read WORD as LABEL. Repeatable.")
    encoding: str | None = Field(default=None, max_length=40, description="Of a CSV file.")
    delimiter: str | None = Field(default=None, min_length=1, max_length=1, description="Of a CSV file.")

    @property
    def table(self) -> FileKind | None:
        """What the file was said to be; None when that is to be found out."""
        return None


class TableOptions(FileOptions):
    """An upload of a table."""

    kind: FileKind | None = Field(default=None, description="What the file is. Default: by its name or type.")

    @property
    def table(self) -> FileKind | None:
        """What the file was said to be; None when that is to be found out."""
        return self.kind


class LabelOptions(FileOptions):
    """An upload with labels."""

    annotator: str = Field(default="gold", min_length=1, max_length=256, description="Of labels that name none.")
    condition: LabelCondition = Field(default=LabelCondition.BLIND, description="Of labels that do not say.")
    label_kind: Literal["human", "model"] = Field(default="human", description="Of labels that do not say.")


class LabelFileOptions(LabelOptions):
    """An upload of labels alone."""

    kind: FileKind | Literal["label-studio"] | None = Field(
        default=None,
        description="What the file is. Default: by its name or type; `label-studio` is said, or sent as JSON.",
    )

    @property
    def table(self) -> FileKind | None:
        """What the file was said to be; None when that is to be found out, or when it holds tasks."""
        return self.kind if isinstance(self.kind, FileKind) else None


class CaseOptions(LabelOptions, TableOptions):
    """An upload of cases."""

    format: str | None = Field(default=None, max_length=40, description="Default: recognised by the first row.")
    split: Split = Field(default=Split.CALIBRATION, description="Of cases that name none.")


class VerdictFileOptions(TableOptions):
    """An upload of recorded verdicts."""

    threshold: float = Field(default=0.5, ge=0, le=1, allow_inf_nan=False, description="For scores without a verdict.")
    positive: str | None = Field(default=None, max_length=100)
    negative: str | None = Field(default=None, max_length=100)
    version: str | None = Field(
        default=None, min_length=1, max_length=40, description="Makes another recorded judge beside one of that name."
    )


def upload(model: type[FileOptions], *, extra: tuple[str, ...] = ()) -> dict[str, Any]:
    """The OpenAPI description of an upload."""
    properties = model.model_json_schema()["properties"]
    files = {name: {"type": "string", "contentMediaType": "application/octet-stream"} for name in ("file", *extra)}
    schema = {"type": "object", "required": ["file"], "properties": {**files, **_inline(model, properties)}}
    line = '{"id": "kettle-7", "label": "A"}\n'
    tasks = {"schema": {"type": "array", "items": {"type": "object"}}, "example": [TASK]}
    return {
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {"schema": schema, "example": {"file": line}},
                "application/x-ndjson": {"schema": {"type": "string"}, "example": line},
                "text/csv": {"schema": {"type": "string"}, "example": "id,label\r\nkettle-7,A\r\n"},
                **({"application/json": tasks} if issubclass(model, LabelFileOptions) else {}),
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


O = TypeVar("O", bound=FileOptions)  # noqa: E741


def _options(model: type[O], given: list[tuple[str, str]]) -> O:
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


def pairs(name: str, given: list[str]) -> dict[str, str]:
    """`NAME=VALUE` texts of an option as a mapping. Raises InvalidInput naming the option."""
    pairs: dict[str, str] = {}
    for text in given:
        source, sign, target = text.partition("=")
        if not sign or not source:
            raise InvalidInput(fields=[FieldProblem(name, f"{name} must be written NAME=VALUE, not {text[:80]!a}.")])
        pairs[source] = target
    return pairs


def held(
    name: str, content: bytes, kind: FileKind | None, encoding: str | None = None, delimiter: str | None = None
) -> Source:
    """A file that was sent; its kind by name and first bytes, unless it is given. Raises InvalidInput."""
    if not content:
        raise InvalidInput(fields=[FieldProblem("file", "file is empty.")])
    return Source(name, lambda: io.BytesIO(content), kind or kind_of(name, content[:64]), encoding, delimiter)


def _source(name: str, content: bytes, kind: FileKind | None, options: FileOptions) -> Source:
    return held(name, content, options.table or kind, options.encoding, options.delimiter)


async def read_upload(request: Request, model: type[O], extra: tuple[str, ...] = ()) -> tuple[O, dict[str, Source]]:
    """The options and the files of an upload: a form, or one file as the body with options in the query."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    tasks = media == "application/json" and issubclass(model, LabelFileOptions)
    if media in MEDIA or tasks:
        given = list(request.query_params.multi_items())
        if tasks and "kind" not in request.query_params:
            given.append(("kind", STUDIO))
        options = _options(model, given)
        source = _source("body", await request.body(), MEDIA.get(media, FileKind.JSONL), options)
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
        name: _source(file, content, options.table if name == "file" else None, options)
        for name, (file, content) in files.items()
    }
