"""`judge-service version`: what is installed."""

import typer

from judge_service import __version__


def version() -> None:
    """Print the version of this program."""
    typer.echo(f"judge-service {__version__}")
