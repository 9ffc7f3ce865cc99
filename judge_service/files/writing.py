"""Rows as text: JSON as it stands in a line or a cell, and CSV with columns that are read back exactly."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from judge_service.cells import guard
from judge_service.files.rows import JSON_SUFFIX, SAFE_COLUMN, SAFE_VALUE


@dataclass(slots=True)
class Column:
    """A column being planned: text while every value is a text, else JSON in each cell.

    `optional`: an empty cell means null rather than the empty text.
    """

    name: str
    optional: bool = False
    text: bool = True
    seen: int = field(default=0)

    def look(self, value: Any) -> None:
        """Note one row's value."""
        self.seen += 1
        if not isinstance(value, str):
            self.text = self.text and self.optional and value is None
        elif not value and self.optional:
            self.text = False

    def settle(self, rows: int) -> None:
        """All rows were looked at: where some had no value at all, cells are JSON so that nothing is not empty."""
        if self.seen < rows and not self.optional:
            self.text = False

    @property
    def title(self) -> str:
        """The column's name in the header."""
        return self.name if self.text else self.name + JSON_SUFFIX

    def cell(self, present: bool, value: Any) -> str:
        """The cell of one row."""
        if not present or (self.text and value is None):
            return ""
        return value if self.text else dump(value)


def dump(value: Any) -> str:
    """JSON as it stands in a line or a cell: no spaces, characters kept, surrogate halves escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text if text.isascii() or _encodes(text) else json.dumps(value, allow_nan=False, separators=(",", ":"))


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def csv_lines(header: list[str], rows: Iterable[list[str | int | float]], *, safe: bool) -> Iterator[str]:
    """CSV, records ended by CR LF. `safe` guards text cells; numbers stay as they are."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\r\n")

    def flush(record: list[str | int | float]) -> str:
        writer.writerow(record)
        text = buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
        return text

    yield flush([*header, SAFE_COLUMN] if safe else list(header))
    for row in rows:
        cells = [guard(cell) if safe and isinstance(cell, str) else cell for cell in row]
        yield flush([*cells, SAFE_VALUE] if safe else cells)
