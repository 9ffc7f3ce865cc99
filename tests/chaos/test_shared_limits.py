"""Limits of a provider over several processes: mostly several members here, each with gates of its own."""

import asyncio
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from judge_service.domain.judge import Limits
from judge_service.judging.provider import Clock, WaitedTooLong
from judge_service.runs.shared_gate import BEAT_S, SharedGates
from judge_service.store import Store
from judge_service.store.sharing import EXPIRY_S, TURN_S, Share, SharedLimits
from tests.support.shares import age
from tests.support.waiting import LONG_ENOUGH_S


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with Store.open(database_url) as opened:
        yield opened


@pytest.fixture
def shared(store: Store) -> SharedLimits:
    return store.shared_limits(expiry_s=1.0)


def test_shares_never_exceed_the_limit_and_follow_who_is_there(shared: SharedLimits) -> None:
    assert shared.share("k", "a", 10, 0).slots == 10
    # The newcomer gets what the first has not: nothing, until the first has shrunk.
    assert (shared.share("k", "b", 10, 0).slots, shared.share("k", "b", 10, 0).target) == (0, 5)
    kept = shared.share("k", "a", 10, 8)
    assert (kept.slots, kept.target) == (8, 5)
    assert shared.share("k", "b", 10, 0).slots == 2
    assert shared.share("k", "a", 10, 4).slots == 5
    assert shared.share("k", "b", 10, 2).slots == 5
    shared.leave("k", "a")
    assert shared.share("k", "b", 10, 5).slots == 10
    assert shared.share("other", "a", 3, 0).slots == 3


def test_who_has_little_to_do_leaves_room_for_others(shared: SharedLimits) -> None:
    assert shared.share("k", "a", 10, 0, 2).slots == 5
    assert shared.share("k", "b", 10, 0, 2) == Share(2, 5)
    assert shared.share("k", "b", 10, 2, 8) == Share(5, 5)
    # Alone it may have as many as it wants, and no more than there are.
    shared.leave("k", "b")
    assert shared.share("k", "a", 10, 5, 8).slots == 8
    assert shared.share("k", "a", 10, 8, 16).slots == 10
    # What is in use is never taken; what is not goes back.
    assert shared.share("k", "a", 10, 7, 0).slots == 7
    assert shared.share("k", "a", 10, 0, 0).slots == 5


def test_an_idle_member_keeps_no_only_slot(shared: SharedLimits) -> None:
    assert shared.share("k", "a", 1, 0, 2).slots == 1
    assert shared.share("k", "b", 1, 0, 2).slots == 0
    assert shared.share("k", "a", 1, 0, 0).slots == 0
    assert shared.share("k", "b", 1, 0, 2).slots == 1


async def test_calls_in_flight_of_all_members_stay_within_the_limit(shared: SharedLimits) -> None:
    limits = Limits(concurrency=6)
    members = [SharedGates(shared, name)("k", limits, Clock()) for name in ("a", "b", "c")]
    flying = most = done = 0

    async def call(number: int) -> None:
        nonlocal flying, most, done
        async with members[number % 3].admit(60):
            flying += 1
            most = max(most, flying)
            await asyncio.sleep(0.002)
            flying -= 1
            done += 1

    async with asyncio.timeout(LONG_ENOUGH_S):
        await asyncio.gather(*(call(number) for number in range(300)))
    await asyncio.gather(*(gate.aclose() for gate in members))
    assert done == 300
    assert 0 < most <= 6


class Simulated:
    """Members that always have work, their calls of `steps` beats each, and the time that their database counts."""

    def __init__(self, limits: SharedLimits, limit: int, n: int, steps: int) -> None:
        self._limits, self._limit, self._steps = limits, limit, steps
        self._names = [f"m{number}" for number in range(n)]
        self._ends: dict[str, list[int]] = {name: [] for name in self._names}
        self.began: dict[str, list[int]] = {name: [] for name in self._names}
        self.most = self.flown = 0

    def run(self, beats: int) -> None:
        began, aged = time.monotonic(), 0.0
        for now in range(beats):
            for name in self._names:
                ends = self._ends[name] = [end for end in self._ends[name] if end > now]
                share = self._limits.share("k", name, self._limit, len(ends))
                while len(ends) < min(share.slots, share.target):
                    ends.append(now + self._steps)
                    self.began[name].append(now)
                flying = sum(map(len, self._ends.values()))
                self.most = max(self.most, flying)
            self.flown += flying
            # What the test itself takes is a part of what passes.
            missing = began + (now + 1) * BEAT_S - time.monotonic() - aged
            if missing > 0:
                age(self._limits, missing)
                aged += missing

    def longest_wait(self, beats: int) -> int:
        """Most beats that a member went without beginning a call."""
        marks = [[0, *began, beats] for began in self.began.values()]
        return max(after - before for row in marks for before, after in pairwise(row))


@pytest.mark.parametrize("steps", [1, 2 * int(TURN_S / BEAT_S), 30])
@pytest.mark.parametrize(("limit", "n"), [(1, 2), (1, 3), (2, 3), (4, 3)])
def test_no_member_goes_without_for_long_where_slots_do_not_divide(
    store: Store, limit: int, n: int, steps: int
) -> None:
    # Time passes by the test: however slowly this runs, nobody is dead.
    members = Simulated(store.shared_limits(expiry_s=LONG_ENOUGH_S), limit, n, steps)
    beats = 5 * n * max(steps, int(TURN_S / BEAT_S))
    members.run(beats)
    assert members.most == limit
    # A turn, the rest of the call that was begun in it, and the beats that hand a slot over: of all others once.
    turn = max(steps, int(TURN_S / BEAT_S)) + steps + 3
    assert members.longest_wait(beats) <= (n - 1) * turn + steps
    # Handing over costs little.
    assert members.flown >= 0.7 * limit * beats
    calls = [len(began) for began in members.began.values()]
    assert min(calls) >= 0.6 * max(calls)


async def test_members_that_share_one_slot_all_get_it(shared: SharedLimits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judge_service.store.sharing.TURN_S", 0.1)
    gates = {name: SharedGates(shared, name)("k", Limits(concurrency=1), Clock()) for name in ("a", "b", "c")}
    done: Counter[str] = Counter()
    all_had_it = asyncio.Event()
    flying = most = 0

    async def work(name: str) -> None:
        nonlocal flying, most
        # Each goes on until all had a turn: none becomes free because another has no work.
        while not all_had_it.is_set():
            async with gates[name].admit(60):
                flying += 1
                most = max(most, flying)
                await asyncio.sleep(0.002)
                flying -= 1
                done[name] += 1
                if len(done) == len(gates):
                    all_had_it.set()

    # Several at once, so that some wait while the slot is another member's.
    tasks = [asyncio.create_task(work(name)) for name in gates for _ in range(2)]
    async with asyncio.timeout(LONG_ENOUGH_S):
        await all_had_it.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.gather(*(gate.aclose() for gate in gates.values()))
    assert most == 1


async def test_a_pause_that_one_member_was_told_holds_for_all(shared: SharedLimits) -> None:
    first, second = (SharedGates(shared, name)("k", Limits(concurrency=4), Clock()) for name in ("a", "b"))
    first.hold(0.5)
    told = time.monotonic()
    await first.aclose()  # the note has reached the database
    async with second.admit(60):
        waited = time.monotonic() - told
    assert waited >= 0.45
    second.hold(30.0)
    with pytest.raises(WaitedTooLong):
        async with second.admit(1.0):
            pass
    await second.aclose()


def test_starts_are_paced_over_all_members(shared: SharedLimits) -> None:
    waits = [shared.reserve("k", 600) for _ in range(11)]
    assert waits[0] == 0.0
    # A tenth of a second each, however long the asking took.
    assert waits == sorted(waits)
    assert waits[10] <= 1.0
    assert shared.reserve("slow", 1) == 0.0
    assert 55 < shared.reserve("slow", 1) <= 60


def test_tokens_of_all_members_count(shared: SharedLimits) -> None:
    assert shared.token_wait("k", 1000) == 0.0
    shared.spend("k", 600)
    assert shared.token_wait("k", 1000) == 0.0
    shared.spend("k", 400)
    assert 0 < shared.token_wait("k", 1000) <= 61
    assert shared.token_wait("k", 1001) == 0.0


class Machine:
    """The clock of a machine, which may be set."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def local(tmp_path: Path, machine: Machine) -> Iterator[SharedLimits]:
    """Limits on SQLite, with that clock."""
    with Store.open(f"sqlite:///{tmp_path / 'judge.sqlite3'}", clock=machine) as opened:
        yield opened.shared_limits()


HOUR_S = 3600.0


@pytest.mark.parametrize("set_back_s", [0.0, 0.001, HOUR_S])
def test_slots_of_the_dead_are_free_after_the_expiry_also_when_the_clock_is_set_back(
    local: SharedLimits, machine: Machine, set_back_s: float
) -> None:
    assert local.share("k", "dead", 4, 0).slots == 4
    machine.passes(-set_back_s)
    # Who only looks dead by the clock keeps what it has.
    assert local.share("k", "alive", 4, 0).slots == 0
    machine.passes(EXPIRY_S)
    assert local.share("k", "alive", 4, 0).slots == 0
    machine.passes(0.001)
    assert local.share("k", "alive", 4, 0).slots == 4


def test_turns_go_on_when_the_clock_is_set_back(local: SharedLimits, machine: Machine) -> None:
    assert local.share("k", "a", 1, 0).slots == 1
    assert local.share("k", "b", 1, 0).slots == 0
    machine.passes(-HOUR_S)
    assert local.share("k", "b", 1, 0).slots == 0
    machine.passes(TURN_S)
    assert local.share("k", "a", 1, 0).slots == 0
    assert local.share("k", "b", 1, 0).slots == 1


async def test_a_pause_is_as_long_as_it_was_when_the_clock_is_set_back(local: SharedLimits, machine: Machine) -> None:
    local.share("k", "a", 4, 0)
    local.hold("k", 30.0)
    machine.passes(-HOUR_S)
    # Before anyone has given a sign of life since, and after it.
    for _ in range(2):
        assert local.held(["k", "other"]) == await local.ask_held(["k", "other"]) == {"k": 30.0}
        local.share("k", "a", 4, 0)
    machine.passes(30.0)
    assert local.held(["k"]) == await local.ask_held(["k"]) == {}


def test_the_pace_is_kept_when_the_clock_is_set_back(local: SharedLimits, machine: Machine) -> None:
    local.share("k", "a", 4, 0)
    assert [local.reserve("k", 60) for _ in range(3)] == [0.0, 1.0, 2.0]
    machine.passes(-HOUR_S)
    assert local.reserve("k", 60) == 3.0
    machine.passes(10.0)
    assert local.reserve("k", 60) == 0.0


def test_tokens_of_a_time_to_come_hold_nobody(local: SharedLimits, machine: Machine) -> None:
    local.spend("k", 1000)
    assert local.token_wait("k", 1000) == 61.0
    machine.passes(-HOUR_S)
    assert local.token_wait("k", 1000) == 0.0
    local.spend("k", 1000)
    machine.passes(60.0)
    assert local.token_wait("k", 1000) == 1.0
    machine.passes(1.0)
    assert local.token_wait("k", 1000) == 0.0


def test_a_shorter_pause_does_not_end_a_longer_one(shared: SharedLimits) -> None:
    shared.hold("k", 30.0)
    shared.hold("k", 5.0)
    shared.reserve("k", 60)
    assert 20.0 < shared.held(["k"])["k"] <= 30.0


SLOTS = 3


def call_always(url: str, name: str, events: Connection) -> None:
    """Be a process that always has more calls to make than it may, and says when each begins and ends."""

    async def calls(gates: SharedGates) -> None:
        gate = gates("k", Limits(concurrency=SLOTS), Clock())

        async def work() -> None:
            while True:
                async with gate.admit(LONG_ENOUGH_S):
                    events.send_bytes(f"S {name}".encode())
                    await asyncio.sleep(0.01)
                    events.send_bytes(f"E {name}".encode())

        await asyncio.gather(*(work() for _ in range(2 * SLOTS)))

    with Store.open(url) as opened:
        asyncio.run(calls(SharedGates(opened.shared_limits(), name)))


def test_processes_on_one_file_share_a_limit_and_one_that_is_killed_gives_its_slots_up(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'judge.sqlite3'}"
    Store.open(url).close()
    forks = multiprocessing.get_context("forkserver")
    # What is written into one pipe, each line at once, is in the order in which it happened.
    reader, events = forks.Pipe(duplex=False)
    processes = {name: forks.Process(target=call_always, args=(url, name, events)) for name in ("a", "b")}
    flying: Counter[str] = Counter()
    begun: Counter[str] = Counter()
    dead: set[str] = set()

    def follow(reached: Callable[[], bool]) -> None:
        end = time.monotonic() + LONG_ENOUGH_S
        while not reached():
            assert time.monotonic() < end
            assert reader.poll(LONG_ENOUGH_S)
            what, name = reader.recv_bytes().decode().split()
            if what == "K":
                dead.add(name)
                del flying[name]
            elif name not in dead:
                flying[name] += 1 if what == "S" else -1
                begun[name] += what == "S"
                assert flying.total() <= SLOTS

    try:
        for process in processes.values():
            process.start()
        follow(lambda: min(begun["a"], begun["b"]) >= 50)
        follow(lambda: flying["a"] > 0)
        events.send_bytes(b"K a")
        processes["a"].kill()
        # With one alone nothing is kept for others: but for the dead one's slots, all are its own.
        follow(lambda: flying["b"] == SLOTS and "a" in dead)
    finally:
        for process in processes.values():
            process.kill()
            process.join()
            process.close()
        reader.close()
        events.close()
