"""`judge-service projects`: labelling projects opened, listed, measured, closed; cases drawn from a run."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judge_service.cli.console import Commands, note, out, say_json
from judge_service.cli.opened import BY, noting, with_store
from judge_service.cli.options import DatabaseOption, JsonOption
from judge_service.cli.set_files import SplitChoice

if TYPE_CHECKING:
    from judge_service.annotation.production import Sampled
    from judge_service.annotation.quality import Quality
    from judge_service.domain.annotation import Project
    from judge_service.store import Store

app = typer.Typer(cls=Commands, help="Open, list, measure and close labelling projects.", no_args_is_help=True)

ProjectArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the project, as in `projects list`.")]


_OPTIONS = {
    "name": "NAME",
    "set": "--set",
    "rubric": "--rubric",
    "annotators": "--annotator",
    "labels_wanted": "--labels",
    "condition": "--assisted",
    "splits": "--split",
    "selection": "--draw",
    "lease_minutes": "--lease",
    "due_at": "--due",
}
"""Fields of a project that are no option's name."""


@app.command("open")
def open_(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What people read.")],
    reference: Annotated[str, typer.Option("--set", metavar="NAME@V", help="An open set version.")],
    rubric: Annotated[
        str | None, typer.Option("--rubric", metavar="NAME@V", help="What people label by. Default: the set's.")
    ] = None,
    annotators: Annotated[
        list[str] | None,
        typer.Option("--annotator", metavar="NAME", help="A person, or the id of an API key. May be repeated."),
    ] = None,
    labels: Annotated[int, typer.Option("--labels", metavar="N", help="Labels of different people per case.")] = 2,
    overlap: Annotated[
        float, typer.Option("--overlap", metavar="SHARE", help="Share of the cases that want so many; others want one.")
    ] = 1.0,
    assisted: Annotated[
        bool, typer.Option("--assisted", help="Show verdicts of judges: such labels enter no headline number.")
    ] = False,
    splits: Annotated[
        list[SplitChoice] | None,
        typer.Option("--split", metavar="SPLIT", help="Only cases of this split. May be repeated. Default: all."),
    ] = None,
    guidelines: Annotated[
        Path | None, typer.Option("--guidelines", metavar="FILE", exists=True, dir_okay=False, help="Markdown.")
    ] = None,
    qualification: Annotated[
        Path | None,
        typer.Option(
            "--qualification",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Cases with a known answer, labelled first: JSON lines with `input` and `label`.",
        ),
    ] = None,
    draw: Annotated[int | None, typer.Option("--draw", metavar="N", help="Only N cases, drawn.")] = None,
    uncertain: Annotated[
        bool, typer.Option("--uncertain", help="With --draw: uncertain cases have a higher probability.")
    ] = False,
    lease: Annotated[
        float, typer.Option("--lease", metavar="MINUTES", help="How long an offered case is held for a person.")
    ] = 60.0,
    due: Annotated[
        str, typer.Option("--due", metavar="DAY", help="Done by the end of this day (UTC), such as 2026-05-31.")
    ] = "",
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Open a set version for labelling and print the project's id."""

    def work(store: "Store") -> "Project":
        from pydantic import ValidationError

        from judge_service.annotation.entries import end_of, known_answers
        from judge_service.annotation.projects import ProjectRequest, open_project
        from judge_service.domain.audit import told_project
        from judge_service.domain.principal import Principal, Role
        from judge_service.errors import FieldProblem, InvalidInput
        from judge_service.judging.cases import field_problems

        if uncertain and draw is None:
            message = "needs --draw N: how many cases are drawn"
            raise InvalidInput(f"--uncertain {message}.", fields=[FieldProblem("--uncertain", message)])
        try:
            fields = {
                "name": name,
                "set": reference,
                "rubric": rubric,
                "annotators": annotators or [],
                "labels_wanted": labels,
                "overlap": overlap,
                "condition": "assisted" if assisted else "blind",
                "splits": [split.value for split in splits or ()],
                "guidelines": _text(guidelines, "guidelines"),
                "qualification": known_answers(_text(qualification, "qualification")),
                "selection": None if draw is None else {"n": draw, "by": "uncertain" if uncertain else "random"},
                "lease_minutes": lease,
                "due_at": end_of(due),
            }
            try:
                request = ProjectRequest.model_validate(fields)
            except ValidationError as error:
                raise InvalidInput(fields=field_problems(error)) from None
            by = Principal(key_id="commandline0", name=BY, role=Role.ADMIN)
            with noting(store, "opened a project", told_project):
                return open_project(store, request, by)
        except InvalidInput as error:
            said = [FieldProblem(_option(problem.path), problem.message) for problem in error.fields]
            raise InvalidInput(error.message, fields=said) from None

    project = with_store(database, work)
    if as_json:
        say_json(project.model_dump(mode="json"))
        return
    typer.echo(project.id)


def _text(file: Path | None, field: str) -> str:
    """The text of a file, empty without one. Raises InvalidInput on `field` when it is not UTF-8."""
    from judge_service.errors import FieldProblem, InvalidInput

    try:
        return "" if file is None else file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        message = f"{file} is not UTF-8. Save it as UTF-8."
        raise InvalidInput(message, fields=[FieldProblem(field, message)]) from None


def _option(path: str) -> str:
    """What was typed for a field: the option, and the place inside of what it gave."""
    field = re.split(r"[.\[:]", path, maxsplit=1)[0]
    return _OPTIONS.get(field, f"--{field}") + path.removeprefix(field)


@app.command("list")
def list_projects(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List the projects, newest first."""
    projects = with_store(database, lambda store: store.projects.all())
    if as_json:
        say_json([project.model_dump(mode="json") for project in projects])
        return
    if not projects:
        note("There is no project yet. Open one: judge-service projects open NAME --set SET@1")
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table("Id", "Name", "Set", "Rubric", "Labels", "State", box=None, padding=(0, 2, 0, 0))
    for project in projects:
        state = "open" if project.open else f"closed {project.closed_at:%Y-%m-%d %H:%M}"
        wanted = str(project.labels_wanted)
        table.add_row(project.id, escape(project.name), project.set_id, project.rubric, wanted, state)
    out().print(table)


@app.command("show")
def show(project_id: ProjectArgument, database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """How far a project is, and how far its labels can be trusted."""

    def work(store: "Store") -> "Quality":
        from judge_service.annotation.quality import quality

        return quality(store, project_id)

    found = with_store(database, work)
    if as_json:
        say_json(found.model_dump(mode="json"))
        return
    typer.echo(f"{found.n_with_enough_labels} of {found.n_cases} cases have enough labels; {found.n_labels} labels.")
    if found.alpha is None or found.alpha["value"] is None:
        typer.echo(f"Agreement among people: not measured yet ({found.n_pairs} pairs of labels; 30 are needed).")
    else:
        low, high = found.alpha["low"], found.alpha["high"]
        spread = "no interval" if low is None else f"{low:.2f} to {high:.2f}"
        typer.echo(f"Agreement among people: alpha {found.alpha['value']:.2f} ({spread}, {found.n_pairs} pairs).")
    typer.echo(f"{found.n_disagreements} cases with labels that differ; {found.n_adjudicated} have a final word.")
    for person in found.people:
        seconds = "no times" if person.median_seconds is None else f"median {person.median_seconds:.1f} s"
        typer.echo(f"  {person.name}: {person.done} done, {person.skipped} skipped, {seconds}")


@app.command("close")
def close(project_id: ProjectArgument, database: DatabaseOption = None) -> None:
    """Offer and take nothing any more; drafts are kept."""

    def work(store: "Store") -> "Project":
        from judge_service.domain.audit import told_project

        with noting(store, "closed a project", told_project):
            return store.projects.close(project_id, closed=True)

    project = with_store(database, work)
    typer.echo(f"{project.name} is closed.")


@app.command("sample")
def sample(
    reference: Annotated[str, typer.Argument(metavar="SET", help="An open set version.")],
    run: Annotated[str, typer.Argument(metavar="RUN", help="Id of a run.")],
    n: Annotated[int, typer.Option("--n", metavar="N", min=1, help="Cases to draw.")] = 50,
    random_share: Annotated[
        float,
        typer.Option("--random-share", metavar="SHARE", min=0.01, max=1.0, help="Drawn blindly; the rest by weight."),
    ] = 0.5,
    database: DatabaseOption = None,
) -> None:
    """Draw cases of a run into the monitoring split, with the probability that each one had."""

    def work(store: "Store") -> "Sampled":
        from judge_service.annotation.production import SampleRequest, sample_run

        return sample_run(store, reference, SampleRequest(run=run, n=n, random_share=random_share))

    found = with_store(database, work)
    typer.echo(
        f"{found.drawn} of {found.judged} judged cases drawn, {found.random} blindly; {found.cases.added} are new."
    )
