"""A process that stood still for longer than its share lasts begins no call before it has renewed it."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from judge_service.domain.judge import Limits
from judge_service.errors import StoreError, Unavailable
from judge_service.judging.provider import Clock, WaitedTooLong
from judge_service.runs.shared_gate import FRESH_S, SharedGate
from judge_service.store import Store
from judge_service.store.sharing import EXPIRY_S, Share
from tests.support.clock import VirtualTime
from tests.support.shares import age
from tests.support.waiting import LONG_ENOUGH_S

LIMITS = Limits(concurrency=4)


class Held:
    """Shared limits whose signs of life wait while `free` is not set; `reached` is set when one does."""

    def __init__(self, store: Store, patch: pytest.MonkeyPatch) -> None:
        self.limits, self.others = store.shared_limits(), store.shared_limits()
        self._share = self.limits.share
        patch.setattr(self.limits, "share", self.share)
        self.free, self.reached = threading.Event(), threading.Event()
        self.free.set()

    def share(self, key: str, member: str, limit: int, using: int, wanted: int | None = None) -> Share:
        if not self.free.is_set():
            self.reached.set()
            assert self.free.wait(LONG_ENOUGH_S)
        return self._share(key, member, limit, using, wanted)

    async def stand_still(self) -> None:
        """Hold the next sign of life, and wait until it is held."""
        self.reached.clear()
        self.free.clear()
        assert await asyncio.to_thread(self.reached.wait, LONG_ENOUGH_S)


@pytest.fixture
def shared(store: Store, monkeypatch: pytest.MonkeyPatch) -> Held:
    return Held(store, monkeypatch)


class Flights:
    """Calls that fly until they are told to land."""

    def __init__(self) -> None:
        self.flying: set[str] = set()
        self.moved = asyncio.Condition()
        self.landing: dict[str, asyncio.Event] = {}
        self.tasks: list[asyncio.Task[None]] = []

    def begin(self, gate: SharedGate, name: str) -> None:
        self.landing[name] = asyncio.Event()
        self.tasks.append(asyncio.create_task(self._fly(gate, name)))

    async def _fly(self, gate: SharedGate, name: str) -> None:
        async with gate.admit(1e9):
            await self._move(self.flying.add, name)
            await self.landing[name].wait()
            await self._move(self.flying.remove, name)

    async def _move(self, change: Callable[[str], None], name: str) -> None:
        async with self.moved:
            change(name)
            self.moved.notify_all()

    async def are(self, *names: str) -> None:
        async with asyncio.timeout(LONG_ENOUGH_S), self.moved:
            await self.moved.wait_for(lambda: self.flying == set(names))

    async def land(self, *names: str) -> None:
        for name in names:
            self.landing[name].set()
        await asyncio.gather(*(task for task in self.tasks if task.done()))


async def test_a_process_that_stood_still_begins_no_call_until_it_has_a_share_again(shared: Held) -> None:
    time = VirtualTime()
    still = SharedGate("k", LIMITS, shared.limits, "still", time.clock())
    flights = Flights()
    flights.begin(still, "s1")
    await flights.are("s1")
    await shared.stand_still()
    # Its share holds for a while.
    flights.begin(still, "s2")
    await flights.are("s1", "s2")
    time.now += EXPIRY_S
    age(shared.limits, EXPIRY_S, "still")
    # Another takes the whole limit.
    other = SharedGate("k", LIMITS, shared.others, "other", Clock())
    for number in range(4):
        flights.begin(other, f"o{number}")
    others = [f"o{number}" for number in range(4)]
    await flights.are("s1", "s2", *others)
    # What it had begun flies on; nothing more may, though it held four slots and uses two.
    flights.begin(still, "s3")
    for _ in range(100):
        await asyncio.sleep(0)
    assert flights.flying == {"s1", "s2", *others}
    await flights.land("s1", "s2")
    await flights.are(*others)
    # It lives again: it gets a slot when the other has one to give, and never one more than the limit.
    shared.free.set()
    await flights.land("o0")
    await flights.are("s3", "o1", "o2", "o3")
    await flights.land("s3", *others)
    await flights.are()
    await asyncio.gather(*flights.tasks)
    await still.aclose()
    await other.aclose()


async def test_a_slot_that_was_lost_while_the_call_waited_for_its_turn_is_waited_for_again(
    shared: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = VirtualTime()
    asked = 0

    def reserve(_key: str, _per_minute: int) -> float:
        nonlocal asked
        asked += 1
        # The turn comes after the share has lapsed, and no sign of life is heard meanwhile.
        shared.free.clear()
        return EXPIRY_S

    monkeypatch.setattr(shared.limits, "reserve", reserve)
    gate = SharedGate("k", Limits(concurrency=4, requests_per_minute=60), shared.limits, "still", time.clock())
    flights = Flights()
    flights.begin(gate, "s1")
    assert await asyncio.to_thread(shared.reached.wait, 60)
    assert flights.flying == set()
    monkeypatch.setattr(shared.limits, "reserve", lambda *_: 0.0)
    shared.free.set()
    await flights.are("s1")
    assert asked == 1
    await flights.land("s1")
    await asyncio.gather(*flights.tasks)
    await gate.aclose()


async def test_an_answer_about_pauses_holds_for_a_moment_and_no_longer(
    shared: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    ask = shared.limits.ask_held

    async def counted(keys: Sequence[str]) -> Mapping[str, float] | None:
        nonlocal asked
        asked += 1
        return await ask(keys)

    monkeypatch.setattr(shared.limits, "ask_held", counted)
    time = VirtualTime()
    gate = SharedGate("k", LIMITS, shared.limits, "one", time.clock())
    for _ in range(3):
        async with gate.admit(60.0):
            pass
    assert asked == 1
    time.now += FRESH_S
    shared.limits.hold("k", 30.0)
    with pytest.raises(WaitedTooLong):
        async with gate.admit(1.0):
            pass
    assert asked == 2
    # What it was told of holds without a further question.
    with pytest.raises(WaitedTooLong):
        async with gate.admit(1.0):
            pass
    assert asked == 2
    await gate.aclose()


async def test_a_call_that_finds_no_place_asks_for_one_at_once(shared: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    # No sign of life is due within the test: each is given because a call came.
    monkeypatch.setattr("judge_service.runs.shared_gate.BEAT_S", LONG_ENOUGH_S)
    monkeypatch.setattr(shared.limits, "expiry_s", 3 * LONG_ENOUGH_S)
    gate = SharedGate("k", Limits(concurrency=8), shared.limits, "one", Clock())
    flights = Flights()
    names = [f"b{number}" for number in range(7)]
    for number, name in enumerate(names):
        # The fifth finds no place: one call alone left half of them to others.
        flights.begin(gate, name)
        await flights.are(*names[: number + 1])
    await flights.land(*names)
    await asyncio.gather(*flights.tasks)
    await gate.aclose()


async def test_calls_that_wait_are_told_when_the_database_refuses_to_share(
    shared: Held, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("judge_service.runs.shared_gate.BEAT_S", 0.001)
    share = shared.limits.share

    def refuse(*_: object) -> Share:
        raise StoreError("The disk of the database is full.")

    monkeypatch.setattr(shared.limits, "share", refuse)
    gate = SharedGate("k", LIMITS, shared.limits, "one", Clock())
    for _ in range(3):
        async with asyncio.timeout(LONG_ENOUGH_S):
            with pytest.raises(StoreError, match="is full"):
                await asyncio.gather(*(gate.admit(60.0).__aenter__() for _ in range(3)))
    assert sum("was not renewed" in record.message for record in caplog.records) == 1
    # With room again calls go on, and nobody holds a place who was refused.
    monkeypatch.setattr(shared.limits, "share", share)
    flights = Flights()
    names = [f"f{number}" for number in range(4)]
    for name in names:
        flights.begin(gate, name)
    await flights.are(*names)
    await flights.land(*names)
    await asyncio.gather(*flights.tasks)
    await gate.aclose()


async def test_calls_wait_for_a_database_that_is_away(shared: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judge_service.runs.shared_gate.BEAT_S", 0.001)
    share = shared.limits.share
    away = 5

    def come_back(*given: Any) -> Share:
        nonlocal away
        away -= 1
        if away > 0:
            raise Unavailable("The database does not answer.")
        return share(*given)

    monkeypatch.setattr(shared.limits, "share", come_back)
    gate = SharedGate("k", LIMITS, shared.limits, "one", Clock())
    async with asyncio.timeout(LONG_ENOUGH_S):
        async with gate.admit(60.0):
            assert away <= 0
    await gate.aclose()
