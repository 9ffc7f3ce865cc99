"""`judge-service judge`: a file of cases through one rubric and one judge, resumable, with progress."""

import asyncio
import os
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from judge_service.cli.console import FAILED, err, note, out, say_json
from judge_service.cli.options import DatabaseOption, JsonOption, settings_for

if TYPE_CHECKING:
    from judge_service.app import Service
    from judge_service.cli.running import Cases, Summary
    from judge_service.domain.case import Case
    from judge_service.domain.judge import Judge
    from rubrics.model import Rubric


def judge(
    rubric: Annotated[str, typer.Argument(help="Rubric, such as pairwise@1. Without @version: the newest.")],
    cases: Annotated[
        Path, typer.Argument(metavar="CASES.jsonl", exists=True, dir_okay=False, help="One case a line, as JSON.")
    ],
    judge_name: Annotated[
        str, typer.Option("--judge", metavar="NAME", help="Judge, as in `judge-service judges list`.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="OUT.jsonl", dir_okay=False, help="Where to write the judgments, in case order."
        ),
    ],
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
    """Judge a file of cases. What is recorded is not asked again, so the same command goes on after a stop.

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
    if output.exists() and output.samefile(cases):
        raise InvalidInput(fields=[FieldProblem("--output", "is the case file itself, which would be overwritten")])
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    summary = asyncio.run(_judge(settings, found, judge_name, cases, output, limit, concurrency, retry_errors, fresh))
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
    path: Path,
    output: Path,
    limit: int | None,
    concurrency: int | None,
    retry_errors: bool,
    fresh: bool,
) -> "Summary":
    from judge_service.app import Service
    from judge_service.cli.progress import progress_bar
    from judge_service.cli.running import Stopped, identify, judge_all
    from judge_service.errors import InvalidInput

    cases = FileOfCases(path, rubric, limit)
    async with Service.open(settings) as service:
        who = service.roster.get(judge_name)
        service.judging.check(rubric, who)
        work = identify(service, cases, rubric, who)
        if work.n == 0:
            raise InvalidInput(f"{path.name} holds no case, so there is nothing to judge.")
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

    def __init__(self, path: Path, rubric: "Rubric[Any]", limit: int | None) -> None:
        self._path, self._rubric, self._limit = path, rubric, limit
        self.notices: list[str] = []

    @property
    def source(self) -> str:
        """What a run over the file is named after: the file, and never a calibration set."""
        from judge_service.domain.run import OWN_SOURCES

        name = self._path.name
        return f"./{name}" if name.startswith(OWN_SOURCES) else name

    def __call__(self) -> "Iterator[Case]":
        """The cases. Raises InvalidInput naming the bad lines."""
        from judge_service.runs.casefile import read_cases

        with self._path.open("rb") as lines:
            reader = read_cases(lines, self._rubric, strict=False)
            yield from islice(reader, self._limit)
            self.notices = reader.notices


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
