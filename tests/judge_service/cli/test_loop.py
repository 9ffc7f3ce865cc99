"""Commands that judge run on the fast loop, and give and raise what their work does."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from judge_service.cli.loop import run_loop


async def loop_module() -> str:
    return type(asyncio.get_running_loop()).__module__


@pytest.fixture(autouse=True)
def _heap() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def test_the_fast_loop_is_used() -> None:
    assert run_loop(loop_module()).startswith("uvloop")


def test_errors_come_through() -> None:
    async def work() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run_loop(work())
