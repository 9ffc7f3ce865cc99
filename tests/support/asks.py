"""Asks of the shapes that rubrics make, built without any rubric: for tests of backends."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, Field, create_model

from judge_service.backends.base import Request, Subject
from judge_service.domain.judge import Sampling
from rubrics.model import Ask, ChoiceConstraint, JsonConstraint, Message, VerdictField
from rubrics.records import DecodingModel, Order

MESSAGES = (Message("system", "You judge."), Message("user", "Which answer is better?"))


class PairReply(DecodingModel):
    rationale: str = Field(max_length=160)
    verdict: Literal["first", "second", "tie"]


PAIR_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "rationale": {"type": "string", "maxLength": 160},
        "verdict": {"type": "string", "enum": ["first", "second", "tie"]},
    },
    "required": ["rationale", "verdict"],
    "additionalProperties": False,
}


def pair_ask(first: str = "short", second: str = "a longer answer", *, question: str | None = None) -> Ask:
    return Ask(
        step="compare",
        messages=MESSAGES,
        constraint=JsonConstraint(PairReply, PAIR_SCHEMA),
        verdicts={"verdict": VerdictField(("verdict",), ("first", "second", "tie"))},
        items={"first": first, "second": second},
        question=question,
    )


def choice_ask(first: str = "short", second: str = "a longer answer") -> Ask:
    return Ask(
        step="compare",
        messages=MESSAGES,
        constraint=ChoiceConstraint(("A", "B")),
        verdicts={"verdict": VerdictField((), ("A", "B"))},
        items={"A": first, "B": second},
    )


def extract_ask(sentences: Mapping[str, str]) -> Ask:
    schema = {
        "type": "object",
        "properties": {
            name: {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 40}, "maxItems": 4}
            for name in sentences
        },
        "required": list(sentences),
        "additionalProperties": False,
    }
    fields: dict[str, Any] = dict.fromkeys(sentences, (list[str], ...))
    model = create_model("Extracted", __base__=DecodingModel, **fields)
    return Ask("extract", MESSAGES, JsonConstraint(model, schema), verdicts={}, items=dict(sentences))


VERDICTS = ("supported", "fabrication", "overgeneralization", "wrong_entity", "stale_fact")


def verify_ask(claims: Mapping[str, str], passages: Mapping[str, str]) -> Ask:
    one = {
        "type": "object",
        "properties": {
            "passage": {"type": "string", "enum": [*passages, "none"]},
            "quote": {"type": "string", "maxLength": 60},
            "verdict": {"type": "string", "enum": list(VERDICTS)},
            "confidence": {"type": "integer", "enum": list(range(0, 101, 10))},
        },
        "required": ["passage", "quote", "verdict", "confidence"],
        "additionalProperties": False,
    }
    schema = {
        "type": "object",
        "properties": dict.fromkeys(claims, one),
        "required": list(claims),
        "additionalProperties": False,
    }

    class Verified(DecodingModel):
        passage: str
        quote: str
        verdict: Literal["supported", "fabrication", "overgeneralization", "wrong_entity", "stale_fact"]
        confidence: Literal[0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]

    fields: dict[str, Any] = dict.fromkeys(claims, (Verified, ...))
    model: type[BaseModel] = create_model("Verdicts", __base__=DecodingModel, **fields)
    assert issubclass(model, DecodingModel)
    return Ask(
        "verify",
        MESSAGES,
        JsonConstraint(model, schema),
        verdicts={name: VerdictField((name, "verdict"), VERDICTS) for name in claims},
        items=dict(claims),
        passages=dict(passages),
    )


def request(
    ask: Ask,
    *,
    case_id: str = "case-1",
    order: Order | None = None,
    attempt: int = 1,
    timeout_s: float = 5.0,
    max_tokens: int = 256,
    sampling: Sampling | None = None,
    want_probabilities: bool = False,
) -> Request:
    return Request(
        ask=ask,
        subject=Subject(rubric="test@1", case_id=case_id, case={}, order=order, attempt=attempt),
        sampling=sampling or Sampling(),
        max_tokens=max_tokens,
        timeout_s=timeout_s,
        want_probabilities=want_probabilities,
    )
