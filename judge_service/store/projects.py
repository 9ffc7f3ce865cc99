"""Labelling projects as stored: their cases, people, orders of presentation, guidelines and adjudications.

Who is offered which case is `assignments`' business. Knows no form and no statistics.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, and_, exists, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from judge_service.domain.annotation import (
    MOST_GUIDELINES,
    MOST_GUIDELINES_NOTE,
    Adjudication,
    Guidelines,
    Member,
    Project,
    ProjectCase,
    case_token,
)
from judge_service.domain.calibration_set import Label
from judge_service.errors import Conflict, FieldProblem, InvalidInput, NotFound
from judge_service.store.engine import Database
from judge_service.store.sets import CHUNK, LABELS, chunks, open_version
from judge_service.store.spent import SETS
from judge_service.store.tables import (
    AdjudicationRow,
    AssignmentRow,
    GuidelinesRow,
    MemberRow,
    PresentationRow,
    ProjectCaseRow,
    ProjectRow,
    table,
)

PROJECTS = table(ProjectRow)
GUIDELINES = table(GuidelinesRow)
MEMBERS = table(MemberRow)
PROJECT_CASES = table(ProjectCaseRow)
ORDERS = table(PresentationRow)
ASSIGNMENTS = table(AssignmentRow)
ADJUDICATIONS = table(AdjudicationRow)


def check_guidelines(text: str, note: str) -> None:
    """Raise InvalidInput, naming the field, for guidelines or a note on them that are too long."""
    for name, value, most in (("text", text, MOST_GUIDELINES), ("note", note, MOST_GUIDELINES_NOTE)):
        if len(value) > most:
            message = f"has {len(value):,} characters; at most {most:,} are kept"
            raise InvalidInput(f"{name}: {message}.", fields=[FieldProblem(name, message)])


Joining = tuple[Member, Sequence[str]]
"""A person who joins a project, and the ids of its cases in the order drawn for that person."""


@dataclass(frozen=True, slots=True)
class WaitingCase:
    """A case with labels that differ: `n` labels, how many people gave each, most first, and the newest one's time."""

    case_id: str
    n: int
    spread: tuple[int, ...]
    since: datetime


class Projects:
    """The project tables. All methods are synchronous."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    def create(
        self, project: Project, cases: Sequence[ProjectCase], guidelines: Guidelines, people: Sequence[Joining] = ()
    ) -> Project:
        """Store a project with its cases, first guidelines and people.

        Raises Conflict when its set is frozen or two people have one name.
        """

        def work(connection: Connection) -> Project:
            open_version(connection, project.set_id)
            fields = project.model_dump(mode="json") | {
                name: getattr(project, name) for name in ("due_at", "created_at", "closed_at")
            }
            connection.execute(insert(PROJECTS), fields)
            for chunk in chunks(cases, CHUNK):
                rows = [
                    {"project_id": project.id, "token": case_token(project.id, one.case_id)} | one.model_dump()
                    for one in chunk
                ]
                connection.execute(insert(PROJECT_CASES), rows)
            connection.execute(insert(GUIDELINES), {"project_id": project.id} | guidelines.model_dump())
            for member, order in people:
                _join(connection, project.id, member, order)
            return project

        return self._database.write(work)

    def get(self, project_id: str) -> Project:
        """A project. Raises NotFound."""
        with self._database.read() as connection:
            return project_row(connection, project_id)

    def all(self, person: str | None = None) -> list[Project]:
        """Every project, newest first; with `person` those that the person belongs to."""
        query = select(PROJECTS)
        if person is not None:
            mine = select(MEMBERS.c.project_id).where(MEMBERS.c.person == person, MEMBERS.c.left_at.is_(None))
            query = query.where(PROJECTS.c.id.in_(mine))
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        return sorted(map(_project, rows), key=lambda project: (project.created_at, project.id), reverse=True)

    def close(self, project_id: str, *, closed: bool) -> Project:
        """Close a project, or open it again. Raises NotFound."""

        def work(connection: Connection) -> Project:
            at = self._clock() if closed else None
            connection.execute(update(PROJECTS).where(PROJECTS.c.id == project_id).values(closed_at=at))
            return project_row(connection, project_id)

        return self._database.write(work)

    def cases(self, project_id: str) -> list[ProjectCase]:
        """The cases of a project, by id."""
        query = select(PROJECT_CASES).where(PROJECT_CASES.c.project_id == project_id)
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        return sorted(map(project_case, rows), key=lambda one: one.case_id)

    def case_of(self, project_id: str, token: str) -> str:
        """The id of the case that a token stands for (`case_token`). Raises NotFound."""
        query = select(PROJECT_CASES.c.case_id).where(
            PROJECT_CASES.c.project_id == project_id, PROJECT_CASES.c.token == token
        )
        with self._database.read() as connection:
            found: str | None = connection.execute(query).scalar_one_or_none()
        if found is None:
            raise NotFound("This project has no such case.")
        return found

    def case(self, project_id: str, case_id: str) -> ProjectCase:
        """One case of a project. Raises NotFound."""
        query = select(PROJECT_CASES).where(
            PROJECT_CASES.c.project_id == project_id, PROJECT_CASES.c.case_id == case_id
        )
        with self._database.read() as connection:
            row = connection.execute(query).mappings().one_or_none()
        if row is None:
            raise NotFound("This project has no such case.")
        return project_case(row)

    def join(self, project_id: str, people: Sequence[Joining]) -> list[Member]:
        """Add people, all or none, each with the drawn order; one who left comes back to the old order.

        Raises NotFound; Conflict when another person of the project has the name.
        """

        def work(connection: Connection) -> list[Member]:
            project_row(connection, project_id)
            return [_join(connection, project_id, member, order) for member, order in people]

        return self._database.write(work)

    def leave(self, project_id: str, person: str) -> None:
        """Offer a person nothing any more; labels stay. Raises NotFound when the person is no member."""
        mine = (MEMBERS.c.project_id == project_id) & (MEMBERS.c.person == person) & MEMBERS.c.left_at.is_(None)

        def work(connection: Connection) -> None:
            if not connection.execute(update(MEMBERS).where(mine).values(left_at=self._clock())).rowcount:
                raise NotFound("This person does not belong to the project.")

        self._database.write(work)

    def members(self, project_id: str) -> list[Member]:
        """Everybody of a project, by the time of joining; those who left too."""
        query = select(MEMBERS).where(MEMBERS.c.project_id == project_id)
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        return sorted(map(_member, rows), key=lambda one: (one.joined_at, one.name))

    def order(self, project_id: str, person: str) -> list[str]:
        """The case ids in the order drawn for a person."""
        query = select(ORDERS.c.case_id).where(ORDERS.c.project_id == project_id, ORDERS.c.person == person)
        with self._database.read() as connection:
            return list(connection.execute(query.order_by(ORDERS.c.position)).scalars())

    def add_guidelines(self, project_id: str, text: str, note: str, by: str) -> Guidelines:
        """A new version of the guidelines. Raises NotFound; InvalidInput, naming the field, for what is too long."""
        check_guidelines(text, note)

        def work(connection: Connection) -> Guidelines:
            project_row(connection, project_id, lock=True)
            newest = select(func.max(GUIDELINES.c.version)).where(GUIDELINES.c.project_id == project_id)
            number = (connection.execute(newest).scalar_one() or 0) + 1
            made = Guidelines(version=number, text=text, note=note, by=by, at=self._clock())
            connection.execute(insert(GUIDELINES), {"project_id": project_id} | made.model_dump())
            return made

        return self._database.write(work)

    def guidelines(self, project_id: str) -> list[Guidelines]:
        """Every version, newest first."""
        query = select(GUIDELINES).where(GUIDELINES.c.project_id == project_id).order_by(GUIDELINES.c.version.desc())
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        return [Guidelines.model_validate(_without_project(row)) for row in rows]

    def adjudicate(self, adjudication: Adjudication, label: Label) -> Adjudication:
        """Keep a final word with its label; an earlier final label of the case is replaced, its record stays.

        The same word by the same person again, as by a form that is sent twice, is the one that is kept already.
        Raises Conflict when the set is frozen.
        """

        def work(connection: Connection) -> Adjudication:
            version = open_version(connection, label.set_id)
            last = _last_word(connection, adjudication.project_id, adjudication.case_id)
            if last is not None and last.says_as(adjudication):
                return last
            fields = adjudication.model_dump() | {"seen": list(adjudication.seen)}
            connection.execute(insert(ADJUDICATIONS), fields)
            final = (
                (LABELS.c.set_id == label.set_id)
                & (LABELS.c.case_id == label.case_id)
                & (LABELS.c.rubric == label.rubric)
                & (LABELS.c.condition == label.condition.value)
                & LABELS.c.adjudicated
            )
            removed = connection.execute(LABELS.delete().where(final)).rowcount
            connection.execute(insert(LABELS), label.model_dump() | {"condition": label.condition.value})
            count = update(SETS).where(SETS.c.id == version.id)
            connection.execute(count.values(n_labels=SETS.c.n_labels + 1 - removed))
            return adjudication

        return self._database.write(work)

    def waiting(self, project_id: str, limit: int | None = None, offset: int = 0) -> list[WaitingCase]:
        """Cases whose people's labels differ and have no final word, oldest first. Raises NotFound."""
        with self._database.read() as connection:
            project = project_row(connection, project_id)
            query = _differing(project)
            rows = connection.execute(query.limit(limit).offset(offset)).all()
            counts = _said(connection, project, [row.case_id for row in rows])
        return [
            WaitingCase(row.case_id, row.n, tuple(sorted(counts[row.case_id], reverse=True)), row.since) for row in rows
        ]

    def count_waiting(self, project_id: str) -> int:
        """How many cases `waiting` has. Raises NotFound."""
        with self._database.read() as connection:
            found = _differing(project_row(connection, project_id)).order_by(None).subquery()
            return connection.execute(select(func.count()).select_from(found)).scalar_one()

    def place_waiting(self, project_id: str, case_id: str) -> tuple[int | None, int]:
        """The place of a case among those that wait, from 1, None where it does not; and how many wait. One look.

        Raises NotFound.
        """
        with self._database.read() as connection:
            found = _differing(project_row(connection, project_id)).subquery()
            waiting = list(
                connection.execute(select(found.c.case_id).order_by(found.c.since, found.c.case_id)).scalars()
            )
        return (waiting.index(case_id) + 1 if case_id in waiting else None), len(waiting)

    def flags(self, project_id: str, case_ids: Iterable[str]) -> dict[str, list[str]]:
        """What people flagged of these cases, by case, where they saved or skipped them."""
        found: dict[str, list[str]] = defaultdict(list)
        query = select(ASSIGNMENTS.c.case_id, ASSIGNMENTS.c.flag).where(
            ASSIGNMENTS.c.project_id == project_id, ASSIGNMENTS.c.flag.is_not(None), ASSIGNMENTS.c.state != "open"
        )
        query = query.order_by(ASSIGNMENTS.c.offered_at, ASSIGNMENTS.c.id)
        with self._database.read() as connection:
            for chunk in chunks(case_ids, CHUNK):
                for row in connection.execute(query.where(ASSIGNMENTS.c.case_id.in_(chunk))):
                    found[row.case_id].append(row.flag)
        return dict(found)

    def adjudications(self, project_id: str) -> list[Adjudication]:
        """Every final word of a project, oldest first."""
        query = select(ADJUDICATIONS).where(ADJUDICATIONS.c.project_id == project_id)
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        found = [Adjudication.model_validate(dict(row)) for row in rows]
        return sorted(found, key=lambda one: (one.at, one.id))


def _last_word(connection: Connection, project_id: str, case_id: str) -> Adjudication | None:
    query = select(ADJUDICATIONS).where(ADJUDICATIONS.c.project_id == project_id, ADJUDICATIONS.c.case_id == case_id)
    row = connection.execute(query.order_by(ADJUDICATIONS.c.at.desc()).limit(1)).mappings().one_or_none()
    return None if row is None else Adjudication.model_validate(dict(row))


def _join(connection: Connection, project_id: str, member: Member, order: Iterable[str]) -> Member:
    mine = (MEMBERS.c.project_id == project_id) & (MEMBERS.c.person == member.person)
    row = connection.execute(select(MEMBERS).where(mine)).mappings().one_or_none()
    if row is not None:
        connection.execute(update(MEMBERS).where(mine).values(left_at=None))
        return _member(row).model_copy(update={"left_at": None})
    try:
        with connection.begin_nested():
            connection.execute(insert(MEMBERS), {"project_id": project_id} | member.model_dump())
    except IntegrityError:
        raise Conflict(f"Somebody named {member.name!r} belongs to this project already.") from None
    rows = (
        {"project_id": project_id, "person": member.person, "position": place, "case_id": case_id}
        for place, case_id in enumerate(order)
    )
    for chunk in chunks(rows, CHUNK):
        connection.execute(insert(ORDERS), chunk)
    return member


def counted_labels(project: Project) -> Any:
    """The labels of people that count in a project: of its rubric and condition, and no final word."""
    return and_(
        LABELS.c.set_id == project.set_id,
        LABELS.c.rubric == project.rubric,
        LABELS.c.condition == project.condition.value,
        LABELS.c.kind == "human",
        LABELS.c.adjudicated.is_(False),
    )


def _differing(project: Project) -> Select[Any]:
    """Cases with labels that differ and no final word: `case_id`, `n`, `since`, oldest first."""
    ours = (PROJECT_CASES.c.project_id == project.id) & (PROJECT_CASES.c.case_id == LABELS.c.case_id)
    decided = (ADJUDICATIONS.c.project_id == project.id) & (ADJUDICATIONS.c.case_id == LABELS.c.case_id)
    since = func.max(LABELS.c.created_at).label("since")
    return (
        select(LABELS.c.case_id, func.count().label("n"), since)
        .where(counted_labels(project), exists().where(ours), ~exists().where(decided))
        .group_by(LABELS.c.case_id)
        .having(func.count(LABELS.c.label.distinct()) > 1)
        .order_by(since, LABELS.c.case_id)
    )


def _said(connection: Connection, project: Project, case_ids: Sequence[str]) -> dict[str, list[int]]:
    """How many people gave each label, by case."""
    found: dict[str, list[int]] = defaultdict(list)
    query = select(LABELS.c.case_id, func.count().label("n")).where(
        counted_labels(project), LABELS.c.label.is_not(None)
    )
    query = query.group_by(LABELS.c.case_id, LABELS.c.label)
    for chunk in chunks(case_ids, CHUNK):
        for row in connection.execute(query.where(LABELS.c.case_id.in_(chunk))):
            found[row.case_id].append(row.n)
    return found


def project_row(connection: Connection, project_id: str, *, lock: bool = False) -> Project:
    """The project; with `lock` nobody else changes its assignments until the transaction ends. Raises NotFound."""
    query = select(PROJECTS).where(PROJECTS.c.id == project_id)
    row = connection.execute(query.with_for_update() if lock else query).mappings().one_or_none()
    if row is None:
        raise NotFound("There is no such project.")
    return _project(row)


def project_case(row: RowMapping) -> ProjectCase:
    """A case from its row."""
    return ProjectCase.model_validate({name: row[name] for name in ProjectCase.model_fields})


def _project(row: RowMapping) -> Project:
    return Project.model_validate(dict(row))


def _member(row: RowMapping) -> Member:
    return Member.model_validate({name: row[name] for name in Member.model_fields})


def _without_project(row: RowMapping) -> dict[str, Any]:
    return {str(name): value for name, value in row.items() if name != "project_id"}
