"""`judge-service runs`: the numbers of a run, of two runs side by side, and the report of both."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from judge_service.cli.console import Commands, note, out, say_json
from judge_service.cli.options import DatabaseOption, JsonOption, settings_for

if TYPE_CHECKING:
    from judge_service.store import Store

app = typer.Typer(cls=Commands, help="List runs, read the numbers of one, compare two.", no_args_is_help=True)

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Id of the run, as in `judge-service runs list`.")]
SliceOption = Annotated[
    str | None, typer.Option("--slice", metavar="KEY", help="Show slices by this metadata key (or group) too.")
]
MixOption = Annotated[
    bool,
    typer.Option(
        "--mix", help="Average over different enforcement or rubric versions all the same; the result says so."
    ),
]


class Form(StrEnum):
    """The forms of a report, named here too so that help needs no model."""

    HTML = "html"
    JSON = "json"
    MARKDOWN = "md"
    CSV = "csv"


@contextmanager
def opened(database: str | None) -> "Iterator[Store]":
    """The store of an installation, with its declared rubrics known."""
    from judge_service.runs.stored_rubrics import StoredRubrics
    from judge_service.store import Store

    settings = settings_for(database)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    with Store.open(settings.database) as store, StoredRubrics(store):
        yield store


@app.command("list")
def list_runs(
    limit: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="The newest N runs.")] = 20,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """List runs, newest first."""
    with opened(database) as store:
        found = store.runs.list(limit=limit)
    rows: list[dict[str, Any]] = [
        {
            "id": run.id,
            "rubric": run.rubric,
            "judge": run.judge.name,
            "status": run.status.value,
            "cases": run.n_planned,
            "source": run.source,
            "created_at": run.created_at.isoformat(),
        }
        for run in found
    ]
    if as_json:
        say_json(rows)
        return
    from judge_service.cli.tables import rows_table

    out().print(rows_table(rows, ("id", "rubric", "judge", "status", "cases", "source")))


@app.command("show")
def show_run(
    run_id: RunArgument,
    slice_by: SliceOption = None,
    mix: MixOption = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a run in numbers: coverage, mean with interval and bounds, labels, corrected shares, slices."""
    from judge_service.reports.aggregates import run_aggregate

    with opened(database) as store:
        found = run_aggregate(store, run_id, by=slice_by, mix=mix)
    if as_json:
        say_json(found)
        return
    from judge_service.cli.tables import aggregate_tables

    for table in aggregate_tables(found):
        out().print(table)
        out().print()
    if found["corrected"] is None:
        note("Not corrected for the judge's errors: no calibration in force supports this judge.")


@app.command("compare")
def compare(
    a: Annotated[str, typer.Argument(metavar="RUN_A", help="The run to compare with.")],
    b: Annotated[str, typer.Argument(metavar="RUN_B", help="The run whose gain over RUN_A is shown.")],
    slice_by: SliceOption = None,
    mix: MixOption = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two runs on the cases both scored: the paired difference with its interval."""
    from judge_service.reports.comparison import compare_runs

    with opened(database) as store:
        found = compare_runs(store, a, b, by=slice_by, mix=mix)
    if as_json:
        say_json(found)
        return
    from judge_service.cli.tables import comparison_table

    for sentence in (*found["mixed"], *found["notes"]):
        note(sentence)
    out().print(comparison_table(found))


@app.command("report")
def report(
    run_id: RunArgument,
    compare: Annotated[
        str | None, typer.Option("--compare", metavar="RUN", help="Also say what changed since this run.")
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option("--by", metavar="KEY", help="Slice by this metadata key (or group). Repeat it."),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", dir_okay=False, help="Write to this file instead of printing."),
    ] = None,
    form: Annotated[
        Form | None, typer.Option("--form", help="What to write. Default: by the file's name, else md.")
    ] = None,
    mix: MixOption = False,
    database: DatabaseOption = None,
) -> None:
    """Write the report of a run: outcomes, score, verdicts raw and corrected, slices, cost; and a comparison."""
    from judge_service.reports.run_forms import render
    from judge_service.reports.run_report import run_report

    written = (form or _form_of(target)).value
    with opened(database) as store:
        found = run_report(store, run_id, by=by or (), compare=compare, mix=mix)
    text = render(found, written)
    if target is None:
        typer.echo(text, nl=not text.endswith("\n"))
        return
    target.write_text(text, encoding="utf-8", newline="")
    note(f"Written: {target}")


def _form_of(target: Path | None) -> Form:
    """The form that a file's name asks for. Raises InvalidInput for an ending that is none."""
    from judge_service.errors import FieldProblem, InvalidInput

    if target is None:
        return Form.MARKDOWN
    ending = target.suffix.lower().lstrip(".")
    try:
        return {"htm": Form.HTML, "markdown": Form.MARKDOWN}.get(ending) or Form(ending)
    except ValueError:
        known = ", ".join(f".{form.value}" for form in Form)
        raise InvalidInput(fields=[FieldProblem("--out", f"must end in one of {known}, or say --form")]) from None


@app.command("export")
def export(
    run_id: RunArgument,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", dir_okay=False, help="File to write, ending in .jsonl or .parquet."
        ),
    ],
    outcome: Annotated[str | None, typer.Option(metavar="OUTCOME", help="Only judgments with this outcome.")] = None,
    slice_: Annotated[
        str | None, typer.Option("--slice", metavar="KEY=VALUE", help="Only cases with this metadata (or group).")
    ] = None,
    score_from: Annotated[float | None, typer.Option(metavar="X", help="Only scores of at least this.")] = None,
    score_to: Annotated[float | None, typer.Option(metavar="X", help="Only scores of at most this.")] = None,
    database: DatabaseOption = None,
) -> None:
    """Write a run's judgments in case order to a file, whole or not at all."""
    import os
    import tempfile

    from judge_service.domain.outcome import Outcome
    from judge_service.errors import FieldProblem, InvalidInput, NotFound
    from judge_service.runs.exports import jsonl, parquet
    from judge_service.store import Only

    kind = output.suffix.lower()
    if kind not in (".jsonl", ".parquet"):
        raise InvalidInput(fields=[FieldProblem("--output", "must end in .jsonl or .parquet")])
    if outcome is not None and outcome not in set(Outcome):
        raise InvalidInput(fields=[FieldProblem("--outcome", f"is one of {', '.join(Outcome)}")])
    wanted = None if outcome is None else Outcome(outcome)
    key, equals, value = (slice_ or "").partition("=")
    if slice_ is not None and not (key and equals):
        raise InvalidInput(fields=[FieldProblem("--slice", "must be KEY=VALUE, such as language=de")])
    only = Only((key, value) if slice_ is not None else None, score_from, score_to)
    with opened(database) as store:
        if store.runs.get(run_id) is None:
            raise NotFound(f"There is no run {run_id!r}.")
        handle, name = tempfile.mkstemp(prefix=f".{output.name[:100]}.", dir=output.absolute().parent)
        os.close(handle)
        partial = Path(name)
        try:
            n = 0
            if kind == ".parquet":
                n = parquet(store, run_id, partial, outcome=wanted, only=only)
            else:
                with partial.open("w", encoding="utf-8", newline="\n") as file:
                    for line in jsonl(store, run_id, outcome=wanted, only=only):
                        file.write(line)
                        n += 1
            partial.chmod(0o644)
            partial.replace(output)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    typer.echo(f"Written: {output} ({n} judgments)")


@app.command("delete")
def delete(
    run_id: RunArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    database: DatabaseOption = None,
) -> None:
    """Delete an ended run with its cases and the judgments that no other run planned."""
    with opened(database) as store:
        if not yes:
            typer.confirm(f"Delete run {run_id} and its judgments for good?", abort=True, err=True)
        n = store.runs.delete(run_id)
    typer.echo(f"Deleted: {run_id} with {n} judgments")
