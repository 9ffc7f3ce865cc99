"""Statements past SQLAlchemy's own layers, for SQLite inside a transaction: they are most of what a small commit costs.

Owns that nothing else changes: errors are SQLAlchemy's, and whatever is not SQLite goes the usual way. Knows no table.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError


def execute(connection: Connection, statement: str, values: Sequence[Any] = ()) -> Sequence[Sequence[Any]]:
    """Run a statement in the driver's own style and return its rows.

    Raises what `Connection.exec_driver_sql` does.
    """
    if connection.dialect.name != "sqlite" or not connection.in_transaction():
        result = connection.exec_driver_sql(statement, tuple(values))
        return result.all() if result.returns_rows else ()
    return execute_sqlite(connection, statement, values)


def execute_sqlite(connection: Connection, statement: str, values: Sequence[Any] = ()) -> Sequence[Sequence[Any]]:
    """`execute` where it is known that the database is SQLite, and that SQLAlchemy need not begin anything."""
    try:
        cursor = connection.connection.cursor()
        try:
            cursor.execute(statement, values)
            return cursor.fetchall()
        finally:
            cursor.close()
    except sqlite3.Error as error:
        raise DBAPIError.instance(
            statement, tuple(values), error, sqlite3.Error, hide_parameters=True, dialect=connection.dialect
        ) from error
