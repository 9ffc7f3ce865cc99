"""Answers that were paid for once. Only replies that became a verdict are kept; errors never are."""

from collections.abc import Mapping
from typing import Any, Protocol

from judge_service.backends.base import Request
from judge_service.domain.call import Call
from judge_service.domain.canonical import content_hash
from rubrics.model import JsonConstraint


class CallCache(Protocol):
    """Where finished calls are kept by key. Implementations are safe to use from several tasks."""

    async def get(self, key: str) -> Call | None:
        """The stored call of this key, or None."""
        ...

    async def put(self, key: str, call: Call) -> None:
        """Keep a call that had no error. The first call of a key stays."""
        ...


class MemoryCache:
    """A cache for one process, for scripts and tests."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}

    async def get(self, key: str) -> Call | None:
        """The stored call of this key, or None."""
        return self._calls.get(key)

    async def put(self, key: str, call: Call) -> None:
        """Keep a call that had no error. The first call of a key stays."""
        self._calls.setdefault(key, call)


def cache_key(rubric_hash: str, judge_hash: str, revision: str | None, request: Request, prompt_hash: str) -> str:
    """Everything that can change a reply, hashed without joins that could collide at a border."""
    constraint = request.ask.constraint
    shape: Any = (
        dict(constraint.schema) if isinstance(constraint, JsonConstraint) else {"choices": list(constraint.choices)}
    )
    subject = request.subject
    parts: Mapping[str, Any] = {
        "rubric": rubric_hash,
        "judge": judge_hash,
        "revision": revision,
        "step": request.ask.step,
        "prompt": prompt_hash,
        "inputs": dict(subject.case),
        "constraint": shape,
        "order": subject.order,
        "repeat": subject.repeat,
        "probabilities": request.want_probabilities,
    }
    return content_hash(parts)
