"""What a file of rows is: its kind, and a row with its number. Knows nothing of how files are read."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from judge_service.errors import FieldProblem, InvalidInput

JSON_SUFFIX = ":json"
"""A CSV or Parquet column of this ending holds JSON in every cell; an empty cell holds nothing at all."""
SAFE_COLUMN = "cells"
SAFE_VALUE = "safe"
"""Our spreadsheet-safe CSV ends with a column that says so: only then is an apostrophe taken off on reading."""


class FileKind(StrEnum):
    """How a file holds its rows."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class Row:
    """One record. `number` counts lines of a JSONL file, records of CSV (the header is 1) and rows of Parquet."""

    number: int
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be read; the rows after it can. The paths of `error` are those of its own fields."""

    number: int
    error: InvalidInput


def bad(number: int, message: str, unit: str = "line") -> InvalidInput:
    """The refusal of a file at one of its rows."""
    return InvalidInput(f"{unit} {number}: {message}", fields=[FieldProblem(f"{unit} {number}", message)])
