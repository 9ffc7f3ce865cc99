"""Backend `baseline`: judges without a model, the floor that every report shows beside a real judge.

Owns `constant`, `longer` and `overlap`. They read an ask's structured items and passages, never its prompt, and
fill the constraint's own schema, so a new rubric needs nothing here. Knows no rubric by name.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from judge_service.backends.base import (
    BackendFailure,
    Capabilities,
    CompileReport,
    Completion,
    ProbeResult,
    Request,
)
from judge_service.backends.filling import Decision, fill_reply, pair_labels
from judge_service.domain.call import Usage
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import Enforcement, JudgeErrorReason
from judge_service.errors import ConfigurationError, FieldProblem
from judge_service.settings import Settings
from rubrics.model import Ask, Constraint, VerdictField

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
        text, _ = fill_reply(ask, decisions)
        usage = Usage(prompt_tokens=0, completion_tokens=0, cost_usd=0.0)
        return Completion(text, "stop", f"baseline/{self._kind}", Enforcement.NONE, usage=usage)

    def _decide(self, key: str, field: VerdictField, request: Request) -> Decision:
        if request.subject.order is not None:
            return self._decide_pair(field.values, request)
        ask = request.ask
        if self._kind == "constant":
            return Decision(_constant(self._options.answer, field.values, ask), "Always the same answer.")
        if self._kind == "longer":
            raise BackendFailure(
                JudgeErrorReason.PROVIDER_ERROR,
                "The baseline `longer` compares two answers; this rubric judges one. Use `constant` or `overlap`.",
            )
        item = ask.items.get(key) or next((ask.items[part] for part in field.path if part in ask.items), "")
        return overlap_verdict(item, ask.passages, field.values, self._options.threshold)

    def _decide_pair(self, values: Sequence[str], request: Request) -> Decision:
        ask = request.ask
        pair = pair_labels(ask, values, request.subject.order)
        labels, tie = (pair.first, pair.second), pair.tie
        mine = {"A": pair.a, "B": pair.b}
        # Without a label for a tie, the caller's A is taken in both orders: never the position shown.
        level = tie if tie is not None else mine["A"]
        if self._kind == "constant":
            wanted = self._options.answer or "A"
            if wanted in mine:
                return Decision(mine[wanted], f"Always {wanted}.")
            if wanted.casefold() == "tie" and tie is not None:
                return Decision(tie, "Always a tie.")
            raise _unknown_answer(wanted, ("A", "B") if tie is None else ("A", "B", "tie"))
        if self._kind == "longer":
            sizes = [len(text) for text in ask.items.values()]
            why = f"{sizes[0]} against {sizes[1]} characters."
        else:
            against = " ".join((ask.question or "", *ask.passages.values()))
            sizes = [len(_content_words(text) & _content_words(against)) for text in ask.items.values()]
            why = f"{sizes[0]} against {sizes[1]} words shared with the question."
        if sizes[0] == sizes[1]:
            return Decision(level, why)
        return Decision(labels[0] if sizes[0] > sizes[1] else labels[1], why)

    async def count_tokens(self, request: Request) -> int | None:
        """No model, no window."""
        return None

    async def probe(self) -> ProbeResult:
        """Always ready."""
        return ProbeResult(True, None, False, f"baseline/{self._kind}", "No model to reach.")

    async def aclose(self) -> None:
        """Nothing to release."""


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


def overlap_verdict(claim: str, passages: Mapping[str, str], values: Sequence[str], threshold: float) -> Decision:
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
        return Decision(negative, "There is no passage.", 1.0)
    quote = _best_sentence(words, passages[best])
    missing = _numbers(claim) - {number for text in passages.values() for number in _numbers(text)}
    why = f"{share:.0%} of the words are in {best}."
    if missing:
        return Decision(negative, f"{why} Not in any passage: {', '.join(sorted(missing))}.", 1.0, best, quote)
    if len(_NEGATION.findall(claim)) % 2 != len(_NEGATION.findall(quote)) % 2:
        return Decision(negative, f"{why} Only one of the two is negated.", share, best, quote)
    if share >= threshold:
        return Decision(positive, why, share, best, quote)
    if partial is not None and share >= threshold / 2:
        return Decision(partial, why, share, best, quote)
    return Decision(negative, why, 1 - share, best, quote)


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
