"""`judge-service agreement`: recorded pairwise verdicts held against human labels."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from judge_service.cli.console import FAILED, note, out, say_json
from judge_service.cli.options import JsonOption

_FILE = {"exists": True, "dir_okay": False, "readable": True}


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file


def agreement(
    cases: Annotated[Path, typer.Argument(metavar="CASES.jsonl", help="Cases with human labels.", **_FILE)],
    verdicts: Annotated[Path, typer.Argument(metavar="VERDICTS.jsonl", help="Recorded verdicts by position shown.", **_FILE)],
    as_json: JsonOption = False,
) -> None:
    """Agreement of recorded judges with people: one row per group, judge and strategy."""
    from judge_service.reports.agreement import agreement_rows
    from judge_service.reports.recorded import read_labelled_cases, read_recorded

    labelled = read_labelled_cases(_lines(cases), cases.name)
    recorded = read_recorded(labelled, _lines(verdicts), verdicts.name)
    if recorded.unknown:
        number, case_id = recorded.unknown[0]
        note(
            f"Not counted: {len(recorded.unknown)} verdicts of cases that {cases.name} does not list "
            f"(first: line {number}, {case_id!r})."
        )
    if recorded.unlabelled:
        note(f"Not counted: {recorded.unlabelled} of {recorded.cases} cases carry no human label.")
    if not recorded.series:
        note("Error: no verdict joins a labelled case, so there is nothing to compare. Check `case_id` against `id`.")
        raise typer.Exit(FAILED)
    rows = agreement_rows(recorded)
    if as_json:
        say_json(rows)
        return
    from judge_service.cli.tables import agreement_table

    console = out()
    console.print(agreement_table(rows))
    console.print(AGREEMENT_NOTES, markup=False)
