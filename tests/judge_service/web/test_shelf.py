"""Reports are made once a key, one at a time; those who wait are told, and a failure is not kept."""

import asyncio
import threading

import pytest

from judge_service.web.shelf import Shelf
from tests.support.waiting import LONG_ENOUGH_S


async def test_what_is_made_is_kept_under_its_key():
    made: list[str] = []
    shelf: Shelf[str] = Shelf()

    def make(name: str) -> str:
        made.append(name)
        return name.upper()

    assert await shelf.get("a", lambda: make("a"), patience_s=10) == "A"
    assert await shelf.get("a", lambda: make("again"), patience_s=10) == "A"
    assert await shelf.get("b", lambda: make("b"), patience_s=10) == "B"
    assert made == ["a", "b"]


async def test_whoever_has_no_patience_gets_nothing_and_the_making_goes_on():
    shelf: Shelf[int] = Shelf()
    go = threading.Event()

    def make() -> int:
        go.wait(LONG_ENOUGH_S)
        return 7

    assert await shelf.get("k", make, patience_s=0.01) is None
    assert await shelf.get("k", make, patience_s=0.01) is None
    go.set()
    assert await shelf.get("k", make, patience_s=30) == 7


async def test_only_one_is_made_at_a_time():
    shelf: Shelf[int] = Shelf()
    under_way, most = 0, 0
    lock = threading.Lock()

    def make() -> int:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        with lock:
            under_way -= 1
        return 1

    await asyncio.gather(*(shelf.get(i, make, patience_s=30) for i in range(6)))
    assert most == 1


async def test_a_failure_reaches_everyone_and_is_forgotten():
    shelf: Shelf[int] = Shelf()

    def fail() -> int:
        raise ValueError("no")

    results = await asyncio.gather(*(shelf.get("k", fail, patience_s=30) for _ in range(3)), return_exceptions=True)
    assert [str(result) for result in results] == ["no"] * 3
    assert await shelf.get("k", lambda: 1, patience_s=30) == 1


async def test_the_one_that_nobody_asked_for_longest_goes_first():
    made: list[int] = []
    shelf: Shelf[int] = Shelf(at_most=2)

    def make(number: int) -> int:
        made.append(number)
        return number

    for number in (1, 2, 1, 3, 1, 2):
        await shelf.get(number, lambda number=number: make(number), patience_s=30)
    assert made == [1, 2, 3, 2]


@pytest.mark.parametrize("at_most", [1])
async def test_a_full_shelf_gives_up_what_is_still_waiting(at_most: int):
    shelf: Shelf[int] = Shelf(at_most=at_most)
    go = threading.Event()

    def make() -> int:
        go.wait(LONG_ENOUGH_S)
        return 1

    assert await shelf.get("a", make, patience_s=0.01) is None
    assert await shelf.get("b", make, patience_s=0.01) is None
    go.set()
    assert await shelf.get("b", make, patience_s=30) == 1
