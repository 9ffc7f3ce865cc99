"""`judge-service db`: a backup, a check of everything stored, and the schema's revision."""

from pathlib import Path
from typing import Annotated

import typer

from judge_service.cli.console import FAILED, Commands, note, out, say_json
from judge_service.cli.options import DatabaseOption, JsonOption, settings_for

app = typer.Typer(cls=Commands, help="Back up, check and migrate the database.", no_args_is_help=True)


@app.command("backup")
def backup(
    target: Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="New SQLite file to write.")],
    database: DatabaseOption = None,
) -> None:
    """Copy the database, as it is at one moment, into a new SQLite file. The service may go on meanwhile."""
    from judge_service.store import Store

    with Store.open(settings_for(database).database) as store:
        store.backup(target)
    typer.echo(f"Written: {target} ({target.stat().st_size:,} bytes)")


@app.command("verify")
def verify(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Check that nothing is lost, doubled or without its parent. Exit code 1 when something is."""
    from judge_service.store import Store

    with Store.open(settings_for(database).database) as store:
        findings = store.verify()
    rows = [{"rule": one.rule, "n_checked": one.n_checked, "n_broken": one.n_broken} for one in findings]
    if as_json:
        say_json(rows)
    else:
        from judge_service.cli.tables import rows_table

        out().print(rows_table(rows, ("rule", "n_checked", "n_broken")))
    broken = [one.rule for one in findings if one.n_broken]
    for rule in broken:
        note(f"Broken: {rule}.")
    if broken:
        raise typer.Exit(FAILED)


@app.command("migrate")
def migrate(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit code 1 when there is something to do.")
    ] = False,
    database: DatabaseOption = None,
) -> None:
    """Bring the database to this program's schema, as every command does at its start."""
    from judge_service.store import Store

    url = settings_for(database).database
    found, head = Store.revisions(url)
    typer.echo(f"The database has revision {found or 'none'}; this program has {head}.")
    if found == head:
        return
    if check:
        raise typer.Exit(FAILED)
    Store.open(url).close()
    typer.echo(f"Migrated to {head}.")
