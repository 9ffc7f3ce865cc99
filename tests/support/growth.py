"""How work grows with what it is given: a ratio in one process, so that the machine's speed does not matter."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def growth(work: Callable[[T], object], small: T, large: T, *, times: int = 3) -> float:
    """Processor time of `work` on `large` over that on `small`, each the least of some times."""

    def least(given: T) -> float:
        took = []
        for _ in range(times):
            started = time.process_time()
            work(given)
            took.append(time.process_time() - started)
        return min(took)

    return least(large) / max(least(small), 1e-3)
