"""Statements past SQLAlchemy give the same rows, and the same errors."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError, OperationalError

from judge_service.store.driver import execute
from judge_service.store.engine import Database, parse_url, writing


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    database = Database(parse_url(f"sqlite:///{tmp_path / 'x.sqlite3'}"))
    with writing(database.engine) as opened:
        opened.exec_driver_sql("CREATE TABLE rows (name TEXT PRIMARY KEY, n INTEGER)")
        yield opened
    database.close()


def test_rows_in_and_out(connection: Connection) -> None:
    assert execute(connection, "INSERT INTO rows VALUES (?, ?), (?, ?)", ("a", 1, "b", None)) == []
    assert execute(connection, "SELECT * FROM rows ORDER BY name") == [("a", 1), ("b", None)]
    plain = connection.exec_driver_sql("SELECT * FROM rows ORDER BY name").all()
    assert [tuple(row) for row in plain] == [("a", 1), ("b", None)]


def test_errors_are_sqlalchemys_and_show_no_values(connection: Connection) -> None:
    execute(connection, "INSERT INTO rows VALUES (?, ?)", ("secret", 1))
    for run in (execute, Connection.exec_driver_sql):
        with pytest.raises(IntegrityError, match="UNIQUE constraint failed") as refused:
            run(connection, "INSERT INTO rows VALUES (?, ?)", ("secret", 2))
        assert "'secret'" not in str(refused.value)
        with pytest.raises(OperationalError, match="no such table"):
            run(connection, "SELECT 1 FROM nowhere")


def test_outside_a_transaction_one_is_begun(connection: Connection) -> None:
    with connection.engine.connect() as other:
        assert not other.in_transaction()
        assert [tuple(row) for row in execute(other, "SELECT 1")] == [(1,)]
        assert other.in_transaction()
