"""`judge-service keys`: makes, lists and revokes API keys."""

from typing import Annotated

import typer

from judge_service.cli.console import Commands, err, note, out, say_json
from judge_service.cli.options import DatabaseOption, JsonOption, settings_for

app = typer.Typer(cls=Commands, help="Make, list and revoke API keys.", no_args_is_help=True)
