"""What forms of pages have in common: their fields read, and what was refused beside the entries that stay.

Knows no noun of the service.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fastapi import Request
from starlette.datastructures import UploadFile

from judge_service.errors import FieldProblem, InvalidInput, JudgeServiceError, NotFound
from judge_service.gate.sessions import read_form

MOST_LISTED = 50
"""Problems listed on a page; more are counted."""
_FIRST = re.compile(r"[^.\[:]*")


async def text_fields(request: Request, *names: str) -> dict[str, str]:
    """The named text fields of a form; one that is missing is empty. Raises InvalidInput for a file or a double."""
    form = await read_form(request)
    found: dict[str, str] = {}
    for name in names:
        values = form.getlist(name)
        if len(values) > 1 or any(not isinstance(value, str) for value in values):
            raise InvalidInput(fields=[FieldProblem(name, f"{name} must be one text.")])
        # Browsers send line ends as CR LF, whatever was typed.
        found[name] = str(values[0]).replace("\r\n", "\n") if values else ""
    return found


async def text_list(request: Request, name: str) -> tuple[str, ...]:
    """Every value of a field, such as ticked boxes. Raises InvalidInput for a file."""
    values = (await read_form(request)).getlist(name)
    if any(not isinstance(value, str) for value in values):
        raise InvalidInput(fields=[FieldProblem(name, f"{name} must be texts.")])
    return tuple(str(value) for value in values)


async def upload(request: Request, name: str) -> tuple[str, bytes] | None:
    """A file of a form as its name and its content; None when none was chosen. Raises InvalidInput for a text."""
    values = (await read_form(request)).getlist(name)
    if len(values) > 1 or any(not isinstance(value, UploadFile) for value in values):
        raise InvalidInput(fields=[FieldProblem(name, f"{name} must be one file.")])
    for value in values:
        if isinstance(value, UploadFile) and value.filename:
            return value.filename, await value.read()
    return None


@dataclass(frozen=True, slots=True)
class Refused:
    """What was wrong with a form, for its page: a sentence, then each problem with the field it belongs to."""

    status: int = 200
    message: str = ""
    problems: tuple[tuple[str, str], ...] = ()
    more: int = 0

    def __bool__(self) -> bool:
        """True when something was refused."""
        return self.status >= 400

    def of(self, field: str) -> tuple[str, ...]:
        """The problems of one field."""
        return tuple(message for name, message in self.problems if name == field)


NOTHING = Refused()
"""No problem: the form as it is first shown."""


def refused(error: JudgeServiceError, message: str, fields: Iterable[str], otherwise: str) -> Refused:
    """A refusal for a page whose form has these `fields`; problems of anything else are shown at `otherwise`.

    `message` says what is safe. Raises the error again where no entry can mend it: unknown things, and what is ours.
    """
    if error.status >= 500 or isinstance(error, NotFound):
        raise error
    known = set(fields)
    problems = []
    for problem in error.fields or (FieldProblem(otherwise, error.message),):
        name = _FIRST.match(problem.path)
        field = name.group() if name is not None and name.group() in known else otherwise
        # A path that a person did not type says where to look; a sentence that names it already needs no second.
        words = problem.message if problem.path in problem.message or field == problem.path else _placed(problem)
        problems.append((field, words))
    return Refused(error.status, message, tuple(problems[:MOST_LISTED]), max(0, len(problems) - MOST_LISTED))


def _placed(problem: FieldProblem) -> str:
    return f"{problem.path}: {problem.message}" if problem.path else problem.message


def whole_number(fields: Mapping[str, str], name: str, low: int, high: int, words: str) -> int:
    """A whole number that was typed. Raises InvalidInput with the field's `words` for anything else."""
    text = fields[name].strip()
    if not re.fullmatch(r"[0-9]{1,12}", text) or not low <= int(text) <= high:
        message = f"{words} must be a whole number from {low:,} to {high:,}."
        raise InvalidInput(message, fields=[FieldProblem(name, message)])
    return int(text)
