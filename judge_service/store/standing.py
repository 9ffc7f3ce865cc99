"""Where a project stands, for its lead: counts, what people said, and each step with what figures need of it.

Owns reading in bulk: rows as they are, without a model for each and without what no figure looks at.
"""

from collections import defaultdict
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import case, func, select

from judge_service.domain.annotation import ProjectCase, State
from judge_service.store.engine import Database
from judge_service.store.places import ASSIGNMENTS, wants_labels
from judge_service.store.projects import (
    ADJUDICATIONS,
    PROJECT_CASES,
    counted_labels,
    project_case,
    project_row,
)
from judge_service.store.sets import LABELS
from rubrics.records import Order


class Counts(NamedTuple):
    """Of a project's cases, without those of the qualification."""

    cases: int
    with_enough_labels: int
    labels: int
    adjudicated: int


class Step(NamedTuple):
    """A case of one person: the part of an assignment that figures need."""

    person: str
    case_id: str
    state: State
    order: Order | None
    answer: dict[str, Any] | None
    seconds: float | None
    flag: str | None
    changed_at: datetime


class Standing:
    """Read-only. All methods are synchronous and raise NotFound for an unknown project."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def counts(self, project_id: str) -> Counts:
        """How many cases there are, have enough labels, and have a final word; and labels saved."""
        here = (PROJECT_CASES.c.project_id == project_id) & PROJECT_CASES.c.qualification.is_(False)
        enough = func.coalesce(func.sum(case((wants_labels(), 0), else_=1)), 0)
        query = select(func.count(), enough, func.coalesce(func.sum(PROJECT_CASES.c.saved), 0)).where(here)
        decided = select(func.count(ADJUDICATIONS.c.case_id.distinct())).where(ADJUDICATIONS.c.project_id == project_id)
        with self._database.read() as connection:
            project_row(connection, project_id)
            n, with_enough, labels = connection.execute(query).one()
            return Counts(n, int(with_enough), int(labels), connection.execute(decided).scalar_one())

    def votes(self, project_id: str) -> dict[str, dict[str, str]]:
        """What people said of each case in the project's condition, by case and name; final words are left out."""
        ours = select(PROJECT_CASES.c.case_id).where(PROJECT_CASES.c.project_id == project_id)
        found: dict[str, dict[str, str]] = defaultdict(dict)
        with self._database.read() as connection:
            said = counted_labels(project_row(connection, project_id)) & LABELS.c.label.is_not(None)
            query = select(LABELS.c.case_id, LABELS.c.annotator, LABELS.c.label)
            for case_id, name, label in connection.execute(query.where(said, LABELS.c.case_id.in_(ours))):
                found[case_id][name] = label
        return dict(found)

    def steps(self, project_id: str) -> list[Step]:
        """Every case that was offered to somebody, by the time it was offered."""
        query = select(*(ASSIGNMENTS.c[name] for name in Step._fields)).where(ASSIGNMENTS.c.project_id == project_id)
        with self._database.read() as connection:
            project_row(connection, project_id)
            rows = connection.execute(query.order_by(ASSIGNMENTS.c.offered_at, ASSIGNMENTS.c.id)).all()
        return [Step(*row)._replace(state=State(row.state)) for row in rows]

    def qualification(self, project_id: str) -> dict[str, ProjectCase]:
        """The cases with a known answer, by id."""
        query = select(PROJECT_CASES).where(
            PROJECT_CASES.c.project_id == project_id, PROJECT_CASES.c.qualification.is_(True)
        )
        with self._database.read() as connection:
            project_row(connection, project_id)
            return {row["case_id"]: project_case(row) for row in connection.execute(query).mappings()}
