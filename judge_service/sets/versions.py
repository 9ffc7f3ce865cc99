"""New versions from old ones, and what differs between two of them.

Owns what a difference says. Reads sets through the store only.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from judge_service.domain.calibration_set import Label, SetCase, SetVersion, Split, ToldVersion, UsePurpose
from judge_service.domain.identifier import ordered_id
from judge_service.store import Store

MOST_SHOWN = 100


class Changed(BaseModel):
    """A case or label that both versions have, with different content. `fields` names what differs."""

    model_config = ConfigDict(frozen=True)

    case_id: str
    annotator: str | None = None
    fields: dict[str, tuple[Any, Any]]


class SetDifference(BaseModel):
    """What differs from `old` to `new`. Lists hold the first hundred, counts count all."""

    model_config = ConfigDict(frozen=True)

    old: str
    new: str
    same: bool
    n_added: int
    n_removed: int
    n_changed: int
    n_labels_added: int
    n_labels_removed: int
    n_labels_changed: int
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[Changed, ...]
    labels_changed: tuple[Changed, ...]
    moved: dict[str, int]
    """Cases that changed their split, counted as `old -> new`."""


def told(store: Store, version: SetVersion) -> ToldVersion:
    """The version with the cases of its release split that are no test any more."""
    return ToldVersion(**version.model_dump(), spent=store.sets.spent(version.id))


def new_version(store: Store, reference: str, *, note: str = "") -> ToldVersion:
    """An open version with everything that the given one holds, splits as they count now, labels included.

    Release cases that are spent are development in the new version for good: `spent` lists them.
    """
    old = store.sets.get(reference)
    made = store.sets.create(old.name, old.rubric, old.id, note)
    store.sets.add_cases(made.id, store.sets.cases(old.id))
    store.labels.add(made.id, _copied(store, old.id, made.id))
    return ToldVersion(**store.sets.get(made.id).model_dump(), spent=store.sets.spent(old.id))


def _copied(store: Store, old: str, new: str) -> Iterator[Label]:
    for label in store.labels.of(old):
        yield label.model_copy(update={"set_id": new, "id": ordered_id("label")})


def difference(store: Store, old: str, new: str) -> SetDifference:
    """What differs between two versions, cases by id and labels by annotator."""
    before, after = store.sets.get(old), store.sets.get(new)
    old_cases = {entry.case.id: entry for entry in store.sets.cases(before.id, as_frozen=True)}
    added: list[str] = []
    changed: list[Changed] = []
    moved: dict[str, int] = {}
    kept: set[str] = set()
    for entry in store.sets.cases(after.id, as_frozen=True):
        there = old_cases.get(entry.case.id)
        if there is None:
            added.append(entry.case.id)
            continue
        kept.add(entry.case.id)
        if there.digest == entry.digest:
            continue
        fields = _case_fields(there, entry)
        changed.append(Changed(case_id=entry.case.id, fields=fields))
        if there.split is not entry.split:
            way = f"{there.split.value} -> {entry.split.value}"
            moved[way] = moved.get(way, 0) + 1
    removed = [case_id for case_id in old_cases if case_id not in kept]
    old_labels = {label.slot: label for label in store.labels.of(before.id)}
    labels_changed: list[Changed] = []
    n_labels_added = 0
    for label in store.labels.of(after.id):
        known = old_labels.pop(label.slot, None)
        if known is None:
            n_labels_added += 1
        elif known.digest != label.digest:
            labels_changed.append(
                Changed(case_id=label.case_id, annotator=label.annotator, fields=_pairs(known.answer(), label.answer()))
            )
    n_changes = len(added) + len(removed) + len(changed) + n_labels_added + len(old_labels) + len(labels_changed)
    return SetDifference(
        old=before.id,
        new=after.id,
        same=n_changes == 0,
        n_added=len(added),
        n_removed=len(removed),
        n_changed=len(changed),
        n_labels_added=n_labels_added,
        n_labels_removed=len(old_labels),
        n_labels_changed=len(labels_changed),
        added=tuple(added[:MOST_SHOWN]),
        removed=tuple(removed[:MOST_SHOWN]),
        changed=tuple(changed[:MOST_SHOWN]),
        labels_changed=tuple(labels_changed[:MOST_SHOWN]),
        moved=moved,
    )


def _case_fields(old: SetCase, new: SetCase) -> dict[str, tuple[Any, Any]]:
    return {
        **_pairs(old.case.input, new.case.input),
        **{f"metadata.{name}": pair for name, pair in _pairs(old.case.metadata, new.case.metadata).items()},
        **_pairs(
            {"group": old.case.group, "split": old.split.value}, {"group": new.case.group, "split": new.split.value}
        ),
    }


def _pairs(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = dict.fromkeys([*old, *new])
    return {name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)}


def view_cases(
    store: Store, reference: str, split: Split | None, *, who: str, now: datetime | None = None
) -> Iterator[SetCase]:
    """The cases for a person to look at. Looking at a case that is a test is recorded, and spends it everywhere.

    A test is a case of a frozen release split, in a copy or an open version too. Without `split` the tests stay closed:
    they are left out. What is recorded is so before the first case is given. Raises NotFound.
    """
    version = store.sets.get(reference)
    if split is None:
        return store.sets.cases(version.id, closed=False)
    if next(store.sets.cases(version.id, split, closed=True), None) is not None:
        # Read before the note: afterwards the same cases count as development.
        entries = list(store.sets.cases(version.id, split))
        store.sets.record_use(version.id, split, None, UsePurpose.VIEWED, now or datetime.now(UTC), note=who)
        return iter(entries)
    return store.sets.cases(version.id, split)
