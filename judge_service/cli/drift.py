"""`judge-service drift`: is the judge still the one that was measured? Its exit code is the answer."""

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from judge_service.cli.console import say_json
from judge_service.cli.loop import run_loop
from judge_service.cli.options import DatabaseOption, JsonOption, settings_for

if TYPE_CHECKING:
    from judge_service.domain.drift import DriftRecord
    from judge_service.sets.drift import Asked


class AnchorSplit(StrEnum):
    """Splits that may hold anchors, named here too so that help needs no model."""

    MONITORING = "monitoring"
    CALIBRATION = "calibration"
    DEVELOPMENT = "development"


def drift(
    set_name: Annotated[str, typer.Argument(metavar="SET", help="Frozen set with the anchors: NAME, or NAME@V.")],
    judge: Annotated[str, typer.Option("--judge", metavar="NAME", help="Judge to check.")],
    rubric: Annotated[
        str | None,
        typer.Option("--rubric", metavar="NAME@V", help="Rubric whose labels count. Default: the set's."),
    ] = None,
    split: Annotated[
        AnchorSplit | None,
        typer.Option(help="Anchors. Default: monitoring, or all but release where the set has none."),
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="K", min=2, max=20, help="Repeats of a baseline that is to be made.")
    ] = 5,
    new_baseline: Annotated[
        bool, typer.Option("--new-baseline", help="Make a new baseline instead of a check.")
    ] = False,
    planned: Annotated[
        int | None,
        typer.Option("--planned", metavar="N", min=1, help="Looks that share the error level equally."),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=1024, help="Cases judged at once. Default: what the judge allows."),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Judge the anchors of a set again, past the cache, and compare with the stored baseline.

    The first time the anchors are judged several times and kept as the baseline. Exit codes: 0 no change seen, or
    baseline stored; 1 judge changed; 2 not enough evidence; 3 could not run; 4 system changed.
    """
    from judge_service.domain.calibration_set import Split
    from judge_service.reports.drift_report import EXIT_CODES, to_markdown
    from judge_service.sets.drift import Asked
    from judge_service.telemetry import configure_logging

    settings = settings_for(database)
    configure_logging("WARNING")
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    part = None if split is None else Split(split.value)
    asked = Asked(set_name, judge, rubric, part, repeats, new_baseline, planned)
    record = run_loop(_check(settings, asked, concurrency))
    if as_json:
        say_json({**record.model_dump(mode="json"), "exit_code": EXIT_CODES[record.verdict]})
    else:
        typer.echo(to_markdown(record), nl=False)
    raise typer.Exit(EXIT_CODES[record.verdict])


async def _check(settings: Any, asked: "Asked", concurrency: int | None) -> "DriftRecord":
    from judge_service.app import Service
    from judge_service.cli.console import err
    from judge_service.cli.progress import progress_bar

    async with Service.open(settings) as service:
        checks = service.watch.checks
        anchors = await asyncio.to_thread(checks.anchors, asked)
        with progress_bar(f"{anchors.version.id} by {asked.judge}", len(anchors.cases), err()) as show:
            return await checks.check(asked, concurrency=concurrency, on_progress=show)
