"""Waits for what other processes do. Where the test is told of it, as by `FakeProvider.wait_for`, that is better."""

import time
from collections.abc import Callable

LONG_ENOUGH_S = 240.0
"""No test takes so long on an idle machine: on one that is busy with other work it may."""


def until(condition: Callable[[], bool], what: str) -> None:
    """Look again and again until it is so; fails after `LONG_ENOUGH_S`."""
    end = time.monotonic() + LONG_ENOUGH_S
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen in {LONG_ENOUGH_S} s"
        time.sleep(0.02)
