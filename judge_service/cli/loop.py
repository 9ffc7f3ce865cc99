"""The event loop of a command that judges: a fast one where there is one, and a heap set up for many objects.

Owns which loop a command runs on. `serve` leaves that to its server, which chooses the same.
"""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end and return what it returns; Ctrl+C cancels it."""
    # Loaded before the heap is settled, so that collections leave it out.
    import judge_service.app  # noqa: F401
    from judge_service.heap import settle_heap

    settle_heap()
    if sys.platform == "win32":
        return asyncio.run(work)
    import uvloop

    return uvloop.run(work)
