"""Reads a JSON body strictly: UTF-8, no repeated key, no NaN, no endless number, no half character, not too deep.

A lenient reader would let two parties see two different objects in one body.
"""

import asyncio
import json
import math
from collections.abc import Iterator
from typing import Any, NoReturn

from starlette.requests import Request

from judge_service.errors import FieldProblem, InvalidInput, Malformed, UnsupportedMediaType
from judge_service.gate.fields import field_path

_INLINE_BYTES = 128 * 1024
"""Larger bodies are parsed on a thread, so that others are answered meanwhile."""


class _RepeatedKey(ValueError):
    """A key stood twice in one object."""


class _NotANumber(ValueError):
    """A token that JSON does not know."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RepeatedKey(key)
            seen.add(key)
    return value


def _constant(token: str) -> NoReturn:
    raise _NotANumber(token)


def _too_deep(max_depth: int) -> Malformed:
    return Malformed(f"The JSON is nested more than {max_depth} levels deep.", extra={"limit_depth": max_depth})


def parse_json(body: bytes, *, max_depth: int) -> Any:
    """The value in `body`. Raises Malformed, or InvalidInput naming the field where it can be named."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"The body is not UTF-8: byte {error.start} does not fit.") from None
    try:
        value = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_object, parse_constant=_constant)
    except RecursionError:
        raise _too_deep(max_depth) from None
    except _RepeatedKey as error:
        raise Malformed(f"The key {str(error)[:80]!a} stands twice in one object.") from None
    except _NotANumber as error:
        raise Malformed(f"{error} is not JSON: numbers must be finite.") from None
    except json.JSONDecodeError as error:
        raise Malformed(f"The body is not JSON: {error.msg}, line {error.lineno} column {error.colno}.") from None
    except ValueError:
        # Python's limit on the digits of an integer.
        raise Malformed("The body holds a number with too many digits.") from None
    _check(value, max_depth)
    return value


def _check(root: Any, max_depth: int) -> None:
    """Walk the value without recursion, holding one iterator a level and no copy of a level."""
    levels: list[Iterator[tuple[str | int, Any]]] = [iter([("", root)])]
    path: list[str | int] = []
    while levels:
        entry = next(levels[-1], None)
        if entry is None:
            levels.pop()
            if path:
                path.pop()
            continue
        key, value = entry
        if isinstance(key, str) and not key.isascii():
            _check_text(key, path)
        if isinstance(value, str):
            if not value.isascii():
                _check_text(value, [*path, key])
        elif isinstance(value, float):
            if not math.isfinite(value):
                where = _where([*path, key])
                raise InvalidInput(fields=[FieldProblem(where, f"{where} must be a finite number.")])
        elif isinstance(value, dict | list):
            if len(levels) > max_depth:
                raise _too_deep(max_depth)
            path.append(key)
            levels.append(iter(value.items()) if isinstance(value, dict) else enumerate(value))


def _where(path: list[str | int]) -> str:
    # The first part stands for the root.
    return field_path(path[1:]) or "body"


def _check_text(text: str, path: list[str | int]) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        where = _where(path)
        message = f"{where} holds half a surrogate pair at character {error.start}: that is no text."
        raise InvalidInput(fields=[FieldProblem(where, message)]) from None


class JsonRequest(Request):
    """A request whose JSON body was read strictly before FastAPI looks at it."""

    strict_value: Any = None

    async def json(self) -> Any:
        """The value that was read."""
        return self.strict_value


def is_json(content_type: str) -> bool:
    """True for `application/json` and `application/*+json`, whatever its parameters."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


async def read_json(request: Request, *, max_depth: int) -> Any:
    """The JSON value of a request's body; the caller has checked the content type."""
    body = await request.body()
    if len(body) <= _INLINE_BYTES:
        return parse_json(body, max_depth=max_depth)
    return await asyncio.to_thread(lambda: parse_json(body, max_depth=max_depth))


async def strict_request(request: Request, *, max_depth: int) -> Request:
    """`request` with its JSON body read and checked. Raises UnsupportedMediaType for another kind of body."""
    strict = JsonRequest(request.scope, request.receive)
    if not await strict.body():
        return strict
    if not is_json(request.headers.get("content-type", "")):
        raise UnsupportedMediaType("Send the body as JSON with the header `Content-Type: application/json`.")
    strict.strict_value = await read_json(strict, max_depth=max_depth)
    return strict
