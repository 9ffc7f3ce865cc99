"""One gate per provider: how many calls may fly, how fast, and when none may start.

Owns concurrency, request and token rates, and the Retry-After that one refused call imposes on all others. Knows
no rubric and makes no call itself.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self
from weakref import WeakKeyDictionary

from judge_service.domain.judge import Limits

_WINDOW_S = 60.0


@dataclass(slots=True)
class Clock:
    """Time and waiting, injectable so that tests need no real waits. `monotonic` is in seconds."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class WaitedTooLong(Exception):
    """The provider asked to wait longer than the limit allows."""


class Slot:
    """The place of one call among those in flight, as an async context: entered when the call may start.

    `enter` waits for a place and takes it, or raises and takes none; `leave` frees it.
    """

    __slots__ = ("_enter", "_leave", "_until")

    def __init__(self, enter: Callable[[], Awaitable[None]], leave: Callable[[], None]) -> None:
        self._enter = enter
        self._leave = leave
        self._until: asyncio.Future[Any] | None = None

    def keep_until(self, done: "asyncio.Future[Any]") -> None:
        """Free the place only after `done`, however that ends. Who holds the slot need not wait for it."""
        self._until = done

    async def __aenter__(self) -> Self:
        """Wait for the place. Raises WaitedTooLong."""
        await self._enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Free the place, now or when what it is kept for is done."""
        if self._until is None or self._until.done():
            self._leave()
        else:
            self._until.add_done_callback(lambda _: self._leave())


class Gate(Protocol):
    """What admits calls to one provider: in this process (`ProviderGate`), or over many of them."""

    def hold(self, seconds: float) -> None:
        """Start no call to this provider for `seconds` from now."""
        ...

    def spend(self, tokens: int) -> None:
        """Count tokens that a call used against the token rate."""
        ...

    def admit(self, patience_s: float) -> Slot:
        """A slot for one call. Entering raises WaitedTooLong when the wait would exceed `patience_s`."""
        ...


@dataclass(slots=True)
class ProviderGate:
    """Admits calls to one provider within its limits.

    Concurrency counts calls in flight, not cases. Rates hold over any sliding minute. After `hold_until` was
    called, no call starts before that time.
    """

    limits: Limits
    clock: Clock = field(default_factory=Clock)
    # A loop may end before a slot is given back; what is left to the next one must not be short of it.
    _slots: "WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]" = field(
        init=False, default_factory=WeakKeyDictionary
    )
    _starts: deque[float] = field(init=False, default_factory=deque)
    _tokens: deque[tuple[float, int]] = field(init=False, default_factory=deque)
    _held_until: float = field(init=False, default=0.0)

    def hold(self, seconds: float) -> None:
        """Start no call to this provider for `seconds` from now."""
        self._held_until = max(self._held_until, self.clock.monotonic() + seconds)

    def spend(self, tokens: int) -> None:
        """Count tokens that a call used against the token rate."""
        if self.limits.tokens_per_minute is not None:
            self._tokens.append((self.clock.monotonic(), tokens))

    def _wait_s(self) -> float:
        now = self.clock.monotonic()
        wait = self._held_until - now
        if (per_minute := self.limits.requests_per_minute) is not None:
            while self._starts and self._starts[0] <= now - _WINDOW_S:
                self._starts.popleft()
            if len(self._starts) >= per_minute:
                wait = max(wait, self._starts[-per_minute] + _WINDOW_S - now)
        if (per_minute := self.limits.tokens_per_minute) is not None:
            while self._tokens and self._tokens[0][0] <= now - _WINDOW_S:
                self._tokens.popleft()
            if self._tokens and sum(spent for _, spent in self._tokens) >= per_minute:
                wait = max(wait, self._tokens[0][0] + _WINDOW_S - now)
        return wait

    def admit(self, patience_s: float) -> Slot:
        """A slot for one call. Entering raises WaitedTooLong when the wait would exceed `patience_s`."""
        slots = self._slots_here()
        return Slot(partial(self._enter, slots, patience_s), slots.release)

    def _slots_here(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        slots = self._slots.get(loop)
        if slots is None:
            slots = self._slots[loop] = asyncio.Semaphore(self.limits.concurrency)
        return slots

    async def _enter(self, slots: asyncio.Semaphore, patience_s: float) -> None:
        deadline = self.clock.monotonic() + patience_s
        await slots.acquire()
        try:
            while (wait := self._wait_s()) > 0:
                if self.clock.monotonic() + wait > deadline:
                    raise WaitedTooLong(f"the provider asked to wait {wait:.0f} s, more than allowed")
                await self.clock.sleep(wait)
        except BaseException:
            slots.release()
            raise
        if self.limits.requests_per_minute is not None:
            self._starts.append(self.clock.monotonic())


def gate_here(key: str, limits: Limits, clock: Clock) -> Gate:
    """A gate for the provider named `key` that holds in this process."""
    return ProviderGate(limits, clock)
