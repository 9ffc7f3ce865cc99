"""Replies that are built, not generated: a decision per verdict, put into the constraint's own schema.

Owns how a schema is filled for judges without a language model, and the frame of a pair. Knows no rubric by name.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judge_service.backends.base import BackendFailure, TokenLogprob
from judge_service.domain.outcome import JudgeErrorReason
from rubrics.model import Ask, ChoiceConstraint
from rubrics.records import Order


@dataclass(frozen=True, slots=True)
class Decision:
    """One verdict with what it rests on.

    `share` (0 to 1) is how strongly it is held, None where nothing was measured; `passage` and `quote` are its
    evidence; `probabilities` (by label) are given where a probability was computed.
    """

    label: str
    why: str = ""
    share: float | None = None
    passage: str | None = None
    quote: str = ""
    probabilities: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PairLabels:
    """The labels of a pair by position shown (`first`, `second`) and by the caller's answers (`a`, `b`)."""

    first: str
    second: str
    tie: str | None
    a: str
    b: str


def pair_labels(ask: Ask, values: Sequence[str], order: Order | None) -> PairLabels:
    """How the two answers of `ask`, given as items in the order shown, are named in a reply.

    Raises BackendFailure when the ask does not hold exactly two items.
    """
    names = tuple(ask.items)
    if len(names) != 2 or len(values) < 2:
        raise BackendFailure(JudgeErrorReason.PROVIDER_ERROR, "The pair's two answers were not given as items.")
    first, second = names if all(name in values for name in names) else (values[0], values[1])
    tie = next((value for value in values if value not in (first, second)), None)
    a, b = (second, first) if order == "BA" else (first, second)
    return PairLabels(first, second, tie, a, b)


def fill_reply(ask: Ask, decisions: Mapping[str, Decision]) -> tuple[str, tuple[TokenLogprob, ...] | None]:
    """The reply that states `decisions` (by the keys of `ask.verdicts`), valid for the ask's constraint.

    A verdict that was not decided gets the first value allowed. Returns the text and, where a decision has
    probabilities, tokens that spell it with them.
    """
    with_probabilities = any(made.probabilities for made in decisions.values())
    if isinstance(ask.constraint, ChoiceConstraint):
        made = next(iter(decisions.values()), Decision(ask.constraint.choices[0]))
        return made.label, (_token(made),) if with_probabilities else None
    by_path = {ask.verdicts[key].path: made for key, made in decisions.items()}
    value = _Filler(ask, by_path).fill(ask.constraint.schema, ())
    pieces = list(_pieces(value, (), by_path))
    text = "".join(piece if isinstance(piece, str) else piece.label for piece in pieces)
    if not with_probabilities:
        return text, None
    return text, tuple(TokenLogprob(piece, 0.0) if isinstance(piece, str) else _token(piece) for piece in pieces)


def _token(made: Decision) -> TokenLogprob:
    top = tuple((label, math.log(value)) for label, value in made.probabilities.items() if value > 0)
    return TokenLogprob(made.label, dict(top).get(made.label, -math.inf), top)


def _pieces(
    value: Any, path: tuple[str, ...], decisions: Mapping[tuple[str, ...], Decision]
) -> Iterator[str | Decision]:
    """Compact JSON, cut so that every decided label is a piece of its own."""
    if path in decisions and isinstance(value, str):
        yield '"'
        yield decisions[path]
        yield '"'
    elif isinstance(value, dict) and any(place[: len(path)] == path for place in decisions):
        for index, (name, part) in enumerate(value.items()):
            yield f"{',' if index else '{'}{json.dumps(name, ensure_ascii=False)}:"
            yield from _pieces(part, (*path, name), decisions)
        yield "}" if value else "{}"
    else:
        yield json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class _Filler:
    """Builds the smallest reply that a schema allows, with the decisions at their places."""

    def __init__(self, ask: Ask, decisions: Mapping[tuple[str, ...], Decision]) -> None:
        self._ask = ask
        self._decisions = decisions

    def fill(self, schema: Mapping[str, Any], path: tuple[str, ...]) -> Any:
        if path in self._decisions:
            label = self._decisions[path].label
            # A level is an integer in the reply and its text in the verdict.
            return next((value for value in schema.get("enum", ()) if str(value) == label), label)
        for union in ("anyOf", "oneOf"):
            if union in schema:
                kinds = [kind for kind in schema[union] if kind.get("type") != "null"]
                return self.fill(kinds[0] if kinds else schema[union][0], path)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._enum(schema["enum"], path)
        kind = schema.get("type")
        if kind == "object":
            return {name: self.fill(part, (*path, name)) for name, part in schema.get("properties", {}).items()}
        if kind == "array":
            return self._array(schema, path)
        if kind == "string":
            return self._string(schema, path)
        if kind == "boolean":
            return False
        return schema.get("minimum", 0)

    def _near(self, path: tuple[str, ...]) -> Decision | None:
        """The decision about the thing that `path` belongs to: in the same object, else the only one there is."""
        for size in range(len(path) - 1, -1, -1):
            inside = [made for place, made in self._decisions.items() if place[:size] == path[:size]]
            if inside:
                return inside[0] if len(inside) == 1 or size > 0 else None
        return None

    def _enum(self, values: Sequence[Any], path: tuple[str, ...]) -> Any:
        near = self._near(path)
        if all(type(value) in (int, float) for value in values):
            # A rule that measured nothing has no confidence: the middle of the scale.
            share = near.share if near is not None and near.share is not None else 0.5
            return min(values, key=lambda value: abs(value - max(values) * share))
        if near is not None and near.passage in values:
            return near.passage
        # No evidence is named where there is none, if the schema has a word for that.
        return "none" if "none" in values else values[0]

    def _array(self, schema: Mapping[str, Any], path: tuple[str, ...]) -> list[Any]:
        item = next((self._ask.items[part] for part in reversed(path) if part in self._ask.items), None)
        most = schema.get("maxItems")
        if item is not None and item.strip() and not self._decisions and most != 0:
            return [self.fill(schema["items"], (*path, "0"))]
        return [self.fill(schema["items"], (*path, str(index))) for index in range(schema.get("minItems", 0))]

    def _string(self, schema: Mapping[str, Any], path: tuple[str, ...]) -> str:
        near = self._near(path)
        if near is not None:
            text = near.quote if path and "quote" in path[-1] else near.why
        else:
            text = next((self._ask.items[part] for part in reversed(path) if part in self._ask.items), "")
            text = " ".join(text.split())
        text = text[: schema["maxLength"]] if "maxLength" in schema else text
        return text.ljust(schema.get("minLength", 0), ".")
