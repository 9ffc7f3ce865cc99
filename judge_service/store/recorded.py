"""Runs of recorded judges: one judge of a name has one set of verdicts on a calibration set, whoever imports at once.

Owns the claim of a name. What the verdicts are and how they differ is `judge_service.sets`'s.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, insert, select, update

from judge_service.domain.run import Run
from judge_service.errors import Conflict, FieldProblem
from judge_service.store.engine import Database
from judge_service.store.runs import RUNS, Runs, run_of
from judge_service.store.sets import version_of

ABANDONED_AFTER = timedelta(minutes=1)
"""Without a sign of life for so long, an import that did not end was interrupted and gives its names free."""


class RecordedRuns:
    """The runs that hold recorded verdicts."""

    def __init__(self, database: Database, runs: Runs, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._runs = runs
        self._clock = clock

    def claim(self, set_id: str, runs: Sequence[Run]) -> None:
        """Store the runs, all of one source, together; those that are stored already stay as they are.

        Raises Conflict, and stores none, when another run of the same source, rubric and judge's name holds other
        verdicts, or is being imported now. What an interrupted import left of such a run is deleted.
        """

        def work(connection: Connection) -> list[str]:
            # Two imports into one set take turns here, on PostgreSQL too.
            version_of(connection, set_id)
            now = self._clock()
            abandoned: list[str] = []
            for run in runs:
                query = select(RUNS).where(RUNS.c.source == run.source, RUNS.c.rubric_hash == run.rubric_hash)
                there = [run_of(row) for row in connection.execute(query).mappings()]
                mine = [other for other in there if other.judge.name == run.judge.name]
                for other in mine:
                    if other.judge.content_hash == run.judge.content_hash:
                        continue
                    if other.planned:
                        raise _taken(run, set_id, "has other verdicts on it already")
                    if other.heartbeat_at is not None and now - other.heartbeat_at < ABANDONED_AFTER:
                        raise _taken(run, set_id, "has other verdicts on it that are being imported now")
                    abandoned.append(other.id)
                if any(other.id == run.id for other in mine):
                    connection.execute(update(RUNS).where(RUNS.c.id == run.id).values(heartbeat_at=now))
                    continue
                row = run.model_dump(mode="python") | {"judge": run.judge.model_dump(mode="json")}
                connection.execute(insert(RUNS), row | {"status": run.status.value, "heartbeat_at": now})
            return abandoned

        for run_id in self._database.write(work):
            self._runs.delete(run_id)


def _taken(run: Run, set_id: str, why: str) -> Conflict:
    message = f"{run.judge.name} {why}"
    return Conflict(
        f"{message}: {set_id}. They were kept. Give the new ones a version to make another recorded judge.",
        fields=[FieldProblem("judge", message)],
        extra={"judge": run.judge.name},
    )
