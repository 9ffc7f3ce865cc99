"""The page that imports a file of cases or of labels into an open set: all of it, or nothing with what is wrong.

Owns the form. How files are read, and every check, is `sets`'.
"""

import asyncio
import io
from typing import BinaryIO, Literal, get_args

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from judge_service.domain.calibration_set import LabelCondition, Split
from judge_service.errors import Conflict, FieldProblem, InvalidInput, JudgeServiceError
from judge_service.files.source import Source, kind_of
from judge_service.gate.route import GuardedRoute, needs
from judge_service.security.roles import Permission
from judge_service.sets.importing import Imported, ImportOptions, import_cases, import_labels
from judge_service.sets.shapes import SHAPES
from judge_service.web.forms import NOTHING, Refused, refused, text_fields, upload
from judge_service.web.pages import render
from judge_service.web.services import services_of
from judge_service.web.sets import Reference
from rubrics.registry import all_rubrics

router = APIRouter(include_in_schema=False, route_class=GuardedRoute)

What = Literal["cases", "labels"]
_TEXTS = {
    "what": "cases",
    "format": "",
    "rubric": "",
    "split": "calibration",
    "annotator": "gold",
    "condition": "blind",
    "label_kind": "human",
    "map": "",
    "words": "",
    "encoding": "",
    "delimiter": "",
}
_FIELDS = (*_TEXTS, "file", "answers")
_SAFE = "Nothing was imported. Your entries are kept; choose the file again."


@router.get("/sets/{reference}/import")
@needs(Permission.MANAGE_SETS)
async def import_page(request: Request, reference: Reference) -> HTMLResponse:
    """The form."""
    return await _import(request, reference, dict(_TEXTS))


async def _import(
    request: Request,
    reference: str,
    said: dict[str, str],
    problems: Refused = NOTHING,
    done: Imported | None = None,
) -> HTMLResponse:
    version = await asyncio.to_thread(services_of(request).store.sets.get, reference)
    return render(
        request,
        "set_import.html.j2",
        status=problems.status,
        problems=problems,
        said=said,
        done=done,
        version=version,
        shapes=SHAPES,
        rubrics=[rubric.id for rubric in all_rubrics()],
        splits=list(Split),
    )


@router.post("/sets/{reference}/import")
@needs(Permission.MANAGE_SETS)
async def import_file(request: Request, reference: Reference) -> Response:
    """Import the file, or say what is wrong by line and field; then nothing of it is stored."""
    store = services_of(request).store
    said = await text_fields(request, *_TEXTS)
    try:
        options, source = await _options(request, said)
        work = import_labels if said["what"] == "labels" else import_cases
        done = await asyncio.to_thread(work, store, reference, source, options)
    except JudgeServiceError as error:
        otherwise = "what" if isinstance(error, Conflict) and not error.fields else "file"
        return await _import(request, reference, said, refused(error, _SAFE, _FIELDS, otherwise))
    return await _import(request, reference, said, done=done)


async def _options(request: Request, said: dict[str, str]) -> tuple[ImportOptions, Source]:
    """What is imported and how it is read. Raises InvalidInput naming the entry."""
    given = await upload(request, "file")
    if given is None:
        raise InvalidInput(fields=[FieldProblem("file", "Choose a file: JSON lines, CSV or Parquet.")])
    answers = await upload(request, "answers")
    for name, allowed in (("what", get_args(What)), ("split", list(Split)), ("condition", list(LabelCondition))):
        if said[name] not in allowed:
            raise InvalidInput(fields=[FieldProblem(name, f"Choose one of {', '.join(allowed)}.")])
    if said["label_kind"] not in ("human", "model"):
        raise InvalidInput(fields=[FieldProblem("label_kind", "Choose people or a model.")])
    if len(said["delimiter"]) > 1:
        raise InvalidInput(fields=[FieldProblem("delimiter", "The delimiter is one character.")])
    if not 1 <= len(said["annotator"].strip()) <= 256:
        raise InvalidInput(fields=[FieldProblem("annotator", "The name must have 1 to 256 characters.")])
    options = ImportOptions(
        shape=said["format"] or None,
        rubric=said["rubric"] or None,
        names=_pairs("map", said["map"]),
        labels=_pairs("words", said["words"]),
        split=Split(said["split"]),
        annotator=said["annotator"].strip(),
        condition=LabelCondition(said["condition"]),
        kind=said["label_kind"],
        answers=None if answers is None else _source(answers, said),
    )
    return options, _source(given, said)


def _source(given: tuple[str, bytes], said: dict[str, str]) -> Source:
    name, content = given
    if not content:
        raise InvalidInput(fields=[FieldProblem("file", f"{name} is empty.")])

    def opened() -> BinaryIO:
        return io.BytesIO(content)

    return Source(
        name, opened, kind_of(name, content[:64]), said["encoding"].strip() or None, said["delimiter"] or None
    )


def _pairs(name: str, text: str) -> dict[str, str]:
    """`THIS=THAT` a line. Raises InvalidInput naming the line."""
    pairs = {}
    for number, line in enumerate(text.splitlines(), start=1):
        left, sign, right = line.partition("=")
        if not line.strip():
            continue
        if not sign or not left.strip():
            message = f"Line {number} must be written THIS=THAT."
            raise InvalidInput(fields=[FieldProblem(name, message)])
        pairs[left.strip()] = right.strip()
    return pairs
