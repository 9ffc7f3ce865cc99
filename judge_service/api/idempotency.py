"""Idempotency-Key: the same key with the same request names one object, also when both arrive at once.

In one process a repetition that arrives while the first is still at work waits for it. Among processes the one
that claims the key first decides which object all of them answer with.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fastapi import Request

from judge_service.domain.canonical import content_hash
from judge_service.domain.principal import Principal
from judge_service.errors import Conflict, FieldProblem, InvalidInput, JudgeServiceError
from judge_service.store import Store

T = TypeVar("T")

_HEADER = "Idempotency-Key"
_KEY = re.compile(r"[\x21-\x7e]{1,200}", re.ASCII)

KEY_PARAMETER = {
    "name": _HEADER,
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": r"^[\x21-\x7e]+$"},
    "description": "Send the same key with a repeated request: it answers with the same object.",
}
"""The header in the OpenAPI document of a route that reads it."""


def key_in(request: Request) -> str | None:
    """The Idempotency-Key of a request. Raises InvalidInput where it cannot be one.

    Not a parameter of FastAPI's: reading one costs a judgment more than its own reading does.
    """
    given = request.headers.get(_HEADER)
    if given is not None and _KEY.fullmatch(given) is None:
        message = f"header.{_HEADER} must be 1 to 200 printable ASCII characters without spaces."
        raise InvalidInput(fields=[FieldProblem(f"header.{_HEADER}", message)])
    return given


@dataclass(frozen=True, slots=True)
class Stored(Generic[T]):
    """An object that was made: its id, itself, and the status to answer with."""

    identifier: str
    value: T
    status: int


@dataclass(frozen=True, slots=True)
class _Flight:
    request_hash: str
    task: "asyncio.Task[Any]"


def scope_of(principal: Principal, route: str) -> str:
    """Keys of different callers and routes never meet."""
    return f"{route} by {principal.id}"


def _conflict() -> Conflict:
    return Conflict("This Idempotency-Key was used with another request. Use a new key for a new request.")


class Once:
    """Makes objects once a key. One instance a process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._flying: dict[tuple[str, str], _Flight] = {}

    async def make(
        self,
        scope: str,
        key: str | None,
        content: Any,
        work: Callable[[], Awaitable[Stored[T]]],
        load: Callable[[str], Awaitable[T | None]],
    ) -> tuple[Stored[T], bool]:
        """The object of this request, and whether it was made by an earlier one. `work` names the object.

        Raises Conflict when the key came with other content, and whatever `work` raises; a request that was
        refused leaves the key free.
        """
        if key is None:
            return await work(), False

        async def first(request_hash: str) -> tuple[Stored[T], bool]:
            there = await asyncio.to_thread(self._store.idempotency.find, scope, key, request_hash)
            if there is not None and (value := await load(there)) is not None:
                return Stored(there, value, 200), True
            made = await work()
            claimed = await self._claim(scope, key, request_hash, made.identifier)
            if claimed != made.identifier and (value := await load(claimed)) is not None:
                return Stored(claimed, value, 200), True
            return made, made.identifier == there

        return await self._fly(scope, key, content, first)

    async def make_under(
        self,
        identifier: str,
        scope: str,
        key: str | None,
        content: Any,
        work: Callable[[str], Awaitable[Stored[T]]],
        load: Callable[[str], Awaitable[T | None]],
    ) -> tuple[Stored[T], bool]:
        """Like `make` for objects whose id can be chosen before: the key is claimed first, so that a request
        repeated after a crash goes on with the object that was begun. `work` is given the id to use.
        """
        if key is None:
            return await work(identifier), False

        async def first(request_hash: str) -> tuple[Stored[T], bool]:
            claimed = await self._claim(scope, key, request_hash, identifier)
            if claimed != identifier and (value := await load(claimed)) is not None:
                return Stored(claimed, value, 200), True
            try:
                return await work(claimed), False
            except JudgeServiceError:
                await asyncio.to_thread(self._store.idempotency.release, scope, key)
                raise

        return await self._fly(scope, key, content, first)

    async def _claim(self, scope: str, key: str, request_hash: str, identifier: str) -> str:
        return await asyncio.to_thread(self._store.idempotency.claim, scope, key, request_hash, identifier)

    async def _fly(
        self, scope: str, key: str, content: Any, first: Callable[[str], Coroutine[Any, Any, tuple[Stored[T], bool]]]
    ) -> tuple[Stored[T], bool]:
        request_hash = content_hash(content)
        flight = self._flying.get((scope, key))
        repeated = flight is not None
        if flight is None:
            task = asyncio.create_task(first(request_hash))
            flight = self._flying[scope, key] = _Flight(request_hash, task)
            task.add_done_callback(lambda _: self._flying.pop((scope, key), None))
        elif flight.request_hash != request_hash:
            raise _conflict()
        # A caller that leaves does not undo what others wait for.
        stored, earlier = await asyncio.shield(flight.task)
        return stored, earlier or repeated
