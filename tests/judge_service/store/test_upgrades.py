"""An upgrade from every revision, with a row in every table: all rows survive with their values, on both databases."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Boolean, Column, DateTime, Engine, Float, MetaData, Numeric, Table, insert, select

from judge_service.store import Store, migrate
from judge_service.store.engine import new_engine, parse_url, writing
from judge_service.store.migrate import VERSION_TABLE, head
from judge_service.store.tables import Base
from judge_service.store.types import JsonText

from .databases import differences
from .test_migrations import to_revision

AT = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
REVISIONS = [revision.revision for revision in ScriptDirectory(str(migrate.FOLDER)).walk_revisions()][:0:-1]
MADE = {("project_cases", "saved"), ("project_orders", "offered"), ("project_members", "offered_open")}
MADE |= {("set_cases", "content_hash")}
"""What an upgrade makes anew: counts of what people did, and by what a case is known. Other tests are about those."""


def value(column: "Column[Any]", parents: dict[tuple[str, str], Any]) -> Any:
    """A value that is told apart from those of other columns where its type allows."""
    for key in column.foreign_keys:
        # A row that refers to one of its own kind is the first of them.
        return parents.get((key.column.table.name, key.column.name))
    known = Base.metadata.tables.get(column.table.name)
    if known is not None and column.name in known.c and isinstance(known.c[column.name].type, JsonText):
        return "{}"
    kind = column.type
    if isinstance(kind, Boolean):
        return True
    if isinstance(kind, DateTime):
        return AT
    if isinstance(kind, Float | Numeric):
        return 0.25
    return 3 if kind.python_type is int else f"{column.table.name} {column.name}"


@contextmanager
def opened(url: str) -> Iterator[tuple[Engine, list[Table]]]:
    """The database with the tables that it has, whatever its revision."""
    engine = new_engine(parse_url(url))
    known = MetaData()
    known.reflect(engine)
    try:
        yield engine, [table for table in known.sorted_tables if table.name != VERSION_TABLE]
    finally:
        engine.dispose()


def fill(url: str) -> None:
    """Put a row in every table."""
    parents: dict[tuple[str, str], Any] = {}
    with opened(url) as (engine, tables), writing(engine) as connection:
        for table in tables:
            row = {column.name: value(column, parents) for column in table.c}
            connection.execute(insert(table), row)
            parents.update({(table.name, name): it for name, it in row.items()})


def rows(url: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of every table."""
    with opened(url) as (engine, tables), engine.connect() as connection:
        return {table.name: [dict(row) for row in connection.execute(select(table)).mappings()] for table in tables}


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_row_survives_an_upgrade(no_tables_url: str, monkeypatch: pytest.MonkeyPatch, revision: str) -> None:
    to_revision(no_tables_url, monkeypatch, revision)
    fill(no_tables_url)
    before = rows(no_tables_url)
    with Store.open(no_tables_url) as store:
        assert {one.rule for one in store.verify() if one.n_broken and one.rule.startswith("each row")} == set()
    after = rows(no_tables_url)
    for name, (row,) in before.items():
        kept = row.keys() & after[name][0].keys() - {column for table, column in MADE if table == name}
        assert len(kept) > 1
        assert {column: row[column] for column in kept} in [{c: now[c] for c in kept} for now in after[name]], name
        assert len(after[name]) == 1 or name == "facts"
    assert Store.revisions(no_tables_url) == (head(), head())
    assert differences(no_tables_url) == []
    Store.open(no_tables_url).close()
    assert rows(no_tables_url) == after
