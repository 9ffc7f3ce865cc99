"""The texts of a case by which cases are compared: what opens it, what it was made from, its answers, all of it."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from calibration.duplicates import CaseTexts, ReadCases, normalise
from judge_service.domain.case import Case
from judge_service.store import Store

PROMPTS = ("prompt", "question")
ANSWERS = ("response_a", "response_b", "answer_a", "answer_b", "answer", "statement")


def texts_of(case: Case) -> CaseTexts:
    """Everything that a case is compared by. Answers that are missing are empty, which compares with nothing."""
    answers = tuple(text if isinstance(text := case.input.get(name), str) else "" for name in ANSWERS)
    return CaseTexts(prompt_of(case), answers, tuple(sources_of(case)))


def prompt_of(case: Case) -> str:
    """The text that opens the case; empty where there is none."""
    found = [case.input.get(name) for name in PROMPTS]
    return next((text for text in found if isinstance(text, str)), "")


def sources_of(case: Case) -> list[str]:
    """Texts that a case was made from: everything but its prompt and its answers, each by itself."""
    own = (*PROMPTS, *ANSWERS)
    return [text for name, value in sorted(case.input.items()) if name not in own for text in _texts_in(value)]


def whole_of(case: Case) -> str:
    """Every text that a judge would be shown of the case, as one; mirrored pairs are one text."""
    pair = {name: case.input[name] for name in ("response_a", "response_b") if name in case.input}
    parts = [text for name, value in sorted(case.input.items()) if name not in pair for text in _texts_in(value)]
    parts.extend(sorted(text for value in pair.values() for text in _texts_in(value)))
    return "\x1f".join(parts)


def _texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [normalise(value)]
    if isinstance(value, Mapping):
        return [text for _, part in sorted(value.items()) for text in _texts_in(part)]
    if isinstance(value, list):
        return [text for part in value for text in _texts_in(part)]
    return []


def hashed(text: str) -> str:
    """A hash that equal texts share, to hold instead of one; empty for an empty text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest() if text else ""


def reader(store: Store, set_id: str) -> ReadCases:
    """Reads the texts of a version's cases by their places in its order."""

    def read(places: Sequence[int]) -> list[CaseTexts]:
        found = store.sets.at(set_id, dict.fromkeys(places))
        return [texts_of(found[place].case) for place in places]

    return read
