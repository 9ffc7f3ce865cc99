"""Chunks: the parts of a run that workers take. A run whose chunks are all done has nothing left to hand out.

Owns which chunks there are and which are done; who works on one is the queue's.
"""

import uuid
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, func, insert, select, update

from judge_service.domain.outcome import Outcome
from judge_service.store.engine import Database
from judge_service.store.judgments import JUDGMENTS
from judge_service.store.tables import RunCaseRow, RunChunkRow, RunRow, table

CHUNKS = table(RunChunkRow)
_RUNS = table(RunRow)
_CASES = table(RunCaseRow)
SMALLEST, LARGEST = 8, 256
"""Cases of a chunk. Small ones share a short run among many workers, large ones keep a long one's list short."""
_PARTS = 64
_TAIL = 16
"""Chunks' worth of cases at the end of a run that are cut finer, by four: workers then end at about the same time."""
_PAGE = 500


@dataclass(frozen=True, slots=True)
class Chunk:
    """Positions `first` to `last` of a run, both included. `round` changes with every start of the run."""

    run_id: str
    number: int
    round: str
    first: int
    last: int
    retry: Sequence[str] = ()
    """The failed judgments that are asked again: those that were current when the run was cut."""


class Chunks:
    """The table of chunks."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    def cut(self, run_id: str, n: int, *, retry_errors: bool, again: bool = True) -> Sequence[Chunk]:
        """Cut a run of `n` cases anew and return its chunks, with `retry_errors` with what failed to be asked again.

        Without `again` chunks that are there stay, and those that are not done are returned.
        """

        def work(connection: Connection) -> list[Chunk]:
            # One at a time: two processes that find the same interrupted run agree on its chunks.
            connection.execute(select(_RUNS.c.id).where(_RUNS.c.id == run_id).with_for_update())
            if not again:
                there = select(func.count()).select_from(CHUNKS).where(CHUNKS.c.run_id == run_id)
                if connection.execute(there).scalar_one():
                    return _open(connection, run_id)
            connection.execute(delete(CHUNKS).where(CHUNKS.c.run_id == run_id))
            label = uuid.uuid4().hex
            chunks = [Chunk(run_id, number, label, first, last) for number, (first, last) in enumerate(spans(n))]
            for start in range(0, len(chunks), _PAGE):
                page = chunks[start : start + _PAGE]
                failed = _failed(connection, page) if retry_errors else {}
                page = [replace(chunk, retry=failed.get(chunk.number, ())) for chunk in page]
                chunks[start : start + _PAGE] = page
                connection.execute(insert(CHUNKS), [{**_row(chunk), "done_at": None} for chunk in page])
            return chunks

        return self._database.write(work)

    def get(self, run_id: str, number: int, label: str) -> Chunk | None:
        """A chunk that is not done yet, of the round `label`; None for anything else."""
        query = select(CHUNKS).where(
            CHUNKS.c.run_id == run_id,
            CHUNKS.c.number == number,
            CHUNKS.c.round == label,
            CHUNKS.c.done_at.is_(None),
        )
        with self._database.read() as connection:
            row = connection.execute(query).mappings().one_or_none()
        return None if row is None else _chunk(row)

    def done(self, chunk: Chunk) -> int | None:
        """Mark a chunk as done; how many of its round are left. None when its round is over already."""

        def work(connection: Connection) -> int | None:
            of_round = (CHUNKS.c.run_id == chunk.run_id) & (CHUNKS.c.round == chunk.round)
            # The run's row orders the last chunks: exactly one of them sees that none is left.
            connection.execute(select(_RUNS.c.id).where(_RUNS.c.id == chunk.run_id).with_for_update())
            mine = of_round & (CHUNKS.c.number == chunk.number)
            if not connection.execute(update(CHUNKS).where(mine).values(done_at=self._clock())).rowcount:
                return None
            left = select(func.count()).select_from(CHUNKS).where(of_round, CHUNKS.c.done_at.is_(None))
            return int(connection.execute(left).scalar_one())

        return self._database.write(work)


def _open(connection: Connection, run_id: str) -> list[Chunk]:
    query = select(CHUNKS).where(CHUNKS.c.run_id == run_id, CHUNKS.c.done_at.is_(None)).order_by(CHUNKS.c.number)
    rows = connection.execute(query).mappings()
    return [_chunk(row) for row in rows]


def spans(n: int) -> list[tuple[int, int]]:
    """Where a run of `n` cases is cut: first and last position of each chunk, both included."""
    size = min(LARGEST, max(SMALLEST, -(-n // _PARTS)))
    small = max(SMALLEST, size // 4)
    whole = (n - min(n // 4, _TAIL * size)) // size * size
    starts = [*range(0, whole, size), *range(whole, n, small)]
    return [(first, after - 1) for first, after in pairwise([*starts, n])]


def _row(chunk: Chunk) -> dict[str, Any]:
    return {name: getattr(chunk, name) for name in Chunk.__slots__} | {"retry": list(chunk.retry)}


def _chunk(row: RowMapping) -> Chunk:
    return Chunk(**{name: row[name] for name in Chunk.__slots__})


def _failed(connection: Connection, chunks: Sequence[Chunk]) -> dict[int, list[str]]:
    """The ids of the run's current judge errors in a row of chunks, by the chunk's number."""
    starts = [chunk.first for chunk in chunks]
    current = (JUDGMENTS.c.identity == _CASES.c.identity) & JUDGMENTS.c.superseded_at.is_(None)
    query = (
        select(_CASES.c.position, JUDGMENTS.c.id)
        .select_from(_CASES.join(JUDGMENTS, current))
        .where(
            _CASES.c.run_id == chunks[0].run_id,
            _CASES.c.position.between(starts[0], chunks[-1].last),
            JUDGMENTS.c.outcome == Outcome.JUDGE_ERROR.value,
        )
        .order_by(_CASES.c.position)
    )
    failed: dict[int, list[str]] = {}
    for position, judgment_id in connection.execute(query):
        failed.setdefault(chunks[bisect_right(starts, position) - 1].number, []).append(judgment_id)
    return failed
