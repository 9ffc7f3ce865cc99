"""`judge-service serve`: starts the HTTP service, in one process or in several that answer on one port."""

import asyncio
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from judge_service.cli.console import FAILED
from judge_service.cli.options import DatabaseOption, settings_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from judge_service.settings import Settings

AGAIN_S = 2.0
"""How long a process that cannot start waits before it ends and is started again."""
HUNG_S = 20
"""A process of several that says nothing for so long is replaced; so is one that died just as it was asked."""


def serve(
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on. 127.0.0.1: this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", min=1, max=65535, help="Port to listen on.")] = 8000,
    database: DatabaseOption = None,
    processes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=64,
            help="Processes that answer on the port; one uses one core. Default: JUDGE_SERVICE_PROCESSES, else 1.",
        ),
    ] = None,
) -> None:
    """Start the HTTP service. It runs until it is stopped."""
    from judge_service.app import Service
    from judge_service.telemetry import configure_logging

    settings = settings_for(database, processes=processes)
    configure_logging(settings.log_level)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    # Opened once before the server does: a wrong judges file or database is then a sentence, not a traceback.
    asyncio.run(Service.open(settings).aclose())
    options: dict[str, Any] = {
        "host": host,
        "port": port,
        "log_config": None,
        "server_header": False,
        # The gate writes one line a request itself, without the query.
        "access_log": False,
        "timeout_graceful_shutdown": 10,
    }
    try:
        ended_well = _serve(settings, options) if settings.processes == 1 else _serve_many(settings, options)
    except SystemExit as stop:
        # The server's own codes, such as 3 for an address in use; its log says why.
        ended_well = not stop.code
    if not ended_well:
        raise typer.Exit(FAILED)


def _serve(settings: "Settings", options: dict[str, Any]) -> bool:
    import uvicorn

    from judge_service.app import create_app

    uvicorn.run(create_app(settings), **options)
    return True


def _serve_many(settings: "Settings", options: dict[str, Any]) -> bool:
    """Start the processes and replace those that die, until this one is told to stop. False: they cannot start."""
    import uvicorn
    from uvicorn.config import STARTUP_FAILURE
    from uvicorn.supervisors import Multiprocess

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
def _reserved(first: socket.socket) -> "Iterator[Place | socket.socket]":
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


def application(settings: "Settings") -> "Callable[..., Awaitable[None]]":
    """The service in one process of several, which ends when the one that started it is gone."""
    from judge_service.app import create_app
    from judge_service.telemetry import configure_logging

    configure_logging(settings.log_level)
    threading.Thread(target=_end_with_parent, name="end with the parent", daemon=True).start()
    with ThreadPoolExecutor(1) as beside_the_loop:
        beside_the_loop.submit(_check, settings).result()
    return create_app(settings)


def _check(settings: "Settings") -> None:
    """See that the service opens. If not, this process ends later, in a way after which it is started again: all could
    open it once, and one that cannot now is no reason to stop the others.
    """
    from judge_service.app import Service
    from judge_service.errors import JudgeServiceError

    try:
        asyncio.run(Service.open(settings).aclose())
    except JudgeServiceError as error:
        logging.getLogger(__name__).error("this process cannot start, and is tried again: %s", error.message)
        time.sleep(AGAIN_S)
        os._exit(FAILED)


def _end_with_parent() -> None:
    # A parent that was killed tells its children nothing, and they would keep the port.
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
