"""`judge-service stats` and `judge-service calibrate`: what judges are worth on a calibration set, and keeping it.

Owns the order of a calibration: judge what is missing by the ordinary run machinery, measure, store. Computes nothing.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from judge_service.cli.console import note, out, say_json
from judge_service.cli.loop import run_loop
from judge_service.cli.options import AgainOption, DatabaseOption, JsonOption, ResamplesOption, settings_for

if TYPE_CHECKING:
    from judge_service.app import Service
    from judge_service.domain.calibration_set import SetVersion, Split
    from judge_service.domain.case import Case
    from judge_service.domain.judge import Judge
    from rubrics.model import Rubric


class SplitName(StrEnum):
    """The splits of a set, named here too so that help needs no model."""

    DEVELOPMENT = "development"
    CALIBRATION = "calibration"
    RELEASE = "release"
    MONITORING = "monitoring"


class Failures(StrEnum):
    """How a case without a verdict counts."""

    WRONG = "wrong"
    TIE = "tie"
    LEFT_OUT = "left_out"


class Inconsistent(StrEnum):
    """How a pair whose orders disagree counts."""

    NOT_AGREE = "not_agree"
    TIE = "tie"


class MapMethod(StrEnum):
    """Methods of recalibration."""

    LOGISTIC = "logistic"
    TEMPERATURE = "temperature"
    BETA = "beta"
    HISTOGRAM = "histogram"
    ISOTONIC = "isotonic"
    NONE = "none"


RubricOption = Annotated[
    str | None,
    typer.Option("--rubric", metavar="NAME@V", help="Rubric whose labels count. Default: the set's own."),
]


def stats(
    set_name: Annotated[
        str, typer.Option("--set", metavar="NAME[@V]", help="Calibration set. Without @version: the newest.")
    ],
    judges: Annotated[
        list[str] | None,
        typer.Option("--judge", metavar="NAME", help="Judge to show; repeat it. Default: all that judged the set."),
    ] = None,
    rubric: RubricOption = None,
    split: Annotated[
        SplitName | None, typer.Option(help="Cases of this split only. Default: those that every judge judged.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="KEY=VALUE", help="Cases with this metadata only (or group, split).")
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option("--by", metavar="KEY", help="Show slices by a metadata key, or by several: a,b. Repeat it."),
    ] = None,
    shares: Annotated[
        list[str] | None,
        typer.Option(
            "--shares",
            metavar="KEY",
            help="Count over all cases: label, label:ANNOTATOR, or a metadata key. Repeat it.",
        ),
    ] = None,
    leave_out: Annotated[
        list[str] | None,
        typer.Option(
            "--leave-out",
            metavar="VALUE",
            help="Value that is in no denominator of --shares; missing: cases without one. Repeat it.",
        ),
    ] = None,
    failures: Annotated[Failures, typer.Option(help="How a case without a verdict counts.")] = Failures.WRONG,
    inconsistent: Annotated[
        Inconsistent, typer.Option(help="How a pair whose orders disagree counts.")
    ] = Inconsistent.NOT_AGREE,
    positive: Annotated[
        str | None, typer.Option(metavar="LABEL", help="Label that thresholds of a score decide about.")
    ] = None,
    threshold_from: Annotated[
        str | None,
        typer.Option(metavar="KEY=VALUE", help="Cases on which the threshold with the best F1 is chosen."),
    ] = None,
    target: Annotated[
        float, typer.Option(min=0.01, max=0.99, help="Agreement that a usable threshold of confidence must reach.")
    ] = 0.9,
    families: Annotated[
        list[str] | None,
        typer.Option("--family", metavar="PART=FAMILY", help="Model family of names that hold PART. Repeat it."),
    ] = None,
    again: AgainOption = False,
    resamples: ResamplesOption = 10_000,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Agreement, order, confidence and more of every judge on a calibration set, each with its interval.

    With --json every figure has its value, interval, n, method and, where it is null, the reason.
    """
    from judge_service.domain.calibration_set import Split
    from judge_service.reports.measuring import store_statistics
    from judge_service.reports.statistics import Rules
    from judge_service.runs.stored_rubrics import StoredRubrics
    from judge_service.store import Store

    rules = Rules(
        failures=failures.value,
        inconsistent=inconsistent.value,
        positive=positive,
        threshold_from=threshold_from,
        target=target,
        families=tuple(families or ()),
        resamples=resamples,
    )
    settings = settings_for(database)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    with Store.open(settings.database) as store, StoredRubrics(store):
        part = None if split is None else Split(split.value)
        found = store_statistics(
            store,
            set_name,
            rules,
            rubric=rubric,
            judges=judges or (),
            split=part,
            by=by or (),
            where=where,
            shares=shares or (),
            leave_out=leave_out or (),
            again=again,
        )
    if as_json:
        say_json(found)
        return
    from judge_service.cli.tables import statistics_tables

    console = out()
    for table in statistics_tables(found):
        console.print(table)
        console.print()
    if not found["judges"] and not found["shares"]:
        note(f"Nobody judged {found['set']['id']} yet: `judge-service calibrate {found['set']['name']} --judge NAME`.")
    if found["set"]["release_closed"]:
        note(
            f"{found['set']['release_closed']} cases of the release split are left out: it is scored once, "
            "with --split release."
        )
    for name, n in found["set"]["other_content"].items():
        note(f"{n} judgments of {name} are of another content under the same id: not counted.")


def calibrate(
    set_name: Annotated[str, typer.Argument(metavar="SET", help="Frozen calibration set: NAME, or NAME@V.")],
    judges: Annotated[
        list[str], typer.Option("--judge", metavar="NAME", help="Judge to measure; repeat it for several.")
    ],
    split: Annotated[SplitName, typer.Option(help="Split to measure on.")] = SplitName.CALIBRATION,
    rubric: RubricOption = None,
    method: Annotated[
        MapMethod, typer.Option("--map", help="How the confidence is recalibrated, on the calibration split.")
    ] = MapMethod.LOGISTIC,
    retry_errors: Annotated[
        bool, typer.Option("--retry-errors", help="Ask again where the recorded outcome is a judge error.")
    ] = False,
    concurrency: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=1024, help="Cases judged at once. Default: what the judge allows."),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Judge a frozen set, measure the agreement with people, and keep it: later judgments carry it as trust.

    What was judged before is not asked again. A judge that was recorded elsewhere is measured on its verdicts.
    """
    from judge_service.domain.calibration_set import Split
    from judge_service.telemetry import configure_logging

    settings = settings_for(database)
    configure_logging("WARNING")
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    part = Split(split.value)
    wanted = None if method is MapMethod.NONE else method.value
    names = list(dict.fromkeys(judges))
    found = run_loop(_calibrate(settings, set_name, names, part, rubric, wanted, retry_errors, concurrency))
    if as_json:
        say_json(found)
        return
    from judge_service.cli.tables import calibration_table

    out().print(calibration_table(found))


async def _calibrate(
    settings: Any,
    set_name: str,
    names: list[str],
    split: "Split",
    rubric: str | None,
    method: str | None,
    retry_errors: bool,
    concurrency: int | None,
) -> list[dict[str, Any]]:
    from judge_service.app import Service
    from judge_service.errors import Conflict
    from judge_service.reports.labelled_set import read_set, rubric_of
    from judge_service.reports.measuring import keep
    from judge_service.store.store import utc_now

    async with Service.open(settings) as service:
        store = service.store
        version = store.sets.get(set_name)
        if version.status != "frozen":
            raise Conflict(
                f"The set {version.id} is not frozen. Freeze it: `judge-service sets freeze {version.name}`."
            )
        found = rubric_of(version, {label.rubric for label in store.labels.of(version.id)}, rubric)
        for name in names:
            await _judge(service, version, found, name, split, retry_errors, concurrency)
        # A configuration that was set back is measured on its own, earlier verdicts.
        known = {judge.name: judge for judge in service.roster.all()}
        configured = {name: service.judging.judge_hash(known[name]) for name in names if name in known}
        labelled = read_set(store, version.id, rubric=found.id, judges=names, split=split, configured=configured)
        return keep(store, labelled, split, utc_now(), method=method)


async def _judge(
    service: "Service",
    version: "SetVersion",
    rubric: "Rubric[Any]",
    name: str,
    split: "Split",
    retry_errors: bool,
    concurrency: int | None,
) -> None:
    """Have the judge judge what is missing; one that is not configured here must have judged the set elsewhere."""
    from judge_service.cli.console import err
    from judge_service.cli.progress import progress_bar
    from judge_service.cli.running import Work, identify, judge_all
    from judge_service.errors import InvalidInput, NotFound
    from judge_service.reports.labelled_set import source_of
    from judge_service.reports.measuring import once_on_release
    from judge_service.runs.naming import of_source

    source = source_of(version.id)
    try:
        who: Judge | None = service.roster.get(name)
    except NotFound:
        if all(run.judge.name != name for run in service.store.runs.of_source(source)):
            raise
        who = None
    judge_hash = None if who is None else service.judging.judge_hash(who)
    once_on_release(service.store, version, name, judge_hash, split)
    if who is None:
        return
    service.judging.check(rubric, who)

    def cases() -> "Iterable[Case]":
        return (entry.case for entry in service.store.sets.cases(version.id, split))

    work = identify(service, cases, rubric, who)
    if work.n == 0:
        raise InvalidInput(f"The split {split.value} of {version.id} holds no case.")
    # A run of its own: the same cases judged from a file are another run, with another source.
    own = Work(of_source(work.run_id, source), work.n)
    with progress_bar(f"{version.id} by {name}", work.n, err()) as show:
        await judge_all(
            service,
            cases,
            rubric,
            who,
            own,
            source=source,
            retry_errors=retry_errors,
            concurrency=concurrency,
            on_progress=show,
        )
