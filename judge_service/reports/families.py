"""Which model family a name belongs to, so that a judge's preference for its own family can be measured.

Owns the known parts of names. A report may be given others; fine-tunes of one base are one family.
"""

import re
from collections.abc import Mapping
from typing import Any

from judge_service.domain.judge import Judge

ANSWER_KEYS = (("model_a", "model_b"), ("system_a", "system_b"), ("response_a_model", "response_b_model"))
"""Metadata keys that name the models behind the two answers; the first pair that a case has counts."""

KNOWN: Mapping[str, str] = {
    "gpt": "gpt",
    "chatgpt": "gpt",
    "davinci": "gpt",
    "openai": "gpt",
    "o1": "gpt",
    "o3": "gpt",
    "o4": "gpt",
    "claude": "claude",
    "anthropic": "claude",
    "gemini": "gemini",
    "palm": "gemini",
    "palm2": "gemini",
    "gemma": "gemma",
    "llama": "llama",
    "llama2": "llama",
    "llama3": "llama",
    "alpaca": "llama",
    "vicuna": "llama",
    "mistral": "mistral",
    "mixtral": "mistral",
    "qwen": "qwen",
    "qwen2": "qwen",
    "qwen3": "qwen",
    "deepseek": "deepseek",
    "smollm": "smollm",
    "smollm2": "smollm",
    "phi": "phi",
    "command": "command",
    "cohere": "command",
    "opt": "opt",
    "bloom": "bloom",
    "cerebras": "cerebras",
    "pythia": "pythia",
    "falcon": "falcon",
    "t5": "t5",
}
"""Words of model names and their family."""

_WORD = re.compile(r"[a-z]+[0-9]*|[0-9]+")


def family_of(name: str, families: Mapping[str, str]) -> str | None:
    """The family of a model by its name: a part given in `families`, else a known word; None where neither fits."""
    lower = name.casefold()
    for part, family in families.items():
        if part.casefold() in lower:
            return family
    words = _WORD.findall(lower)
    for word in words:
        found = KNOWN.get(word) or KNOWN.get(word.rstrip("0123456789"))
        if found is not None:
            return found
    return None


def judge_family(judge: Judge, models: list[str], families: Mapping[str, str]) -> str | None:
    """The family of a judge: of the model that answered, else of the configured one, else of its name."""
    for name in (*models, judge.model, judge.name):
        found = family_of(name, families) if name else None
        if found is not None:
            return found
    return None


def own_side(metadata: Mapping[str, Any], own: str, families: Mapping[str, str]) -> str | None:
    """The answer (`A` or `B`) of the family `own`, where exactly one is; None where the case names no two models."""
    for keys in ANSWER_KEYS:
        names = [metadata.get(key) for key in keys]
        if None not in names:
            mine = [family_of(str(name), families) == own for name in names]
            return None if mine[0] == mine[1] else "A" if mine[0] else "B"
    return None
