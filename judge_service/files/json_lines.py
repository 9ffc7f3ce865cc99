"""JSON lines as rows: UTF-8, one object a line, each read on its own so that one bad line does not hide the others."""

import codecs
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from judge_service.errors import FieldProblem, InvalidInput
from judge_service.files.rows import BadRow, Row, bad
from judge_service.files.strict_json import parse_line

MAX_LINE = 64 * 1024 * 1024
"""Longest line of a file, in bytes."""
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file. Raises InvalidInput at one that is too long to be held."""
    number = 0
    while line := file.readline(MAX_LINE):
        number += 1
        if len(line) == MAX_LINE:
            raise bad(number, f"is longer than {MAX_LINE} bytes")
        yield line


def read_json_lines(lines: Iterable[str | bytes] | bytes) -> Iterator[Row | BadRow]:
    """Every line that is not blank: text or bytes as a whole, or lines. `number` counts all lines from 1."""
    for number, raw in enumerate(_split(lines), start=1):
        try:
            text = _text(raw, first=number == 1)
            if text.strip(" \t\r\n"):
                yield Row(number, parse_line(text))
        except InvalidInput as error:
            yield BadRow(number, error)


def _split(lines: Iterable[str | bytes] | bytes) -> Iterator[str | bytes]:
    # Only "\n" ends a line: str.splitlines would cut inside texts that hold U+2028 or a form feed.
    if isinstance(lines, str):
        yield from lines.split("\n")
    elif isinstance(lines, bytes):
        yield from lines.split(b"\n")
    else:
        yield from lines


def _text(raw: str | bytes, *, first: bool) -> str:
    if isinstance(raw, bytes):
        if first and raw[:2] in _UTF16:
            raise InvalidInput(fields=[FieldProblem("", "the file is UTF-16; save it as UTF-8")])
        try:
            raw = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidInput(fields=[FieldProblem("", f"is not UTF-8 at byte {error.start + 1}")]) from None
    return raw.removeprefix("\ufeff") if first else raw
