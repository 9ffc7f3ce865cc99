"""A real server on a free loopback port, in a thread of its own."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, Literal

import uvicorn

from tests.support.waiting import LONG_ENOUGH_S


@contextlib.contextmanager
def serving(
    app: Any, *, lifespan: Literal["on", "off"] = "on", run: Callable[[Any], Any] = asyncio.run
) -> Iterator[int]:
    """Serve `app` and yield its port. `run` runs the server's coroutine, on the event loop of its choice."""
    # With the protocol named, asyncio turns Nagle's algorithm off: else each response waits 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan=lifespan, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=lambda: run(server.serve(sockets=[listener])), daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(LONG_ENOUGH_S)
        listener.close()
        assert not thread.is_alive()
