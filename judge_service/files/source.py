"""A file that is read as rows, as often as is wanted: JSON lines, CSV or Parquet.

Owns how a file's kind is found out and how its rows are numbered. Knows nothing of cases and labels.
"""

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import BinaryIO

from judge_service.errors import FieldProblem, InvalidInput
from judge_service.files.checks import on_row
from judge_service.files.delimited import read_csv
from judge_service.files.json_lines import lines_of, read_json_lines
from judge_service.files.parquet import read_parquet
from judge_service.files.rows import BadRow, FileKind, Row


@dataclass(frozen=True, slots=True)
class Source:
    """A file that can be read more than once: `open` gives it from the start, as bytes.

    `encoding` and `delimiter` are for CSV; None finds them out.
    """

    name: str
    open: Callable[[], BinaryIO]
    kind: FileKind
    encoding: str | None = None
    delimiter: str | None = None

    @property
    def unit(self) -> str:
        """What a row's number counts."""
        return _UNITS[self.kind]

    def rows(self) -> Iterator[Row]:
        """Every row, as a stream. Raises InvalidInput at the first that cannot be read, naming its number."""
        for row in self.readings():
            if isinstance(row, BadRow):
                found = on_row(self.unit, row.number, row.error)
                raise InvalidInput(f"{found[0].path}: {found[0].message}", fields=found)
            yield row

    def readings(self) -> Iterator[Row | BadRow]:
        """Every row, those too that cannot be read where the ones after them can.

        Raises InvalidInput where nothing more can be read, naming the row.
        """
        with self.open() as file:
            if self.kind is FileKind.JSONL:
                yield from read_json_lines(lines_of(file))
            elif self.kind is FileKind.CSV:
                yield from read_csv(file, self.encoding, self.delimiter)
            else:
                yield from read_parquet(file)


_UNITS = {FileKind.JSONL: "line", FileKind.CSV: "record", FileKind.PARQUET: "row"}


def kind_of(name: str, head: bytes = b"") -> FileKind:
    """What a file is, by its name, else by how it begins. Raises InvalidInput when neither tells."""
    suffix = PurePath(name).suffix.lower()
    by_name = {
        ".jsonl": FileKind.JSONL,
        ".ndjson": FileKind.JSONL,
        ".json": FileKind.JSONL,
        ".csv": FileKind.CSV,
        ".tsv": FileKind.CSV,
        ".parquet": FileKind.PARQUET,
    }
    if suffix in by_name:
        return by_name[suffix]
    if head.startswith(b"PAR1"):
        return FileKind.PARQUET
    start = head.lstrip(codecs.BOM_UTF8).lstrip()
    if start.startswith(b"{"):
        return FileKind.JSONL
    if start:
        return FileKind.CSV
    message = "is neither .jsonl, .csv nor .parquet; say which it is"
    raise InvalidInput(f"{name} {message}.", fields=[FieldProblem("kind", message)])
