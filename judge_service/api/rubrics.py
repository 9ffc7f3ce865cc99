"""Rubrics: what is judged and how, readable in full."""

import json
from functools import lru_cache
from importlib.resources import files
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Request
from fastapi.responses import JSONResponse, Response

from judge_service.api.documents import GUARDED, answers, problems
from judge_service.api.services import RubricRoute, rubric_names, services_of
from judge_service.errors import NotFound
from judge_service.gate.fields import did_you_mean
from judge_service.gate.route import needs
from judge_service.security.roles import Permission
from rubrics.declared import Declaration, DeclaredRubric
from rubrics.model import ChoiceConstraint, Constraint, JsonConstraint, Rubric
from rubrics.registry import UnknownRubric, all_rubrics, get_rubric

router = APIRouter(prefix="/v1", tags=["rubrics"], route_class=RubricRoute)

_SUMMARY_EXAMPLE = {
    "id": "pairwise@1",
    "name": "pairwise",
    "version": 1,
    "title": "Which of two answers is better?",
    "kind": "pairwise",
    "content_hash": "9d2e" * 16,
    "labels": ["A", "B", "tie"],
}


def summary(rubric: Rubric[Any]) -> dict[str, Any]:
    """A rubric version in one line of a list."""
    return {
        "id": rubric.id,
        "name": rubric.name,
        "version": rubric.version,
        "title": rubric.title,
        "question": rubric.question,
        "kind": rubric.kind,
        "content_hash": rubric.content_hash,
        "labels": list(rubric.scale.names),
        "url": f"/v1/rubrics/{rubric.id}",
    }


def _constraint(constraint: Constraint) -> dict[str, Any]:
    if isinstance(constraint, JsonConstraint):
        return {"type": "json_schema", "schema": json.loads(json.dumps(dict(constraint.schema)))}
    if isinstance(constraint, ChoiceConstraint):
        return {"type": "choice", "choices": list(constraint.choices)}
    raise TypeError(f"unknown constraint {type(constraint).__name__}")


def templates(rubric: Rubric[Any]) -> dict[str, str]:
    """The prompt templates of a rubric version by file name, exactly as they are rendered from."""
    package = type(rubric).__module__.rpartition(".")[0]
    if not package:
        return {}
    folder = files(package)
    return {
        entry.name: entry.read_text(encoding="utf-8")
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".j2")
    }


@lru_cache(maxsize=64)
def _detail(rubric: Rubric[Any]) -> bytes:
    scale, rules = rubric.scale, rubric.rules
    document = {
        **summary(rubric),
        "elicitations": list(rubric.elicitations),
        "steps": dict(rubric.steps),
        "scale": {
            "labels": [{"name": label.name, "description": label.description} for label in scale.labels],
            "ordered": scale.ordered,
            "minimum": scale.minimum,
            "maximum": scale.maximum,
            "higher_is_better": scale.higher_is_better,
        },
        "rules": {
            "score": rules.score,
            "nothing_to_judge": dict(rules.nothing_to_judge),
            "length_policy": rules.length_policy,
            "ties": rules.ties,
            "sources": list(rules.sources),
        },
        "schemas": {
            "case": rubric.case_model.model_json_schema(),
            "record": rubric.record_model.model_json_schema(),
            "label": rubric.label_model.model_json_schema(),
            "decoding_samples": {step: _constraint(sample) for step, sample in rubric.sample_constraints().items()},
        },
        "prompt_templates": templates(rubric),
        "declaration": rubric.declaration.model_dump(mode="json") if isinstance(rubric, DeclaredRubric) else None,
        "examples": [{"case": dict(example.case), "quality": example.quality} for example in rubric.examples],
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False).encode()


@router.get(
    "/rubrics",
    summary="List rubrics",
    responses={
        **answers("Every rubric version.", {"items": [_SUMMARY_EXAMPLE]}),
        **problems(*GUARDED),
    },
)
@needs(Permission.READ_CATALOG)
async def list_rubrics() -> dict[str, Any]:
    """Every rubric version that this service can judge by."""
    return {"items": [summary(rubric) for rubric in all_rubrics()]}


@router.get(
    "/rubrics/{reference}",
    summary="Read a rubric",
    responses={
        **answers(
            "The version in full: scale, rules, steps, JSON schemas, prompt templates.",
            {**_SUMMARY_EXAMPLE, "schemas": {"case": {}, "record": {}, "label": {}, "decoding_samples": {}}},
        ),
        **problems(*GUARDED, 404),
    },
)
@needs(Permission.READ_CATALOG)
async def read_rubric(
    request: Request,
    reference: Annotated[str, Path(description="`name@version`, or `name` for the newest.", examples=["pairwise@1"])],
) -> Response:
    """One rubric version: what it asks, how the score follows, and every schema a client or judge needs."""
    try:
        rubric = get_rubric(reference)
    except UnknownRubric:
        near = did_you_mean(reference, rubric_names())
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise NotFound(f"There is no rubric {reference!a}.{hint}", extra={"suggestions": list(near)}) from None
    return Response(_detail(rubric), media_type="application/json")


_DECLARED: dict[str, Any] = {
    "name": "tone",
    "version": 1,
    "title": "Polite and clear",
    "inputs": ["question", "answer"],
    "criteria": [
        {
            "name": "clear",
            "text": "Can the answer be followed at first reading?",
            "weight": 2,
            "levels": [
                {"value": 1, "description": "Not at all."},
                {"value": 2, "description": "With effort."},
                {"value": 3, "description": "At once."},
            ],
        },
        {
            "name": "polite",
            "text": "Is the answer polite?",
            "labels": [
                {"name": "rude", "description": "It insults or mocks.", "score": 0},
                {"name": "polite", "description": "It does neither.", "score": 1},
            ],
        },
    ],
}
_DECLARED_EXAMPLE = {
    **_SUMMARY_EXAMPLE,
    "id": "tone@1",
    "name": "tone",
    "title": "Polite and clear",
    "kind": "single",
    "labels": ["fail", "pass"],
}


@router.post(
    "/rubrics",
    summary="Declare a rubric",
    response_class=Response,
    responses={
        **answers("The version, which was declared exactly so before.", _DECLARED_EXAMPLE),
        **answers("The new version.", _DECLARED_EXAMPLE, status=201),
        **problems(*GUARDED, 400, 409, 413, 415, 422),
    },
)
@needs(Permission.DECLARE_RUBRICS)
async def declare_rubric(
    request: Request,
    body: Annotated[
        Declaration,
        Body(openapi_examples={"two criteria": {"summary": "A scale and two labels, weighted", "value": _DECLARED}}),
    ],
) -> Response:
    """Add a rubric version as data: criteria with an ordered scale or named labels, and their weights.

    What could fail later is refused now, with the path of the field: no judge is called. A version never changes.
    """
    rubric, new = await services_of(request).stored_rubrics.add(body)
    headers = {"Location": f"/v1/rubrics/{rubric.id}"} if new else {}
    return JSONResponse(summary(rubric), status_code=201 if new else 200, headers=headers)
