"""Terminals: where output goes, how an error is said, and the exit codes.

Owns the words of a failure on standard error. Imports Rich only when something is printed.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from judge_service.errors import JudgeServiceError

if TYPE_CHECKING:
    from rich.console import Console

OK = 0
"""Everything that was asked for was done."""
FAILED = 1
"""Nothing was scored, or the command could not do its work."""
USAGE = 2
"""The command line itself was wrong."""
COULD_NOT_RUN = 3
"""A command that decides could not: its 1 and 2 are decisions."""
STOPPED = 130
"""Stopped by hand with Ctrl+C."""
TERMINATED = 143
"""Stopped by SIGTERM: what a shell reports too when the signal itself ended a process."""
GO_ON = "Stopped. What is recorded stays; run the same command again to go on."


class Terminated(Exception):
    """SIGTERM stopped the work before its end; what was judged is recorded."""


def out() -> "Console":
    """The console for results. Without a terminal lines are 100 columns wide."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 100, highlight=False)


def err() -> "Console":
    """The console for progress, notices and errors."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else 100)


def program() -> str:
    """What to type to run this program again: its name when the shell finds it, else its path."""
    import shutil

    called = Path(sys.argv[0])
    found = shutil.which("judge-service")
    if called.name != "judge-service" or (found is not None and Path(found).samefile(called)):
        return "judge-service"
    path = os.path.relpath(called)
    return path if not path.startswith("..") else str(called.absolute())


def note(text: str) -> None:
    """One line on standard error that is no error."""
    typer.echo(text, err=True)


def say_json(value: Any) -> None:
    """`value` as indented JSON on standard output. Raises ValueError on NaN: no number is ever undefined silently."""
    import json

    typer.echo(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False, default=str))


def report_error(error: JudgeServiceError) -> None:
    """Say what went wrong, which fields are concerned, and nothing that is a secret."""
    from judge_service.telemetry import redact

    typer.echo(redact(f"Error: {error.message}"), err=True)
    for problem in error.fields:
        typer.echo(redact(f"  {problem.path}: {problem.message}"), err=True)


class Commands(typer.core.TyperGroup):
    """A group whose commands may raise the service's errors: they become a sentence and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command. A JudgeServiceError or an unreadable file ends with exit code 1."""
        try:
            return super().invoke(ctx)
        except JudgeServiceError as error:
            report_error(error)
            raise typer.Exit(FAILED) from error
        except KeyboardInterrupt:
            note(GO_ON)
            raise typer.Exit(STOPPED) from None
        except Terminated:
            note(GO_ON)
            raise typer.Exit(TERMINATED) from None
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            name = f"{error.filename}: " if error.filename else ""
            typer.echo(f"Error: {name}{error.strerror or error}", err=True)
            raise typer.Exit(FAILED) from error


_UsageError: Any = typer.BadParameter.__mro__[1]
"""The parent of every complaint about a command line; Typer does not name it itself."""


class DecidingCommand(typer.core.TyperCommand):
    """A command whose exit codes 0, 1 and 2 are decisions: whatever keeps it from deciding ends with 3."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Read the command line. What is wrong with it keeps its message and gets exit code 3."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except _UsageError as error:
            error.exit_code = COULD_NOT_RUN
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Anything that stops it is said and ends with exit code 3."""
        try:
            return super().invoke(ctx)
        except (typer.Exit, KeyboardInterrupt, Terminated):
            raise
        except _UsageError as error:
            error.exit_code = COULD_NOT_RUN
            raise
        except JudgeServiceError as error:
            report_error(error)
            raise typer.Exit(COULD_NOT_RUN) from error
        except Exception as error:
            import traceback

            from judge_service.telemetry import redact

            typer.echo(redact("".join(traceback.format_exception(error))), err=True, nl=False)
            raise typer.Exit(COULD_NOT_RUN) from error
