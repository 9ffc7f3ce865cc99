"""Reads a judge's reply strictly, or says why it cannot be read. Never guesses, clamps, defaults or searches keywords.

Order of reading: the whole reply as JSON; else the part after a reasoning tag; else the inside of the one code
fence. What remains is a parse error, with the raw text kept by the caller.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from pydantic import BaseModel, ValidationError

from judge_service.domain.outcome import JudgeErrorReason
from rubrics.model import ChoiceConstraint, Constraint, JsonConstraint

ReadAs = Literal["whole", "after_reasoning", "code_fence", "choice"]

_REASONING_END = re.compile(r"</(?:think|thinking|thought|reasoning|reflection|scratchpad)>|\[/THINK\]", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t\ufeff]*(?:```|~~~)[ \t]*[\w+-]*[ \t]*\r?$", re.MULTILINE)
_INLINE_FENCE = re.compile(r"\A```[ \t]*(?:json)?[ \t]*(\{.*\})[ \t]*```\Z", re.DOTALL)
_MAX_DEPTH = 64


class ReplyProblem(Exception):
    """The reply is no verdict. `reason` is the outcome's reason, `message` says what was wrong with it."""

    def __init__(self, reason: JudgeErrorReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class _RepeatedKey(ValueError):
    pass


class _NotFinite(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class ReadReply:
    """A validated reply and the part of the raw text it came from, as offsets into the raw text."""

    value: BaseModel | str
    read_as: ReadAs
    start: int
    end: int


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _RepeatedKey(key)
        result[key] = value
    return result


def _refuse_constant(token: str) -> NoReturn:
    raise _NotFinite(token)


def _depth(text: str) -> int:
    deepest = depth = 0
    in_string = escaped = False
    for character in text:
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "{[":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "}]":
            depth -= 1
    return deepest


def _load(text: str) -> Any:
    """`text` as one JSON value. Raises ValueError (also for repeated keys, NaN and absurd nesting)."""
    # The C scanner recurses on nesting; the count of brackets is a cheap bound that spares the exact look.
    if text.count("{") + text.count("[") > _MAX_DEPTH and _depth(text) > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    return _decode(text)


_decode = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant).decode


def _candidates(raw: str) -> Iterator[tuple[ReadAs, int, int]]:
    yield "whole", 0, len(raw)
    ends = [match.end() for match in _REASONING_END.finditer(raw)]
    for end in reversed(ends):
        yield "after_reasoning", end, len(raw)
    # A fence counts only outside the reasoning, and only if it is the one fence there. One that opens at the
    # start and closes at the end holds any tags as text inside its strings.
    for start in [*reversed(ends), 0]:
        body = raw[start:]
        stripped = body.strip()
        inline = _INLINE_FENCE.match(stripped)
        if inline and "```" not in inline[1]:
            offset = start + body.index(stripped)
            yield "code_fence", offset + inline.start(1), offset + inline.end(1)
        lines = list(_FENCE.finditer(raw, start))
        if len(lines) != 2 or raw[lines[1].start() : lines[1].end()].strip(" \t\r\ufeff") not in ("```", "~~~"):
            continue
        covered = all(lines[0].end() <= end <= lines[1].start() for end in ends if end > start)
        if covered:
            yield "code_fence", lines[0].end(), lines[1].start()


def _trim(raw: str, start: int, end: int) -> tuple[int, int]:
    # JSON's own white space plus a byte order mark; other invisible characters are content.
    blank = " \t\r\n\ufeff"
    while start < end and raw[start] in blank:
        start += 1
    while end > start and raw[end - 1] in blank:
        end -= 1
    return start, end


def _schema_problem(error: ValidationError, items: frozenset[str]) -> ReplyProblem:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    missing = [str(p["loc"][0]) for p in problems if p["type"] == "missing" and len(p["loc"]) == 1]
    extra = [str(p["loc"][0]) for p in problems if p["type"] == "extra_forbidden" and len(p["loc"]) == 1]
    if items and extra and all(name not in items for name in extra) and set(missing) <= items:
        return ReplyProblem(
            JudgeErrorReason.ID_MISMATCH, f"the reply answers ids that were not sent: {', '.join(sorted(extra)[:5])}"
        )
    if items and missing and set(missing) <= items:
        return ReplyProblem(
            JudgeErrorReason.MISSING_VERDICT, f"the reply has no answer for: {', '.join(sorted(missing)[:5])}"
        )
    where = "; ".join(f"{'.'.join(map(str, p['loc'])) or 'reply'}: {p['msg']}" for p in problems[:3])
    return ReplyProblem(JudgeErrorReason.SCHEMA_ERROR, f"the reply does not fit the rubric's schema: {where[:500]}")


def _same_types(given: Any, read: Any) -> bool:
    """Whether nothing was converted: Python takes 87.0 for 87 and false for 0 where only equality is checked."""
    kind = type(given)
    if kind is dict:
        if isinstance(read, BaseModel):
            read = vars(read) | (read.model_extra or {})
        elif not isinstance(read, dict):
            return False
        for name, value in given.items():
            there = read.get(name)
            # Most values are texts.
            if type(value) is not str:
                if not _same_types(value, there):
                    return False
            elif type(there) is not str:
                return False
        return True
    if kind is list and isinstance(read, list | tuple):
        return len(given) == len(read) and all(map(_same_types, given, read))
    return kind is type(read)


def read_json(raw: str, constraint: JsonConstraint, items: frozenset[str] = frozenset()) -> ReadReply:
    """The one JSON object in `raw`, validated against the constraint's model.

    `items` are the ids that were sent, for item-wise replies: leaving one out, answering an unknown one or
    answering one twice have reasons of their own. Raises ReplyProblem and nothing else.
    """
    if not raw.strip():
        raise ReplyProblem(JudgeErrorReason.PARSE_ERROR, "the reply is empty")
    items = items & constraint.model.model_fields.keys()
    for read_as, first, last in _candidates(raw):
        start, end = _trim(raw, first, last)
        if start == end or raw[start] != "{":
            continue
        try:
            value = _load(raw[start:end])
        except _RepeatedKey as error:
            key = str(error)
            if key in items:
                raise ReplyProblem(JudgeErrorReason.DUPLICATE_VERDICT, f"the reply answers {key} twice") from None
            raise ReplyProblem(JudgeErrorReason.SCHEMA_ERROR, f"the reply has the key {key[:80]!r} twice") from None
        except _NotFinite as error:
            raise ReplyProblem(JudgeErrorReason.SCHEMA_ERROR, f"the reply holds {error}, which is no number") from None
        except (ValueError, RecursionError):
            continue
        try:
            # JSON mode: an array is a legal tuple there, and nothing else is converted.
            validated = constraint.model.model_validate_json(raw[start:end])
        except ValidationError as error:
            raise _schema_problem(error, items) from None
        except (ValueError, RecursionError, OverflowError):
            raise ReplyProblem(JudgeErrorReason.SCHEMA_ERROR, "the reply could not be validated") from None
        if not _same_types(value, validated):
            raise ReplyProblem(JudgeErrorReason.SCHEMA_ERROR, "the reply has a value of the wrong type")
        return ReadReply(validated, read_as, start, end)
    raise ReplyProblem(JudgeErrorReason.PARSE_ERROR, "the reply is not one JSON object")


def read_choice(raw: str, constraint: ChoiceConstraint) -> ReadReply:
    """The label that `raw` consists of, white space around it aside, after the reasoning if there is any.

    Letter case counts and nothing is searched for. Raises ReplyProblem and nothing else.
    """
    ends = [0, *(match.end() for match in _REASONING_END.finditer(raw))]
    start, end = _trim(raw, ends[-1], len(raw))
    if raw[start:end] in constraint.choices:
        return ReadReply(raw[start:end], "choice", start, end)
    raise ReplyProblem(JudgeErrorReason.PARSE_ERROR, f"the reply is none of the labels {', '.join(constraint.choices)}")


def read_reply(raw: str, constraint: Constraint, items: frozenset[str] = frozenset()) -> ReadReply:
    """Read `raw` under either kind of constraint. Raises ReplyProblem and nothing else."""
    if isinstance(constraint, JsonConstraint):
        return read_json(raw, constraint, items)
    return read_choice(raw, constraint)
