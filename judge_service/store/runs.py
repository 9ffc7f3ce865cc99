"""Runs and their planned cases. What is left to do is planned minus recorded; nothing else is kept in step.

Owns the transitions between states: each is one conditional update, so a late writer never takes a state back.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    RowMapping,
    and_,
    cast,
    delete,
    exists,
    func,
    insert,
    not_,
    or_,
    select,
    type_coerce,
    update,
)
from sqlalchemy import case as when

from judge_service.domain.case import Case
from judge_service.domain.judgment import Judgment
from judge_service.domain.outcome import Outcome
from judge_service.domain.run import PlannedCase, Run, RunStatus
from judge_service.errors import Conflict, NotFound
from judge_service.store.bulk import BulkFind, BulkInsert
from judge_service.store.engine import Database
from judge_service.store.judgments import CALLS, JUDGMENTS, load
from judge_service.store.tables import RunCaseRow, RunRow, table

RUNS = table(RunRow)
CASES = table(RunCaseRow)
_insert_cases = BulkInsert(CASES)
_find_planned = BulkFind(CASES, ("position",), "identity", "run_id = {mark}")

_CURRENT = and_(JUDGMENTS.c.identity == CASES.c.identity, JUDGMENTS.c.superseded_at.is_(None))
_FAILED = JUDGMENTS.c.outcome == Outcome.JUDGE_ERROR.value
_ROWS = 500
_OPEN = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.CANCELLING)


@dataclass(frozen=True, slots=True)
class OutcomeCount:
    """How many cases of a run share outcome, reason and label, with sums. Sums are None where nothing is known."""

    outcome: Outcome
    reason: str | None
    label: str | None
    n: int
    score_sum: float | None = None
    score_square_sum: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    n_repeated: int = 0
    """Cases with two or more votes, a panel's included; `vote_share_sum` and `n_unstable` are over these."""
    vote_share_sum: float | None = None
    n_unstable: int = 0


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A planned case of a run and how it ended, without texts and calls. `outcome` None: not judged yet.

    `group` and `metadata` are those of this run's case: a judgment may have been made for another run first.
    """

    case_id: str
    identity: str
    group: str | None
    metadata: Mapping[str, Any]
    outcome: Outcome | None
    reason: str | None = None
    label: str | None = None
    score: float | None = None
    enforcement: str | None = None
    judge_hash: str | None = None
    model: str | None = None
    votes_asked: int | None = None
    """Repeats of the run's judge for this case, those with a vote, and their largest share; None for a panel."""
    votes_cast: int | None = None
    vote_share: float | None = None
    judgment_id: str | None = None
    judged_in: str | None = None
    """The run that the judgment was made for."""
    latency_ms: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class CallCount:
    """Requests to models behind a run's current judgments: all of them, those from the cache, failed and repeated."""

    calls: int
    cached: int
    failed: int
    further_attempts: int


@dataclass(frozen=True, slots=True)
class Only:
    """Which results: scored from `score_from` to `score_to`, both included; of the slice (key, value as text)."""

    slice: tuple[str, str] | None = None
    score_from: float | None = None
    score_to: float | None = None


class Runs:
    """The run tables."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    def create(self, run: Run) -> Run:
        """Store a new run; one that is stored already under that id is returned as it is."""

        def work(connection: Connection) -> Run:
            there = _find(connection, run.id)
            if there is not None:
                return there
            fields = run.model_dump(mode="python")
            row = fields | {"judge": run.judge.model_dump(mode="json"), "status": run.status.value}
            connection.execute(insert(RUNS), row)
            return run

        return self._database.write(work)

    def get(self, run_id: str) -> Run | None:
        """A run by its id."""
        with self._database.read() as connection:
            return _find(connection, run_id)

    def list(self, *, limit: int = 50, before: Run | None = None, status: RunStatus | None = None) -> "Sequence[Run]":
        """Runs, newest first; `before` is the last one of the page before."""
        query = select(RUNS).order_by(RUNS.c.created_at.desc(), RUNS.c.id.desc()).limit(limit)
        if before is not None:
            same = and_(RUNS.c.created_at == before.created_at, RUNS.c.id < before.id)
            query = query.where(or_(RUNS.c.created_at < before.created_at, same))
        if status is not None:
            query = query.where(RUNS.c.status == status.value)
        with self._database.read() as connection:
            return [run_of(row) for row in connection.execute(query).mappings()]

    def of_source(self, source: str) -> "Sequence[Run]":
        """The runs with exactly this source, oldest first."""
        query = select(RUNS).where(RUNS.c.source == source).order_by(RUNS.c.created_at, RUNS.c.id)
        with self._database.read() as connection:
            return [run_of(row) for row in connection.execute(query).mappings()]

    def plan(self, run_id: str, cases: Sequence[PlannedCase]) -> int:
        """Store the next planned cases; how many were new. Planning the same again is a no-op.

        Raises Conflict when another case is planned at a position, or the same work at another position.
        """

        def work(connection: Connection) -> int:
            # Before the look at what is there: two that plan the same take turns.
            run = _must(connection, run_id, lock=True)
            there: dict[int, str] = {}
            # Positions are planned in their order: what comes after the last is new.
            if any(case.position < run.n_planned for case in cases):
                positions = [case.position for case in cases]
                query = select(CASES.c.position, CASES.c.identity)
                query = query.where(CASES.c.run_id == run_id, CASES.c.position.in_(positions))
                there = {row.position: row.identity for row in connection.execute(query)}
            for case in cases:
                if there.get(case.position, case.identity) != case.identity:
                    raise Conflict(
                        f"Case {case.case.id!r} is not what run {run_id} planned at this place: the cases, the rubric "
                        "or the judge changed. Start a new run."
                    )
            new = [case for case in cases if case.position not in there]
            if not new:
                return 0
            if run.planned:
                raise Conflict(f"Run {run_id} holds {run.n_planned} cases and no more can be added: start a new run.")
            taken = {identity for _, identity in _find_planned(connection, [case.identity for case in new], run_id)}
            rows = []
            for case in new:
                if case.identity in taken:
                    raise Conflict(f"Case {case.case.id!r} is in run {run_id} twice.", extra={"case_id": case.case.id})
                taken.add(case.identity)
                place = {"run_id": run_id, "position": case.position}
                rows.append({**place, "identity": case.identity, "case": case.case})
            _insert_cases(connection, rows)
            more = RUNS.c.n_planned + len(new)
            values = {"n_planned": more, "heartbeat_at": self._clock()}
            connection.execute(update(RUNS).where(RUNS.c.id == run_id).values(**values))
            return len(new)

        # `seal` waits for the disk, and with it for all that was committed before.
        return self._database.write(work, swift=True)

    def seal(self, run_id: str, n_planned: int) -> Run:
        """All cases are planned. Raises Conflict when the run holds another number of cases."""

        def work(connection: Connection) -> Run:
            count = select(func.count()).select_from(CASES).where(CASES.c.run_id == run_id)
            found = connection.execute(count).scalar_one()
            if found != n_planned:
                raise Conflict(f"Run {run_id} holds {found} cases, not {n_planned}: start a new run.")
            values = {"planned": True, "n_planned": found, "worker": None, "heartbeat_at": None}
            open_ = update(RUNS).where(RUNS.c.id == run_id, RUNS.c.planned.is_(False))
            connection.execute(open_.values(**values))
            return _must(connection, run_id)

        return self._database.write(work)

    def pending(
        self,
        run_id: str,
        *,
        after: int = -1,
        before: int | None = None,
        limit: int = 256,
        retry_errors: bool = False,
        retry: "Sequence[str]" = (),
    ) -> "Sequence[PlannedCase]":
        """The next cases with work left, by position, in (`after`, `before`).

        Left is what has no current judgment, and what has a judge error of another run. With `retry_errors` this
        run's own judge errors are left too, and in any case the judge errors with the ids `retry`: once they were
        asked again, they are not current any more.
        """
        failed = or_(_retried(run_id, retry_errors), and_(_FAILED, JUDGMENTS.c.id.in_(retry)))
        query = (
            select(CASES.c.position, CASES.c.identity, CASES.c.case)
            .select_from(CASES.outerjoin(JUDGMENTS, _CURRENT))
            .where(CASES.c.run_id == run_id, CASES.c.position > after, or_(JUDGMENTS.c.id.is_(None), failed))
            .order_by(CASES.c.position)
            .limit(limit)
        )
        if before is not None:
            query = query.where(CASES.c.position < before)
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        return [PlannedCase.model_validate(dict(row)) for row in rows]

    def results(
        self,
        run_id: str,
        *,
        after: int = -1,
        limit: int = 256,
        outcome: Outcome | None = None,
        only: "Only | None" = None,
        calls: bool = True,
    ) -> "Sequence[tuple[int, Judgment]]":
        """The cases' current judgments with their positions, in planned order; cases not judged are left out.

        `outcome` and `only` say which. Without `calls` the judgments hold none, which is most of what there is to read.
        """
        only = only or Only()
        columns = [CASES.c.position, JUDGMENTS.c.id, *([CASES.c.case] if only.slice is not None else [])]
        query = (
            select(*columns)
            .select_from(CASES.join(JUDGMENTS, _CURRENT))
            .where(CASES.c.run_id == run_id)
            .order_by(CASES.c.position)
            .limit(limit)
        )
        if outcome is not None:
            query = query.where(JUDGMENTS.c.outcome == outcome.value)
        if only.score_from is not None:
            query = query.where(JUDGMENTS.c.score >= only.score_from)
        if only.score_to is not None:
            query = query.where(JUDGMENTS.c.score <= only.score_to)
        with self._database.read() as connection:
            places: dict[str, int] = {}
            while len(places) < limit:
                page = connection.execute(query.where(CASES.c.position > after)).all()
                for row in page:
                    if only.slice is None or _in_slice(row.case, *only.slice):
                        places[row.id] = row.position
                if len(page) < limit:
                    break
                after = page[-1].position
            judgments = []
            ids = list(places)[:limit]
            for start in range(0, len(ids), _ROWS):
                page_of = select(JUDGMENTS).where(JUDGMENTS.c.id.in_(ids[start : start + _ROWS]))
                judgments += load(connection, page_of, calls=calls)
        return sorted(((places[judgment.id], judgment) for judgment in judgments), key=lambda pair: pair[0])

    def rows(self, run_id: str) -> Iterator[ResultRow]:
        """Every planned case in order with its current judgment's figures, read a page at a time."""
        columns = (
            *("outcome", "reason", "label", "score", "enforcement", "judge_hash", "model"),
            *("latency_ms", "prompt_tokens", "completion_tokens", "cost_usd"),
        )
        more = (JUDGMENTS.c.id.label("judgment_id"), JUDGMENTS.c.run_id.label("judged_in"))
        query = (
            select(
                *(CASES.c.position, CASES.c.identity, CASES.c.case, JUDGMENTS.c.votes, *more),
                *(JUDGMENTS.c[name] for name in columns),
            )
            .select_from(CASES.outerjoin(JUDGMENTS, _CURRENT))
            .where(CASES.c.run_id == run_id)
            .order_by(CASES.c.position)
            .limit(_ROWS)
        )
        after = -1
        with self._database.read() as connection:
            judge = connection.execute(select(RUNS.c.judge).where(RUNS.c.id == run_id)).scalar_one_or_none()
        panel = bool(judge and judge.get("panel"))
        while True:
            with self._database.read() as connection:
                page = connection.execute(query.where(CASES.c.position > after)).mappings().all()
            for row in page:
                fields = {name: row[name] for name in (*columns[1:], "judgment_id", "judged_in")}
                outcome = None if row["outcome"] is None else Outcome(row["outcome"])
                case = row["case"]
                if not panel and (votes := row["votes"]) is not None:
                    fields |= {"votes_asked": votes["asked"], "votes_cast": votes["cast"]}
                    fields |= {"vote_share": votes["share"]}
                yield ResultRow(
                    case["id"], row["identity"], case.get("group"), case.get("metadata") or {}, outcome, **fields
                )
            if len(page) < _ROWS:
                return
            after = page[-1]["position"]

    def call_count(self, run_id: str) -> CallCount:
        """The requests behind the run's current judgments, whichever run they were made for."""
        c = CALLS.c
        query = (
            select(
                func.count(),
                func.count().filter(c.cached),
                func.count().filter(c.error.is_not(None)),
                func.count().filter(c.attempt > 1),
            )
            .select_from(CASES.join(JUDGMENTS, _CURRENT).join(CALLS, c.judgment_id == JUDGMENTS.c.id))
            .where(CASES.c.run_id == run_id)
        )
        with self._database.read() as connection:
            return CallCount(*connection.execute(query).one())

    def calls_of(self, run_id: str) -> dict[str, int]:
        """How many requests are behind each current judgment of the run, by judgment id; those without are left out."""
        query = (
            select(CALLS.c.judgment_id, func.count().label("n"))
            .select_from(CASES.join(JUDGMENTS, _CURRENT).join(CALLS, CALLS.c.judgment_id == JUDGMENTS.c.id))
            .where(CASES.c.run_id == run_id)
            .group_by(CALLS.c.judgment_id)
        )
        with self._database.read() as connection:
            return {row.judgment_id: row.n for row in connection.execute(query)}

    def cases_of(self, run_id: str, identities: Sequence[str]) -> dict[str, Case]:
        """The planned cases of these identities, by identity."""
        query = select(CASES.c.identity, CASES.c.case).where(CASES.c.run_id == run_id, CASES.c.identity.in_(identities))
        with self._database.read() as connection:
            return {row.identity: Case.model_validate(row.case) for row in connection.execute(query)}

    def planning(self, identity: str, *, limit: int = 20) -> "Sequence[tuple[Run, Case]]":
        """The runs that planned this work, newest first, each with its case; none for work outside runs."""
        here = and_(CASES.c.run_id == RUNS.c.id, CASES.c.identity == identity)
        query = select(RUNS, CASES.c.case).select_from(RUNS.join(CASES, here))
        query = query.order_by(RUNS.c.created_at.desc(), RUNS.c.id.desc()).limit(limit)
        with self._database.read() as connection:
            rows = [dict(row) for row in connection.execute(query).mappings()]
        return [(Run.model_validate(row), Case.model_validate(case)) for row in rows for case in (row.pop("case"),)]

    def identities(self, run_ids: Sequence[str]) -> set[str]:
        """The work planned in any of these runs."""
        query = select(CASES.c.identity).where(CASES.c.run_id.in_(run_ids))
        with self._database.read() as connection:
            return set(connection.execute(query).scalars())

    def counts(self, run_id: str, *, settled_for: bool | None = None) -> "Sequence[OutcomeCount]":
        """The run's current judgments, counted by outcome, reason and label.

        With `settled_for` those that `pending(retry_errors=settled_for)` would judge again are left out.
        """
        c = JUDGMENTS.c
        # Votes are kept as text: SQLite reads it as JSON where it stands, PostgreSQL wants it said.
        document: Any = type_coerce(c.votes, JSON) if self._database.is_sqlite else cast(c.votes, JSON)
        share = when((document["cast"].as_integer() >= 2, document["share"].as_float()))
        query = (
            select(
                c.outcome,
                c.reason,
                c.label,
                func.count().label("n"),
                func.sum(c.score).label("score_sum"),
                func.sum(c.score * c.score).label("score_square_sum"),
                func.sum(c.prompt_tokens).label("prompt_tokens"),
                func.sum(c.completion_tokens).label("completion_tokens"),
                func.sum(c.cost_usd).label("cost_usd"),
                func.count(share).label("n_repeated"),
                func.sum(share).label("vote_share_sum"),
                func.count(when((share < 1, 1))).label("n_unstable"),
            )
            .select_from(CASES.join(JUDGMENTS, _CURRENT))
            .where(CASES.c.run_id == run_id)
            .group_by(c.outcome, c.reason, c.label)
            .order_by(c.outcome, c.reason, c.label)
        )
        if settled_for is not None:
            query = query.where(not_(_retried(run_id, settled_for)))
        with self._database.read() as connection:
            return [
                OutcomeCount(
                    outcome=Outcome(row["outcome"]),
                    reason=row["reason"],
                    label=row["label"],
                    n=row["n"],
                    score_sum=row["score_sum"],
                    score_square_sum=row["score_square_sum"],
                    # PostgreSQL sums bigint as numeric.
                    prompt_tokens=None if row["prompt_tokens"] is None else int(row["prompt_tokens"]),
                    completion_tokens=None if row["completion_tokens"] is None else int(row["completion_tokens"]),
                    cost_usd=row["cost_usd"],
                    n_repeated=row["n_repeated"],
                    vote_share_sum=row["vote_share_sum"],
                    n_unstable=row["n_unstable"],
                )
                for row in connection.execute(query).mappings()
            ]

    def start(self, run_id: str, worker: str, *, instead_of: str | None = None, resume: bool = False) -> Run:
        """To `running`, worked on by `worker`. With `resume` an ended run starts again.

        Raises Conflict for a state that forbids it, and when another worker than `instead_of` holds the run: of
        several that take over a dead worker's run one succeeds.
        """
        allowed = {RunStatus.QUEUED, RunStatus.RUNNING}
        if resume:
            allowed |= {RunStatus.CANCELLED, RunStatus.FAILED, RunStatus.FINISHED_WITH_ERRORS, RunStatus.FINISHED}

        def work(connection: Connection) -> Run:
            now = self._clock()
            there = _must(connection, run_id, lock=True)
            values = {
                "status": RunStatus.RUNNING.value,
                "message": None,
                "worker": worker,
                "heartbeat_at": now,
                "started_at": there.started_at or now,
                "finished_at": None,
            }
            if there.worker not in (None, instead_of, worker):
                raise Conflict(f"Run {run_id} is being worked on already.")
            if not _move(connection, run_id, allowed, values):
                raise Conflict(f"Run {run_id} is {there.status}: it cannot be started. Resume it explicitly.")
            return _must(connection, run_id)

        return self._database.write(work)

    def requeue(self, run_id: str, *, instead_of: str | None = None) -> Run:
        """From an end state, or from a dead worker `instead_of`, back to `queued`. Raises NotFound and Conflict."""

        def work(connection: Connection) -> Run:
            there = _must(connection, run_id, lock=True)
            if there.worker not in (None, instead_of):
                raise Conflict(f"Run {run_id} is being worked on already.")
            values = {"status": RunStatus.QUEUED.value, "worker": None, "message": None, "finished_at": None}
            _move(connection, run_id, set(RunStatus) - {RunStatus.CANCELLING}, values)
            return _must(connection, run_id)

        return self._database.write(work)

    def beat(self, run_id: str, worker: str) -> Run:
        """Say that `worker` still works on the run; the run as it is now (it may have been cancelled elsewhere)."""

        def work(connection: Connection) -> Run:
            mine = update(RUNS).where(RUNS.c.id == run_id, RUNS.c.worker == worker)
            connection.execute(mine.values(heartbeat_at=self._clock()))
            return _must(connection, run_id)

        return self._database.write(work, swift=True)

    def finish(self, run_id: str, status: RunStatus, message: str | None = None) -> Run:
        """To an end state. A run that is being cancelled ends as cancelled, an ended run stays as it is."""

        def work(connection: Connection) -> Run:
            values = {"message": message, "finished_at": self._clock(), "worker": None}
            _move(
                connection,
                run_id,
                {RunStatus.CANCELLING},
                values | {"status": RunStatus.CANCELLED.value, "message": None},
            )
            _move(connection, run_id, {RunStatus.QUEUED, RunStatus.RUNNING}, values | {"status": status.value})
            return _must(connection, run_id)

        return self._database.write(work)

    def release(self, run_id: str, *, to: str | None = None) -> Run:
        """Back to `queued`: the process stops in good order and another may go on. `to` says which ones should."""

        def work(connection: Connection) -> Run:
            values = {"status": RunStatus.QUEUED.value, "worker": to, "heartbeat_at": None}
            _move(connection, run_id, {RunStatus.RUNNING}, values)
            return _must(connection, run_id)

        return self._database.write(work)

    def leave(self, run_id: str, to: str | None) -> None:
        """A queued run that its process did not come to start is for the others named `to`."""
        self._database.write(lambda connection: _move(connection, run_id, {RunStatus.QUEUED}, {"worker": to}))

    def cancel(self, run_id: str) -> Run:
        """Ask for the end; twice is harmless. A queued run is cancelled at once. Conflict when ended, or NotFound."""

        def work(connection: Connection) -> Run:
            there = _must(connection, run_id, lock=True)
            if there.status.ended and there.status is not RunStatus.CANCELLED:
                raise Conflict(f"Run {run_id} is {there.status} already: there is nothing to cancel.")
            done = {"status": RunStatus.CANCELLED.value, "finished_at": self._clock()}
            _move(connection, run_id, {RunStatus.QUEUED}, done)
            _move(connection, run_id, {RunStatus.RUNNING}, {"status": RunStatus.CANCELLING.value})
            return _must(connection, run_id)

        return self._database.write(work)

    def delete(self, run_id: str) -> int:
        """Delete an ended run with its cases and every judgment, superseded ones too, that no other run planned.

        Returns the number of judgments deleted. Raises NotFound, and Conflict while the run has not ended.
        """

        def judgments(connection: Connection) -> int:
            run = _must(connection, run_id, lock=True)
            if not run.status.ended:
                raise Conflict(f"Run {run_id} is {run.status}: cancel it and wait for its end before it is deleted.")
            others = CASES.alias()
            shared = exists().where(others.c.identity == JUDGMENTS.c.identity, others.c.run_id != run_id)
            planned = exists().where(CASES.c.identity == JUDGMENTS.c.identity, CASES.c.run_id == run_id)
            mine = select(JUDGMENTS.c.id).where(or_(JUDGMENTS.c.run_id == run_id, planned), ~shared).limit(_ROWS)
            return int(connection.execute(delete(JUDGMENTS).where(JUDGMENTS.c.id.in_(mine))).rowcount)

        deleted = 0
        # In pages: a long transaction would hold up everyone who writes.
        while page := self._database.write(judgments):
            deleted += page
        self._database.write(lambda connection: connection.execute(delete(RUNS).where(RUNS.c.id == run_id)).rowcount)
        return deleted

    def ended_before(self, time: datetime, *, limit: int = 100) -> "Sequence[Run]":
        """Runs that ended before that time, oldest first."""
        query = (
            select(RUNS)
            .where(RUNS.c.finished_at < time, RUNS.c.status.not_in([status.value for status in _OPEN]))
            .order_by(RUNS.c.finished_at, RUNS.c.id)
            .limit(limit)
        )
        with self._database.read() as connection:
            return [run_of(row) for row in connection.execute(query).mappings()]

    def open(self) -> "Sequence[Run]":
        """Runs that have not ended, oldest first."""
        query = select(RUNS).where(RUNS.c.status.in_([status.value for status in _OPEN]))
        with self._database.read() as connection:
            return [run_of(row) for row in connection.execute(query.order_by(RUNS.c.created_at, RUNS.c.id)).mappings()]


def _in_slice(case: Mapping[str, Any], key: str, value: str) -> bool:
    metadata = case.get("metadata") or {}
    if key not in metadata and key != "group":
        return False
    found = metadata.get(key) if key in metadata else case.get("group")
    if isinstance(found, bool) or found is None:
        return value == {True: "true", False: "false", None: "null"}[found]
    return str(found) == value


def _move(connection: Connection, run_id: str, from_: set[RunStatus], values: dict[str, Any]) -> bool:
    states = [status.value for status in from_]
    moved = connection.execute(update(RUNS).where(RUNS.c.id == run_id, RUNS.c.status.in_(states)).values(**values))
    return bool(moved.rowcount)


def _retried(run_id: str, retry_errors: bool) -> ColumnElement[bool]:
    """Judgments that a run judges again: judge errors of other runs, with `retry_errors` its own too."""
    if retry_errors:
        return _FAILED
    return and_(_FAILED, or_(JUDGMENTS.c.run_id.is_(None), JUDGMENTS.c.run_id != run_id))


def _find(connection: Connection, run_id: str, *, lock: bool = False) -> Run | None:
    query = select(RUNS).where(RUNS.c.id == run_id)
    # SQLite's write transactions exclude each other anyway; its dialect leaves FOR UPDATE out.
    row = connection.execute(query.with_for_update() if lock else query).mappings().one_or_none()
    return None if row is None else run_of(row)


def _must(connection: Connection, run_id: str, *, lock: bool = False) -> Run:
    run = _find(connection, run_id, lock=lock)
    if run is None:
        raise NotFound(f"There is no run {run_id!r}.")
    return run


def run_of(row: RowMapping) -> Run:
    """A run from its row."""
    return Run.model_validate(dict(row))
