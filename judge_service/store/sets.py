"""Calibration sets as stored: versions, cases in their order, splits, the freeze, and what splits were used for.

A frozen version takes no more cases, groups or splits. Knows no file format; cases and labels come and go as streams.
"""

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Connection, RowMapping, bindparam, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from judge_service.domain.calibration_set import (
    Difference,
    ImportResult,
    SetCase,
    SetUse,
    SetVersion,
    Spent,
    SpentBy,
    Split,
    UsePurpose,
    case_digest,
    label_digest,
    parse_reference,
    set_id,
)
from judge_service.domain.case import Case
from judge_service.errors import Conflict, FieldProblem, InvalidInput, NotFound
from judge_service.store import spent
from judge_service.store.bulk import BulkInsert
from judge_service.store.contents import content_key
from judge_service.store.engine import Database
from judge_service.store.spent import IS_SPENT, SET_CASES, SETS, USES
from judge_service.store.tables import LabelRow, table

LABELS = table(LabelRow)
T = TypeVar("T")
_insert_cases = BulkInsert(SET_CASES)

CHUNK = 1000
"""Cases of one commit."""
PAGE = 500
"""Rows asked for at once: below every database's limit of parameters."""
MOST_DIFFERENCES = 20
"""How many differences a refusal lists."""


class Sets:
    """The set tables. All methods are synchronous."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self.freezes = 0
        """How often this process has frozen a version."""

    def create(self, name: str, rubric: str | None = None, parent: str | None = None, note: str = "") -> SetVersion:
        """A new, empty version, open for cases: version 1, or the one after the newest when `parent` is given.

        Raises Conflict when the name is taken and no parent is given, NotFound for an unknown parent, InvalidInput for
        a name that is none.
        """
        _name(name)

        def work(connection: Connection) -> SetVersion:
            newest = connection.execute(select(func.max(SETS.c.version)).where(SETS.c.name == name)).scalar_one()
            if newest is not None and parent is None:
                there = set_id(name, newest)
                raise Conflict(f"The set {there} exists already. Make a new version from it, or choose another name.")
            made_from = None if parent is None else _must(connection, parent).id
            version = SetVersion(
                id=set_id(name, (newest or 0) + 1),
                name=name,
                version=(newest or 0) + 1,
                rubric=rubric,
                created_at=self._clock(),
                parent=made_from,
                note=note,
            )
            try:
                with connection.begin_nested():
                    connection.execute(insert(SETS), version.model_dump())
            except IntegrityError:
                raise Conflict(f"The set {version.id} was made by somebody else just now.") from None
            return version

        return self._database.write(work)

    def get(self, reference: str) -> SetVersion:
        """A version by `name@version`, or the newest one of `name`. Raises NotFound; InvalidInput for no reference."""
        with self._database.read() as connection:
            return _must(connection, reference)

    def all(self) -> list[SetVersion]:
        """Every version, by name, oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(select(SETS).order_by(SETS.c.name, SETS.c.version)).mappings().all()
        return sorted(map(_version, rows), key=lambda version: (version.name, version.version))

    def settle_rubric(self, set_id: str, rubric: str) -> SetVersion:
        """Name the rubric of an open version that names none yet; one that is named stays.

        From then on its cases are known as that rubric reads them.
        """

        def work(connection: Connection) -> SetVersion:
            version = open_version(connection, set_id)
            if version.rubric is None:
                connection.execute(update(SETS).where(SETS.c.id == version.id).values(rubric=rubric))
                _know_again(connection, version.id, rubric)
            return _must(connection, version.id)

        return self._database.write(work)

    def add_cases(self, set_id: str, cases: Iterable[SetCase], *, check: bool = False) -> ImportResult:
        """Append new cases; those with the same id and content are left as they are, their split too.

        Commits a thousand at a time. Raises Conflict, listing what differs in `extra["differences"]`, for the first
        thousand with an id whose content is another one: that thousand is not stored. With `check` nothing is written.
        """
        result = ImportResult()
        for chunk in chunks(cases, CHUNK):

            def work(connection: Connection, chunk: Sequence[SetCase] = chunk) -> ImportResult:
                return _add(connection, set_id, chunk, write=not check)

            result += self._look(work) if check else self._database.write(work)
        return result

    def cases(
        self, set_id: str, split: Split | None = None, *, as_frozen: bool = False, closed: bool | None = None
    ) -> Iterator[SetCase]:
        """The cases in the order in which they were added.

        A spent release case is read as development, unless `as_frozen` asks for the splits that the hash covers.
        `closed`: those only that are (or are not) a test in a frozen release split, of this version or another.
        """
        query = select(SET_CASES, IS_SPENT.label("spent")).where(SET_CASES.c.set_id == set_id)
        if split is not None:
            query = query.where(SET_CASES.c.split == split.value if as_frozen else _counts_as(split))
        if closed is not None:
            standing = spent.closed(set_id)
            query = query.where(standing if closed else ~standing)
        after = -1
        while True:
            page = query.where(SET_CASES.c.position > after).order_by(SET_CASES.c.position).limit(PAGE)
            with self._database.read() as connection:
                rows = connection.execute(page).mappings().all()
            for row in rows:
                yield _case(row, spent=row["spent"] and not as_frozen)
            if len(rows) < PAGE:
                return
            after = rows[-1]["position"]

    def at(self, set_id: str, positions: Iterable[int]) -> dict[int, SetCase]:
        """The cases at these places of the version's order, with the splits as frozen."""
        found: dict[int, SetCase] = {}
        with self._database.read() as connection:
            for chunk in chunks(positions, PAGE):
                query = select(SET_CASES).where(SET_CASES.c.set_id == set_id, SET_CASES.c.position.in_(chunk))
                found.update((row["position"], _case(row)) for row in connection.execute(query).mappings())
        return found

    def case(self, set_id: str, case_id: str) -> SetCase | None:
        """One case by its id."""
        query = select(SET_CASES, IS_SPENT.label("spent"))
        query = query.where(SET_CASES.c.set_id == set_id, SET_CASES.c.case_id == case_id)
        with self._database.read() as connection:
            row = connection.execute(query).mappings().one_or_none()
        return None if row is None else _case(row, spent=row["spent"])

    def named(self, set_id: str, case_ids: Iterable[str]) -> dict[str, SetCase]:
        """Those of the ids that are cases of the set, with the cases."""
        query = select(SET_CASES, IS_SPENT.label("spent")).where(SET_CASES.c.set_id == set_id)
        found: dict[str, SetCase] = {}
        with self._database.read() as connection:
            for chunk in chunks(case_ids, PAGE):
                for row in connection.execute(query.where(SET_CASES.c.case_id.in_(chunk))).mappings():
                    found[row["case_id"]] = _case(row, spent=row["spent"])
        return found

    def known(self, set_id: str, case_ids: Iterable[str]) -> set[str]:
        """Those of the ids that are cases of the set."""
        found: set[str] = set()
        with self._database.read() as connection:
            for chunk in chunks(case_ids, PAGE):
                query = select(SET_CASES.c.case_id).where(SET_CASES.c.set_id == set_id, SET_CASES.c.case_id.in_(chunk))
                found.update(connection.execute(query).scalars())
        return found

    def split_counts(self, set_id: str) -> dict[Split, int]:
        """Cases in each split; a spent release case counts as development."""
        query = select(SET_CASES.c.split, IS_SPENT.label("spent"), func.count().label("n"))
        query = query.where(SET_CASES.c.set_id == set_id).group_by(SET_CASES.c.split, "spent")
        counts = dict.fromkeys(Split, 0)
        with self._database.read() as connection:
            for row in connection.execute(query):
                counts[_effective(row.split, spent=row.spent)] += row.n
        return counts

    def spent(self, set_id: str) -> Spent:
        """The cases of the release split that count as development, with what spent them."""
        with self._database.read() as connection:
            return spent.spent_of(connection, set_id)

    def holds(self, set_id: str, split: Split) -> bool:
        """Whether a case stands in the split, as frozen."""
        query = select(SET_CASES.c.position).where(SET_CASES.c.set_id == set_id, SET_CASES.c.split == split.value)
        with self._database.read() as connection:
            return connection.execute(query.limit(1)).first() is not None

    def assign(
        self, set_id: str, *, groups: Mapping[str, str | None] | None = None, splits: Mapping[str, Split] | None = None
    ) -> int:
        """Set groups and splits by case id; how many cases were named. Raises Conflict for a frozen version."""
        changed = 0
        for field, values in (
            (SET_CASES.c.group, None if groups is None else list(groups.items())),
            (SET_CASES.c.split, None if splits is None else [(case, split.value) for case, split in splits.items()]),
        ):
            if values is None:
                continue
            where = (SET_CASES.c.set_id == set_id) & (SET_CASES.c.case_id == bindparam("which"))
            statement = update(SET_CASES).where(where).values({field: bindparam("value")})
            for chunk in chunks(values, CHUNK):
                rows = [{"which": case, "value": value} for case, value in chunk]

                def work(connection: Connection, statement: Any = statement, rows: Any = rows) -> None:
                    open_version(connection, set_id)
                    connection.execute(statement, rows)

                self._database.write(work)
                changed += len(rows)
        return changed

    def digest(self, set_id: str) -> str:
        """SHA-256 over the content of cases and labels, in whatever order they were added: the hash of a freeze."""
        with self._database.read(streamed=True) as connection:
            return _content(connection, set_id)

    def freeze(self, set_id: str, content_hash: str, *, spend: bool = False) -> SetVersion:
        """No change from now on. Freezing again with the same hash changes nothing.

        Raises Conflict when the stored content has another hash than `content_hash`: it changed since it was looked at;
        and, without `spend`, when cases in other splits are a test in the release split of another frozen version.
        """

        def work(connection: Connection) -> SetVersion:
            version = _must(connection, set_id, lock=True)
            if version.status == "open" and _content(connection, version.id) != content_hash:
                raise Conflict(
                    f"The set {version.id} changed while it was being frozen. Look at it and freeze it again."
                )
            if version.status == "frozen":
                if version.content_hash == content_hash:
                    return version
                raise Conflict(f"The set {version.id} is frozen with another content. Make a new version from it.")
            staked = [] if spend else spent.at_stake(connection, version.id)
            if staked:
                raise _would_spend(version.id, staked)
            at = self._clock()
            values = {"status": "frozen", "content_hash": content_hash, "frozen_at": at}
            connection.execute(update(SETS).where(SETS.c.id == version.id).values(**values))
            spent.spend_frozen(connection, version.id, at)
            return _must(connection, version.id)

        version = self._database.write(work)
        self.freezes += 1
        return version

    def record_use(
        self,
        set_id: str,
        split: Split,
        judge_hash: str | None,
        purpose: UsePurpose,
        at: datetime | None = None,
        *,
        judge: str | None = None,
        note: str = "",
    ) -> SetUse:
        """Note what a split was used for.

        Cases of it that are a test in a frozen release split, here or in another version, are spent by tuning and
        viewing: from then on they count as development everywhere.
        """

        def work(connection: Connection) -> SetUse:
            version = _must(connection, set_id, lock=True)
            use = _use(version.id, split, purpose, judge_hash, judge, at or self._clock(), note)
            _note(connection, version, use)
            return use

        return self._database.write(work)

    def record_scores(
        self, set_id: str, judges: Mapping[str, str], note: str, *, again: bool = False
    ) -> tuple[SetUse, ...]:
        """Note that judges (hash by name) were scored on the release split under the rules that `note` states.

        The same rules again change nothing. Raises Conflict when one was scored under other rules, or in another
        version that shares cases; with `again` that is noted as tuning, which spends the split. Returns what was noted.
        """

        def work(connection: Connection) -> tuple[SetUse, ...]:
            version = _must(connection, set_id, lock=True)
            names = {digest: name for name, digest in judges.items()}
            uses = spent.uses_of_release(connection, version.id, list(names))
            known = {use.judge_hash for use in uses if use.set_id == version.id and use.note == note}
            other = [use for use in uses if use.set_id != version.id or use.note != note]
            if other and not again:
                raise _scored_before(version.id, other[0], names)
            at = self._clock()
            spoiled = {use.judge_hash for use in other}
            made = []
            for digest, name in names.items():
                if digest in known and digest not in spoiled:
                    continue
                purpose = UsePurpose.TUNED if digest in spoiled else UsePurpose.SCORED
                made.append(_use(version.id, Split.RELEASE, purpose, digest, name, at, note))
            for use in made:
                _note(connection, version, use)
            return tuple(made)

        return self._database.write(work)

    def scored_before(self, set_id: str, judge_hash: str, note: str | None = None) -> SetUse | None:
        """Where this configuration was scored on a release split that shares a case with the version's.

        With `note` the same version under the same rules is left out.
        """
        with self._database.read() as connection:
            uses = spent.uses_of_release(connection, _must(connection, set_id).id, [judge_hash])
        return next((use for use in uses if use.set_id != set_id or note is None or use.note != note), None)

    @staticmethod
    def scored_twice(set_id: str, earlier: SetUse, name: str) -> Conflict:
        """The refusal of a second look at a release split."""
        return _scored_before(set_id, earlier, {earlier.judge_hash or "": name})

    def uses(self, set_id: str) -> list[SetUse]:
        """Every use of the version's splits, oldest first."""
        query = select(USES).where(USES.c.set_id == set_id).order_by(USES.c.at, USES.c.id)
        with self._database.read() as connection:
            return [SetUse.model_validate(dict(row)) for row in connection.execute(query).mappings()]

    def uses_elsewhere(self, set_id: str) -> list[SetUse]:
        """Uses of release splits of other versions and sets that share a case with this version's, oldest first."""
        with self._database.read() as connection:
            return [use for use in spent.uses_of_release(connection, set_id) if use.set_id != set_id]

    def _look(self, work: Callable[[Connection], T]) -> T:
        with self._database.read() as connection:
            return work(connection)


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items, at most `size` at a time."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def open_version(connection: Connection, set_id: str) -> SetVersion:
    """The version, locked for this transaction. Raises NotFound, and Conflict when it is frozen."""
    version = _must(connection, set_id, lock=True)
    if version.status == "frozen":
        raise Conflict(f"The set {version.id} is frozen: make a new version from it and change that one.")
    return version


def version_of(connection: Connection, set_id: str) -> SetVersion:
    """The version, locked for this transaction. Raises NotFound."""
    return _must(connection, set_id, lock=True)


def refuse(set_id: str, differences: Sequence[Difference], what: str) -> Conflict:
    """The refusal of content that differs from what is stored; it lists the first differences."""
    ids = list(dict.fromkeys(difference.case_id for difference in differences))
    named = ", ".join(repr(case_id) for case_id in ids[:5]) + (" ..." if len(ids) > 5 else "")
    shown = [difference.model_dump(mode="json") for difference in differences[:MOST_DIFFERENCES]]
    return Conflict(
        f"{set_id} holds {what} under the same id with another content: {named}. What is stored was kept; "
        "make a new version to change it.",
        fields=[
            FieldProblem(f"{difference.case_id}: {difference.field}", _says(difference))
            for difference in differences[:MOST_DIFFERENCES]
        ],
        extra={"differences": shown, "n_different": len(ids)},
    )


def _says(difference: Difference) -> str:
    return f"stored {_short(difference.stored)}, given {_short(difference.given)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _add(connection: Connection, set_id: str, cases: Sequence[SetCase], *, write: bool) -> ImportResult:
    version = _must(connection, set_id, lock=True)
    stored: dict[str, str] = {}
    for chunk in chunks((entry.case.id for entry in cases), PAGE):
        query = select(SET_CASES.c.case_id, SET_CASES.c.imported_hash)
        query = query.where(SET_CASES.c.set_id == version.id, SET_CASES.c.case_id.in_(chunk))
        stored.update((row.case_id, row.imported_hash) for row in connection.execute(query))
    fresh: dict[str, SetCase] = {}
    differing: list[SetCase] = []
    unchanged = 0
    for entry in cases:
        earlier = fresh.get(entry.case.id)
        known = stored.get(entry.case.id) if earlier is None else earlier.imported_hash
        if known is None:
            fresh[entry.case.id] = entry
        elif known == entry.imported_hash:
            unchanged += 1
        elif earlier is not None:
            raise InvalidInput(fields=[FieldProblem(entry.case.id, "is given twice with different content")])
        else:
            differing.append(entry)
    if differing:
        differences, same = _differences(connection, version.id, differing)
        if differences:
            raise refuse(version.id, differences, "cases")
        unchanged += same
    if fresh:
        open_version(connection, version.id)
    if fresh and write:
        last = connection.execute(
            select(func.max(SET_CASES.c.position)).where(SET_CASES.c.set_id == version.id)
        ).scalar_one()
        start = 0 if last is None else last + 1
        rows = [_row(version, start + place, entry) for place, entry in enumerate(fresh.values())]
        _insert_cases(connection, rows)
        more = SETS.c.n_cases + len(rows)
        connection.execute(update(SETS).where(SETS.c.id == version.id).values(n_cases=more))
    return ImportResult(added=len(fresh), unchanged=unchanged)


def _differences(connection: Connection, set_id: str, cases: Sequence[SetCase]) -> tuple[list[Difference], int]:
    """What differs, and how many do not: a group that was proposed here is not a change of the file's case."""
    stored: dict[str, Case] = {}
    for chunk in chunks((entry.case.id for entry in cases), PAGE):
        query = select(SET_CASES).where(SET_CASES.c.set_id == set_id, SET_CASES.c.case_id.in_(chunk))
        for row in connection.execute(query).mappings():
            stored[row["case_id"]] = _case(row).case
    differences: list[Difference] = []
    same = 0
    for entry in cases:
        there, given = stored[entry.case.id], entry.case
        found = [
            Difference(case_id=given.id, field=name, stored=old.get(name), given=new.get(name))
            for old, new in ((there.input, given.input), (there.metadata, given.metadata))
            for name in dict.fromkeys([*old, *new])
            if (name in old, old.get(name)) != (name in new, new.get(name))
        ]
        if there.group != given.group:
            found.append(Difference(case_id=given.id, field="group", stored=there.group, given=given.group))
        differences.extend(found)
        same += not found
    return differences, same


def _row(version: SetVersion, position: int, entry: SetCase) -> dict[str, Any]:
    return {
        "set_id": version.id,
        "position": position,
        "case_id": entry.case.id,
        "imported_hash": entry.imported_hash,
        "content_hash": content_key(entry.case.input, version.rubric),
        "split": entry.split.value,
        "source_line": entry.source_line,
        "group": entry.case.group,
        "input": entry.case.input,
        "metadata": entry.case.metadata,
    }


def _content(connection: Connection, set_id: str) -> str:
    from judge_service.store.labels import answer_of, slot_of

    digests: list[bytes] = []
    cases = select(SET_CASES).where(SET_CASES.c.set_id == set_id).execution_options(yield_per=PAGE)
    digests.extend(
        bytes.fromhex(case_digest(row["case_id"], row["input"], row["group"], row["metadata"], row["split"]))
        for row in connection.execute(cases).mappings()
    )
    labels = select(LABELS).where(LABELS.c.set_id == set_id).execution_options(yield_per=PAGE)
    digests.extend(
        bytes.fromhex(label_digest(slot_of(row), answer_of(row))) for row in connection.execute(labels).mappings()
    )
    total = hashlib.sha256()
    # Sorted: the order of import is no content, and the two databases sort texts differently.
    for digest in sorted(digests):
        total.update(digest)
    return total.hexdigest()


def _know_again(connection: Connection, set_id: str, rubric: str) -> None:
    query = select(SET_CASES.c.position, SET_CASES.c.input).where(SET_CASES.c.set_id == set_id)
    place = (SET_CASES.c.set_id == set_id) & (SET_CASES.c.position == bindparam("place"))
    statement = update(SET_CASES).where(place).values(content_hash=bindparam("key"))
    after = -1
    while True:
        page = query.where(SET_CASES.c.position > after).order_by(SET_CASES.c.position).limit(PAGE)
        rows = connection.execute(page).all()
        if not rows:
            return
        connection.execute(statement, [{"place": row.position, "key": content_key(row.input, rubric)} for row in rows])
        after = rows[-1].position


def _counts_as(split: Split) -> Any:
    """The condition for cases that are read as being in the split."""
    if split is Split.RELEASE:
        return (SET_CASES.c.split == split.value) & ~IS_SPENT
    if split is Split.DEVELOPMENT:
        return or_(SET_CASES.c.split == split.value, (SET_CASES.c.split == Split.RELEASE.value) & IS_SPENT)
    return SET_CASES.c.split == split.value


def _effective(split: str, *, spent: bool) -> Split:
    found = Split(split)
    return Split.DEVELOPMENT if spent and found is Split.RELEASE else found


def _case(row: RowMapping, *, spent: bool = False) -> SetCase:
    case = Case(id=row["case_id"], input=row["input"], group=row["group"], metadata=row["metadata"])
    return SetCase(case=case, split=_effective(row["split"], spent=spent), source_line=row["source_line"])


def _use(
    set_id: str, split: Split, purpose: UsePurpose, judge_hash: str | None, judge: str | None, at: datetime, note: str
) -> SetUse:
    return SetUse(
        id=uuid.uuid4().hex,
        set_id=set_id,
        split=split,
        purpose=purpose,
        judge_hash=judge_hash,
        judge=judge,
        at=at,
        note=note,
    )


def _note(connection: Connection, version: SetVersion, use: SetUse) -> None:
    values = use.model_dump() | {"split": use.split.value, "purpose": use.purpose.value}
    connection.execute(insert(USES), values)
    if use.purpose not in (UsePurpose.TUNED, UsePurpose.VIEWED):
        return
    spent.spend_split(connection, version.id, use.split, SpentBy(use.purpose.value), use.at)
    if use.split is Split.RELEASE and version.status == "frozen":
        first = (SETS.c.id == version.id) & SETS.c.release_demoted_at.is_(None)
        connection.execute(update(SETS).where(first).values(release_demoted_at=use.at))


def _would_spend(set_id: str, staked: Sequence[RowMapping]) -> Conflict:
    tests = ", ".join(dict.fromkeys(row["set_id"] for row in staked))
    named = ", ".join(repr(row["case_id"]) for row in staked[:5]) + (" ..." if len(staked) > 5 else "")
    return Conflict(
        f"{len(staked)} cases of {set_id} stand in the release split of {tests}: {named}. Frozen in another split they "
        "would count as development there too. Put them into release, leave them out, or freeze with `spend`.",
        fields=[
            FieldProblem(row["case_id"], f"{row['split']} here, release in {row['set_id']}")
            for row in staked[:MOST_DIFFERENCES]
        ],
        extra={"at_stake": [dict(row) for row in staked[: spent.MOST_LISTED]], "n_at_stake": len(staked)},
    )


def _scored_before(set_id: str, use: SetUse, names: Mapping[str, str]) -> Conflict:
    name = names.get(use.judge_hash or "", use.judge or "The judge")
    where = set_id if use.set_id == set_id else f"{use.set_id}, which shares cases with it,"
    return Conflict(
        f"{name} was measured on the release split of {where} on {use.at:%Y-%m-%d} ({use.note or 'scored'}), and a "
        "configuration is scored there once. Another look guides a choice: with `again` it is recorded as tuning, and "
        "the cases count as development from then on.",
        fields=[FieldProblem("split", "release is scored once per judge configuration")],
        extra={"earlier": use.model_dump(mode="json")},
    )


def _name(reference: str) -> tuple[str, int | None]:
    try:
        return parse_reference(reference)
    except ValueError as error:
        raise InvalidInput(str(error), fields=[FieldProblem("set", str(error))]) from None


def _must(connection: Connection, reference: str, *, lock: bool = False) -> SetVersion:
    name, version = _name(reference)
    query = select(SETS).where(SETS.c.name == name)
    query = (
        query.order_by(SETS.c.version.desc()).limit(1) if version is None else query.where(SETS.c.version == version)
    )
    row = connection.execute(query.with_for_update() if lock else query).mappings().one_or_none()
    if row is None:
        raise NotFound(f"There is no calibration set {reference!r}.")
    return _version(row)


def _version(row: RowMapping) -> SetVersion:
    return SetVersion.model_validate(dict(row))
