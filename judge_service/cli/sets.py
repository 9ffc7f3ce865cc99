"""`judge-service sets`: calibration sets made, listed, shown, exported. Imports and versions have modules of their own.

Owns the list of the commands and the words of the results. What a file may hold and what a freeze checks is
`judge_service.sets`'s.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from judge_service.cli import set_imports, set_versions
from judge_service.cli.console import Commands, note, out, say_json
from judge_service.cli.opened import BY, noting, with_store
from judge_service.cli.options import DatabaseOption, JsonOption
from judge_service.cli.set_files import (
    KindOption,
    NameArgument,
    SplitChoice,
    say_spent,
)

if TYPE_CHECKING:
    from judge_service.store import Store


app = typer.Typer(
    cls=Commands, help="Calibration sets: cases with human labels, split, frozen and hashed.", no_args_is_help=True
)


def create_set(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the set.")],
    rubric: Annotated[
        str | None, typer.Option("--rubric", metavar="NAME@V", help="The rubric that its labels answer.")
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="SET", help="Make the next version with all that this one holds.")
    ] = None,
    text: Annotated[str, typer.Option("--note", metavar="TEXT", help="A note for people.")] = "",
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make an empty set, or the next version of one."""

    def work(store: "Store") -> Any:
        from judge_service.errors import FieldProblem, InvalidInput
        from judge_service.sets.importing import read_rubric
        from judge_service.sets.versions import new_version

        known = read_rubric(rubric)
        if from_ is None:
            return store.sets.create(name, None if known is None else known.id, note=text)
        old = store.sets.get(from_)
        if old.name != name or known is not None:
            message = "a next version has the name and the rubric of the one it is made from"
            raise InvalidInput(f"The set cannot be made: {message}.", fields=[FieldProblem("--from", message)])
        return new_version(store, old.id, note=text)

    version = with_store(database, work)
    if as_json:
        say_json(version.model_dump(mode="json"))
        return
    typer.echo(f"Made {version.id}: {version.n_cases} cases, {version.n_labels} labels, open.")
    if from_ is not None:
        say_spent(version.spent)


def list_sets(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List the sets with their versions."""
    versions = with_store(database, lambda store: store.sets.all())
    if as_json:
        say_json([version.model_dump(mode="json") for version in versions])
        return
    if not versions:
        note("There is no set yet. Make one: judge-service sets create NAME --rubric pairwise")
        return
    from judge_service.cli.tables import plain_table

    table = plain_table("Set", "Rubric", "Cases", "Labels", "State", "Made from", "Hash")
    for version in versions:
        digest = (version.content_hash or "")[:12]
        numbers = (str(version.n_cases), str(version.n_labels))
        table.add_row(version.id, version.rubric or "", *numbers, version.status, version.parent or "", digest)
    out().print(table)


def show_set(
    name: NameArgument,
    cases: Annotated[
        bool, typer.Option("--cases", help="Print the cases as JSON lines. A frozen release split stays closed.")
    ] = False,
    split: Annotated[
        SplitChoice | None,
        typer.Option(
            "--split", metavar="SPLIT", help="With --cases: this split. Looking at release moves it to development."
        ),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a version: its splits, labels and uses; or its cases."""
    if cases:

        def print_cases(store: "Store") -> None:
            from judge_service.domain.calibration_set import Split
            from judge_service.files.writing import dump
            from judge_service.sets.versions import view_cases

            wanted = None if split is None else Split(split.value)
            version = store.sets.get(name)
            with noting(store, "looked at a split", f"{version.id} ({wanted})"):
                entries = view_cases(store, version.id, wanted, who=BY)
            for entry in entries:
                typer.echo(dump(entry.model_dump(mode="json")))

        with_store(database, print_cases)
        return

    def work(store: "Store") -> Any:
        from judge_service.sets.summary import summarise

        return summarise(store, name)

    found = with_store(database, work)
    if as_json:
        say_json(found.model_dump(mode="json"))
        return
    version = found.version
    made = f"made from {version.parent}" if version.parent else "made new"
    typer.echo(f"{version.id}: {version.status}, {made}, rubric {version.rubric or 'not named'}")
    if version.note:
        typer.echo(version.note)
    if version.content_hash:
        typer.echo(f"sha256 {version.content_hash}, frozen {version.frozen_at:%Y-%m-%d %H:%M} UTC")
    if version.release_demoted_at:
        typer.echo(f"The release split counts as development since {version.release_demoted_at:%Y-%m-%d %H:%M} UTC.")
    typer.echo(f"{version.n_cases} cases in {found.n_groups} groups: {_listed(found.splits)}")
    typer.echo(f"{version.n_labels} labels: {_listed(found.labels)}")
    for annotator, n in found.annotators.items():
        typer.echo(f"  {n:>7}  {annotator}")
    for use in found.uses:
        who = use.judge or use.note
        typer.echo(f"{use.at:%Y-%m-%d %H:%M} {use.split.value} {use.purpose.value}{f': {who}' if who else ''}")
    for use in found.uses_elsewhere:
        who = use.judge or use.note
        typer.echo(f"{use.at:%Y-%m-%d %H:%M} {use.purpose.value} in {use.set_id}{f': {who}' if who else ''}")
    say_spent(found.spent)
    if found.leaks:
        note(f"{found.leaks} groups or texts stand in more than one split: the set cannot be frozen.")


def export_set(
    name: NameArgument,
    file: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", dir_okay=False, help="Where to. Default: standard output.")
    ] = None,
    kind: KindOption = None,
    labels: Annotated[bool, typer.Option("--labels", help="The labels alone, one a record.")] = False,
    studio: Annotated[bool, typer.Option("--label-studio", help="The labels as tasks in Label Studio's JSON.")] = False,
    lossless: Annotated[
        bool, typer.Option("--lossless", help="CSV without the apostrophes that keep cells from being formulas.")
    ] = False,
    database: DatabaseOption = None,
) -> None:
    """Export a version with its labels; importing it again gives the same hash."""

    def work(store: "Store") -> int:
        from judge_service.errors import FieldProblem, InvalidInput
        from judge_service.files.rows import FileKind
        from judge_service.files.source import kind_of
        from judge_service.sets.exporting import export_lines, export_parquet, label_lines, label_parquet
        from judge_service.sets.label_studio import label_studio

        by_name = kind is None and file is not None and not studio
        chosen = kind_of(file.name) if by_name and file else FileKind(kind.value) if kind else FileKind.JSONL
        if chosen is FileKind.PARQUET:
            if file is None or studio:
                message = "Parquet needs --out and is no JSON"
                raise InvalidInput(f"{message}.", fields=[FieldProblem("--kind", message)])
            if labels:
                label_parquet(store, name, file)
            else:
                export_parquet(store, name, file, note="command line")
            return 0
        if studio:
            lines = label_studio(store, name)
        elif labels:
            lines = label_lines(store, name, chosen, safe=not lossless)
        else:
            lines = export_lines(store, name, chosen, safe=not lossless, note="command line")
        if file is None:
            for line in lines:
                typer.echo(line.encode("utf-8"), nl=False)
            return 0
        # The line ends are the export's own: a text may hold others.
        with file.open("w", encoding="utf-8", newline="") as opened:
            opened.writelines(lines)
        return 0

    with_store(database, work)
    if file is not None:
        note(f"Written to {file}.")


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {name}" for name, n in counts.items() if n) or "none"


# In the order in which a set is made and used.
app.command("create")(create_set)
app.command("import")(set_imports.import_file)
app.command("labels")(set_imports.import_label_file)
app.command("verdicts")(set_imports.import_verdict_file)
app.command("groups")(set_versions.propose)
app.command("split")(set_versions.split_cases)
app.command("freeze")(set_versions.freeze)
app.command("list")(list_sets)
app.command("show")(show_set)
app.command("diff")(set_versions.diff_sets)
app.command("export")(export_set)
