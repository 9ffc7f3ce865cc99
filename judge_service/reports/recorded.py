"""Reads recorded pairwise verdicts and the human labels they are held against.

Owns the two file shapes (cases with labels, verdicts by position shown), their checks and the join. Computes
nothing.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from judge_service.errors import FieldProblem, InvalidInput
from rubrics.records import Order, Slot

Answer = Literal["A", "B", "tie"]
"""A verdict in the caller's frame, or a human label."""

SHOWN_PROBLEMS = 20
"""How many bad lines an error lists before it only counts them."""

DEFAULT_STRATEGY = "default"
"""Strategy of a verdict line that names none."""


def _number_as_text(value: Any) -> Any:
    # A case file may number its cases; a judgment then carries the id as text.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


CaseId = Annotated[str, BeforeValidator(_number_as_text), Field(min_length=1)]
"""A case's id; a whole number is the same id as its digits."""


class LabelledCase(BaseModel):
    """One line of a case file. Fields that the join does not need are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    id: CaseId
    group: str | None = None
    cluster: str | None = None
    """Names cases that are not independent, such as those of one prompt. None: the case stands alone."""
    human_label: Answer | None = None


class RecordedVerdict(BaseModel):
    """One line of a verdict file. `verdict` is by the position shown; null: the judge's reply was not readable."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    case_id: CaseId
    judge: str = Field(min_length=1)
    strategy: str = Field(default=DEFAULT_STRATEGY, min_length=1)
    order: Order
    verdict: Slot | None


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """A verdict with the number of the line that recorded it, counted from 1."""

    number: int
    verdict: RecordedVerdict


@dataclass(frozen=True, slots=True)
class Recorded:
    """What two files hold together.

    `labelled` are the cases with a human label, in file order; `verdicts` those that belong to one of them.
    `unknown` are verdicts of cases that the case file does not list, `unlabelled` counts cases without a label:
    neither is in any figure.
    """

    labelled: tuple[LabelledCase, ...]
    verdicts: tuple[VerdictLine, ...]
    cases: int
    unlabelled: int
    unknown: tuple[VerdictLine, ...]


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise ValueError(f"the key {key!r} stands twice")
        seen[key] = value
    return seen


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def read_objects(
    lines: Iterable[bytes], source: str, problems: list[FieldProblem]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number from 1, object) for each line that holds one JSON object; others are added to `problems`.

    Lines end in a newline only: texts hold other separators. Blank lines are skipped.
    """
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            if not text.strip():
                continue
            value = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_no_constant)
            if "\\ud" in text.lower():
                json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            problems.append(FieldProblem(f"{source} line {number}", "holds half of a surrogate pair"))
            continue
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


def _verdict_objects(
    lines: Iterable[bytes], source: str, problems: list[FieldProblem]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Verdict lines as they are; a judgment as `judge-service judge` writes it gives one for each order asked.

    A case that ended before anything was asked, such as an empty pair, gives none and so counts as missing.
    """
    for number, value in read_objects(lines, source, problems):
        if "identity" not in value or "outcome" not in value:
            yield number, value
            continue
        record = value.get("record")
        readings: Mapping[str, Any] = record if isinstance(record, dict) else {}
        calls = value.get("calls")
        orders = [call.get("order") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
        asked = [order for order in ("AB", "BA") if order in orders]
        if not asked and (value["outcome"] == "scored" or orders):
            problems.append(FieldProblem(f"{source} line {number}", "is a judgment, but not of a pair that was asked"))
        for order in asked:
            reading = readings.get(order.lower())
            yield (
                number,
                {
                    "case_id": value.get("case_id"),
                    "judge": value.get("judge"),
                    "strategy": value.get("rubric"),
                    "order": order,
                    "verdict": reading.get("slot") if isinstance(reading, dict) else None,
                },
            )


def read_recorded(cases: Mapping[str, LabelledCase], lines: Iterable[bytes], source: str = "verdicts") -> Recorded:
    """Verdict lines beside the labelled cases they belong to.

    Raises InvalidInput with line numbers for bad lines and for a second verdict of the same case, judge, strategy
    and order: which of the two counts is not ours to guess.
    """
    problems: list[FieldProblem] = []
    known: list[VerdictLine] = []
    unknown: list[VerdictLine] = []
    first_line: dict[tuple[str, str, str, Order], int] = {}
    for number, value in _verdict_objects(lines, source, problems):
        try:
            verdict = RecordedVerdict.model_validate(value)
        except ValidationError as error:
            problems.extend(_field_problems(error, source, number))
            continue
        case = cases.get(verdict.case_id)
        if case is None:
            unknown.append(VerdictLine(number, verdict))
            continue
        key = (verdict.case_id, verdict.judge, verdict.strategy, verdict.order)
        earlier = first_line.setdefault(key, number)
        if earlier != number:
            what = f"{verdict.judge} ({verdict.strategy}) on {verdict.case_id}, order {verdict.order}"
            problems.append(
                FieldProblem(f"{source} line {number}", f"a second verdict of {what}; the first is on line {earlier}")
            )
        elif case.human_label is not None:
            known.append(VerdictLine(number, verdict))
    _refuse(problems, "verdict file")
    labelled = tuple(case for case in cases.values() if case.human_label is not None)
    return Recorded(
        labelled=labelled,
        verdicts=tuple(known),
        cases=len(cases),
        unlabelled=len(cases) - len(labelled),
        unknown=tuple(unknown),
    )
