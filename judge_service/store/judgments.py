"""Judgments and their raw calls: recorded exactly once, read back exactly as they were.

Owns supersession: a judge error gives way to the next judgment of the same work and stays as history.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, delete, exists, select, update
from sqlalchemy.exc import IntegrityError

from judge_service.domain.judgment import Judgment
from judge_service.domain.outcome import Outcome
from judge_service.store.bulk import BulkFind, BulkInsert
from judge_service.store.engine import Database
from judge_service.store.lookups import Lookups
from judge_service.store.tables import CallRow, JudgmentRow, RunCaseRow, table

JUDGMENTS = table(JudgmentRow)
CALLS = table(CallRow)
_CASES = table(RunCaseRow)
_insert_judgments, _insert_calls = BulkInsert(JUDGMENTS), BulkInsert(CALLS)
_find_current = BulkFind(JUDGMENTS, ("id", "identity", "outcome"), "identity", "superseded_at IS NULL")
_KNOWN = f"SELECT 1 FROM {JUDGMENTS.name} WHERE identity = ? AND superseded_at IS NULL"  # noqa: S608
_USAGE = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")
_BOOKKEEPING = ("superseded_at", "run_id")
_CONFLICT_ATTEMPTS = 5
PAGE = 500
"""Rows asked for at once: below every database's limit of parameters."""


class _Entry(NamedTuple):
    judgment: Judgment
    run_id: str | None
    replace: bool


@dataclass(slots=True)
class _Current:
    id: str
    settled: bool
    row: dict[str, Any] | None = None
    """The row, when it is part of this very batch and not written yet."""


class Judgments:
    """The judgment table. All methods are synchronous unless they say otherwise."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._lookups = Lookups(self.currents, lambda identity: database.lacks(_KNOWN, identity))

    def record(self, judgment: Judgment, run_id: str | None = None, *, replace: bool = False) -> Judgment:
        """Record exactly once and wait for the commit.

        When the identity already has a current judgment that is no judge error, that one is returned and nothing is
        written. A judge error is superseded and kept as history; with `replace` so is anything else.
        """
        return self.submit(judgment, run_id, replace=replace).result()

    async def record_async(self, judgment: Judgment, run_id: str | None = None, *, replace: bool = False) -> Judgment:
        """`record` for async callers. Cancelling the wait does not undo the write."""
        return await asyncio.shield(
            self._database.submit_async(self._record, _Entry(judgment, run_id, replace), swift=False)
        )

    def submit_swiftly(self, judgment: Judgment, run_id: str | None = None) -> "asyncio.Future[Judgment]":
        """`submit` for the running event loop: a killed process does not undo it, a power cut within a second may."""
        return self._database.submit_async(self._record, _Entry(judgment, run_id, replace=False), swift=True)

    def submit(self, judgment: Judgment, run_id: str | None = None, *, replace: bool = False) -> "Future[Judgment]":
        """Queue a record; the future is done after the commit, with what is now current."""
        return self._database.submit_batch(self._record, _Entry(judgment, run_id, replace))

    def get(self, judgment_id: str) -> Judgment | None:
        """A judgment by its id, current or superseded."""
        with self._database.read() as connection:
            return next(iter(load(connection, select(JUDGMENTS).where(JUDGMENTS.c.id == judgment_id))), None)

    def current(self, identity: str) -> Judgment | None:
        """The current judgment of one piece of work."""
        return self.currents((identity,)).get(identity)

    async def current_async(self, identity: str) -> Judgment | None:
        """`current` for async callers; simultaneous lookups share a query."""
        return await self._lookups.find(identity)

    def currents(self, identities: Iterable[str]) -> dict[str, Judgment]:
        """The current judgments by identity; those that have none are left out."""
        wanted = list(dict.fromkeys(identities))
        found: dict[str, Judgment] = {}
        with self._database.read() as connection:
            for start in range(0, len(wanted), PAGE):
                rows = load(connection, _currents(wanted[start : start + PAGE]))
                found.update((judgment.identity, judgment) for judgment in rows)
        return found

    def of_case(self, rubric_hash: str, case_hash: str) -> list[Judgment]:
        """The current judgments of a content under a rubric version, oldest first."""
        query = select(JUDGMENTS).where(
            JUDGMENTS.c.case_hash == case_hash,
            JUDGMENTS.c.rubric_hash == rubric_hash,
            JUDGMENTS.c.superseded_at.is_(None),
        )
        with self._database.read() as connection:
            return load(connection, query.order_by(JUDGMENTS.c.created_at, JUDGMENTS.c.id))

    def of_cases(self, rubric_hash: str, case_hashes: Iterable[str]) -> dict[str, list[Judgment]]:
        """`of_case` of many contents at once, by content, without the calls; what nobody judged is left out."""
        wanted = list(dict.fromkeys(case_hashes))
        found: dict[str, list[Judgment]] = defaultdict(list)
        query = select(JUDGMENTS).where(JUDGMENTS.c.rubric_hash == rubric_hash, JUDGMENTS.c.superseded_at.is_(None))
        query = query.order_by(JUDGMENTS.c.created_at, JUDGMENTS.c.id)
        with self._database.read() as connection:
            for start in range(0, len(wanted), PAGE):
                part = query.where(JUDGMENTS.c.case_hash.in_(wanted[start : start + PAGE]))
                for judgment in load(connection, part, calls=False):
                    found[judgment.case_hash].append(judgment)
        return dict(found)

    def history(self, identity: str) -> list[Judgment]:
        """Every judgment of one piece of work, oldest first; the current one is the last."""
        query = (
            select(JUDGMENTS)
            .where(JUDGMENTS.c.identity == identity)
            .order_by(JUDGMENTS.c.superseded_at.is_(None), JUDGMENTS.c.superseded_at, JUDGMENTS.c.created_at)
        )
        with self._database.read() as connection:
            return load(connection, query)

    def forget_lone(self, before: datetime) -> int:
        """Delete judgments made before that time that no run planned; how many were deleted."""
        planned = exists().where(_CASES.c.identity == JUDGMENTS.c.identity)
        lone = select(JUDGMENTS.c.id).where(JUDGMENTS.c.created_at < before, JUDGMENTS.c.run_id.is_(None), ~planned)
        statement = delete(JUDGMENTS).where(JUDGMENTS.c.id.in_(lone.limit(PAGE)))
        deleted = 0
        while page := self._database.write(lambda connection: int(connection.execute(statement).rowcount)):
            deleted += page
        return deleted

    def _record(self, connection: Connection, entries: Sequence[_Entry]) -> list[Judgment]:
        if self._database.is_sqlite or not connection.in_nested_transaction():
            # SQLite's write lock excludes what the savepoints below are for, and elsewhere it is rare: the writer
            # tries again with one.
            return self._record_once(connection, entries)
        for attempt in range(_CONFLICT_ATTEMPTS):
            try:
                with connection.begin_nested():
                    return self._record_once(connection, entries)
            except IntegrityError:
                # On PostgreSQL another process may record the same work between our look and our insert; its row
                # is visible to the next look.
                if attempt == _CONFLICT_ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _record_once(self, connection: Connection, entries: Sequence[_Entry]) -> list[Judgment]:
        now = self._clock()
        identities = list({entry.judgment.identity for entry in entries})
        current = {
            identity: _Current(there, outcome != Outcome.JUDGE_ERROR)
            for there, identity, outcome in _find_current(connection, identities)
        }
        answers: list[str] = []
        rows: list[dict[str, Any]] = []
        calls: list[dict[str, Any]] = []
        superseded: list[str] = []
        written: dict[str, Judgment] = {}
        for entry in entries:
            judgment = entry.judgment
            there = current.get(judgment.identity)
            if there is not None:
                if there.id == judgment.id or (there.settled and not entry.replace):
                    answers.append(there.id)
                    continue
                if there.row is not None:
                    there.row["superseded_at"] = now
                else:
                    superseded.append(there.id)
            row = _judgment_row(judgment, entry.run_id)
            rows.append(row)
            calls.extend(_call_rows(judgment))
            written[judgment.id] = judgment
            answers.append(judgment.id)
            current[judgment.identity] = _Current(judgment.id, judgment.outcome is not Outcome.JUDGE_ERROR, row)
        if superseded:
            statement = update(JUDGMENTS).where(JUDGMENTS.c.id.in_(superseded), JUDGMENTS.c.superseded_at.is_(None))
            connection.execute(statement.values(superseded_at=now))
        _insert_judgments(connection, rows)
        _insert_calls(connection, calls)
        known = set(answers) - written.keys()
        if known:
            stored = load(connection, select(JUDGMENTS).where(JUDGMENTS.c.id.in_(known)))
            written.update((judgment.id, judgment) for judgment in stored)
        return [written[answer] for answer in answers]


def _currents(identities: Sequence[str]) -> Select[Any]:
    return select(JUDGMENTS).where(JUDGMENTS.c.identity.in_(identities), JUDGMENTS.c.superseded_at.is_(None))


def load(connection: Connection, query: Select[Any], *, calls: bool = True) -> list[Judgment]:
    """The judgments a query over the judgment table finds, in the query's order; with their calls, or without any."""
    rows = [dict(row) for row in connection.execute(query).mappings()]
    made: dict[str, list[dict[str, Any]]] = defaultdict(list)
    ids = [row["id"] for row in rows] if calls else []
    for start in range(0, len(ids), PAGE):
        of = select(CALLS).where(CALLS.c.judgment_id.in_(ids[start : start + PAGE]))
        for call in connection.execute(of.order_by(CALLS.c.judgment_id, CALLS.c.position)).mappings():
            made[call["judgment_id"]].append(_call_fields(dict(call)))
    return [_judgment(row, made.get(row["id"], [])) for row in rows]


def _nest_usage(fields: dict[str, Any]) -> dict[str, Any]:
    fields["usage"] = {name: fields.pop(name) for name in _USAGE}
    return fields


def _judgment_row(judgment: Judgment, run_id: str | None) -> dict[str, Any]:
    return {
        # Columns of JSON take the records as they are; the calls are rows of their own.
        **vars(judgment),
        **vars(judgment.usage),
        "outcome": judgment.outcome.value,
        "reason": None if judgment.reason is None else judgment.reason.value,
        "enforcement": judgment.enforcement.value,
        "superseded_at": None,
        "run_id": run_id,
    }


def _call_rows(judgment: Judgment) -> list[dict[str, Any]]:
    return [
        {
            **vars(call),
            **vars(call.usage),
            "enforcement": call.enforcement.value,
            "judgment_id": judgment.id,
            "position": position,
        }
        for position, call in enumerate(judgment.calls)
    ]


def _call_fields(row: dict[str, Any]) -> dict[str, Any]:
    del row["judgment_id"], row["position"]
    return _nest_usage(row)


def _judgment(row: dict[str, Any], calls: list[dict[str, Any]]) -> Judgment:
    fields = {name: value for name, value in row.items() if name not in _BOOKKEEPING}
    return Judgment.model_validate(_nest_usage(fields) | {"calls": calls})
