"""The gate of a provider that several processes call: slots, pace, pauses and tokens hold over all of them together.

Owns this process's share of the slots and how it is kept up. What is agreed is in the store. A process that could not
renew its share in time, because it or the database stood still, begins no call until it has.
"""

import asyncio
import contextlib
import logging
import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from judge_service.domain.judge import Limits
from judge_service.errors import JudgeServiceError, StoreError
from judge_service.judging.provider import Clock, Slot, WaitedTooLong
from judge_service.store.lookups import Lookups
from judge_service.store.sharing import SharedLimits

BEAT_S = 0.25
"""Seconds between signs of life, which is how soon shares follow processes that come and go."""
FRESH_S = 0.02
"""How long an answer of the database about pauses holds: no longer than a pause takes to get there."""
IDLE_S = 2.0
"""A process that calls a provider no more gives its share back after this."""

log = logging.getLogger(__name__)


class SharedGate:
    """Admits calls of this process to one provider; `key` names the provider, `member` the process."""

    def __init__(self, key: str, limits: Limits, shared: SharedLimits, member: str, clock: Clock) -> None:
        self._key = key
        self._limits = limits
        self._shared = shared
        self._member = member
        self._clock = clock
        self._held = Lookups(shared.held, ask=shared.ask_held)
        self._held_until = 0.0
        self._looked_at = -math.inf
        self._using = 0
        self._allowed = 0
        self._lease_until = 0.0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._beats: asyncio.Task[None] | None = None
        self._pressed = asyncio.Event()
        self._notes: set[asyncio.Future[Any]] = set()

    def hold(self, seconds: float) -> None:
        """Start no call to this provider for `seconds` from now, in any process."""
        self._held_until = max(self._held_until, self._clock.monotonic() + seconds)
        self._note(lambda: self._shared.hold(self._key, seconds))

    def spend(self, tokens: int) -> None:
        """Count tokens that a call used against the token rate."""
        if self._limits.tokens_per_minute is not None and tokens:
            self._note(lambda: self._shared.spend(self._key, tokens))

    def admit(self, patience_s: float) -> Slot:
        """A slot for one call. Entering raises WaitedTooLong when the provider's wait would exceed `patience_s`, and
        StoreError where the database refuses to share slots.
        """
        return Slot(partial(self._admitted, patience_s), self._leave)

    async def _admitted(self, patience_s: float) -> None:
        await self._enter()
        try:
            deadline = self._clock.monotonic() + patience_s
            paced = self._limits.requests_per_minute is None
            while True:
                wait = await self._wait_s()
                if wait <= 0 and not paced:
                    paced = True
                    per_minute = self._limits.requests_per_minute or 1
                    wait = await asyncio.to_thread(self._shared.reserve, self._key, per_minute)
                if wait <= 0:
                    break
                if self._clock.monotonic() + wait > deadline:
                    raise WaitedTooLong(f"the provider asked to wait {wait:.0f} s, more than allowed")
                await self._clock.sleep(wait)
        except BaseException:
            self._leave()
            raise
        if self._lapsed:
            # The slot went to others during the wait. It is not in use: it must not be claimed as such.
            self._leave()
            await self._admitted(max(0.0, deadline - self._clock.monotonic()))

    @property
    def _lapsed(self) -> bool:
        """True when others may have been given this process's slots, because it gave no sign of life for long."""
        return self._clock.monotonic() >= self._lease_until

    def _leave(self) -> None:
        self._using -= 1
        self._wake()

    async def aclose(self) -> None:
        """Give the share back. Safe to call twice."""
        await asyncio.gather(*self._notes, return_exceptions=True)
        beats, self._beats = self._beats, None
        if beats is not None:
            beats.cancel()
            await asyncio.gather(beats, return_exceptions=True)
            with contextlib.suppress(JudgeServiceError):
                await asyncio.to_thread(self._shared.leave, self._key, self._member)

    async def _wait_s(self) -> float:
        if (now := self._clock.monotonic()) - self._looked_at >= FRESH_S:
            # Simultaneous calls share one question to the database.
            elsewhere = await self._held.find(self._key) or 0.0
            self._looked_at = max(self._looked_at, now)
            self._held_until = max(self._held_until, self._clock.monotonic() + elsewhere)
        wait = self._held_until - self._clock.monotonic()
        if wait <= 0 and (per_minute := self._limits.tokens_per_minute) is not None:
            wait = await asyncio.to_thread(self._shared.token_wait, self._key, per_minute)
        return wait

    async def _enter(self) -> None:
        if self._beats is None or self._beats.done() or self._beats.get_loop() is not asyncio.get_running_loop():
            self._allowed = 0
            self._pressed = asyncio.Event()
            self._beats = asyncio.create_task(self._beat(), name="share of a provider")
        if self._using < self._allowed and not self._waiters and not self._lapsed:
            self._using += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(turn)
        self._pressed.set()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()
            raise

    def _wake(self) -> None:
        while self._waiters and self._using < self._allowed and not self._lapsed:
            turn = self._waiters.popleft()
            if not turn.done():
                self._using += 1
                turn.set_result(None)

    def _refuse(self, error: JudgeServiceError) -> None:
        waiters, self._waiters = self._waiters, deque()
        for turn in waiters:
            if not turn.done():
                turn.set_exception(error)

    async def _beat(self) -> None:
        idle, failing = 0.0, False
        while idle < IDLE_S:
            asked = self._clock.monotonic()
            try:
                # Twice of what there is to do: more to do need not wait for the next sign of life.
                wanted = 2 * (self._using + len(self._waiters))
                share = await asyncio.to_thread(
                    self._shared.share, self._key, self._member, self._limits.concurrency, self._using, wanted
                )
            except JudgeServiceError as error:
                if not failing:
                    log.warning("the share of a provider was not renewed: %s", error.message)
                failing = True
                # One that is away comes back and is waited for; one that refuses, as a full disk does, may not.
                if isinstance(error, StoreError) and self._lapsed:
                    self._refuse(error)
            else:
                failing = False
                self._allowed = min(share.slots, share.target)
                # From before the question: the database counts from when it heard it. A beat earlier, so that a call
                # which is let go now has begun before the slot can be another's.
                self._lease_until = asked + self._shared.expiry_s - BEAT_S
                self._wake()
            await self._rest()
            idle = 0.0 if self._using or self._waiters else idle + BEAT_S
        self._allowed = 0
        self._beats = None
        with contextlib.suppress(JudgeServiceError):
            await asyncio.to_thread(self._shared.leave, self._key, self._member)

    async def _rest(self) -> None:
        """Until the next sign of life is due, or until a call finds no place while none waits for one."""
        self._pressed.clear()
        if self._waiters:
            await asyncio.sleep(BEAT_S)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BEAT_S):
                await self._pressed.wait()

    def _note(self, work: Callable[[], object]) -> None:
        future = asyncio.get_running_loop().run_in_executor(None, work)
        self._notes.add(future)
        future.add_done_callback(self._noted)

    def _noted(self, future: "asyncio.Future[Any]") -> None:
        self._notes.discard(future)
        if not future.cancelled() and (error := future.exception()) is not None:
            log.warning("a limit was not shared with other processes: %s", error)


class SharedGates:
    """Makes the shared gates of one process, by the provider's key."""

    def __init__(self, shared: SharedLimits, member: str) -> None:
        self._shared = shared
        self._member = member
        self._made: list[SharedGate] = []

    def __call__(self, key: str, limits: Limits, clock: Clock) -> SharedGate:
        """A gate for one provider."""
        gate = SharedGate(key, limits, self._shared, self._member, clock)
        self._made.append(gate)
        return gate

    async def aclose(self) -> None:
        """Give all shares back."""
        await asyncio.gather(*(gate.aclose() for gate in self._made))
