"""Limits of a provider over several processes: here several members of one fleet, each with gates of its own."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from judge_service.domain.judge import Limits
from judge_service.judging.provider import Clock, WaitedTooLong
from judge_service.runs.shared_gate import SharedGates
from judge_service.store import Store
from judge_service.store.sharing import SharedLimits
from tests.judge_service.store.databases import Postgres
from tests.support.waiting import LONG_ENOUGH_S


@pytest.fixture
def shared(postgres: Postgres) -> Iterator[SharedLimits]:
    url = postgres.fresh()
    with Store.open(url) as store:
        limits = store.shared_limits(expiry_s=1.0)
        assert limits is not None
        yield limits
    postgres.drop(url)


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
