"""Places of a case: who holds one, which case has a free one for a person, and taking it.

A case has as many places as labels are wanted; a saved label keeps its place, an offer holds one until its lease runs
out. Everything here is asked within a transaction that holds the project's row.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, select, update

from judge_service.domain.annotation import ProjectCase, State
from judge_service.store.projects import ORDERS, PROJECT_CASES, project_case
from judge_service.store.tables import AssignmentRow, table

ASSIGNMENTS = table(AssignmentRow)
FEW_OPEN = 500
"""Cases that still want labels, up to which these are looked through instead of the person's order."""


def wants_labels() -> ColumnElement[bool]:
    """The case has fewer labels than it wants; an index holds exactly these."""
    return PROJECT_CASES.c.saved < PROJECT_CASES.c.wanted


def leased(now: datetime) -> ColumnElement[bool]:
    """The place is held by an offer whose lease has not run out."""
    return and_(
        ASSIGNMENTS.c.state == State.OPEN.value,
        ASSIGNMENTS.c.place.is_not(None),
        ASSIGNMENTS.c.leased_until > now,
    )


def candidate(connection: Connection, project_id: str, person: str, now: datetime) -> ProjectCase | None:
    """The first case in the person's order that has a free place and was never offered to the person."""
    open_cases = (PROJECT_CASES.c.project_id == project_id) & wants_labels()
    few = list(connection.execute(select(PROJECT_CASES.c.case_id).where(open_cases).limit(FEW_OPEN + 1)).scalars())
    if not few:
        return None
    live = (
        select(func.count())
        .where(
            ASSIGNMENTS.c.project_id == PROJECT_CASES.c.project_id,
            ASSIGNMENTS.c.case_id == PROJECT_CASES.c.case_id,
            leased(now),
        )
        .correlate(PROJECT_CASES)
        .scalar_subquery()
    )
    query = (
        select(PROJECT_CASES)
        .join(
            ORDERS,
            and_(ORDERS.c.project_id == PROJECT_CASES.c.project_id, ORDERS.c.case_id == PROJECT_CASES.c.case_id),
        )
        .where(
            ORDERS.c.project_id == project_id,
            ORDERS.c.person == person,
            ~ORDERS.c.offered,
            wants_labels(),
            PROJECT_CASES.c.saved + live < PROJECT_CASES.c.wanted,
        )
        .order_by(ORDERS.c.position)
        .limit(1)
    )
    if len(few) <= FEW_OPEN:
        # Most of the order is done: it is quicker to look from the cases that are left.
        query = query.where(ORDERS.c.case_id.in_(few))
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else project_case(row)


def take_place(connection: Connection, project_id: str, case: ProjectCase, now: datetime) -> int | None:
    """The lowest free place of a case, taken from leases that ran out; None when all are held."""
    where = (ASSIGNMENTS.c.project_id == project_id) & (ASSIGNMENTS.c.case_id == case.case_id)
    run_out = (ASSIGNMENTS.c.state == State.OPEN.value) & (ASSIGNMENTS.c.leased_until <= now)
    held = select(ASSIGNMENTS.c.place).where(where, ASSIGNMENTS.c.place.is_not(None), ~run_out)
    taken: set[Any] = set(connection.execute(held).scalars())
    for place in range(1, case.wanted + 1):
        if place not in taken:
            connection.execute(
                update(ASSIGNMENTS).where(where, ASSIGNMENTS.c.place == place, run_out).values(place=None)
            )
            return place
    return None
