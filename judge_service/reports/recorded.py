"""Reads recorded pairwise verdicts and the human labels they are held against.

Owns the two file shapes (cases with labels, verdicts by position shown), their checks and the join. Computes
nothing: the arrays go to `reports.dataset`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from judge_service.errors import FieldProblem, InvalidInput
from rubrics.records import Order, Slot

Answer = Literal["A", "B", "tie"]
"""A verdict in the caller's frame, or a human label."""

SHOWN_PROBLEMS = 20
"""How many bad lines an error lists before it only counts them."""

DEFAULT_STRATEGY = "default"
"""Strategy of a verdict line that names none."""


class LabelledCase(BaseModel):
    """One line of a case file. Fields that the join does not need are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    id: str = Field(min_length=1)
    group: str | None = None
    human_label: Answer | None = None


class RecordedVerdict(BaseModel):
    """One line of a verdict file. `verdict` is by the position shown; null: the judge's reply was not readable."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    case_id: str = Field(min_length=1)
    judge: str = Field(min_length=1)
    strategy: str = Field(default=DEFAULT_STRATEGY, min_length=1)
    order: Order
    verdict: Slot | None


@dataclass(frozen=True, slots=True)
class VerdictSeries:
    """One judge under one strategy on the labelled cases of one group.

    The tuples run over the same cases. `ab` and `ba` hold the answer that each order's verdict stands for, None
    where there is none; `ab` or `ba` is None when no verdict of that order was recorded at all. `missing_ab` and
    `missing_ba` count cases without a line; they stand in the tuples as None, like an unreadable reply.
    """

    group: str | None
    judge: str
    strategy: str
    human: tuple[Answer, ...]
    ab: tuple[Answer | None, ...] | None
    ba: tuple[Answer | None, ...] | None
    missing_ab: int = 0
    missing_ba: int = 0


@dataclass(frozen=True, slots=True)
class Recorded:
    """What two files hold together.

    `unknown` are (line, case id) of verdicts whose case is not in the case file; they are in no series.
    `unlabelled` counts cases without a human label; they are in no series either.
    """

    series: tuple[VerdictSeries, ...]
    cases: int
    verdicts: int
    unlabelled: int
    unknown: tuple[tuple[int, str], ...] = field(default=())


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise ValueError(f"the key {key!r} stands twice")
        seen[key] = value
    return seen


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def read_objects(lines: Iterable[bytes], source: str, problems: list[FieldProblem]) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number from 1, object) for each line that holds one JSON object; others are added to `problems`.

    Lines end in a newline only: texts hold other separators. Blank lines are skipped.
    """
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            if not text.strip():
                continue
            value = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            why = "is not UTF-8" if isinstance(error, UnicodeDecodeError) else f"is not one JSON object: {error}"
            problems.append(FieldProblem(f"{source} line {number}", why))
            continue
        if not isinstance(value, dict):
            problems.append(FieldProblem(f"{source} line {number}", "is not a JSON object"))
            continue
        yield number, value


def _field_problems(error: ValidationError, source: str, number: int) -> Iterator[FieldProblem]:
    for item in error.errors(include_url=False):
        where = ".".join(str(part) for part in item["loc"])
        message = item["msg"]
        if item["type"] == "missing":
            message = "is missing"
        elif item["type"] in ("literal_error", "string_type"):
            message = f"{message}. Found {json.dumps(item['input'], ensure_ascii=False)[:60]}"
        yield FieldProblem(f"{source} line {number}: {where}", message)


def _refuse(problems: list[FieldProblem], what: str) -> None:
    if not problems:
        return
    shown = problems[:SHOWN_PROBLEMS]
    more = len(problems) - len(shown)
    raise InvalidInput(
        f"The {what} has {len(problems)} problem{'s' if len(problems) != 1 else ''}; nothing was counted."
        + (f" The first {SHOWN_PROBLEMS} are listed." if more else ""),
        fields=shown,
    )


def read_labelled_cases(lines: Iterable[bytes], source: str = "cases") -> dict[str, LabelledCase]:
    """Cases by id, in file order. Raises InvalidInput with line numbers for bad lines and doubled ids."""
    problems: list[FieldProblem] = []
    cases: dict[str, LabelledCase] = {}
    first_line: dict[str, int] = {}
    for number, value in read_objects(lines, source, problems):
        try:
            case = LabelledCase.model_validate(value)
        except ValidationError as error:
            problems.extend(_field_problems(error, source, number))
            continue
        if case.id in cases:
            problems.append(
                FieldProblem(f"{source} line {number}: id", f"{case.id!r} stands on line {first_line[case.id]} already")
            )
            continue
        cases[case.id] = case
        first_line[case.id] = number
    _refuse(problems, "case file")
    if not cases:
        raise InvalidInput("The case file holds no case.", fields=[FieldProblem(source, "holds no line with a case")])
    return cases


def answer_of(verdict: Slot | None, order: Order) -> Answer | None:
    """The answer that a verdict by position stands for: with order BA, `first` is B."""
    if verdict is None or verdict == "tie":
        return verdict
    return "A" if (verdict == "first") == (order == "AB") else "B"


def read_recorded(
    cases: Mapping[str, LabelledCase], lines: Iterable[bytes], source: str = "verdicts"
) -> Recorded:
    """Join verdict lines to labelled cases: one series per group, judge and strategy, sorted by these.

    Raises InvalidInput with line numbers for bad lines and for a second verdict of the same case, judge, strategy
    and order. A verdict whose case is unknown is listed, not counted.
    """
    problems: list[FieldProblem] = []
    unknown: list[tuple[int, str]] = []
    table: dict[tuple[str, str, str], dict[tuple[str, Order], tuple[int, Slot | None]]] = {}
    total = 0
    for number, value in read_objects(lines, source, problems):
        try:
            line = RecordedVerdict.model_validate(value)
        except ValidationError as error:
            problems.extend(_field_problems(error, source, number))
            continue
        total += 1
        case = cases.get(line.case_id)
        if case is None:
            unknown.append((number, line.case_id))
            continue
        if case.human_label is None:
            continue
        # A missing group sorts first and is kept apart from a group named "".
        key = ("" if case.group is None else f"g{case.group}", line.judge, line.strategy)
        verdicts = table.setdefault(key, {})
        earlier = verdicts.get((line.case_id, line.order))
        if earlier is not None:
            problems.append(
                FieldProblem(
                    f"{source} line {number}",
                    f"a second verdict of {line.judge} ({line.strategy}) on {line.case_id}, order {line.order}; "
                    f"the first is on line {earlier[0]}",
                )
            )
            continue
        verdicts[(line.case_id, line.order)] = (number, line.verdict)
    _refuse(problems, "verdict file")

    members: dict[str, list[LabelledCase]] = {}
    for case in cases.values():
        if case.human_label is not None:
            members.setdefault("" if case.group is None else f"g{case.group}", []).append(case)
    series = tuple(
        _series(members[key[0]], judge=key[1], strategy=key[2], verdicts=verdicts)
        for key, verdicts in sorted(table.items())
    )
    return Recorded(
        series=series,
        cases=len(cases),
        verdicts=total,
        unlabelled=sum(case.human_label is None for case in cases.values()),
        unknown=tuple(unknown),
    )


def _series(
    members: list[LabelledCase],
    *,
    judge: str,
    strategy: str,
    verdicts: Mapping[tuple[str, Order], tuple[int, Slot | None]],
) -> VerdictSeries:
    def answers(order: Order) -> tuple[tuple[Answer | None, ...] | None, int]:
        lines = [verdicts.get((case.id, order)) for case in members]
        if all(line is None for line in lines):
            return None, 0
        found = tuple(None if line is None else answer_of(line[1], order) for line in lines)
        return found, sum(line is None for line in lines)

    ab, missing_ab = answers("AB")
    ba, missing_ba = answers("BA")
    return VerdictSeries(
        group=members[0].group,
        judge=judge,
        strategy=strategy,
        human=tuple(case.human_label for case in members if case.human_label is not None),
        ab=ab,
        ba=ba,
        missing_ab=missing_ab,
        missing_ba=missing_ba,
    )
