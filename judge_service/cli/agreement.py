"""`judge-service agreement`: recorded pairwise verdicts held against human labels."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from judge_service.cli.console import FAILED, note, out, say_json
from judge_service.cli.options import JsonOption

NOTES = """\
Percent of the n cases of a group; a verdict that is null or missing counts as wrong and stays in n.
Second line of a cell: 95% interval. Same in both: the two orders name the same answer (two nulls count as the same).
Flips: the two orders name opposite answers; 1st+2nd: how many of them went to the answer shown first, or second.
Kappa: agreement with people beyond chance; 1 perfect, 0 chance; readable verdicts only."""


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file


def agreement(
    cases: Annotated[
        Path, typer.Argument(metavar="CASES.jsonl", exists=True, dir_okay=False, help="Cases with human labels.")
    ],
    verdicts: Annotated[
        Path,
        typer.Argument(
            metavar="VERDICTS.jsonl", exists=True, dir_okay=False, help="Recorded verdicts, by position shown."
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Agreement of recorded judges with people: one row per group, judge and strategy."""
    from judge_service.reports.agreement import agreement_rows
    from judge_service.reports.recorded import read_labelled_cases, read_recorded

    recorded = read_recorded(read_labelled_cases(_lines(cases), cases.name), _lines(verdicts), verdicts.name)
    if recorded.unknown:
        first = recorded.unknown[0]
        note(
            f"Not counted: {len(recorded.unknown)} verdicts of cases that {cases.name} does not list "
            f"(first: line {first.number}, {first.verdict.case_id!r})."
        )
    if recorded.unlabelled:
        note(f"Not counted: {recorded.unlabelled} of {recorded.cases} cases, which carry no human label.")
    if not recorded.verdicts:
        note("Error: no verdict joins a labelled case, so nothing can be compared. Check `case_id` against `id`.")
        raise typer.Exit(FAILED)
    rows = agreement_rows(recorded)
    if as_json:
        say_json(rows)
        return
    from judge_service.cli.tables import agreement_tables

    console = out()
    for table in agreement_tables(rows):
        console.print(table)
        console.print()
    console.print(NOTES, markup=False, style="dim", soft_wrap=True)
