"""Prompts of arbitrary text with replies of arbitrary shape, from a seed: what a grammar must hold whatever comes."""

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from judge_service.backends.base import Backend, Subject
from judge_service.backends.limits import reply_limit
from judge_service.domain.judge import Judge, Limits, Sampling
from judge_service.judging.asking import Asker, NoReply
from judge_service.judging.provider import ProviderGate
from rubrics.model import Ask, ChoiceConstraint, Constraint, Message
from rubrics.records import DecodingModel
from rubrics.registry import all_rubrics
from rubrics.schema import json_constraint

RANGES = (
    *[(0x20, 0x7E)] * 6,
    *[(0xA0, 0x17F)] * 2,
    *((0x00, 0x1F), (0x300, 0x36F), (0x370, 0x4FF), (0x590, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F)),
    *((0x1100, 0x11FF), (0x2000, 0x206F), (0x2190, 0x22FF), (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3)),
    *((0xE000, 0xE0FF), (0xFDD0, 0xFFFF), (0x1F300, 0x1FAFF), (0xE0000, 0xE007F), (0x10FF00, 0x10FFFF)),
)
"""Blocks that text is drawn from, plain letters most often; controls, bidi marks, private use and unassigned too."""

PIECES = (
    "\n\n\n\n",
    " " * 12,
    '{"',
    '"}',
    "[]",
    "```json\n",
    "</s>",
    "<|im_end|>",
    "<|im_start|>",
    "\\u0000",
    "null",
    "aaaa",
)
"""What drives a model into white space, endless strings, or out of the format."""

LONGEST = 600
"""Tokens that a reply may take at most: steps of rubrics with longer replies are measured on real cases."""


def random_text(rng: random.Random, longest: int) -> str:
    """1 to about `longest` characters of any kind but lone surrogates."""
    parts: list[str] = []
    for _ in range(rng.randint(1, longest)):
        if rng.random() < 0.06:
            parts.append(rng.choice(PIECES))
        else:
            parts.append(chr(rng.randint(*rng.choice(RANGES))))
    return "".join(parts)


def _value(rng: random.Random, depth: int) -> Any:
    kind = rng.choice(("text", "text", "label", "label", "number", "flag", *(("list", "object") if depth else ())))
    if kind == "text":
        return Annotated[str, Field(max_length=rng.randint(1, 16))]
    if kind == "label":
        return Literal[tuple(f"{random_label(rng)}{number}" for number in range(rng.randint(2, 5)))]
    if kind == "number":
        return Literal[tuple(range(0, 101, rng.choice((10, 25, 50))))]
    if kind == "flag":
        return bool
    if kind == "list":
        return Annotated[tuple[_value(rng, 0), ...], Field(max_length=rng.randint(1, 2))]
    return random_model(rng, depth - 1)


def random_label(rng: random.Random) -> str:
    """A short label; enum values are ASCII."""
    return "".join(rng.choice("abcdefghijklmnopqrstuvwxyz-_ ") for _ in range(rng.randint(1, 8))).strip() or "x"


def random_model(rng: random.Random, depth: int = 1) -> type[DecodingModel]:
    """A reply of 1 to 3 required fields: bounded texts, labels, numbers, flags, lists and objects."""
    fields: dict[str, Any] = {f"f{number}": (_value(rng, depth), ...) for number in range(rng.randint(1, 3))}
    return create_model("Drawn", __base__=DecodingModel, **fields)


def random_constraint(rng: random.Random) -> Constraint:
    """Mostly a shape drawn at random; else a bare choice of labels, or a step of an installed rubric."""
    drawn = rng.random()
    if drawn < 0.86:
        return json_constraint(random_model(rng))
    if drawn < 0.95:
        return ChoiceConstraint(tuple(f"{random_label(rng)}{number}" for number in range(rng.randint(2, 6))))
    steps = [step for rubric in all_rubrics() for step in rubric.sample_constraints().values()]
    return rng.choice([step for step in steps if reply_limit(step) <= LONGEST])


def random_ask(rng: random.Random) -> Ask:
    """A short prompt, sometimes with a system message, and the constraint of its reply."""
    messages = (Message("user", random_text(rng, 24)),)
    if rng.random() < 0.3:
        messages = (Message("system", random_text(rng, 12)), *messages)
    return Ask("drawn", messages, random_constraint(rng), verdicts={})


@dataclass(frozen=True, slots=True)
class Drawn:
    """What became of one drawn prompt. `problem` is None when the first reply was read as its constraint says."""

    number: int
    problem: str | None
    finish_reason: str | None
    completion_tokens: int
    limit: int


async def ask_drawn(backend: Backend, numbers: range, *, seed: int = 56) -> AsyncIterator[Drawn]:
    """Put the prompts of these numbers to a backend as the judging core does, one attempt each, at high temperature.

    A number stands for the same prompt, constraint and sampling seed in every run.
    """
    limits = Limits(attempts=1, timeout_s=600, concurrency=1)
    gate = ProviderGate(limits)
    for number in numbers:
        rng = random.Random(f"{seed}/{number}")
        ask = random_ask(rng)
        sampling = Sampling(temperature=rng.choice((0.0, 1.0, 2.0)), seed=number)
        judge = Judge(name="drawn", backend="embedded", sampling=sampling, limits=limits)
        asker = Asker(judge=judge, backend=backend, gate=gate, rubric_hash="", judge_hash="")
        problem = None
        try:
            await asker.ask(ask, Subject(rubric="drawn@1", case_id=str(number), case={}))
        except NoReply as error:
            problem = f"{error.reason.value}: {error.message}"
        call = asker.calls[-1]
        sent = int(call.parameters_sent.get("max_tokens", 0))
        yield Drawn(number, problem, call.finish_reason, call.usage.completion_tokens or 0, sent)
