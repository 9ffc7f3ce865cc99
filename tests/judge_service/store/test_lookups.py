import asyncio
import threading
from collections.abc import Sequence

import pytest

from judge_service.store import Store
from judge_service.store.lookups import MOST_KEYS, Lookups

from .examples import judgment


async def test_keys_that_come_while_a_query_runs_go_together_in_the_next() -> None:
    asked: list[Sequence[str]] = []
    held = threading.Event()

    def fetch(keys: Sequence[str]) -> dict[str, str]:
        asked.append(keys)
        assert held.wait(10)
        return {key: key.upper() for key in keys if key != "none"}

    lookups = Lookups(fetch)
    first = asyncio.create_task(lookups.find("a"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    rest = [asyncio.create_task(lookups.find(key)) for key in ("b", "c", "b", "none", "a")]
    await asyncio.sleep(0)
    held.set()
    assert await asyncio.gather(first, *rest) == ["A", "B", "C", "B", None, "A"]
    assert asked == [["a"], ["b", "c", "none", "a"]]


async def test_a_failed_query_fails_its_own_keys_only() -> None:
    def fetch(keys: Sequence[str]) -> dict[str, str]:
        if "bad" in keys:
            raise ValueError("broken")
        return dict.fromkeys(keys, "x")

    lookups = Lookups(fetch)
    with pytest.raises(ValueError, match="broken"):
        await lookups.find("bad")
    assert await lookups.find("good") == "x"


async def test_no_query_is_larger_than_the_limit() -> None:
    sizes: list[int] = []

    def fetch(keys: Sequence[str]) -> dict[str, str]:
        sizes.append(len(keys))
        return dict.fromkeys(keys, "x")

    lookups = Lookups(fetch)
    await asyncio.gather(*(lookups.find(str(number)) for number in range(2 * MOST_KEYS + 1)))
    assert sum(sizes) == 2 * MOST_KEYS + 1
    assert max(sizes) <= MOST_KEYS


async def test_a_caller_that_leaves_does_not_disturb_the_others() -> None:
    lookups = Lookups(lambda keys: dict.fromkeys(keys, "x"))
    leaving, staying = (asyncio.create_task(lookups.find("k")) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying == "x"


def test_one_store_serves_several_event_loops(store: Store) -> None:
    store.judgments.record(judgment())

    async def look() -> object:
        return await store.judgments.current_async("work-1"), await store.judgments.current_async("none")

    assert asyncio.run(look()) == asyncio.run(look()) == (judgment(), None)
