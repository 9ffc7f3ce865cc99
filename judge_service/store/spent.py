"""Which cases are no test any more, by their content: copies, new versions and other sets share that knowledge.

Owns the tables' side of the rule in docs/calibration-sets.md. All functions work inside a caller's transaction.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Exists, RowMapping, Select, and_, exists, func, literal, select
from sqlalchemy.dialects import postgresql, sqlite

from judge_service.domain.calibration_set import SetUse, Spent, SpentBy, SpentCase, Split, UsePurpose
from judge_service.store.tables import SetCaseRow, SetRow, SetUseRow, SpentCaseRow, table
from judge_service.store.types import UtcDateTime

SETS = table(SetRow)
SET_CASES = table(SetCaseRow)
USES = table(SetUseRow)
SPENT = table(SpentCaseRow)
MOST_LISTED = 100
"""How many spent or shared cases are listed; all are counted."""

IS_SPENT: Exists = exists().where(SPENT.c.content_hash == SET_CASES.c.content_hash)
"""Whether the content of a row of `set_cases` is spent."""

_OTHER = SET_CASES.alias("other")
_OWNER = SETS.alias("owner")
_IN_RELEASE = exists().where(
    _OTHER.c.content_hash == SET_CASES.c.content_hash,
    _OTHER.c.split == Split.RELEASE.value,
    _OWNER.c.id == _OTHER.c.set_id,
    _OWNER.c.status == "frozen",
)


def closed(set_id: str) -> Any:
    """The condition for cases of the version that are a test still in some frozen release split."""
    return and_(SET_CASES.c.set_id == set_id, _IN_RELEASE, ~IS_SPENT)


def spend_split(connection: Connection, set_id: str, split: Split, why: SpentBy, at: datetime) -> None:
    """Spend those cases of a split that stand in a frozen release split, here or in another version."""
    chosen = and_(SET_CASES.c.set_id == set_id, SET_CASES.c.split == split.value, _IN_RELEASE)
    _spend(connection, chosen, why, set_id, at)


def spend_frozen(connection: Connection, set_id: str, at: datetime) -> None:
    """Spend what a version that is frozen now holds outside release, and what is grouped with a spent case."""
    elsewhere = and_(SET_CASES.c.set_id == set_id, SET_CASES.c.split != Split.RELEASE.value)
    _spend(connection, elsewhere, SpentBy.OTHER_SPLIT, set_id, at)


def _spend(connection: Connection, chosen: Any, why: SpentBy, set_id: str, at: datetime) -> None:
    _insert(connection, select(SET_CASES).where(chosen), why, set_id, at)
    mates = SET_CASES.alias("mates")
    known = exists().where(SPENT.c.content_hash == mates.c.content_hash)
    together = exists().where(mates.c.set_id == SET_CASES.c.set_id, mates.c.group == SET_CASES.c.group, known)
    in_frozen = exists().where(SETS.c.id == SET_CASES.c.set_id, SETS.c.status == "frozen")
    grouped = select(SET_CASES).where(
        SET_CASES.c.split == Split.RELEASE.value, SET_CASES.c.group.is_not(None), in_frozen, together
    )
    while connection.execute(grouped.where(~IS_SPENT).limit(1)).first() is not None:
        # What is spent here may stand in other groups of other versions: those are the next round's.
        _insert(connection, grouped, SpentBy.GROUP, set_id, at)


def _insert(connection: Connection, rows: Select[Any], why: SpentBy, set_id: str, at: datetime) -> None:
    values = rows.with_only_columns(
        SET_CASES.c.content_hash,
        literal(why.value),
        literal(set_id),
        func.min(SET_CASES.c.split),
        literal(at, UtcDateTime()),
    ).group_by(SET_CASES.c.content_hash)
    dialect: Any = sqlite if connection.dialect.name == "sqlite" else postgresql
    columns = ["content_hash", "why", "set_id", "split", "at"]
    statement = dialect.insert(SPENT).from_select(columns, values.where(~IS_SPENT)).on_conflict_do_nothing()
    connection.execute(statement)


def spent_of(connection: Connection, set_id: str) -> Spent:
    """The spent cases of the version's release split, in its order."""
    held = SET_CASES.join(SPENT, SPENT.c.content_hash == SET_CASES.c.content_hash)
    chosen = and_(SET_CASES.c.set_id == set_id, SET_CASES.c.split == Split.RELEASE.value)
    n = connection.execute(select(func.count()).select_from(held).where(chosen)).scalar_one()
    columns = (SET_CASES.c.case_id, SPENT.c.why, SPENT.c.set_id, SPENT.c.split, SPENT.c.at)
    query = select(*columns).select_from(held).where(chosen).order_by(SET_CASES.c.position).limit(MOST_LISTED)
    return Spent(n=n, cases=tuple(SpentCase.model_validate(dict(row)) for row in connection.execute(query).mappings()))


def at_stake(connection: Connection, set_id: str) -> list[RowMapping]:
    """Cases that stand in another split here and in a frozen release split elsewhere: a freeze would spend them there.

    Rows of `case_id`, `split` and the `set_id` they are a test of.
    """
    columns = (SET_CASES.c.case_id, SET_CASES.c.split, func.min(_OTHER.c.set_id).label("set_id"))
    held = (
        SET_CASES.join(_OTHER, _OTHER.c.content_hash == SET_CASES.c.content_hash)
        .join(_OWNER, _OWNER.c.id == _OTHER.c.set_id)
        .outerjoin(SPENT, SPENT.c.content_hash == SET_CASES.c.content_hash)
    )
    query = (
        select(*columns)
        .select_from(held)
        .where(SET_CASES.c.set_id == set_id, SET_CASES.c.split != Split.RELEASE.value, SPENT.c.content_hash.is_(None))
        .where(_OTHER.c.split == Split.RELEASE.value, _OWNER.c.status == "frozen", _OTHER.c.set_id != set_id)
        .group_by(SET_CASES.c.case_id, SET_CASES.c.split, SET_CASES.c.position)
        .order_by(SET_CASES.c.position)
    )
    return list(connection.execute(query).mappings())


def uses_of_release(connection: Connection, set_id: str, judge_hashes: Sequence[str] | None = None) -> list[SetUse]:
    """Uses of release splits, oldest first, that hold a case of this version's: its own and those of other versions.

    With `judge_hashes` only where those judges were scored.
    """
    mine = SET_CASES.alias("mine")
    shared = exists().where(
        _OTHER.c.set_id == USES.c.set_id,
        _OTHER.c.split == Split.RELEASE.value,
        mine.c.set_id == set_id,
        mine.c.content_hash == _OTHER.c.content_hash,
    )
    query = select(USES).where(USES.c.split == Split.RELEASE.value, shared)
    if judge_hashes is not None:
        query = query.where(USES.c.purpose == UsePurpose.SCORED.value, USES.c.judge_hash.in_(judge_hashes))
    query = query.order_by(USES.c.at, USES.c.id)
    return [SetUse.model_validate(dict(row)) for row in connection.execute(query).mappings()]
