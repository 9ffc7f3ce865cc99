"""Backend `baseline`: judges without a model, the floor that every report shows beside a real judge.

Owns `constant`, `longer` and `overlap`. They read an ask's structured items and passages, never its prompt, and
fill the constraint's own schema, so a new rubric needs nothing here. Knows no rubric by name.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from judge_service.backends.base import (
    BackendFailure,
    Capabilities,
    CompileReport,
    Completion,
    ProbeResult,
    Request,
)
from judge_service.domain.call import Usage
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import Enforcement, JudgeErrorReason
from judge_service.errors import ConfigurationError, FieldProblem
from judge_service.settings import Settings
from rubrics.model import Ask, ChoiceConstraint, Constraint, VerdictField

Kind = Literal["constant", "longer", "overlap"]

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot|fails?|failed|lacks?|unable)\b|\w+n['’]t\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_FUNCTION_WORDS = frozenset(
    _WORD.findall(
        "a an and are as at be been being but by did do does for from had has have he her his i if in into is "
        "it its me my of on or our she so such than that the their them then there these they this those to "
        "was we were which who whom whose will with would you your about also can could may might more most "
        "other some what when where while"
    )
)
_POSITIVE = ("supported", "full", "supports", "support", "yes", "true", "relevant", "correct", "present")
_PARTIAL = ("partial", "partially_supported", "partly")


class BaselineOptions(BaseModel):
    """Options of a judge with backend `baseline`.

    `answer` is the label that `constant` gives: `A`, `B` or `tie` for a pair (in the caller's frame), else a label
    of the rubric; unset, a pair gets `A` and anything else the first label that the rubric allows. `overlap` calls
    a claim supported from `threshold` (share of its content words found in one passage, 0 to 1) upwards.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    answer: str | None = Field(default=None, min_length=1)
    threshold: float = Field(default=0.6, gt=0, le=1, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class _Decision:
    """One verdict with what it rests on. `share` (0 to 1) is how strongly; None where nothing was measured."""

    label: str
    why: str
    share: float | None = None
    passage: str | None = None
    quote: str = ""


class BaselineBackend:
    """A judge without a model: `constant`, `longer` or `overlap`. Deterministic, free, and enforces nothing."""

    def __init__(self, kind: Kind, options: BaselineOptions | None = None) -> None:
        self._kind = kind
        self._options = options or BaselineOptions()
        self.capabilities = Capabilities(
            enforcement=Enforcement.NONE, logprobs=False, deterministic=True, is_model=False
        )

    def compile(self, constraint: Constraint) -> CompileReport:
        """Every constraint is filled from its own schema."""
        return CompileReport(Enforcement.NONE)

    async def complete(self, request: Request) -> Completion:
        """The baseline's reply. Raises BackendFailure where the rule has nothing to say on this rubric."""
        ask = request.ask
        decisions = {key: self._decide(key, field, request) for key, field in ask.verdicts.items()}
        if isinstance(ask.constraint, ChoiceConstraint):
            text = next((made.label for made in decisions.values()), ask.constraint.choices[0])
        else:
            filler = _Filler(ask, {ask.verdicts[key].path: made for key, made in decisions.items()})
            text = json.dumps(filler.fill(ask.constraint.schema, ()), ensure_ascii=False, separators=(",", ":"))
        usage = Usage(prompt_tokens=0, completion_tokens=0, cost_usd=0.0)
        return Completion(text, "stop", f"baseline/{self._kind}", Enforcement.NONE, usage=usage)

    def _decide(self, key: str, field: VerdictField, request: Request) -> _Decision:
        if request.subject.order is not None:
            return self._decide_pair(field.values, request)
        ask = request.ask
        if self._kind == "constant":
            return _Decision(_constant(self._options.answer, field.values, ask), "Always the same answer.")
        if self._kind == "longer":
            raise BackendFailure(
                JudgeErrorReason.PROVIDER_ERROR,
                "The baseline `longer` compares two answers; this rubric judges one. Use `constant` or `overlap`.",
            )
        item = ask.items.get(key) or next((ask.items[part] for part in field.path if part in ask.items), "")
        return overlap_verdict(item, ask.passages, field.values, self._options.threshold)

    def _decide_pair(self, values: Sequence[str], request: Request) -> _Decision:
        ask, order = request.ask, request.subject.order
        shown = tuple(ask.items.items())
        if len(shown) != 2:
            raise BackendFailure(JudgeErrorReason.PROVIDER_ERROR, "The pair's two answers were not given as items.")
        labels = _slot_labels(tuple(name for name, _ in shown), values)
        tie = next((value for value in values if value not in labels), None)
        mine = {"A": labels[0 if order == "AB" else 1], "B": labels[1 if order == "AB" else 0]}
        # Without a label for a tie, the caller's A is taken in both orders: never the position shown.
        level = tie if tie is not None else mine["A"]
        if self._kind == "constant":
            wanted = self._options.answer or "A"
            if wanted in mine:
                return _Decision(mine[wanted], f"Always {wanted}.")
            if wanted.casefold() == "tie" and tie is not None:
                return _Decision(tie, "Always a tie.")
            raise _unknown_answer(wanted, ("A", "B") if tie is None else ("A", "B", "tie"))
        if self._kind == "longer":
            sizes = [len(text) for _, text in shown]
            why = f"{sizes[0]} against {sizes[1]} characters."
        else:
            against = " ".join((ask.question or "", *ask.passages.values()))
            sizes = [len(_content_words(text) & _content_words(against)) for _, text in shown]
            why = f"{sizes[0]} against {sizes[1]} words shared with the question."
        if sizes[0] == sizes[1]:
            return _Decision(level, why)
        return _Decision(labels[0] if sizes[0] > sizes[1] else labels[1], why)

    async def count_tokens(self, request: Request) -> int | None:
        """No model, no window."""
        return None

    async def probe(self) -> ProbeResult:
        """Always ready."""
        return ProbeResult(True, None, False, f"baseline/{self._kind}", "No model to reach.")

    async def aclose(self) -> None:
        """Nothing to release."""


def _slot_labels(names: tuple[str, ...], values: Sequence[str]) -> tuple[str, str]:
    if all(name in values for name in names):
        return names[0], names[1]
    return values[0], values[1]


def _unknown_answer(wanted: str, allowed: Sequence[str]) -> BackendFailure:
    return BackendFailure(
        JudgeErrorReason.PROVIDER_ERROR,
        f"The baseline's constant answer {wanted!r} is not one of: {', '.join(allowed)}. Set the option `answer`.",
    )


def _constant(wanted: str | None, values: Sequence[str], ask: Ask) -> str:
    if wanted is None or wanted in values:
        return wanted or values[0]
    if wanted == "unsupported" and "supported" in values:
        return next(value for value in values if value != "supported")
    everywhere = {value for field in ask.verdicts.values() for value in field.values}
    if wanted in everywhere:
        # An ask may hold verdicts of several kinds; the constant speaks on its own kind only.
        return values[0]
    raise _unknown_answer(wanted, sorted(everywhere))


def overlap_verdict(claim: str, passages: Mapping[str, str], values: Sequence[str], threshold: float) -> _Decision:
    """Word overlap of `claim` with its best passage.

    Supported when the share of the claim's content words found in one passage reaches `threshold`, every number of
    the claim occurs in the passages, and claim and quoted sentence are both negated or both not.
    """
    positive = next((value for value in _POSITIVE if value in values), values[0])
    partial = next((value for value in _PARTIAL if value in values), None)
    rest = [value for value in values if value not in (positive, partial)]
    negative = next((value for value in ("fabrication", "none", "no") if value in rest), rest[0] if rest else positive)
    words = _content_words(claim)
    best, share = None, 0.0
    for name, text in passages.items():
        found = len(words & _content_words(text)) / len(words) if words else 0.0
        if best is None or found > share:
            best, share = name, found
    if best is None:
        return _Decision(negative, "There is no passage.", 1.0)
    quote = _best_sentence(words, passages[best])
    missing = _numbers(claim) - {number for text in passages.values() for number in _numbers(text)}
    why = f"{share:.0%} of the words are in {best}."
    if missing:
        return _Decision(negative, f"{why} Not in any passage: {', '.join(sorted(missing))}.", 1.0, best, quote)
    if len(_NEGATION.findall(claim)) % 2 != len(_NEGATION.findall(quote)) % 2:
        return _Decision(negative, f"{why} Only one of the two is negated.", share, best, quote)
    if share >= threshold:
        return _Decision(positive, why, share, best, quote)
    if partial is not None and share >= threshold / 2:
        return _Decision(partial, why, share, best, quote)
    return _Decision(negative, why, 1 - share, best, quote)


def _content_words(text: str) -> frozenset[str]:
    # A crude stem: plural and third-person endings only, so that "towers" meets "tower".
    words = (word.casefold() for word in _WORD.findall(text))
    return frozenset(_stem(word) for word in words if word not in _FUNCTION_WORDS)


def _stem(word: str) -> str:
    word = word.removesuffix("'s").removesuffix("’s")
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _numbers(text: str) -> frozenset[str]:
    return frozenset(number.replace(",", "") for number in _NUMBER.findall(text))


def _best_sentence(words: frozenset[str], text: str) -> str:
    sentences = [piece for piece in _SENTENCE_END.split(text) if piece.strip()]
    return max(sentences, key=lambda piece: len(words & _content_words(piece)), default=text)


class _Filler:
    """Builds the smallest reply that a schema allows, with the decisions at their places."""

    def __init__(self, ask: Ask, decisions: Mapping[tuple[str, ...], _Decision]) -> None:
        self._ask = ask
        self._decisions = decisions

    def fill(self, schema: Mapping[str, Any], path: tuple[str, ...]) -> Any:
        if path in self._decisions:
            return self._decisions[path].label
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

    def _near(self, path: tuple[str, ...]) -> _Decision | None:
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
        return values[0]

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


def open_backend(judge: Judge, settings: Settings) -> BaselineBackend:
    """A backend for a configured judge. Raises ConfigurationError naming the wrong field."""
    kinds: dict[str, Kind] = {"constant": "constant", "longer": "longer", "overlap": "overlap"}
    if judge.model not in kinds:
        raise ConfigurationError(
            f"Judge `{judge.name}`: backend `baseline` has the models {', '.join(kinds)}.",
            fields=[FieldProblem("model", f"{judge.model!r} is not one of them")],
        )
    try:
        options = BaselineOptions.model_validate(judge.options)
    except ValidationError as error:
        raise ConfigurationError(
            f"Judge `{judge.name}`: the options of backend `baseline` are not valid.",
            fields=[
                FieldProblem(".".join(["options", *map(str, problem["loc"])]), problem["msg"])
                for problem in error.errors()
            ],
        ) from error
    return BaselineBackend(kinds[judge.model], options)
