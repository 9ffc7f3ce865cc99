"""Parquet as rows, a batch at a time."""

import math
from collections.abc import Iterator
from datetime import date, time
from decimal import Decimal
from typing import Any, BinaryIO

from judge_service.errors import FieldProblem, InvalidInput
from judge_service.files.rows import JSON_SUFFIX, BadRow, Row
from judge_service.files.strict_json import parse_cell
from judge_service.parquet import pyarrow_parquet

_BATCH = 512
_BUFFER = 1024 * 1024


def read_parquet(file: BinaryIO) -> Iterator[Row | BadRow]:
    """Every row, from 1. Raises InvalidInput for a file that is no Parquet, MissingDependency without the library."""
    parquet = pyarrow_parquet()
    import pyarrow

    number = 0
    try:
        # Buffered, so that a column of a large row group is never held as a whole.
        opened = parquet.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False)
        for batch in opened.iter_batches(batch_size=_BATCH):
            for fields in batch.to_pylist():
                number += 1
                try:
                    row = _row(fields)
                except InvalidInput as error:
                    yield BadRow(number, error)
                else:
                    yield Row(number, row)
    except (pyarrow.ArrowException, OSError) as error:
        where = f" after row {number}" if number else ""
        raise InvalidInput(
            f"The file is no Parquet that can be read{where}: {str(error).splitlines()[0][:200]}",
            fields=[FieldProblem("file", "is no Parquet file")],
        ) from None


def _row(fields: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in fields.items():
        try:
            if not name.endswith(JSON_SUFFIX):
                row[name] = _plain(value)
            elif value is not None:
                row[name.removesuffix(JSON_SUFFIX)] = parse_cell(value)
        except InvalidInput as error:
            raise InvalidInput(fields=[FieldProblem(name, error.fields[0].message)]) from None
    return row


def _plain(value: Any) -> Any:
    """A Parquet value as JSON would have it: NaN is how data frames write what is missing, bytes are text, times too.

    Raises InvalidInput for infinities and for bytes that are no UTF-8.
    """
    if isinstance(value, float):
        if math.isinf(value):
            raise InvalidInput(fields=[FieldProblem("", "is infinite, which is no JSON number")])
        return None if math.isnan(value) else value
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
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
