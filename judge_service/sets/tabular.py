"""Files as rows: JSON lines, CSV and Parquet, each row a mapping of names to values with its number.

Owns encodings, delimiters and the marks of our own CSV exports. Knows nothing of cases and labels.
"""

import codecs
import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath
from typing import Any, BinaryIO

from judge_service.cells import guard, unguard
from judge_service.errors import FieldProblem, InvalidInput
from judge_service.parquet import pyarrow_parquet
from judge_service.runs.casefile import parse_line

JSON_SUFFIX = ":json"
"""A CSV column of this ending holds JSON in every cell; an empty cell holds nothing at all."""
SAFE_COLUMN = "cells"
SAFE_VALUE = "safe"
"""Our spreadsheet-safe CSV ends with a column that says so: only then is an apostrophe taken off on reading."""

DELIMITERS = ",;\t|"
_NULL_WHEN_EMPTY = frozenset({"group", "split"})
"""Columns of which an empty cell says that there is none; elsewhere it may be an empty text."""
MAX_CELL = 16 * 1024 * 1024
MAX_LINE = 64 * 1024 * 1024
"""Longest cell, and longest line of JSON, in characters or bytes."""
_SAMPLE = 64 * 1024
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SEPARATOR_LINE = re.compile(r'"?sep=(.|\\t)"?\r?\n?', re.IGNORECASE)


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
class Source:
    """A file that can be read more than once: `open` gives it from the start, as bytes.

    `encoding` and `delimiter` are for CSV; None finds them out.
    """

    name: str
    open: Callable[[], BinaryIO]
    kind: FileKind
    encoding: str | None = None
    delimiter: str | None = None

    def rows(self) -> Iterator[Row]:
        """Every row, as a stream. Raises InvalidInput at the first that cannot be read, naming its number."""
        with self.open() as file:
            yield from _READERS[self.kind](file, self)


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


def _bad(number: int, message: str, unit: str = "line") -> InvalidInput:
    return InvalidInput(f"{unit} {number}: {message}", fields=[FieldProblem(f"{unit} {number}", message)])


def on_row(source: Source, number: int, error: InvalidInput) -> list[FieldProblem]:
    """The problems of one row, each with the row's number in its path."""
    unit = unit_of(source)
    problems = [
        FieldProblem(f"{unit} {number}: {problem.path}" if problem.path else f"{unit} {number}", problem.message)
        for problem in error.fields
    ]
    return problems or [FieldProblem(f"{unit} {number}", error.message)]


def unit_of(source: Source) -> str:
    """What a row's number counts."""
    return "line" if source.kind is FileKind.JSONL else "record" if source.kind is FileKind.CSV else "row"


def _jsonl(file: BinaryIO, _source: Source) -> Iterator[Row]:
    number = 0
    while line := file.readline(MAX_LINE):
        number += 1
        if number == 1:
            if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise _bad(1, "the file is UTF-16; save it as UTF-8")
            line = line.removeprefix(codecs.BOM_UTF8)
        if len(line) == MAX_LINE:
            raise _bad(number, f"is longer than {MAX_LINE} bytes")
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _bad(number, f"is not UTF-8 at byte {error.start + 1}") from None
        if not text.strip(" \t\r\n"):
            continue
        try:
            yield Row(number, parse_line(text))
        except InvalidInput as error:
            problem = error.fields[0]
            raise _bad(number, f"{problem.path}: {problem.message}" if problem.path else problem.message) from None


def _csv(file: BinaryIO, source: Source) -> Iterator[Row]:
    head = file.read(_SAMPLE)
    encoding = source.encoding or next((name for mark, name in _BOMS if head.startswith(mark)), "utf-8-sig")
    try:
        # Refuses what is unknown and codecs that are not of texts (base64, zlib).
        io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        known = True
    except (LookupError, ValueError):
        known = False
    if not known:
        raise InvalidInput(f"There is no encoding {encoding!r}.", fields=[FieldProblem("encoding", "is not known")])
    if source.delimiter is not None and source.delimiter in '\r\n"\0':
        raise InvalidInput(
            "A delimiter is no quote, no line end and no NUL.",
            fields=[FieldProblem("delimiter", "cannot delimit cells")],
        )
    if source.encoding is None and encoding == "utf-8-sig" and 4 * head[:256].count(0) > len(head[:256]):
        raise _bad(1, "the file is full of NUL bytes, as UTF-16 is: save it as UTF-8, or name its encoding", "record")
    file.seek(0)
    if csv.field_size_limit() < MAX_CELL:
        csv.field_size_limit(MAX_CELL)
    # The texts keep their own line ends: newline="" leaves them to the CSV reader.
    text = io.TextIOWrapper(file, encoding=encoding, newline="")
    number = 1
    try:
        first = text.readline()
        # The line that a spreadsheet program writes to itself; it is no record.
        told = _SEPARATOR_LINE.fullmatch(first)
        if told is not None:
            first = text.readline()
        delimiter = source.delimiter or (_delimiter(first) if told is None else told[1].replace("\\t", "\t"))
        rest = iter(text.readline, "")
        reader = csv.reader(_chain(first, rest), delimiter=delimiter, strict=True)
        header = next(reader, None)
        if header is None:
            return
        names = [name.strip() for name in header]
        _check_header(names)
        safe = bool(names) and names[-1] == SAFE_COLUMN
        for cells in reader:
            number += 1
            if not cells:
                number -= 1
                continue
            if len(cells) != len(names):
                near = f"near line {reader.line_num} of the file"
                raise _bad(number, f"has {len(cells)} cells where the header has {len(names)} ({near})", "record")
            if safe and cells[-1] == SAFE_VALUE:
                cells = [unguard(cell) for cell in cells]
            yield Row(number, _cells(names[:-1] if safe else names, cells, number))
    except UnicodeError as error:
        wanted = "name its encoding (for example cp1252)" if source.encoding is None else "name another encoding"
        message = f"the file is not {encoding.removesuffix('-sig')} at a byte after record {number}: {wanted}"
        reason = error.reason if isinstance(error, UnicodeDecodeError) else error
        raise _bad(number, f"{message} ({reason})", "record") from None
    except csv.Error as error:
        raise _bad(number + 1, f"is no CSV: {error}", "record") from None
    finally:
        text.detach()


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    if first:
        yield first
        yield from rest


def _delimiter(header: str) -> str:
    counts = dict.fromkeys(DELIMITERS, 0)
    quoted = False
    for character in header:
        if character == '"':
            quoted = not quoted
        elif not quoted and character in counts:
            counts[character] += 1
    best = max(counts, key=lambda one: counts[one])
    return best if counts[best] else ","


def _check_header(names: list[str]) -> None:
    empty = [place for place, name in enumerate(names, start=1) if not name]
    if empty:
        raise _bad(1, f"column {empty[0]} has no name", "record")
    doubled = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if doubled:
        raise _bad(1, f"the column {doubled[0]!r} is there twice", "record")


def _cells(names: list[str], cells: list[str], number: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, cell in zip(names, cells, strict=False):
        if name in _NULL_WHEN_EMPTY:
            fields[name] = cell or None
        elif not name.endswith(JSON_SUFFIX):
            fields[name] = cell
        elif cell:
            try:
                fields[name.removesuffix(JSON_SUFFIX)] = parse_line(f'{{"cell":{cell}}}')["cell"]
            except (InvalidInput, KeyError) as error:
                why = error.fields[0].message if isinstance(error, InvalidInput) and error.fields else "is not JSON"
                raise _bad(number, f"{name}: {why}", "record") from None
    return fields


def _parquet(file: BinaryIO, _source: Source) -> Iterator[Row]:
    parquet = pyarrow_parquet()
    import pyarrow

    try:
        opened = parquet.ParquetFile(file)
        number = 0
        for batch in opened.iter_batches(batch_size=512):
            for fields in batch.to_pylist():
                number += 1
                row: dict[str, Any] = {}
                for name, value in fields.items():
                    try:
                        if not name.endswith(JSON_SUFFIX):
                            row[name] = _plain(value)
                        elif value is not None:
                            row[name.removesuffix(JSON_SUFFIX)] = parse_line(f'{{"cell":{value}}}')["cell"]
                    except (InvalidInput, KeyError) as error:
                        told = isinstance(error, InvalidInput) and error.fields
                        raise _bad(number, f"{name}: {told[0].message if told else 'is not JSON'}", "row") from None
                yield Row(number, row)
    except pyarrow.ArrowException as error:
        raise InvalidInput(
            f"The file is no Parquet that can be read: {str(error).splitlines()[0][:200]}",
            fields=[FieldProblem("file", "is no Parquet file")],
        ) from None


def _plain(value: Any) -> Any:
    """A Parquet value as JSON would have it: NaN is how data frames write what is missing, bytes are text.

    Raises InvalidInput for infinities and for bytes that are no UTF-8.
    """
    if isinstance(value, float):
        if math.isinf(value):
            raise InvalidInput(fields=[FieldProblem("", "is infinite, which is no JSON number")])
        return None if math.isnan(value) else value
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidInput(fields=[FieldProblem("", "holds bytes that are no UTF-8 text")]) from None
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value


_READERS: dict[FileKind, Callable[[BinaryIO, Source], Iterator[Row]]] = {
    FileKind.JSONL: _jsonl,
    FileKind.CSV: _csv,
    FileKind.PARQUET: _parquet,
}


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
