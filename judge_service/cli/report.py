"""`judge-service report`: which judge to use, from one calibration set, in every form. Computes nothing."""

from pathlib import Path
from typing import Annotated

import typer

from judge_service.cli.console import note
from judge_service.cli.options import AgainOption, DatabaseOption, ResamplesOption, settings_for
from judge_service.cli.runs import Form
from judge_service.cli.statistics import RubricOption, SplitName


def report(
    set_name: Annotated[
        str, typer.Argument(metavar="SET", help="Calibration set: NAME, or NAME@V. A decision needs a frozen one.")
    ],
    judges: Annotated[
        list[str] | None,
        typer.Option(
            "--judge", metavar="NAME", help="Judge to compare; repeat it. Default: all that judged the split."
        ),
    ] = None,
    rubric: RubricOption = None,
    split: Annotated[
        SplitName | None,
        typer.Option(help="Cases of this split. Default: calibration, else development, else monitoring."),
    ] = None,
    floor: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=0.99,
            help="Agreement that a judge's lower bound must reach. Default: five points under two people's, if known.",
        ),
    ] = None,
    margin: Annotated[
        float, typer.Option(min=0.001, max=0.5, help="Difference below which judges are as good as each other.")
    ] = 0.02,
    target: Annotated[
        float, typer.Option(min=0.01, max=0.99, help="Agreement that a usable threshold of confidence must reach.")
    ] = 0.9,
    by: Annotated[
        list[str] | None,
        typer.Option("--by", metavar="KEY", help="Slice by a metadata key, or by several: a,b. Repeat it."),
    ] = None,
    families: Annotated[
        list[str] | None,
        typer.Option(
            "--family", metavar="PART=FAMILY", help="Model names with this part are of this family. Repeat it."
        ),
    ] = None,
    target_file: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="PATH", help="File to write, or with csv a folder. Default: print."),
    ] = None,
    charts: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write each chart there too, as SVG and PNG. Needs the extra `charts`."),
    ] = None,
    form: Annotated[
        Form | None, typer.Option("--form", help="What to write. Default: by the file's name, else md.")
    ] = None,
    again: AgainOption = False,
    resamples: ResamplesOption = 10_000,
    database: DatabaseOption = None,
) -> None:
    """Compare judges on one calibration set and say which to use, or which evidence is missing.

    Floor, margin, target and slices are choices to be made before the labels are looked at; the report states them.
    """
    from judge_service.cli.runs import opened
    from judge_service.domain.calibration_set import Split
    from judge_service.reports.reading import families_of, set_report
    from judge_service.reports.selection_forms import render, write_tables
    from judge_service.reports.study import Choices

    written = _form_of(target_file, form)
    choices = Choices(
        floor=floor,
        margin=margin,
        target=target,
        by=tuple(by or ()),
        families=families_of(families or ()),
        resamples=resamples,
    )
    with opened(database) as store:
        found = set_report(
            store,
            settings_for(database),
            set_name,
            rubric=rubric,
            judges=judges or (),
            split=None if split is None else Split(split.value),
            choices=choices,
            again=again,
        )
    if written is Form.CSV and target_file is not None:
        paths = write_tables(found, target_file)
        note(f"Written: {len(paths)} tables in {target_file}")
    elif target_file is not None:
        target_file.write_bytes(render(found, written.value))
        note(f"Written: {target_file}")
    else:
        typer.echo(render(found, written.value).decode(), nl=False)
    if charts is not None:
        from judge_service.reports.pictures import write_charts

        note(f"Written: {len(write_charts(found, charts))} pictures in {charts}")
    decision = found["decision"]
    if target_file is not None:
        typer.echo(f"{decision['mark']} {decision['sentence']}")


def _form_of(path: Path | None, form: Form | None) -> Form:
    """The form that was asked for, else that of the file's name. Raises InvalidInput where neither says one."""
    from judge_service.errors import FieldProblem, InvalidInput

    if form is Form.CSV and path is None:
        raise InvalidInput(fields=[FieldProblem("--out", "is needed with csv: the folder for the tables")])
    if form is not None:
        return form
    if path is None:
        return Form.MARKDOWN
    ending = path.suffix.lower().lstrip(".")
    if not ending:
        return Form.CSV
    try:
        found = {"htm": Form.HTML, "markdown": Form.MARKDOWN}.get(ending) or Form(ending)
    except ValueError:
        found = None
    if found is None or found is Form.CSV:
        message = "must end in .html, .json or .md, or name a folder for CSV tables, or say --form"
        raise InvalidInput(fields=[FieldProblem("--out", message)])
    return found
