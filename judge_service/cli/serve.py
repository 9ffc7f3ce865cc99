"""`judge-service serve`: starts the HTTP service, in one process or in several."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from judge_service.cli.console import FAILED
from judge_service.cli.options import DatabaseOption, settings_for

if TYPE_CHECKING:
    from judge_service.settings import Settings


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
        ended_well = _serve(settings, options)
    except SystemExit as stop:
        # The server's own codes, such as 3 for an address in use; its log says why.
        ended_well = not stop.code
    if not ended_well:
        raise typer.Exit(FAILED)


def _serve(settings: "Settings", options: dict[str, Any]) -> bool:
    import uvicorn

    from judge_service.app import create_app
    from judge_service.cli.serving import serve_together

    if settings.processes > 1:
        return serve_together(settings, options)
    uvicorn.run(create_app(settings), **options)
    return True
