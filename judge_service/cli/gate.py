"""`judge-service gate`: does a run pass? For CI: prints Markdown, and its exit code is the decision."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from judge_service.cli.console import note, report_error, say_json
from judge_service.cli.loop import run_loop
from judge_service.cli.options import DatabaseOption, JsonOption, settings_for

if TYPE_CHECKING:
    from judge_service.reports.gating import Requirements


def gate(
    runs: Annotated[
        list[str] | None, typer.Option("--run", metavar="RUN", help="Id of a run that has ended. Repeat it.")
    ] = None,
    minimums: Annotated[
        list[str] | None,
        typer.Option(
            "--min",
            metavar="METRIC=NUMBER",
            help="Least value: a rubric's mean score, or label:, rogan_gladen:, ppi: and a label. Repeat it.",
        ),
    ] = None,
    maximums: Annotated[
        list[str] | None, typer.Option("--max", metavar="METRIC=NUMBER", help="Largest value. Repeat it.")
    ] = None,
    min_coverage: Annotated[
        float | None, typer.Option("--min-coverage", min=0, max=1, help="Least share of cases with a score.")
    ] = None,
    max_error_rate: Annotated[
        float,
        typer.Option("--max-error-rate", min=0, max=1, help="Share of judge errors and unjudged cases allowed."),
    ] = 0.1,
    compare: Annotated[
        str | None, typer.Option("--compare", metavar="RUN", help="The run that this one must not fall behind.")
    ] = None,
    max_drop: Annotated[
        float | None, typer.Option("--max-drop", min=0, help="How far it may fall behind. Default: 0.02.")
    ] = None,
    point: Annotated[bool, typer.Option("--point", help="Decide on values instead of the ends of intervals.")] = False,
    min_n: Annotated[
        int, typer.Option("--min-n", metavar="N", min=1, help="Scored cases, or pairs, below which nothing is decided.")
    ] = 30,
    calibrated: Annotated[
        bool, typer.Option("--calibrated", help="The judge must be calibrated for the rubric.")
    ] = False,
    cases: Annotated[
        Path | None,
        typer.Option("--cases", metavar="FILE", exists=True, dir_okay=False, help="Judge this file first."),
    ] = None,
    rubric: Annotated[str | None, typer.Option("--rubric", metavar="NAME@V", help="Rubric for --cases.")] = None,
    judge_name: Annotated[str | None, typer.Option("--judge", metavar="NAME", help="Judge for --cases.")] = None,
    mix: Annotated[
        bool, typer.Option("--mix", help="Average and compare over different enforcement or rubrics all the same.")
    ] = False,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="Ask this service, with the key in JUDGE_KEY.")
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=1, help="With --url and --cases: how long to wait.")
    ] = 3600.0,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Decide whether a run passes, on the end of each interval that is against it.

    Exit codes: 0 pass; 1 fail; 2 not enough evidence; 3 could not run, and for a wrong command line too.
    """
    from judge_service.errors import JudgeServiceError
    from judge_service.reports.gating import could_not_run, decide, to_markdown
    from judge_service.telemetry import redact

    try:
        limits = (min_coverage, max_error_rate)
        required = _required(minimums, maximums, limits, compare, max_drop, point, min_n, calibrated)
        chosen = _chosen(runs, cases, rubric, judge_name, compare, url, database)
        if url is not None:
            reports = _remote(url, chosen, cases, rubric, judge_name, compare, mix, timeout)
        else:
            reports = _local(database, chosen, cases, rubric, judge_name, compare, mix)
        decision = decide(reports, required)
    except JudgeServiceError as error:
        decision = could_not_run(redact(" ".join([error.message, *(f"{p.path}: {p.message}" for p in error.fields)])))
        report_error(error)
    if as_json:
        say_json(decision)
    else:
        typer.echo(to_markdown(decision), nl=False)
    raise typer.Exit(decision["exit_code"])


def _required(
    minimums: list[str] | None,
    maximums: list[str] | None,
    limits: tuple[float | None, float],
    compare: str | None,
    max_drop: float | None,
    point: bool,
    min_n: int,
    calibrated: bool,
) -> "Requirements":
    from judge_service.errors import FieldProblem, InvalidInput
    from judge_service.reports.gating import DEFAULT_MAX_DROP, Requirements, Wanted

    min_coverage, max_error_rate = limits
    if max_drop is not None and compare is None:
        raise InvalidInput(fields=[FieldProblem("--max-drop", "needs --compare")])
    if not minimums and not maximums and min_coverage is None and compare is None:
        raise InvalidInput(
            "Nothing is required.", fields=[FieldProblem("--min", "or --max, --min-coverage or --compare is needed")]
        )
    drop = None if compare is None else DEFAULT_MAX_DROP if max_drop is None else max_drop
    return Requirements(
        minimums=tuple(Wanted.parse(text, "--min") for text in minimums or ()),
        maximums=tuple(Wanted.parse(text, "--max") for text in maximums or ()),
        min_coverage=min_coverage,
        max_error_rate=max_error_rate,
        max_drop=drop,
        point=point,
        min_n=min_n,
        calibrated=calibrated,
    )


def _chosen(
    runs: list[str] | None,
    cases: Path | None,
    rubric: str | None,
    judge: str | None,
    compare: str | None,
    url: str | None,
    database: str | None,
) -> list[str]:
    """The runs to decide about. Raises InvalidInput for options that do not go together."""
    from judge_service.errors import FieldProblem, InvalidInput

    chosen = list(dict.fromkeys(runs or ()))
    problems = []
    if bool(chosen) == (cases is not None):
        problems.append(FieldProblem("--run", "either runs or --cases are needed, and not both"))
    if cases is not None and (rubric is None or judge is None):
        problems.append(FieldProblem("--cases", "needs --rubric and --judge"))
    if cases is None and (rubric is not None or judge is not None):
        problems.append(FieldProblem("--rubric" if rubric is not None else "--judge", "is for --cases"))
    if compare is not None and len(chosen) > 1:
        problems.append(FieldProblem("--compare", "compares one run"))
    if url is not None and database is not None:
        problems.append(FieldProblem("--url", "does not go with --database"))
    if problems:
        raise InvalidInput(fields=problems)
    return chosen


def _local(
    database: str | None,
    runs: list[str],
    cases: Path | None,
    rubric: str | None,
    judge: str | None,
    compare: str | None,
    mix: bool,
) -> list[dict[str, Any]]:
    from judge_service.cli.runs import opened
    from judge_service.reports.run_report import run_report

    if cases is not None and rubric is not None and judge is not None:
        runs = [run_loop(_judged(database, cases, rubric, judge))]
    with opened(database) as store:
        return [run_report(store, run, compare=compare, mix=mix) for run in runs]


async def _judged(database: str | None, path: Path, rubric_name: str, judge_name: str) -> str:
    """Judge a file, asking again where a judge error is recorded; the id of the run."""
    from judge_service.app import Service
    from judge_service.cli.console import err
    from judge_service.cli.judge import FileOfCases
    from judge_service.cli.progress import progress_bar
    from judge_service.cli.rubrics import find_rubric
    from judge_service.cli.running import Stopped, identify, judge_all
    from judge_service.cli.set_files import source_of
    from judge_service.errors import InvalidInput
    from judge_service.telemetry import configure_logging

    configure_logging("WARNING")
    settings = settings_for(database)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    rubric = find_rubric(rubric_name, database)
    cases = FileOfCases(source_of(path, None, None, None), rubric, None)
    async with Service.open(settings) as service:
        who = service.roster.get(judge_name)
        service.judging.check(rubric, who)
        work = identify(service, cases, rubric, who)
        if work.n == 0:
            raise InvalidInput(f"{path.name} holds no case.")
        for sentence in cases.notices:
            note(sentence)
        with progress_bar(f"{rubric.id} by {who.name}", work.n, err()) as show:
            try:
                await judge_all(
                    service, cases, rubric, who, work, source=cases.source, retry_errors=True, on_progress=show
                )
            except Stopped as stopped:
                # What was judged before it stopped is in the run, and the gate counts the rest as unjudged.
                note(stopped.message)
    return work.run_id


def _remote(
    url: str,
    runs: list[str],
    cases: Path | None,
    rubric: str | None,
    judge: str | None,
    compare: str | None,
    mix: bool,
    timeout: float,
) -> list[dict[str, Any]]:
    from judge_service.cli.remote import Remote

    with Remote(url) as remote:
        if cases is not None and rubric is not None and judge is not None:
            runs = [remote.start(cases.read_bytes(), rubric, judge, cases.name)]
            note(f"Started {runs[0]}.")
            remote.wait(runs[0], timeout)
        return [remote.report(run, compare=compare, mix=mix) for run in runs]
