"""How responses are described in the OpenAPI document: problems, and records with an example."""

from typing import Any

from pydantic import BaseModel, Field

from judge_service.api.examples import PROBLEM
from judge_service.gate.problem import MEDIA_TYPE


class ProblemField(BaseModel):
    """What is wrong with one field."""

    path: str = Field(description="Such as `case.contexts[0]`.")
    message: str


class Problem(BaseModel):
    """An error as RFC 9457 describes it, with a stable `code`, the fields to blame and the request id."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[ProblemField]
    request_id: str | None


_PROBLEMS = {
    400: "The body could not be read as strict JSON.",
    401: "No valid API key.",
    403: "The key's role does not allow this.",
    404: "Nothing is stored under that id.",
    409: "The request conflicts with what is stored, or the judge is not calibrated and that was demanded.",
    413: "The body is too large.",
    415: "The body has a content type that this route does not read.",
    422: "A field is not valid; `errors` names it.",
    429: "Too many requests with this key. See `Retry-After`.",
    502: "The provider refused the judge's own key.",
    503: "Not possible right now. See `Retry-After`.",
}

Responses = dict[int | str, dict[str, Any]]


def answers(description: str, example: Any, *, status: int = 200, model: Any = None) -> Responses:
    """A successful JSON response with its example, and its model where there is one."""
    answer: dict[str, Any] = {"description": description, "content": {"application/json": {"example": example}}}
    if model is not None:
        answer["model"] = model
    return {status: answer}


def problems(*statuses: int) -> Responses:
    """The problems that a route may answer with."""
    return {
        status: {
            "description": _PROBLEMS[status],
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": PROBLEM}},
        }
        for status in statuses
    }


GUARDED = (401, 403, 429)
"""Problems that every route behind a key may answer with."""
