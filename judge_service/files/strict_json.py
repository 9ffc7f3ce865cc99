"""One JSON object of a line or a cell, read strictly: what two readers could understand differently is refused."""

import json
import math
from collections import Counter
from typing import Any, NoReturn

from judge_service.errors import FieldProblem, InvalidInput

MAX_DEPTH = 64
"""Deepest nesting of a line. No case model needs more than five levels."""


def parse_line(text: str) -> dict[str, Any]:
    """One JSON object, read strictly: no repeated keys, no NaN, no infinite or endless number, no half characters.

    Raises InvalidInput saying what is wrong and where.
    """
    try:
        value = _decode(text)
        if not isinstance(value, dict):
            raise InvalidInput(fields=[FieldProblem("", "must be one JSON object")])
        _check_depth(value)
        if "\\ud" in text.lower() or not text.isascii():
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise InvalidInput(fields=[FieldProblem("", f"is not JSON: {error.msg} at column {error.colno}")]) from None
    except UnicodeEncodeError:
        raise InvalidInput(fields=[FieldProblem("", "holds half of a surrogate pair, which is no character")]) from None
    except RecursionError:
        raise InvalidInput(fields=[FieldProblem("", f"is nested deeper than {MAX_DEPTH} levels")]) from None
    return value


def parse_cell(text: str) -> Any:
    """The JSON value of a cell. Raises InvalidInput saying what is wrong."""
    fields = parse_line(f'{{"cell":{text}}}')
    if set(fields) != {"cell"}:
        raise InvalidInput(fields=[FieldProblem("", "is not JSON")])
    return fields["cell"]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        doubled = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
        raise InvalidInput(fields=[FieldProblem(name[:80], "this key is there more than once") for name in doubled])
    return value


def _no_constant(name: str) -> NoReturn:
    raise InvalidInput(fields=[FieldProblem("", f"holds {name}, which is no JSON number")])


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise InvalidInput(fields=[FieldProblem("", f"holds the number {text[:40]}, which is too large")])
    return value


def _bounded(text: str) -> int:
    # Python itself refuses to print integers of more than 4,300 digits.
    if len(text) > 1000:
        raise InvalidInput(fields=[FieldProblem("", f"holds a number of {len(text)} digits; at most 1000 are read")])
    return int(text)


def _check_depth(value: Any) -> None:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise InvalidInput(fields=[FieldProblem("", f"is nested deeper than {MAX_DEPTH} levels")])


_decode = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_constant=_no_constant,
    parse_float=_finite,
    parse_int=_bounded,
).decode
