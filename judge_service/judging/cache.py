"""Answers that were paid for once. Only replies that became a verdict are kept; errors never are."""

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from judge_service.backends.base import Request
from judge_service.domain.call import Call
from judge_service.domain.canonical import canonical_json, text_hash
from rubrics.model import Constraint, JsonConstraint
from rubrics.records import DecodingModel


class CallCache(Protocol):
    """Where finished calls are kept by key. Implementations are safe to use from several tasks."""

    async def get(self, key: str) -> Call | None:
        """The stored call of this key, or None."""
        ...

    def put(self, key: str, call: Call) -> "asyncio.Future[None] | None":
        """Keep a call that had no error; the first of a key stays.

        None, or done, when a killed process would not lose it.
        """
        ...


class MemoryCache:
    """A cache for one process, for scripts and tests."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}

    async def get(self, key: str) -> Call | None:
        """The stored call of this key, or None."""
        return self._calls.get(key)

    def put(self, key: str, call: Call) -> None:
        """Keep a call that had no error. The first call of a key stays."""
        self._calls.setdefault(key, call)


def cache_key(
    rubric_hash: str,
    judge_hash: str,
    revision: str | None,
    request: Request,
    prompt_hash: str,
    inputs: str | None = None,
) -> str:
    """Everything that can change a reply, hashed without joins that could collide at a border.

    `inputs` is the canonical JSON of the request's case, for callers that have it at hand.
    """
    subject = request.subject
    rest: Mapping[str, Any] = {
        "judge": judge_hash,
        "order": subject.order,
        "probabilities": request.want_probabilities,
        "prompt": prompt_hash,
        "repeat": subject.repeat,
        "revision": revision,
        "rubric": rubric_hash,
        "step": request.ask.step,
    }
    if inputs is None:
        inputs = canonical_json(dict(subject.case))
    # The canonical JSON of all parts, put together from pieces that are known: keys in their order.
    return text_hash(f'{{"constraint":{_shape(request.ask.constraint)},"inputs":{inputs},{canonical_json(rest)[1:]}')


_shapes: WeakKeyDictionary[type[DecodingModel], str] = WeakKeyDictionary()


def _shape(constraint: Constraint) -> str:
    if not isinstance(constraint, JsonConstraint):
        return canonical_json({"choices": list(constraint.choices)})
    known = _shapes.get(constraint.model)
    if known is None:
        known = _shapes[constraint.model] = canonical_json(dict(constraint.schema))
    return known
