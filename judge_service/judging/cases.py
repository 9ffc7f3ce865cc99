"""Reads a case under a rubric: the rubric's own model decides, and refusals name the field."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from judge_service.domain.canonical import canonical_json, text_hash
from judge_service.domain.case import Case
from judge_service.errors import FieldProblem, InvalidInput
from rubrics.model import Rubric
from rubrics.records import CaseInput


def field_path(parts: tuple[int | str, ...]) -> str:
    """`("contexts", 0, "text")` as `contexts[0].text`."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path


def field_problems(error: ValidationError, prefix: str = "") -> tuple[FieldProblem, ...]:
    """Every problem of a validation error with its path, without echoing the input."""
    problems = []
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        path = field_path(item["loc"])
        joined = path if not prefix else prefix if not path else f"{prefix}.{path}"
        problems.append(FieldProblem(joined or "body", str(item["msg"])))
    return tuple(problems)


def is_of(case: Case, case_hash: str, rubric: Rubric[Any]) -> bool:
    """Whether a judgment with this hash is of this content: as it was given, or as the rubric reads it."""
    if case_hash == case.content_hash:
        return True
    try:
        return case_hash == read_case(rubric, case).case_hash
    except InvalidInput:
        return False


def parse_case(rubric: Rubric[Any], case: Case) -> CaseInput:
    """The case as the rubric's model. Raises InvalidInput with paths such as `case.contexts[0]`."""
    try:
        return rubric.case_model.model_validate(case.input)
    except ValidationError as error:
        problems = field_problems(error, "case")
        names = ", ".join(sorted({problem.path for problem in problems})[:5])
        raise InvalidInput(
            f"Case {case.id!r} does not fit {rubric.id}: see {names}.", fields=problems, extra={"case_id": case.id}
        ) from None


@dataclass(frozen=True, slots=True)
class CaseReading:
    """A case as a rubric reads it: the record, dumped with its defaults, and as canonical JSON (`inputs`).

    `case_hash`, over `inputs`, is the content hash that a judgment carries.
    """

    parsed: CaseInput
    dumped: Mapping[str, Any]
    inputs: str
    case_hash: str


def read_case(rubric: Rubric[Any], case: Case) -> CaseReading:
    """The case as the rubric reads it; kept with the case, which a request checks, names and judges in turn.

    Raises InvalidInput as `parse_case` does.
    """
    kept = case.reading_of(rubric)
    if isinstance(kept, CaseReading):
        return kept
    parsed = parse_case(rubric, case)
    dumped = parsed.model_dump(mode="json")
    inputs = canonical_json(dumped)
    made = CaseReading(parsed, dumped, inputs, text_hash(inputs))
    case.keep_reading(rubric, made)
    return made


def texts_in(value: Any) -> list[str]:
    """Every text of a case that was dumped, in its order, however deep."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for part in value.values() for text in texts_in(part)]
    if isinstance(value, (list, tuple)):
        return [text for part in value for text in texts_in(part)]
    return []
