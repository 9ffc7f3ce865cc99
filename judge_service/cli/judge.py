"""`judge-service judge`: a file of cases through one rubric and one judge, resumable, with progress."""

import os
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from judge_service.cli.console import FAILED, err, note, out, say_json
from judge_service.cli.loop import run_loop
from judge_service.cli.options import DatabaseOption, JsonOption, settings_for
from judge_service.cli.set_files import DelimiterOption, EncodingOption, KindOption, SplitChoice, source_of

if TYPE_CHECKING:
    from judge_service.app import Service
    from judge_service.cli.running import Cases, Summary
    from judge_service.domain.case import Case
    from judge_service.domain.judge import Judge
    from judge_service.files.source import Source
    from judge_service.sets.judging import SetCases
    from rubrics.model import Rubric


def judge(
    rubric: Annotated[str, typer.Argument(help="Rubric, such as pairwise@1. Without @version: the newest.")],
    judge_name: Annotated[
        str, typer.Option("--judge", metavar="NAME", help="Judge, as in `judge-service judges list`.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="OUT.jsonl", dir_okay=False, help="Where to write the judgments, in case order."
        ),
    ],
    cases: Annotated[
        Path | None,
        typer.Argument(metavar="[CASES]", exists=True, dir_okay=False, help="File: JSON lines, CSV or Parquet."),
    ] = None,
    set_name: Annotated[
        str | None, typer.Option("--set", metavar="SET", help="Judge this calibration set, NAME or NAME@V, instead.")
    ] = None,
    split: Annotated[
        SplitChoice | None,
        typer.Option("--split", help="Of the set. Without it a frozen release split stays closed."),
    ] = None,
    kind: KindOption = None,
    encoding: EncodingOption = None,
    delimiter: DelimiterOption = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Judge the first N cases only.")] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=1024, help="Cases judged at once. Default: what the judge allows."),
    ] = None,
    retry_errors: Annotated[
        bool, typer.Option("--retry-errors", help="Ask again where the recorded outcome is a judge error.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Ask again for every case; the new judgments replace the recorded ones.")
    ] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Judge a file of cases, or a set. What is recorded is not asked again, so the same command goes on after a stop.

    OUT.jsonl is written whole at the end, one judgment a line in case order, or not at all. Exit code 1 when no case
    was scored.
    """
    from judge_service.cli.rubrics import find_rubric
    from judge_service.errors import FieldProblem, InvalidInput
    from judge_service.telemetry import configure_logging

    settings = settings_for(database)
    found = find_rubric(rubric, database)
    configure_logging("WARNING")
    folder = output.absolute().parent
    if not folder.is_dir():
        raise InvalidInput(fields=[FieldProblem("--output", f"the folder {folder} does not exist")])
    if (cases is None) == (set_name is None):
        raise InvalidInput(fields=[FieldProblem("CASES", "name a file of cases, or a set with --set")])
    if split is not None and set_name is None:
        raise InvalidInput(fields=[FieldProblem("--split", "is of a set, and none is named")])
    if cases is not None and output.exists() and output.samefile(cases):
        raise InvalidInput(fields=[FieldProblem("--output", "is the case file itself, which would be overwritten")])
    wanted: FileOfCases | SetOfCases
    if set_name is not None:
        wanted = SetOfCases(set_name, None if split is None else split.value, limit)
    elif cases is not None:
        wanted = FileOfCases(source_of(cases, kind, encoding, delimiter), found, limit)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    summary = run_loop(_judge(settings, found, judge_name, wanted, output, concurrency, retry_errors, fresh))
    if as_json:
        say_json(summary.as_dict())
    else:
        tell(summary, output)
    if summary.scored == 0:
        note("Nothing was scored.")
        raise typer.Exit(FAILED)


async def _judge(
    settings: Any,
    rubric: "Rubric[Any]",
    judge_name: str,
    cases: "FileOfCases | SetOfCases",
    output: Path,
    concurrency: int | None,
    retry_errors: bool,
    fresh: bool,
) -> "Summary":
    from judge_service.app import Service
    from judge_service.cli.progress import progress_bar
    from judge_service.cli.running import Stopped, Work, identify, judge_all
    from judge_service.errors import InvalidInput
    from judge_service.runs.naming import of_source

    async with Service.open(settings) as service:
        who = service.roster.get(judge_name)
        service.judging.check(rubric, who)
        if isinstance(cases, SetOfCases):
            cases.open(service, who)
        work = identify(service, cases, rubric, who)
        if isinstance(cases, SetOfCases):
            # A run of its own: the same cases judged from a file are another run, with another source.
            work = Work(of_source(work.run_id, cases.source), work.n)
        if work.n == 0:
            raise InvalidInput(f"{cases.name} holds no case, so there is nothing to judge.")
        for sentence in cases.notices:
            note(sentence)
        try:
            with progress_bar(f"{rubric.id} by {who.name}", work.n, err()) as show:
                last = await judge_all(
                    service,
                    cases,
                    rubric,
                    who,
                    work,
                    source=cases.source,
                    retry_errors=retry_errors,
                    fresh=fresh,
                    concurrency=concurrency,
                    on_progress=show,
                )
        except Stopped as stopped:
            raise Stopped(
                f"{stopped.message} What was judged is recorded; {output} was not written. Run the same command "
                "again to go on."
            ) from stopped
        if last is not None and last.n_judged < work.n:
            note(f"{work.n - last.n_judged} of {work.n} cases were recorded before and not asked again.")
        return write_judgments(service, cases, rubric, who, output)


class FileOfCases:
    """The cases of a file, read from the start each time; `notices` say what became of unknown fields."""

    def __init__(self, file: "Source", rubric: "Rubric[Any]", limit: int | None) -> None:
        self._file, self._rubric, self._limit = file, rubric, limit
        self.name = file.name
        self.notices: list[str] = []

    @property
    def source(self) -> str:
        """What a run over the file is named after: the file, and never a calibration set."""
        from judge_service.domain.run import OWN_SOURCES

        return f"./{self.name}" if self.name.startswith(OWN_SOURCES) else self.name

    def __call__(self) -> "Iterator[Case]":
        """The cases. Raises InvalidInput naming the bad rows."""
        from judge_service.runs.casefile import read_cases

        reader = read_cases(self._file, self._rubric, strict=False)
        yield from islice(reader, self._limit)
        self.notices = reader.notices


class SetOfCases:
    """The cases of a set version, once `open` has found it; `notices` say what is left out."""

    def __init__(self, reference: str, split: str | None, limit: int | None) -> None:
        self.name, self._split, self._limit = reference, split, limit
        self._found: SetCases | None = None

    def open(self, service: "Service", judge: "Judge") -> None:
        """Find the set. Raises NotFound, InvalidInput without a case, Conflict for a second look at a release split."""
        from judge_service.domain.calibration_set import Split
        from judge_service.sets.judging import cases_to_judge

        split = None if self._split is None else Split(self._split)
        judge_hash = service.judging.judge_hash(judge)
        self._found = cases_to_judge(service.store, self.name, split, judge.name, judge_hash)

    @property
    def found(self) -> "SetCases":
        """The set. Raises LookupError before `open`."""
        if self._found is None:
            raise LookupError(self.name)
        return self._found

    @property
    def source(self) -> str:
        """The source of a run over the set."""
        return self.found.source

    @property
    def notices(self) -> list[str]:
        """What is left out."""
        return self.found.notices

    def __call__(self) -> "Iterator[Case]":
        """The cases, in the set's order."""
        return islice(self.found(), self._limit)


def write_judgments(
    service: "Service", cases: "Cases", rubric: "Rubric[Any]", judge: "Judge", output: Path
) -> "Summary":
    """Write every case's current judgment to `output` in case order, whole or not at all; return the counts.

    A pipe or a device is written as it is: it cannot be replaced, and must not be.
    """
    from judge_service.cli.running import Stopped, Summary, recorded
    from judge_service.runs.exports import judgment_line

    summary = Summary()

    def write(file: TextIO) -> None:
        for judgment in recorded(service, cases, rubric, judge):
            if judgment is None:
                raise Stopped("A case has no judgment. Run the same command again.")
            judgment = service.judging.as_of_now(judgment, judge)
            file.write(judgment_line(judgment))
            summary.add(judgment)

    if output.exists() and not output.is_file():
        with output.open("w", encoding="utf-8", newline="\n") as stream:
            write(stream)
        return summary
    # The file behind a link is replaced, not the link.
    target = output.resolve()
    # A folder of its own would be on another file system; the rename below must not leave a half-written file.
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            write(file)
        Path(name).chmod(0o644)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return summary


def tell(summary: "Summary", output: Path) -> None:
    """Say what came out: outcomes with reasons, the mean with its n, and how far it may be trusted."""
    from judge_service.cli.progress import MARKS

    console = out()
    for name, mark in MARKS.items():
        if summary.outcomes[name]:
            why = ", ".join(
                f"{reason.partition(': ')[2].replace('_', ' ')} {count}"
                for reason, count in sorted(summary.reasons.items())
                if reason.startswith(f"{name}:")
            )
            line = f"{mark} {name.replace('_', ' '):15} {summary.outcomes[name]:>6}  {why}"
            console.print(line.rstrip(), markup=False)
    if summary.scored:
        labels = ", ".join(f"{label} {count}" for label, count in sorted(summary.labels.items()))
        mean = summary.score_sum / summary.scored
        console.print(f"Labels: {labels}", markup=False)
        console.print(f"Mean score {mean:.3f} over {summary.scored} scored of {summary.n} cases", markup=False)
    trust = ", ".join(f"{level} {count}" for level, count in sorted(summary.trust.items()))
    console.print(f"Trust: {trust}", markup=False)
    console.print(f"Written: {output}", markup=False, soft_wrap=True)
