"""Which case a person is offered next, and what becomes of it: drafts, saves, skips, undo, with their history.

Owns fairness: a case has as many places as labels are wanted, a person one at most, and both are unique constraints.
A project's row is locked for each step, so that steps of many processes come one after the other.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, insert, select, update

from judge_service.domain.annotation import (
    Action,
    Assignment,
    LabelEvent,
    Progress,
    Project,
    ProjectCase,
    State,
)
from judge_service.domain.calibration_set import Label
from judge_service.errors import Conflict, Forbidden, NotFound
from judge_service.store.engine import Database
from judge_service.store.places import ASSIGNMENTS, candidate, take_place
from judge_service.store.progress import count_offer, count_step, progress_of
from judge_service.store.projects import MEMBERS, PROJECT_CASES, project_case, project_row
from judge_service.store.sets import LABELS, open_version
from judge_service.store.spent import SETS
from judge_service.store.tables import LabelEventRow, table
from rubrics.records import Order

EVENTS = table(LabelEventRow)


class StaleSave(Conflict):
    """You saved this case in another tab. Choose which answer to keep."""

    code = "stale_save"


class EnoughLabels(Conflict):
    """This case now has enough labels. Your draft is kept."""

    code = "enough_labels"


class ProjectClosed(Conflict):
    """This project is closed. Your draft is kept."""

    code = "project_closed"


class NothingToUndo(Conflict):
    """There is nothing to undo."""

    code = "nothing_to_undo"


@dataclass(frozen=True, slots=True)
class Save:
    """A label to save: the answer as the form has it, and what a set's label needs of it.

    `version` is the version of the assignment that the person saw.
    """

    version: int
    answer: Mapping[str, Any]
    label: Label | None
    note: str | None = None
    seconds: float | None = None


class Assignments:
    """The assignment tables. All methods are synchronous."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    def next(self, project_id: str, person: str, draw: Callable[[], Order | None]) -> Assignment | None:
        """The case this person labels now, leased; None when there is none. The same one until it is saved or skipped.

        `draw` decides the sides of a pair, once. Raises NotFound, Forbidden for somebody who is no member,
        ProjectClosed.
        """
        order = draw()

        def work(connection: Connection) -> Assignment | None:
            project = _member(connection, project_id, person)
            if not project.open:
                raise ProjectClosed
            now = self._clock()
            held = _one(
                connection,
                (ASSIGNMENTS.c.project_id == project_id)
                & (ASSIGNMENTS.c.person == person)
                & (ASSIGNMENTS.c.state == State.OPEN.value)
                & ASSIGNMENTS.c.place.is_not(None),
            )
            until = now + timedelta(minutes=project.lease_minutes)
            if held is not None:
                return _change(connection, held, leased_until=until)
            back = self._regain(connection, project, person, now)
            if back is not None:
                return back
            found = candidate(connection, project_id, person, now)
            if found is None:
                return None
            place = take_place(connection, project_id, found, now)
            if place is None:
                return None
            fresh = Assignment(
                id=secrets.token_hex(16),
                project_id=project_id,
                case_id=found.case_id,
                person=person,
                state=State.OPEN,
                place=place,
                order=order,
                offered_at=now,
                leased_until=until,
                changed_at=now,
            )
            connection.execute(insert(ASSIGNMENTS), _fields(fresh))
            count_offer(connection, project_id, person, found)
            return fresh

        return self._database.write(work)

    def get(self, assignment_id: str, person: str | None = None) -> Assignment:
        """An assignment. Raises NotFound; Forbidden when it is another person's."""
        with self._database.read() as connection:
            return _must(connection, assignment_id, person)

    def keep_draft(
        self, assignment_id: str, person: str, draft: Mapping[str, Any], draft_version: int, seconds: float | None
    ) -> Assignment:
        """Keep a draft and renew the lease. Raises StaleSave when another tab kept a newer one; it is in `extra`.

        A draft of a saved case is kept beside its label.
        """

        def work(connection: Connection) -> Assignment:
            found = _must(connection, assignment_id, person, lock=True)
            if found.draft == draft:
                return found
            if draft_version != found.draft_version:
                extra = {"yours": dict(draft), "saved": found.draft, "draft_version": found.draft_version}
                raise StaleSave("Another tab kept a newer draft of this case.", extra=extra)
            project = project_row(connection, found.project_id)
            now = self._clock()
            changes: dict[str, Any] = {"draft": dict(draft), "draft_version": found.draft_version + 1}
            if found.place is not None and found.state is State.OPEN:
                changes["leased_until"] = now + timedelta(minutes=project.lease_minutes)
            return _change(connection, found, **changes, seconds=_seconds(found, seconds, now))

        return self._database.write(work)

    def save(self, assignment_id: str, person: str, save: Save) -> Assignment:
        """Save a label: the person's answer and, but for qualification cases, the label of the set.

        The same save twice is one. Raises StaleSave with both answers when the case changed since, EnoughLabels and
        ProjectClosed (the draft is kept), Conflict when the set is frozen, Forbidden, NotFound.
        """
        answer = dict(save.answer)

        def work(connection: Connection) -> Assignment | type[Conflict]:
            found = _must(connection, assignment_id, person, lock=True)
            same = found.state is State.SAVED and found.answer == answer and found.note == save.note
            if same and save.version in (found.version, found.version - 1):
                return found
            if save.version != found.version:
                extra = {"yours": answer, "saved": found.answer, "version": found.version, "state": found.state.value}
                raise StaleSave(extra=extra)
            project = _member(connection, found.project_id, person)
            now = self._clock()
            place = found.place
            case = _case(connection, found)
            refused: type[Conflict] | None = None if project.open else ProjectClosed
            if refused is None and place is None:
                place = take_place(connection, project.id, case, now)
                refused = EnoughLabels if place is None else None
            if refused is not None:
                # Nothing is lost: what could not be saved stays as the draft.
                draft = answer if save.note is None else answer | {"note": save.note}
                _change(connection, found, draft=draft, draft_version=found.draft_version + 1)
                return refused
            seconds = _seconds(found, save.seconds, now)
            if save.label is not None:
                _put_label(
                    connection, save.label.model_copy(update={"seconds": seconds}), known=found.answer is not None
                )
            action = Action.SAVED if found.state is not State.SAVED else Action.CHANGED
            document = {"answer": answer, "note": save.note, "seconds": seconds, "order": found.order}
            _event(connection, found, action, now, document)
            count_step(connection, project.id, person, case, found.state, State.SAVED)
            return _change(
                connection,
                found,
                state=State.SAVED,
                place=place,
                answer=answer,
                note=save.note,
                seconds=seconds,
                draft=None,
                draft_version=found.draft_version + 1,
                skip_reason=None,
                version=found.version + 1,
                changed_at=now,
            )

        return _or_raise(self._database.write(work))

    def skip(self, assignment_id: str, person: str, version: int, reason: str) -> Assignment:
        """Give the place back. No label; it is not offered to this person again. Raises like `save`."""

        def work(connection: Connection) -> Assignment:
            found = _must(connection, assignment_id, person, lock=True)
            if found.state is State.SKIPPED:
                return found
            if version != found.version or found.state is State.SAVED:
                raise StaleSave(extra={"saved": found.answer, "version": found.version, "state": found.state.value})
            now = self._clock()
            _event(connection, found, Action.SKIPPED, now, {"reason": reason})
            case = _case(connection, found)
            count_step(connection, found.project_id, person, case, found.state, State.SKIPPED)
            return _change(
                connection,
                found,
                state=State.SKIPPED,
                place=None,
                skip_reason=reason,
                version=found.version + 1,
                changed_at=now,
            )

        return self._database.write(work)

    def flag(self, assignment_id: str, person: str, text: str | None) -> Assignment:
        """Mark a case for the lead, or take the mark off with None. It is no label."""

        def work(connection: Connection) -> Assignment:
            found = _must(connection, assignment_id, person, lock=True)
            if found.flag == text:
                return found
            _event(connection, found, Action.FLAGGED, self._clock(), {"flag": text})
            return _change(connection, found, flag=text)

        return self._database.write(work)

    def undo(self, project_id: str, person: str) -> Assignment:
        """Take back this person's newest save or skip: the case is open again with the answer as draft.

        Its label leaves the set and stays in the history. Raises NothingToUndo, ProjectClosed, EnoughLabels when a
        skipped case went to others, Conflict when the set is frozen.
        """

        def work(connection: Connection) -> Assignment:
            project = _member(connection, project_id, person)
            if not project.open:
                raise ProjectClosed
            mine = (
                (ASSIGNMENTS.c.project_id == project_id)
                & (ASSIGNMENTS.c.person == person)
                & ASSIGNMENTS.c.state.in_((State.SAVED.value, State.SKIPPED.value))
            )
            found = _one(connection, mine, newest=ASSIGNMENTS.c.changed_at)
            if found is None:
                raise NothingToUndo
            now = self._clock()
            place = found.place
            case = _case(connection, found)
            if place is None:
                place = take_place(connection, project_id, case, now)
                if place is None:
                    raise EnoughLabels("This case now has enough labels: others labelled it meanwhile.")
            if found.state is State.SAVED and not case.qualification:
                _drop_label(connection, project, found)
            document = {"answer": found.answer, "note": found.note, "state": found.state.value}
            _event(connection, found, Action.UNDONE, now, document)
            count_step(connection, project.id, person, case, found.state, State.OPEN)
            return _change(
                connection,
                found,
                state=State.OPEN,
                place=place,
                draft=found.answer if found.state is State.SAVED else found.draft,
                draft_version=found.draft_version + 1,
                skip_reason=None,
                offered_at=now,
                leased_until=now + timedelta(minutes=project.lease_minutes),
                version=found.version + 1,
                changed_at=now,
            )

        return self._database.write(work)

    def history(self, assignment_id: str) -> list[LabelEvent]:
        """Everything that happened to a person's case, oldest first."""
        query = select(EVENTS).where(EVENTS.c.assignment_id == assignment_id).order_by(EVENTS.c.number)
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        names = LabelEvent.model_fields
        return [LabelEvent.model_validate({name: row[name] for name in names}) for row in rows]

    def of(self, project_id: str, person: str | None = None) -> list[Assignment]:
        """The assignments of a project, or of one person in it, by the time they were offered."""
        where = ASSIGNMENTS.c.project_id == project_id
        if person is not None:
            where &= ASSIGNMENTS.c.person == person
        with self._database.read() as connection:
            rows = connection.execute(select(ASSIGNMENTS).where(where)).mappings().all()
        found = [Assignment.model_validate(dict(row)) for row in rows]
        return sorted(found, key=lambda one: (one.offered_at, one.id))

    def progress(self, project_id: str, person: str) -> Progress:
        """How far a person is. Raises NotFound, Forbidden for somebody who is no member."""
        now = self._clock()
        with self._database.read() as connection:
            _member(connection, project_id, person, lock=False)
            return progress_of(connection, project_id, person, now)

    def _regain(self, connection: Connection, project: Project, person: str, now: datetime) -> Assignment | None:
        """An open case whose place went to nobody or can be had again, newest first."""
        query = select(ASSIGNMENTS).where(
            ASSIGNMENTS.c.project_id == project.id,
            ASSIGNMENTS.c.person == person,
            ASSIGNMENTS.c.state == State.OPEN.value,
            ASSIGNMENTS.c.place.is_(None),
        )
        for row in connection.execute(query.order_by(ASSIGNMENTS.c.offered_at.desc())).mappings().all():
            found = Assignment.model_validate(dict(row))
            place = take_place(connection, project.id, _case(connection, found), now)
            if place is not None:
                until = now + timedelta(minutes=project.lease_minutes)
                return _change(connection, found, place=place, leased_until=until)
        return None


def _member(connection: Connection, project_id: str, person: str, *, lock: bool = True) -> Project:
    project = project_row(connection, project_id, lock=lock)
    mine = select(MEMBERS.c.person).where(
        MEMBERS.c.project_id == project_id, MEMBERS.c.person == person, MEMBERS.c.left_at.is_(None)
    )
    if connection.execute(mine).first() is None:
        raise Forbidden("You do not belong to this project. Ask its lead.")
    return project


def _must(connection: Connection, assignment_id: str, person: str | None, *, lock: bool = False) -> Assignment:
    query = select(ASSIGNMENTS).where(ASSIGNMENTS.c.id == assignment_id)
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        raise NotFound("There is no such case in this project.")
    if person is not None and row["person"] != person:
        raise Forbidden("This case was offered to somebody else.")
    if lock:
        project_row(connection, row["project_id"], lock=True)
        row = connection.execute(query).mappings().one()
    return Assignment.model_validate(dict(row))


def _one(connection: Connection, where: ColumnElement[bool], newest: Any = None) -> Assignment | None:
    order = ASSIGNMENTS.c.offered_at if newest is None else newest
    query = select(ASSIGNMENTS).where(where).order_by(order.desc(), ASSIGNMENTS.c.id).limit(1)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else Assignment.model_validate(dict(row))


def _case(connection: Connection, assignment: Assignment) -> ProjectCase:
    query = select(PROJECT_CASES).where(
        PROJECT_CASES.c.project_id == assignment.project_id, PROJECT_CASES.c.case_id == assignment.case_id
    )
    return project_case(connection.execute(query).mappings().one())


def _fields(assignment: Assignment) -> dict[str, Any]:
    return assignment.model_dump() | {"state": assignment.state.value}


def _change(connection: Connection, found: Assignment, **changes: Any) -> Assignment:
    changed = found.model_copy(update=changes)
    fields = _fields(changed)
    values = {name: fields[name] for name in changes}
    connection.execute(update(ASSIGNMENTS).where(ASSIGNMENTS.c.id == found.id).values(**values))
    return changed


def _event(connection: Connection, found: Assignment, action: Action, at: datetime, document: dict[str, Any]) -> None:
    newest = select(func.max(EVENTS.c.number)).where(EVENTS.c.assignment_id == found.id)
    number = (connection.execute(newest).scalar_one() or 0) + 1
    row = {
        "assignment_id": found.id,
        "number": number,
        "action": action.value,
        "at": at,
        "document": document,
    }
    connection.execute(insert(EVENTS), row)


def _seconds(found: Assignment, given: float | None, now: datetime) -> float | None:
    """Active time as the page measured it; never more than has passed, and never less than was known."""
    if given is None:
        return found.seconds
    passed = max(0.0, (now - found.offered_at).total_seconds()) + (found.seconds or 0.0)
    return max(found.seconds or 0.0, min(given, passed))


def _put_label(connection: Connection, label: Label, *, known: bool) -> None:
    version = open_version(connection, label.set_id)
    fields = label.model_dump() | {"condition": label.condition.value}
    there = connection.execute(select(LABELS.c.id).where(_slot(label))).scalar_one_or_none()
    if there is not None:
        if not known:
            raise Conflict(f"{label.annotator!r} has a label on this case that was imported. It was kept.")
        connection.execute(update(LABELS).where(LABELS.c.id == there).values(**(fields | {"id": there})))
        return
    connection.execute(insert(LABELS), fields)
    connection.execute(update(SETS).where(SETS.c.id == version.id).values(n_labels=SETS.c.n_labels + 1))


def _slot(label: Label) -> ColumnElement[bool]:
    return and_(
        LABELS.c.set_id == label.set_id,
        LABELS.c.case_id == label.case_id,
        LABELS.c.rubric == label.rubric,
        LABELS.c.annotator == label.annotator,
        LABELS.c.condition == label.condition.value,
        LABELS.c.kind == label.kind,
        LABELS.c.adjudicated.is_(label.adjudicated),
    )


def _drop_label(connection: Connection, project: Project, found: Assignment) -> None:
    version = open_version(connection, project.set_id)
    name = select(MEMBERS.c.name).where(MEMBERS.c.project_id == project.id, MEMBERS.c.person == found.person)
    mine = (
        (LABELS.c.set_id == project.set_id)
        & (LABELS.c.case_id == found.case_id)
        & (LABELS.c.rubric == project.rubric)
        & (LABELS.c.annotator == connection.execute(name).scalar_one())
        & (LABELS.c.condition == project.condition.value)
        & (LABELS.c.kind == "human")
        & LABELS.c.adjudicated.is_(False)
    )
    removed = connection.execute(LABELS.delete().where(mine)).rowcount
    connection.execute(update(SETS).where(SETS.c.id == version.id).values(n_labels=SETS.c.n_labels - removed))


def _or_raise(result: Assignment | type[Conflict]) -> Assignment:
    if isinstance(result, Assignment):
        return result
    raise result
