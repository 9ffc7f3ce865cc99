"""SIGTERM under a command that judges: begun cases end, what was answered is kept, and the command says how to go on.

Owns how long begun cases may take. Knows nothing of runs.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from judge_service.cli.console import Terminated

GRACE_S = 10.0
"""How long begun cases may take after SIGTERM. Calls that were answered are kept even when their case was not done."""


@asynccontextmanager
async def terminable(
    stop: Callable[[], None], *, grace_s: float = GRACE_S, signals: Sequence[signal.Signals] = (signal.SIGTERM,)
) -> AsyncIterator[None]:
    """Within it one of the signals calls `stop`, and cancels what has not ended after `grace_s`.

    Raises Terminated in the second case; in the first it is the caller's to see that the work stopped early.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as limit:

            def terminate() -> None:
                stop()
                limit.reschedule(loop.time() + grace_s)

            taken = [number for number in signals if _handled(loop, number, terminate)]
            try:
                yield
            finally:
                for number in taken:
                    loop.remove_signal_handler(number)
    except TimeoutError:
        if not limit.expired():
            raise
        raise Terminated from None


def _handled(loop: asyncio.AbstractEventLoop, number: signal.Signals, handler: Callable[[], None]) -> bool:
    try:
        loop.add_signal_handler(number, handler)
    except NotImplementedError:
        # Windows has no such handlers: there the signal ends the process.
        return False
    return True
