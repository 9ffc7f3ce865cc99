"""Cases as they stand in a request: fields of the rubric's case model flat, or under `input`.

What a case may look like is the case file's rule; here its problems get the paths of the request.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from judge_service.domain.canonical import content_hash
from judge_service.domain.case import Case
from judge_service.errors import FieldProblem, InvalidInput
from judge_service.judging.cases import read_case
from judge_service.runs.case_shape import shape_case
from rubrics.model import Rubric

_MOST_PROBLEMS = 50


def _named(case: Case) -> Case:
    """The case with an id: without one it is named after its content, so that sent twice it is the same case."""
    if case.id:
        return case
    return case.model_copy(update={"id": f"case-{content_hash([case.input, case.group, case.metadata])[:16]}"})


def _moved(problem: FieldProblem, place: str) -> FieldProblem:
    own = problem.path.removeprefix("case").removeprefix(".")
    path = place if not own else f"{place}{own}" if own.startswith("[") else f"{place}.{own}"
    message = problem.message if problem.message.startswith(path) else f"{path}: {problem.message}"
    return FieldProblem(path, message)


def _read(raw: Any, rubric: Rubric[Any], place: str) -> Case:
    if not isinstance(raw, Mapping):
        raise InvalidInput(fields=[FieldProblem(place, f"{place} must be an object with the fields of a case")])
    try:
        case = _named(shape_case(raw, rubric, strict=True))
        read_case(rubric, case)
    except InvalidInput as error:
        problems = [_moved(problem, place) for problem in error.fields]
        raise InvalidInput(problems[0].message if problems else error.message, fields=problems) from None
    return case


def case_in(raw: Mapping[str, Any], rubric: Rubric[Any]) -> Case:
    """The case in a request. Raises InvalidInput with paths below `case`."""
    return _read(raw, rubric, "case")


def cases_in(raw: Sequence[Any], rubric: Rubric[Any]) -> list[Case]:
    """The cases of a request, all of them or none. Raises InvalidInput with paths such as `cases[3].answer`."""
    cases: list[Case] = []
    problems: list[FieldProblem] = []
    places: dict[str, int] = {}
    for index, item in enumerate(raw):
        place = f"cases[{index}]"
        try:
            case = _read(item, rubric, place)
        except InvalidInput as error:
            problems.extend(error.fields)
        else:
            earlier = places.setdefault(case.id, index)
            if earlier != index:
                message = f"{place}.id: the id {case.id!a} is the one of cases[{earlier}] already."
                problems.append(FieldProblem(f"{place}.id", message))
            cases.append(case)
        if len(problems) >= _MOST_PROBLEMS:
            break
    if problems:
        raise InvalidInput(problems[0].message, fields=problems)
    return cases
