"""How far people are: counts that are kept with each step, and the progress that is read from them.

Owns the counters: labels saved of a case, and of a person the cases saved, skipped, and offered that want more labels.
They change in the transaction of the step itself, and qualification cases, which are few, are counted when asked.
"""

from collections import Counter
from datetime import datetime

from sqlalchemy import Connection, and_, func, select, update

from judge_service.domain.annotation import Progress, ProjectCase, State
from judge_service.store.places import ASSIGNMENTS, leased, wants_labels
from judge_service.store.projects import MEMBERS, ORDERS, PROJECT_CASES


def count_offer(connection: Connection, project_id: str, person: str, case: ProjectCase) -> None:
    """Note that a case was offered to a person for the first time."""
    order = (ORDERS.c.project_id == project_id) & (ORDERS.c.person == person) & (ORDERS.c.case_id == case.case_id)
    connection.execute(update(ORDERS).where(order).values(offered=True))
    if not case.qualification:
        _add(connection, project_id, [person], offered_open=1)


def count_step(
    connection: Connection, project_id: str, person: str, case: ProjectCase, before: State, after: State
) -> None:
    """Note that a person's case went from one state to another. `case` is of the same transaction."""
    if before is after:
        return
    saved = (after is State.SAVED) - (before is State.SAVED)
    if saved:
        here = (PROJECT_CASES.c.project_id == project_id) & (PROJECT_CASES.c.case_id == case.case_id)
        change = update(PROJECT_CASES).where(here).values(saved=PROJECT_CASES.c.saved + saved)
        now = connection.execute(change.returning(PROJECT_CASES.c.saved)).scalar_one()
        # Whether it wants more labels changes for everybody to whom it was offered.
        if not case.qualification and (now < case.wanted) != (now - saved < case.wanted):
            of_case = (ASSIGNMENTS.c.project_id == project_id) & (ASSIGNMENTS.c.case_id == case.case_id)
            people = list(connection.execute(select(ASSIGNMENTS.c.person).where(of_case)).scalars())
            _add(connection, project_id, people, offered_open=-saved)
    if not case.qualification:
        skipped = (after is State.SKIPPED) - (before is State.SKIPPED)
        _add(connection, project_id, [person], done=saved, skipped=skipped)


def _add(connection: Connection, project_id: str, people: list[str], **counts: int) -> None:
    mine = (MEMBERS.c.project_id == project_id) & MEMBERS.c.person.in_(people)
    changes = {name: MEMBERS.c[name] + count for name, count in counts.items() if count}
    if changes:
        connection.execute(update(MEMBERS).where(mine).values(**changes))


def progress_of(connection: Connection, project_id: str, person: str, now: datetime) -> Progress:
    """How far a member is, without looking at every case."""
    mine = (MEMBERS.c.project_id == project_id) & (MEMBERS.c.person == person)
    member = connection.execute(select(MEMBERS).where(mine)).one()
    open_cases = select(func.count()).where(
        PROJECT_CASES.c.project_id == project_id, PROJECT_CASES.c.qualification.is_(False), wants_labels()
    )
    wanting = connection.execute(open_cases).scalar_one()
    # Cases that only offers to people keep from being free: never more than there are people.
    held = (
        select(ASSIGNMENTS.c.case_id, ORDERS.c.offered)
        .join(
            PROJECT_CASES,
            and_(
                PROJECT_CASES.c.project_id == ASSIGNMENTS.c.project_id,
                PROJECT_CASES.c.case_id == ASSIGNMENTS.c.case_id,
            ),
        )
        .join(
            ORDERS,
            and_(
                ORDERS.c.project_id == ASSIGNMENTS.c.project_id,
                ORDERS.c.case_id == ASSIGNMENTS.c.case_id,
                ORDERS.c.person == person,
            ),
        )
        .where(
            ASSIGNMENTS.c.project_id == project_id,
            leased(now),
            wants_labels(),
            PROJECT_CASES.c.qualification.is_(False),
        )
        .group_by(ASSIGNMENTS.c.case_id, ORDERS.c.offered, PROJECT_CASES.c.saved, PROJECT_CASES.c.wanted)
        .having(PROJECT_CASES.c.saved + func.count() >= PROJECT_CASES.c.wanted)
    )
    full = Counter(bool(offered) for _, offered in connection.execute(held))
    own = (
        select(func.count())
        .select_from(ASSIGNMENTS)
        .join(
            PROJECT_CASES,
            and_(
                PROJECT_CASES.c.project_id == ASSIGNMENTS.c.project_id,
                PROJECT_CASES.c.case_id == ASSIGNMENTS.c.case_id,
            ),
        )
        .where(
            ASSIGNMENTS.c.project_id == project_id,
            ASSIGNMENTS.c.person == person,
            ASSIGNMENTS.c.state == State.OPEN.value,
            ASSIGNMENTS.c.place.is_not(None),
            PROJECT_CASES.c.qualification.is_(False),
        )
    )
    # An open case whose place went to others is not left to do.
    holding = connection.execute(own).scalar_one()
    known = _known(connection, project_id, person)
    return Progress(
        done=member.done,
        skipped=member.skipped + known["skipped"],
        left=wanting - member.offered_open - full[False] + holding,
        open_for_others=member.offered_open - full[True],
        qualification_done=known["saved"],
        qualification_left=known["left"],
    )


def _known(connection: Connection, project_id: str, person: str) -> Counter[str]:
    """The person's qualification cases by state; `left` those not met, or open with a place."""
    query = (
        select(ASSIGNMENTS.c.state, ASSIGNMENTS.c.place)
        .select_from(
            PROJECT_CASES.outerjoin(
                ASSIGNMENTS,
                and_(
                    ASSIGNMENTS.c.project_id == PROJECT_CASES.c.project_id,
                    ASSIGNMENTS.c.case_id == PROJECT_CASES.c.case_id,
                    ASSIGNMENTS.c.person == person,
                ),
            )
        )
        # As many places as people: these always want labels, so that the index of such cases holds them all.
        .where(PROJECT_CASES.c.project_id == project_id, PROJECT_CASES.c.qualification.is_(True), wants_labels())
    )
    counts: Counter[str] = Counter()
    for state, place in connection.execute(query):
        if state is not None:
            counts[state] += 1
        if state is None or (state == State.OPEN.value and place is not None):
            counts["left"] += 1
    return counts
