"""`judge-service worker`: takes chunks of runs from PostgreSQL until it is stopped."""

import contextlib
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from judge_service.cli.console import Terminated, note
from judge_service.cli.loop import run_loop
from judge_service.cli.options import DatabaseOption, settings_for

if TYPE_CHECKING:
    from judge_service.settings import Settings


def worker(
    cases: Annotated[
        int | None,
        typer.Option(metavar="N", min=2, max=4096, help="Cases judged at once. Default: that of the settings."),
    ] = None,
    database: DatabaseOption = None,
) -> None:
    """Judge chunks of the runs in a PostgreSQL database, beside any number of other workers.

    Runs until SIGTERM or Ctrl+C: begun cases are finished and recorded, the rest goes to the other workers.
    """
    from judge_service.telemetry import configure_logging

    settings = settings_for(database)
    configure_logging(settings.log_level)
    if cases is not None:
        settings = settings.model_copy(update={"worker_cases": cases})
    run_loop(_work(settings))


async def _work(settings: "Settings") -> None:
    from judge_service.app import Service
    from judge_service.cli.terminating import terminable
    from judge_service.errors import ConfigurationError

    async with Service.open(settings) as service:
        if service.fleet is None:
            raise ConfigurationError("Workers need a PostgreSQL database; with SQLite `serve` and `judge` do the work.")
        note(f"Working: {settings.worker_cases} cases at once. Stop with Ctrl+C.")
        with contextlib.suppress(Terminated):
            async with terminable(service.fleet.stop, signals=(signal.SIGTERM, signal.SIGINT)):
                await service.fleet.work()
    note("Stopped.")
