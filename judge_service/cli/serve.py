"""`judge-service serve`: starts the HTTP service."""

import asyncio
from typing import Annotated

import typer

from judge_service.cli.console import FAILED
from judge_service.cli.options import DatabaseOption, settings_for


def serve(
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on. 127.0.0.1: this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", min=1, max=65535, help="Port to listen on.")] = 8000,
    database: DatabaseOption = None,
) -> None:
    """Start the HTTP service. It runs until it is stopped."""
    import uvicorn

    from judge_service.app import Service, create_app
    from judge_service.telemetry import configure_logging

    settings = settings_for(database)
    configure_logging(settings.log_level)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    # Opened once before the server does: a wrong judges file or database is then a sentence, not a traceback.
    asyncio.run(Service.open(settings).aclose())
    try:
        uvicorn.run(
            create_app(settings),
            host=host,
            port=port,
            log_config=None,
            server_header=False,
            # The gate writes one line a request itself, without the query.
            access_log=False,
            timeout_graceful_shutdown=10,
        )
    except SystemExit as stop:
        # The server's own codes, such as 3 for an address in use; its log says why.
        raise typer.Exit(FAILED if stop.code else 0) from None
