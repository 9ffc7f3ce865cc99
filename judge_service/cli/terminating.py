"""SIGTERM under a command that judges: begun cases end, what was answered is kept, and the command says how to go on.

Owns how long begun cases may take. Knows nothing of runs.
"""

import asyncio
import contextlib
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

    Raises Terminated in the second case; in the first it is the caller's to see that the work stopped early. Systems
    without signal handlers of the event loop end the process at once, as always.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as limit:

            def terminate() -> None:
                stop()
                limit.reschedule(loop.time() + grace_s)

            with contextlib.suppress(NotImplementedError):
                for number in signals:
                    loop.add_signal_handler(number, terminate)
            try:
                yield
            finally:
                with contextlib.suppress(NotImplementedError):
                    for number in signals:
                        loop.remove_signal_handler(number)
    except TimeoutError:
        if not limit.expired():
            raise
        raise Terminated from None
