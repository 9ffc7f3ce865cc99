"""Several processes of one service that answer on one port: how they share it, and who is replaced when.

Owns the sockets. uvicorn's supervisor starts the processes and asks them whether they live.
"""

import asyncio
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from judge_service.cli.console import FAILED
from judge_service.errors import JudgeServiceError
from judge_service.settings import Settings
from judge_service.telemetry import configure_logging

AGAIN_S = 2.0
"""How long a process that cannot start waits before it ends and is started again."""
HUNG_S = 20
"""A process that says nothing for so long is replaced; so is one that died just as it was asked."""

Application = Callable[[Any, Any, Any], Awaitable[None]]
"""What an ASGI server calls: with a scope, and with how to receive and send its messages."""

log = logging.getLogger(__name__)


def serve_together(settings: Settings, options: Mapping[str, Any]) -> bool:
    """Start the processes and replace those that die, until this one is told to stop. False: they cannot start.

    `options` are those of uvicorn, host and port among them. Raises SystemExit where the address is in use.
    """
    config = uvicorn.Config(
        partial(application, settings),
        factory=True,
        workers=settings.processes,
        timeout_worker_healthcheck=HUNG_S,
        **options,
    )
    with _reserved(config.bind_socket()) as place:
        group = Multiprocess(config, sockets=[place])  # type: ignore[list-item]
        group.run()
    return all(process.exitcode != STARTUP_FAILURE for process in group.processes)


class Place:
    """An address to listen on, sent to a process as a socket of its own.

    Of one socket that several wait on, whoever is faster takes all connections that are there; the system shares out
    those to sockets of one address.
    """

    def __init__(self, family: int, address: Any) -> None:
        self._wanted = (family, address)

    def __reduce__(self) -> Any:
        """As what it becomes in the process that it is sent to."""
        return bound, self._wanted


def bound(family: int, address: Any) -> socket.socket:
    """A socket of its own at an address that others have too."""
    one = socket.socket(family, socket.SOCK_STREAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    one.bind(address)
    return one


@contextmanager
def _reserved(first: socket.socket) -> Iterator[Place | socket.socket]:
    """What each process listens on. `first` had the address alone, so nobody else listens there."""
    if sys.platform != "linux":
        # Other systems give all connections to one of such sockets.
        with first:
            yield first
        return
    family, address = first.family, first.getsockname()
    first.close()
    # Held, so that the address stays taken while processes are replaced.
    with bound(family, address):
        yield Place(family, address)


def application(settings: Settings) -> Application:
    """The service in one process of several, which ends when the one that started it is gone."""
    # Not above: a process answers its supervisor once this module is there, and the service takes seconds to import.
    from judge_service.app import create_app

    configure_logging(settings.log_level)
    threading.Thread(target=_end_with_parent, name="end with the parent", daemon=True).start()
    return started_again(create_app(settings))


def started_again(app: Application) -> Application:
    """`app`, and where it cannot start, its process ends in a way after which the supervisor starts another.

    All could start once, as the command saw before it had any, and one that cannot now is no reason to stop the others.
    """

    async def replaceable(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        started = False

        async def told(message: Any) -> None:
            nonlocal started
            # What failed is raised as well.
            if message["type"] != "lifespan.startup.failed":
                started = True
                await send(message)

        try:
            await app(scope, receive, told)
        except BaseException as error:
            if started:
                raise
            if isinstance(error, JudgeServiceError):
                log.error("this process cannot start, and is tried again: %s", error.message)
            else:
                log.exception("this process cannot start, and is tried again")
            await asyncio.to_thread(_wait_for_the_parents_end, AGAIN_S)
            os._exit(FAILED)

    return replaceable


def _end_with_parent() -> None:
    # A parent that was killed tells its children nothing, and they would keep the port.
    _wait_for_the_parents_end()
    os.kill(os.getpid(), signal.SIGTERM)


def _wait_for_the_parents_end(at_most_s: float | None = None) -> None:
    parent = multiprocessing.parent_process()
    if parent is None:
        raise RuntimeError("this process was started by no supervisor")
    parent.join(at_most_s)
