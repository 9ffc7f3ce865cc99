"""What a lead types to open a project, read from its text: cases with a known answer, a day on which it is due.

Owns the reading only; what a project may be is `projects`'.
"""

import json
from datetime import UTC, date, datetime, time
from typing import Any

from judge_service.errors import FieldProblem, InvalidInput


def known_answers(text: str) -> list[Any]:
    """One JSON value a line; blank lines are passed over. Raises InvalidInput on `qualification`, naming the line."""
    found = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            one = json.loads(line)
        except (ValueError, RecursionError):
            message = f"Line {number} of the known answers is not a JSON object."
            raise InvalidInput(message, fields=[FieldProblem("qualification", message)]) from None
        found.append(one)
    return found


def end_of(text: str) -> datetime | None:
    """The end of a day in UTC; None for no text. Raises InvalidInput on `due_at` for what is no date."""
    if not text.strip():
        return None
    try:
        day = date.fromisoformat(text.strip())
    except ValueError:
        message = "The due date must be a date such as 2026-05-31."
        raise InvalidInput(message, fields=[FieldProblem("due_at", message)]) from None
    return datetime.combine(day, time(23, 59), UTC)
