"""Labels as stored: every annotator's own answer, never overwritten, beside the adjudicated one.

A label of a case that the set does not hold is listed and not stored. Knows no rubric and no statistics.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, select, update

from judge_service.domain.calibration_set import SOMETIMES, Difference, ImportResult, Label, Slot
from judge_service.errors import FieldProblem, InvalidInput
from judge_service.store.bulk import BulkInsert
from judge_service.store.engine import Database
from judge_service.store.sets import LABELS, PAGE, chunks, open_version, refuse, version_of
from judge_service.store.spent import SET_CASES, SETS

_insert = BulkInsert(LABELS)

AT_ONCE = 4000
"""Labels of one commit: about those of a thousand cases, since every commit waits for the disk."""


class Labels:
    """The label table. All methods are synchronous."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    def add(self, set_id: str, labels: Iterable[Label], *, check: bool = False) -> ImportResult:
        """Store new labels; an annotator's same answer again changes nothing. Ids of unknown cases are listed.

        Commits some thousand at a time. Raises Conflict, listing what differs, when an annotator's stored answer is
        another one: those are not stored. Raises Conflict for a frozen version. With `check` nothing is written.
        """
        result = ImportResult()
        for chunk in chunks(labels, AT_ONCE):

            def work(connection: Connection, chunk: Sequence[Label] = chunk) -> ImportResult:
                return _add(connection, set_id, chunk, write=not check)

            if check:
                with self._database.read() as connection:
                    result += work(connection)
            else:
                result += self._database.write(work)
        return result

    def of(self, set_id: str, rubric: str | None = None) -> Iterator[Label]:
        """The labels, those of a case together, cases in the set's order; with `rubric` those under it only."""
        places = select(SET_CASES.c.position, SET_CASES.c.case_id).where(SET_CASES.c.set_id == set_id)
        after = -1
        while True:
            page = places.where(SET_CASES.c.position > after).order_by(SET_CASES.c.position).limit(PAGE)
            with self._database.read() as connection:
                cases = connection.execute(page).all()
                place = {row.case_id: row.position for row in cases}
                query = select(LABELS).where(LABELS.c.set_id == set_id, LABELS.c.case_id.in_(place))
                if rubric is not None:
                    query = query.where(LABELS.c.rubric == rubric)
                rows = connection.execute(query).mappings().all() if place else []
            # Sorted here: the two databases order texts differently.
            found = sorted(map(read_label, rows), key=lambda label: (place[label.case_id], label.slot))
            yield from found
            if len(cases) < PAGE:
                return
            after = cases[-1].position

    def of_cases(self, set_id: str, case_ids: Iterable[str], rubric: str) -> dict[str, list[Label]]:
        """The labels under a rubric of these cases, by case; however large the set is."""
        found: dict[str, list[Label]] = {}
        query = select(LABELS).where(LABELS.c.set_id == set_id, LABELS.c.rubric == rubric)
        with self._database.read() as connection:
            for chunk in chunks(case_ids, PAGE):
                for row in connection.execute(query.where(LABELS.c.case_id.in_(chunk))).mappings():
                    found.setdefault(row["case_id"], []).append(read_label(row))
        return {case_id: sorted(labels, key=lambda label: label.slot) for case_id, labels in found.items()}

    def of_case(self, set_id: str, case_id: str) -> list[Label]:
        """Every label of one case."""
        query = select(LABELS).where(LABELS.c.set_id == set_id, LABELS.c.case_id == case_id)
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        return sorted(map(read_label, rows), key=lambda label: label.slot)


def read_label(row: RowMapping) -> Label:
    """A label from its row."""
    return Label.model_validate(dict(row))


def slot_of(row: RowMapping) -> Slot:
    """`Label.slot` of a row, without making the label: millions of rows are compared and hashed."""
    kind, adjudicated = row["kind"], bool(row["adjudicated"])
    return (row["case_id"], row["rubric"], row["annotator"], row["condition"], kind, adjudicated)


def answer_of(row: RowMapping) -> dict[str, Any]:
    """`Label.answer` of a row, likewise."""
    said = {name: row[name] for name in ("label", "detail", "order_shown", "seconds", "note")}
    return said | {name: row[name] for name in SOMETIMES if row[name] is not None}


def _add(connection: Connection, set_id: str, labels: Sequence[Label], *, write: bool) -> ImportResult:
    version = version_of(connection, set_id)
    stored: dict[Slot, dict[str, Any]] = {}
    cases: set[str] = set()
    wanted = dict.fromkeys(label.case_id for label in labels)
    for chunk in chunks(wanted, PAGE):
        known = select(SET_CASES.c.case_id).where(SET_CASES.c.set_id == version.id, SET_CASES.c.case_id.in_(chunk))
        cases.update(connection.execute(known).scalars())
        query = select(LABELS).where(LABELS.c.set_id == version.id, LABELS.c.case_id.in_(chunk))
        for row in connection.execute(query).mappings():
            stored[slot_of(row)] = answer_of(row)
    fresh: dict[Slot, Label] = {}
    unjoined: list[str] = []
    differences: list[Difference] = []
    unchanged = 0
    for label in labels:
        if label.set_id != version.id:
            raise InvalidInput(fields=[FieldProblem(label.case_id, f"the label belongs to {label.set_id}")])
        if label.case_id not in cases:
            unjoined.append(label.case_id)
            continue
        slot = label.slot
        earlier = stored.get(slot)
        if earlier is None and slot in fresh:
            earlier = fresh[slot].answer()
        if earlier is None:
            fresh[slot] = label
            continue
        given = label.answer()
        if earlier == given:
            unchanged += 1
        else:
            differences.extend(
                Difference(
                    case_id=label.case_id,
                    field=name,
                    stored=earlier.get(name),
                    given=given.get(name),
                    annotator=label.annotator,
                )
                for name in {**earlier, **given}
                if earlier.get(name) != given.get(name)
            )
    if differences:
        raise refuse(version.id, differences, "labels")
    if fresh:
        open_version(connection, version.id)
    if fresh and write:
        rows = [vars(label) | {"condition": label.condition.value} for label in fresh.values()]
        _insert(connection, rows)
        more = SETS.c.n_labels + len(rows)
        connection.execute(update(SETS).where(SETS.c.id == version.id).values(n_labels=more))
    return ImportResult(added=len(fresh), unchanged=unchanged, unjoined=tuple(dict.fromkeys(unjoined)))
