"""CSV as rows: encodings, delimiters and the marks of our own exports. Texts keep their own line ends."""

import codecs
import csv
import io
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from judge_service.cells import unguard
from judge_service.errors import FieldProblem, InvalidInput
from judge_service.files.rows import JSON_SUFFIX, SAFE_COLUMN, SAFE_VALUE, BadRow, Row, bad
from judge_service.files.strict_json import parse_cell

DELIMITERS = ",;\t|"
_NULL_WHEN_EMPTY = frozenset({"group", "split"})
"""Columns of which an empty cell says that there is none; elsewhere it may be an empty text."""
MAX_CELL = 16 * 1024 * 1024
"""Longest cell, in characters."""
_SAMPLE = 64 * 1024
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SEPARATOR_LINE = re.compile(r'"?sep=(.|\\t)"?\r?\n?', re.IGNORECASE)


def read_csv(file: BinaryIO, named: str | None = None, delimiter: str | None = None) -> Iterator[Row | BadRow]:
    """The records after the header, which is record 1. `named` is the file's encoding; None finds it out.

    Raises InvalidInput for an encoding or a delimiter that is none, and where nothing more can be read.
    """
    head = file.read(_SAMPLE)
    encoding = named or next((name for mark, name in _BOMS if head.startswith(mark)), "utf-8-sig")
    try:
        # Refuses what is unknown and codecs that are not of texts (base64, zlib).
        io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        known = True
    except (LookupError, ValueError):
        known = False
    if not known:
        raise InvalidInput(f"There is no encoding {encoding!r}.", fields=[FieldProblem("encoding", "is not known")])
    if delimiter is not None and delimiter in '\r\n"\0':
        raise InvalidInput(
            "A delimiter is no quote, no line end and no NUL.",
            fields=[FieldProblem("delimiter", "cannot delimit cells")],
        )
    if named is None and encoding == "utf-8-sig" and 4 * head[:256].count(0) > len(head[:256]):
        raise bad(1, "the file is full of NUL bytes, as UTF-16 is: save it as UTF-8, or name its encoding", "record")
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
        delimiter = delimiter or (_delimiter(first) if told is None else told[1].replace("\\t", "\t"))
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
                wrong = f"has {len(cells)} cells where the header has {len(names)} ({near})"
                yield BadRow(number, InvalidInput(fields=[FieldProblem("", wrong)]))
                continue
            if safe and cells[-1] == SAFE_VALUE:
                cells = [unguard(cell) for cell in cells]
            try:
                fields = _cells(names[:-1] if safe else names, cells)
            except InvalidInput as error:
                yield BadRow(number, error)
            else:
                yield Row(number, fields)
    except UnicodeError as error:
        wanted = "name its encoding (for example cp1252)" if named is None else "name another encoding"
        message = f"the file is not {encoding.removesuffix('-sig')} at a byte after record {number}: {wanted}"
        reason = error.reason if isinstance(error, UnicodeDecodeError) else error
        raise bad(number, f"{message} ({reason})", "record") from None
    except csv.Error as error:
        raise bad(number + 1, f"is no CSV: {error}", "record") from None
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
        raise bad(1, f"column {empty[0]} has no name", "record")
    # `x:json` gives the field x, as the column `x` does.
    names = [name.removesuffix(JSON_SUFFIX) for name in names]
    doubled = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if doubled:
        raise bad(1, f"the column {doubled[0]!r} is there twice", "record")


def _cells(names: list[str], cells: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, cell in zip(names, cells, strict=False):
        if name in _NULL_WHEN_EMPTY:
            fields[name] = cell or None
        elif not name.endswith(JSON_SUFFIX):
            fields[name] = cell
        elif cell:
            try:
                fields[name.removesuffix(JSON_SUFFIX)] = parse_cell(cell)
            except InvalidInput as error:
                raise InvalidInput(fields=[FieldProblem(name, error.fields[0].message)]) from None
    return fields
