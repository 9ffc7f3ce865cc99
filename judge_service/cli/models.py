"""`judge-service models`: the embedded model on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from judge_service.cli.console import Commands, note, out, say_json
from judge_service.cli.options import JsonOption, settings_for

app = typer.Typer(cls=Commands, help="The embedded model: what is installed, and pulling it.", no_args_is_help=True)
