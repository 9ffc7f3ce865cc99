"""Results of planted orders per judge, as they were counted: added, read, never changed."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select

from judge_service.domain.planted import ProbeResult
from judge_service.store.engine import Database
from judge_service.store.tables import ProbeResultRow, table

RESULTS = table(ProbeResultRow)
_COLUMNS = ("id", "judge", "judge_hash", "created_at")


class Probes:
    """The table of probe results. All methods are synchronous."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    def add(self, result: ProbeResult) -> ProbeResult:
        """Keep a result."""
        fields = result.model_dump(mode="json")
        row = {name: getattr(result, name) for name in _COLUMNS}
        row |= {"document": {name: value for name, value in fields.items() if name not in _COLUMNS}}

        self._database.write(lambda connection: connection.execute(insert(RESULTS), row))
        return result

    def all(self, *, judge: str | None = None, judge_hash: str | None = None) -> list[ProbeResult]:
        """Results, newest first: of every judge, of a name, or of one configuration."""
        query = select(RESULTS).order_by(RESULTS.c.created_at.desc(), RESULTS.c.id)
        if judge is not None:
            query = query.where(RESULTS.c.judge == judge)
        if judge_hash is not None:
            query = query.where(RESULTS.c.judge_hash == judge_hash)
        with self._database.read() as connection:
            return [_result(dict(row)) for row in connection.execute(query).mappings()]

    def latest(self, judge_hash: str, rubric: str | None = None) -> ProbeResult | None:
        """The newest result of a judge's configuration; with `rubric` (an id), the newest that put its probes."""
        for result in self.all(judge_hash=judge_hash):
            if rubric is None or rubric in result.by_rubric:
                return result
        return None


def _result(row: dict[str, Any]) -> ProbeResult:
    document = row.pop("document")
    return ProbeResult.model_validate(row | document)
