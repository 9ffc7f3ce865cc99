"""What an operator asks of a database: a copy of it, and whether everything in it adds up.

Owns the invariants that `db verify` checks. Changes nothing.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Select, Table, and_, exists, func, insert, or_, select
from sqlalchemy.exc import SQLAlchemyError

from judge_service.domain.annotation import State
from judge_service.domain.outcome import Outcome
from judge_service.domain.run import RunStatus
from judge_service.errors import StoreError
from judge_service.store.engine import Database, new_engine, parse_url, writing
from judge_service.store.faults import readable
from judge_service.store.judgments import JUDGMENTS
from judge_service.store.migrate import upgrade
from judge_service.store.runs import CASES, RUNS
from judge_service.store.tables import AssignmentRow, Base, LabelRow, ProjectCaseRow, SetCaseRow, SetRow
from judge_service.store.tables import table as table_of

_ROWS = 1000
_COMPLETE = (RunStatus.FINISHED.value, RunStatus.FINISHED_WITH_ERRORS.value)


@dataclass(frozen=True, slots=True)
class Finding:
    """One invariant: what it says, how many rows were looked at, and how many break it."""

    rule: str
    n_checked: int
    n_broken: int


def backup(database: Database, target: Path) -> None:
    """Copy the whole database, as it is at one moment, into a new SQLite file; writers go on meanwhile.

    A PostgreSQL database becomes an SQLite file too, which this program opens as it is. Raises StoreError when the
    file exists or cannot be written; no half a file stays.
    """
    if target.exists():
        raise StoreError(f"{target} exists. A backup never replaces a file: name another one.")
    if not target.parent.is_dir():
        raise StoreError(f"The folder {target.parent} does not exist.")
    partial = target.with_name(f".{target.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        if database.is_sqlite:
            _copy_file(str(database.url.database), partial)
        else:
            _copy_rows(database, partial)
        partial.replace(target)
    except OSError as error:
        raise StoreError(f"The backup cannot be written: {error.strerror or error}") from error
    except (sqlite3.Error, SQLAlchemyError) as error:
        fault = readable(error) if isinstance(error, SQLAlchemyError) else StoreError(f"The backup failed: {error}")
        raise fault from error
    finally:
        for left in (partial, *(partial.with_name(partial.name + end) for end in ("-wal", "-shm", "-journal"))):
            left.unlink(missing_ok=True)


def _copy_file(source: str, target: Path) -> None:
    with closing(sqlite3.connect(source)) as here, closing(sqlite3.connect(target)) as there:
        here.backup(there, pages=_ROWS)
        there.execute("PRAGMA journal_mode=DELETE")


def _copy_rows(database: Database, target: Path) -> None:
    url = parse_url(f"sqlite:///{target}")
    upgrade(url)
    engine = new_engine(url, migrating=True)
    try:
        with database.engine.connect().execution_options(isolation_level="REPEATABLE READ") as source, source.begin():
            for table in Base.metadata.sorted_tables:
                rows = source.execution_options(stream_results=True).execute(select(table)).mappings()
                for page in rows.partitions(_ROWS):
                    with writing(engine) as connection:
                        connection.execute(insert(table), [dict(row) for row in page])
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        engine.dispose()


def verify(database: Database) -> list[Finding]:
    """Check every invariant, at one moment. A database with nothing broken has lost and doubled nothing."""
    with database.read() as connection:
        return list(_findings(connection))


def _findings(connection: Connection) -> Iterator[Finding]:
    if connection.dialect.name == "sqlite":
        answers = [row[0] for row in connection.exec_driver_sql("PRAGMA integrity_check")]
        yield Finding("the file is whole", 1, sum(answer != "ok" for answer in answers))
    n_judgments = _count(connection, JUDGMENTS)
    doubled = (
        select(JUDGMENTS.c.identity)
        .where(JUDGMENTS.c.superseded_at.is_(None))
        .group_by(JUDGMENTS.c.identity)
        .having(func.count() > 1)
    )
    yield Finding("each piece of work has at most one current judgment", n_judgments, _number(connection, doubled))
    number = or_(
        and_(JUDGMENTS.c.outcome == Outcome.SCORED.value, JUDGMENTS.c.score.is_(None)),
        and_(JUDGMENTS.c.outcome != Outcome.SCORED.value, JUDGMENTS.c.score.is_not(None)),
    )
    wrong = select(JUDGMENTS.c.id).where(number)
    yield Finding("exactly the scored judgments have a score", n_judgments, _number(connection, wrong))
    n_runs = _count(connection, RUNS)
    planned = (
        select(CASES.c.run_id, func.count().label("n"), func.max(CASES.c.position).label("last"))
        .group_by(CASES.c.run_id)
        .subquery()
    )
    uneven = (
        select(RUNS.c.id)
        .select_from(RUNS.outerjoin(planned, planned.c.run_id == RUNS.c.id))
        .where(
            or_(func.coalesce(planned.c.n, 0) != RUNS.c.n_planned, planned.c.last != planned.c.n - 1),
        )
    )
    yield Finding("each run holds as many cases as it counts", n_runs, _number(connection, uneven))
    judged = exists().where(JUDGMENTS.c.identity == CASES.c.identity, JUDGMENTS.c.superseded_at.is_(None))
    missing = (
        select(CASES.c.run_id)
        .select_from(CASES.join(RUNS, RUNS.c.id == CASES.c.run_id))
        .where(RUNS.c.status.in_(_COMPLETE), ~judged)
    )
    yield Finding("each case of a finished run has a judgment", _count(connection, CASES), _number(connection, missing))
    sets = table_of(SetRow)
    for what, rows, count in (
        ("cases", table_of(SetCaseRow), sets.c.n_cases),
        ("labels", table_of(LabelRow), sets.c.n_labels),
    ):
        held = select(func.count()).select_from(rows).where(rows.c.set_id == sets.c.id).scalar_subquery()
        rule = f"each set holds as many {what} as it counts"
        yield Finding(rule, _count(connection, sets), _number(connection, select(sets.c.id).where(held != count)))
    places, given = table_of(ProjectCaseRow), table_of(AssignmentRow)
    saved = (
        select(func.count())
        .select_from(given)
        .where(
            given.c.project_id == places.c.project_id,
            given.c.case_id == places.c.case_id,
            given.c.state == State.SAVED.value,
        )
        .scalar_subquery()
    )
    miscounted = select(places.c.case_id).where(saved != places.c.saved)
    rule = "each case of a project counts the labels that were saved"
    yield Finding(rule, _count(connection, places), _number(connection, miscounted))
    for table in Base.metadata.sorted_tables:
        for constraint in sorted(table.foreign_key_constraints, key=lambda one: str(one.name)):
            parent = constraint.referred_table
            same = and_(*(key.parent == key.column for key in constraint.elements))
            if parent is table:
                other = parent.alias()
                same = and_(*(key.parent == other.c[key.column.name] for key in constraint.elements))
                parent_exists = exists().where(same).correlate(table)
            else:
                parent_exists = exists(select(parent).where(same).correlate(table))
            named = and_(*(key.parent.is_not(None) for key in constraint.elements))
            orphans = select(table).where(named, ~parent_exists)
            rule = f"each row of {table.name} has its row of {parent.name}"
            yield Finding(rule, _count(connection, table), _number(connection, orphans))


def _count(connection: Connection, table: Table) -> int:
    return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def _number(connection: Connection, query: Select[Any]) -> int:
    return int(connection.execute(select(func.count()).select_from(query.subquery())).scalar_one())
