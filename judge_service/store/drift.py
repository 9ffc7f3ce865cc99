"""Baselines of drift and the checks against them: added, read, never changed; and the checks under way.

Owns that a judge is checked on a set by one process at a time. Knows no statistics, and not which processes live.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from judge_service.domain.drift import DriftRecord, DriftTask, TaskState
from judge_service.errors import Conflict
from judge_service.store.engine import Database
from judge_service.store.tables import DriftRow, DriftTaskRow, table

DRIFT = table(DriftRow)
TASKS = table(DriftTaskRow)
_COLUMNS = ("id", "set_id", "judge", "rubric", "created_at")


class DriftRecords:
    """The drift table. All methods are synchronous."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, record: DriftRecord) -> DriftRecord:
        """Store a record; one that is stored already under that id is returned as it is."""
        fields = record.model_dump(mode="json")
        row = {name: getattr(record, name) for name in _COLUMNS}
        row["document"] = {name: value for name, value in fields.items() if name not in _COLUMNS}

        def work(connection: Connection) -> DriftRecord:
            there = connection.execute(select(DRIFT).where(DRIFT.c.id == record.id)).mappings().one_or_none()
            if there is not None:
                return _record(dict(there))
            connection.execute(insert(DRIFT), row)
            return record

        return self._database.write(work)

    def get(self, record_id: str) -> DriftRecord | None:
        """A record by its id."""
        with self._database.read() as connection:
            row = connection.execute(select(DRIFT).where(DRIFT.c.id == record_id)).mappings().one_or_none()
        return None if row is None else _record(dict(row))

    def all(
        self,
        *,
        set_id: str | None = None,
        judge: str | None = None,
        rubric: str | None = None,
        limit: int | None = None,
    ) -> list[DriftRecord]:
        """Records, newest first."""
        query = select(DRIFT).order_by(DRIFT.c.created_at.desc(), DRIFT.c.id.desc())
        for column, value in ((DRIFT.c.set_id, set_id), (DRIFT.c.judge, judge), (DRIFT.c.rubric, rubric)):
            if value is not None:
                query = query.where(column == value)
        if limit is not None:
            query = query.limit(limit)
        with self._database.read() as connection:
            return [_record(dict(row)) for row in connection.execute(query).mappings()]


def _record(row: dict[str, Any]) -> DriftRecord:
    return DriftRecord.model_validate({**row.pop("document"), **row})


_RUNNING = TASKS.c.state == TaskState.RUNNING.value


class DriftTasks:
    """The table of checks in the background. All methods are synchronous."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def claim(self, task: DriftTask, *, keep: int, instead_of: DriftTask | None = None) -> DriftTask:
        """Store a check that begins; of ended ones the newest `keep` stay.

        `instead_of` is one whose process is found dead, as it ended: it ends so in the same transaction, unless it gave
        a sign of life since. Raises Conflict while another check of the judge on the set is running.
        """
        ended = TASKS.c.state != TaskState.RUNNING.value
        old = select(TASKS.c.id).where(ended).order_by(TASKS.c.ended_at.desc(), TASKS.c.id).offset(keep)

        def work(connection: Connection) -> DriftTask:
            if instead_of is not None:
                _end(connection, instead_of, TASKS.c.heartbeat_at == instead_of.heartbeat_at)
            try:
                with connection.begin_nested():
                    connection.execute(insert(TASKS), task.model_dump() | {"state": task.state.value})
            except IntegrityError:
                if _one(connection, _held(task.set_id, task.judge)) is None:
                    raise
                raise Conflict(f"{task.judge} is being checked on {task.set_id} already.") from None
            connection.execute(delete(TASKS).where(TASKS.c.id.in_(old)))
            return task

        return self._database.write(work)

    def get(self, task_id: str) -> DriftTask | None:
        """A check by its id."""
        return self._find(TASKS.c.id == task_id)

    def running(self, set_id: str, judge: str) -> DriftTask | None:
        """The check of the judge on the set that has not ended, whether or not its process lives."""
        return self._find(_held(set_id, judge))

    def beat(self, task_id: str, at: datetime) -> None:
        """Say that the process of a running check lived at that time."""
        mine = update(TASKS).where(TASKS.c.id == task_id, _RUNNING)
        self._database.write(lambda connection: connection.execute(mine.values(heartbeat_at=at)).rowcount, swift=True)

    def end(self, task: DriftTask) -> bool:
        """Store how a check ended; False when it is not running any more."""
        return self._database.write(lambda connection: _end(connection, task))

    def _find(self, which: ColumnElement[bool]) -> DriftTask | None:
        with self._database.read() as connection:
            return _one(connection, which)


def _held(set_id: str, judge: str) -> ColumnElement[bool]:
    return and_(TASKS.c.set_id == set_id, TASKS.c.judge == judge, _RUNNING)


def _one(connection: Connection, which: ColumnElement[bool]) -> DriftTask | None:
    row = connection.execute(select(TASKS).where(which)).mappings().one_or_none()
    return None if row is None else DriftTask.model_validate(dict(row))


def _end(connection: Connection, task: DriftTask, *only: ColumnElement[bool]) -> bool:
    values = task.model_dump(include={"message", "record_id", "ended_at"}) | {"state": task.state.value}
    running = update(TASKS).where(TASKS.c.id == task.id, _RUNNING, *only)
    return bool(connection.execute(running.values(**values)).rowcount)
