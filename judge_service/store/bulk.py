"""Inserts and lookups of many rows: few statements of many rows each, prepared once.

Owns the SQL text of a plain INSERT and SELECT and how a row becomes parameters. Knows no subject. SQLite gives other
threads the interpreter after every statement and has to wait for it again, so a statement a row is slow beside a busy
thread.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Dialect, Table

from judge_service.store.driver import execute

R = TypeVar("R")
_SIZES = (64, 32, 16, 8, 4, 2, 1)
"""Rows of one statement: few sizes, so that drivers keep them prepared; far below every limit of parameters."""


class BulkInsert:
    """INSERT of full rows into `table`; `ignore` leaves out rows whose key is there already."""

    def __init__(self, table: Table, *, ignore: bool = False) -> None:
        self._table = table
        self._ignore = ignore
        self._columns: dict[str, list[tuple[str, Any]]] = {}
        self._statements: dict[tuple[str, int], str] = {}

    def __call__(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert `rows`, each a mapping with every column by its name. Nothing happens without rows."""
        if not rows:
            return
        dialect = connection.dialect
        columns = self._columns.get(dialect.name) or self._prepare(dialect)
        for batch in _batches(rows):
            values = tuple(
                row[name] if process is None else process(row[name]) for row in batch for name, process in columns
            )
            execute(connection, self._statements[dialect.name, len(batch)], values)

    def _prepare(self, dialect: Dialect) -> list[tuple[str, Any]]:
        quote = dialect.identifier_preparer.quote
        columns = [
            (column.name, column.type.dialect_impl(dialect).bind_processor(dialect)) for column in self._table.columns
        ]
        names = ", ".join(quote(column.name) for column in self._table.columns)
        mark = "?" if dialect.paramstyle == "qmark" else "%s"
        marks = f"({', '.join([mark] * len(columns))})"
        conflict = " ON CONFLICT DO NOTHING" if self._ignore else ""
        for size in _SIZES:
            self._statements[dialect.name, size] = (
                f"INSERT INTO {quote(self._table.name)} ({names}) VALUES {', '.join([marks] * size)}{conflict}"  # noqa: S608
            )
        self._columns[dialect.name] = columns
        return columns


class BulkFind:
    """SELECT of `columns`, read as the driver gives them, from the rows of `table` whose text column `key` is one of
    the keys; `also` is SQL that has to hold besides, with `{mark}` where a value of each call stands.
    """

    def __init__(self, table: Table, columns: Sequence[str], key: str, also: str) -> None:
        self._table = table
        self._names = (columns, key)
        self._also = also
        self._statements: dict[tuple[str, int], str] = {}

    def __call__(self, connection: Connection, keys: Sequence[str], *values: Any) -> Iterator[Sequence[Any]]:
        """The rows found, in no order. `values` are those that `also` takes."""
        dialect = connection.dialect
        if (dialect.name, 1) not in self._statements:
            self._prepare(dialect)
        for batch in _batches(keys):
            yield from execute(connection, self._statements[dialect.name, len(batch)], (*batch, *values))

    def _prepare(self, dialect: Dialect) -> None:
        quote = dialect.identifier_preparer.quote
        columns, key = self._names
        names = ", ".join(map(quote, columns))
        mark = "?" if dialect.paramstyle == "qmark" else "%s"
        for size in _SIZES:
            self._statements[dialect.name, size] = (
                f"SELECT {names} FROM {quote(self._table.name)} "  # noqa: S608
                f"WHERE {quote(key)} IN ({', '.join([mark] * size)}) AND {self._also.format(mark=mark)}"
            )


def _batches(rows: Sequence[R]) -> Iterator[Sequence[R]]:
    start = 0
    for size in _SIZES:
        while len(rows) - start >= size:
            yield rows[start : start + size]
            start += size
