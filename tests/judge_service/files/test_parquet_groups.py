"""A Parquet file is read as far as its rows are asked for, and not as a whole."""

import io
import os

import pyarrow
import pyarrow.parquet

from judge_service.files.parquet import read_parquet
from judge_service.files.rows import Row


class Counting(io.BytesIO):
    """Counts the bytes that are read."""

    n_read = 0

    def read(self, size: int | None = -1) -> bytes:
        got = super().read(size)
        self.n_read += len(got)
        return got


def test_a_row_group_is_read_when_its_rows_are() -> None:
    file = Counting()
    rows = [{"id": str(n), "text": os.urandom(2000).hex()} for n in range(4000)]
    table = pyarrow.Table.from_pylist(rows)
    pyarrow.parquet.write_table(table, file, row_group_size=200, compression="none", use_dictionary=False)
    size = len(file.getvalue())
    found = read_parquet(file)
    first = next(found)
    assert isinstance(first, Row)
    assert first.fields == rows[0]
    at_first = file.n_read
    assert at_first < size / 4
    assert [row.fields["id"] for row in found if isinstance(row, Row)] == [str(n) for n in range(1, 4000)]
    assert size / 2 < file.n_read < 2 * size
