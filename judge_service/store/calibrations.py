"""Calibrations and their maps of confidences, as they were measured: added once, read, never changed.

Knows no statistics and no rule of trust.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, insert, select
from sqlalchemy.exc import IntegrityError

from judge_service.domain.calibration import Calibration, FittedMap
from judge_service.store.engine import Database
from judge_service.store.spent import SETS
from judge_service.store.tables import CalibrationRow, ConfidenceMapRow, table

CALIBRATIONS = table(CalibrationRow)
MAPS = table(ConfidenceMapRow)
_COLUMNS = ("id", "rubric", "rubric_hash", "judge", "judge_hash", "set_id", "created_at")
_SUMMARIES = select(*(CALIBRATIONS.c[name] for name in _COLUMNS), CALIBRATIONS.c.summary)


@dataclass(frozen=True, slots=True)
class Mark:
    """Changes exactly when a calibration is stored or a set is frozen: what trust depends on."""

    calibrations: int
    newest: datetime | None
    frozen: int


class Calibrations:
    """The calibration tables. All methods are synchronous."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self.changes = 0
        """How many calibrations this process has stored."""

    def add(self, calibration: Calibration, statistics: dict[str, Any], fitted: FittedMap | None = None) -> Calibration:
        """Store a calibration with all its figures and its map; one that is stored already is returned as it is.

        Raises ValueError on NaN in the figures.
        """
        fields = calibration.model_dump(mode="json")
        row = {name: getattr(calibration, name) for name in _COLUMNS}
        row |= {"summary": {name: value for name, value in fields.items() if name not in _COLUMNS}}

        def work(connection: Connection) -> Calibration:
            try:
                with connection.begin_nested():
                    connection.execute(insert(CALIBRATIONS), row | {"statistics": statistics})
            except IntegrityError:
                there = _find(connection, calibration.id)
                if there is None:
                    raise
                return there
            if fitted is not None:
                document = fitted.model_dump(mode="json", exclude={"id", "calibration_id", "created_at"})
                connection.execute(
                    insert(MAPS),
                    {
                        "id": fitted.id,
                        "calibration_id": calibration.id,
                        "document": document,
                        "created_at": fitted.created_at,
                    },
                )
            return calibration

        stored = self._database.write(work)
        self.changes += 1
        return stored

    def all(
        self, *, judge: str | None = None, rubric: str | None = None, set_id: str | None = None
    ) -> list[Calibration]:
        """Calibrations, newest first, without their statistics."""
        query = _SUMMARIES
        for column, value in ((CALIBRATIONS.c.judge, judge), (CALIBRATIONS.c.rubric, rubric)):
            if value is not None:
                query = query.where(column == value)
        if set_id is not None:
            query = query.where(CALIBRATIONS.c.set_id == set_id)
        query = query.order_by(CALIBRATIONS.c.created_at.desc(), CALIBRATIONS.c.id)
        with self._database.read() as connection:
            return [_calibration(dict(row)) for row in connection.execute(query).mappings()]

    def get(self, calibration_id: str) -> Calibration | None:
        """A calibration by its id."""
        with self._database.read() as connection:
            return _find(connection, calibration_id)

    def statistics(self, calibration_id: str) -> dict[str, Any] | None:
        """Every figure of a calibration, as it was measured."""
        query = select(CALIBRATIONS.c.statistics).where(CALIBRATIONS.c.id == calibration_id)
        with self._database.read() as connection:
            found: dict[str, Any] | None = connection.execute(query).scalar_one_or_none()
        return found

    def maps(self, calibration_id: str | None = None) -> list[FittedMap]:
        """The maps, refusals included, of one calibration or of all; newest first."""
        query = select(MAPS).order_by(MAPS.c.created_at.desc(), MAPS.c.id)
        if calibration_id is not None:
            query = query.where(MAPS.c.calibration_id == calibration_id)
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        return [
            FittedMap(id=row.id, calibration_id=row.calibration_id, created_at=row.created_at, **row.document)
            for row in rows
        ]

    def mark(self) -> Mark:
        """What must be the same for trust to be what it was."""
        of_all = select(func.count(), func.max(CALIBRATIONS.c.created_at)).select_from(CALIBRATIONS)
        frozen = select(func.count()).select_from(SETS).where(SETS.c.status == "frozen")
        with self._database.read() as connection:
            count, newest = connection.execute(of_all).one()
            return Mark(count, newest, connection.execute(frozen).scalar_one())


def _find(connection: Connection, calibration_id: str) -> Calibration | None:
    row = connection.execute(_SUMMARIES.where(CALIBRATIONS.c.id == calibration_id)).mappings().one_or_none()
    return None if row is None else _calibration(dict(row))


def _calibration(row: dict[str, Any]) -> Calibration:
    summary = row.pop("summary")
    return Calibration.model_validate(row | summary)
