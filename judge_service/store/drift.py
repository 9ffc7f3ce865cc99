"""Baselines of drift and the checks against them: added, read, never changed. Knows no statistics."""

from typing import Any

from sqlalchemy import Connection, insert, select

from judge_service.domain.drift import DriftRecord
from judge_service.store.engine import Database
from judge_service.store.tables import DriftRow, table

DRIFT = table(DriftRow)
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
