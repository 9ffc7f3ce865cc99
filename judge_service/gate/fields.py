"""Validation errors as field paths and sentences: `case.contexts[0] is required.`"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from judge_service.errors import FieldProblem

LIMIT = 50
"""More problems than this help nobody; the rest is counted in one line."""


def field_path(location: Iterable[str | int]) -> str:
    """`("case", "contexts", 0)` as `case.contexts[0]`."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path


def _sentence(path: str, error: Mapping[str, Any]) -> str:
    kind = error.get("type", "")
    context = error.get("ctx") or {}
    if kind == "missing":
        return f"{path} is required."
    if kind == "extra_forbidden":
        return f"{path} is not a field of this request."
    if kind == "string_too_short":
        return f"{path} must have at least {context['min_length']} characters."
    if kind == "string_too_long":
        return f"{path} must have at most {context['max_length']} characters."
    if kind == "value_error":
        return f"{path}: {context.get('error', error.get('msg'))}"
    message = str(error.get("msg", "is not valid"))
    return f"{path}: {message[:1].lower()}{message[1:]}."


def field_problems(errors: Sequence[Mapping[str, Any]], *, prefix: str = "") -> tuple[FieldProblem, ...]:
    """FastAPI's or Pydantic's errors as field problems; values that were sent are never repeated.

    The leading `body` of FastAPI's locations is dropped; `query`, `path` and `header` stay.
    """
    problems: dict[tuple[str, str], FieldProblem] = {}
    for error in errors:
        location = list(error.get("loc", ()))
        if location and location[0] == "body":
            location = location[1:]
        if prefix:
            location = [prefix, *location]
        path = field_path(location) or "body"
        problem = FieldProblem(path, _sentence(path, error))
        problems.setdefault((problem.path, problem.message), problem)
    found = tuple(problems.values())
    if len(found) > LIMIT:
        rest = FieldProblem("body", f"{len(found) - LIMIT} more fields are not valid.")
        return (*found[:LIMIT], rest)
    return found


def did_you_mean(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Known names close to `name`, closest first, at most three."""
    return tuple(difflib.get_close_matches(name, list(known), n=3, cutoff=0.5))
