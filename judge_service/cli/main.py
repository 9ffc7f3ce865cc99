"""The command `judge-service`: puts the nouns together.

Owns the list of commands and nothing else. Every command imports what it needs when it runs, so that help is quick.
"""

import typer

from judge_service.cli import (
    agreement,
    db,
    demo,
    drift,
    gate,
    judge,
    judges,
    keys,
    models,
    projects,
    report,
    rubrics,
    runs,
    serve,
    sets,
    statistics,
    users,
    version,
    worker,
)
from judge_service.cli.console import Commands, DecidingCommand

EPILOG = (
    "Exit codes: 0 done; 1 nothing was scored, or it failed; 2 the command line itself was wrong. Commands that decide "
    "have their own: see their help."
)

app = typer.Typer(
    name="judge-service",
    cls=Commands,
    help="LLM judges whose verdicts carry their measured agreement with humans.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.command(name="judge")(judge.judge)
app.command(name="agreement")(agreement.agreement)
app.command(name="calibrate")(statistics.calibrate)
app.command(name="stats")(statistics.stats)
app.command(name="drift", cls=DecidingCommand)(drift.drift)
app.command(name="gate", cls=DecidingCommand)(gate.gate)
app.command(name="report")(report.report)
app.add_typer(runs.app, name="runs")
app.add_typer(db.app, name="db")
app.add_typer(rubrics.app, name="rubrics")
app.add_typer(judges.app, name="judges")
app.add_typer(sets.app, name="sets")
app.add_typer(models.app, name="models")
app.add_typer(keys.app, name="keys")
app.add_typer(users.app, name="users")
app.add_typer(projects.app, name="projects")
app.command(name="serve")(serve.serve)
app.command(name="worker")(worker.worker)
app.command(name="demo")(demo.demo)
app.command(name="version")(version.version)


def main() -> None:
    """Entry point of the installed command."""
    app()
