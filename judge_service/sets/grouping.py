"""Groups and splits of an open set, and its freeze.

Owns what becomes of proposed groups and how a plan of splits is carried out. The methods are `calibration`'s.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from calibration.duplicates import DEFAULT_THRESHOLD, CaseIndex, CaseLengths
from calibration.estimate import InvalidStatisticInput
from calibration.splits import split_of, stratified_splits
from judge_service.domain.calibration_set import Label, SetVersion, Split, ToldVersion
from judge_service.errors import Conflict, FieldProblem, InvalidInput
from judge_service.sets.case_texts import reader, texts_of
from judge_service.sets.leaks import find_leaks
from judge_service.sets.versions import told
from judge_service.store import Store

MOST_SHOWN = 20


class ProposedGroup(BaseModel):
    """Cases that belong together: a given group, near-duplicate texts, or both chained."""

    model_config = ConfigDict(frozen=True)

    name: str
    case_ids: tuple[str, ...]


class Grouping(BaseModel):
    """What near-duplicates propose. `groups` are the largest with more than one case; `flags` says what to look at."""

    model_config = ConfigDict(frozen=True)

    set_id: str
    threshold: float
    n_cases: int
    n_groups: int
    largest: int
    changed: int
    flags: tuple[str, ...]
    groups: tuple[ProposedGroup, ...]
    applied: bool


class Splitting(BaseModel):
    """Cases and groups in each split."""

    model_config = ConfigDict(frozen=True)

    set_id: str
    method: str
    cases: dict[str, int]
    groups: dict[str, int]


def propose_groups(
    store: Store, reference: str, *, threshold: float = DEFAULT_THRESHOLD, apply: bool = False, seed: int = 1
) -> Grouping:
    """Groups from given groups and near-duplicate texts; with `apply` they are stored.

    A group keeps the name it was given; joined groups take the first one's. The set is read as a stream, and texts
    again where they are compared: none is held.
    Raises Conflict for a frozen version.
    """
    version = _open(store, reference) if apply else store.sets.get(reference)
    if not 0 < threshold <= 1:
        raise InvalidInput(fields=[FieldProblem("threshold", "must be above 0 and at most 1")])
    lengths = CaseLengths()
    for entry in store.sets.cases(version.id):
        lengths.add(texts_of(entry.case))
    index = CaseIndex(lengths.words(), threshold=threshold, seed=seed)
    ids: list[str] = []
    given: list[str | None] = []
    for entry in store.sets.cases(version.id):
        index.add(texts_of(entry.case))
        ids.append(entry.case.id)
        given.append(entry.case.group)
    found = index.groups(reader(store, version.id), given)
    members: dict[int, list[int]] = {}
    for place, number in enumerate(found.group):
        members.setdefault(number, []).append(place)
    names: dict[str, str | None] = {}
    proposed: list[ProposedGroup] = []
    changed = 0
    for places in members.values():
        named = [given[place] for place in places if given[place] is not None]
        name = named[0] if named else f"near-{ids[places[0]]}" if len(places) > 1 else None
        for place in places:
            if given[place] != name:
                names[ids[place]] = name
                changed += 1
        if len(places) > 1:
            proposed.append(ProposedGroup(name=str(name), case_ids=tuple(ids[place] for place in places)))
    proposed.sort(key=lambda group: (-len(group.case_ids), group.name))
    if apply and names:
        store.sets.assign(version.id, groups=names)
    return Grouping(
        set_id=version.id,
        threshold=threshold,
        n_cases=len(ids),
        n_groups=len(members),
        largest=found.largest,
        changed=changed,
        flags=found.flags,
        groups=tuple(proposed[:MOST_SHOWN]),
        applied=apply,
    )


def split_set(
    store: Store, reference: str, shares: Mapping[Split, int], *, stratify: bool = False, salt: str = "", seed: int = 1
) -> Splitting:
    """Put every group into one split; `shares` are whole parts (2 to 1 to 1).

    By the hash of the group and `salt`, so that later cases move no earlier one; with `stratify` with the final labels
    kept balanced. Raises Conflict for a frozen version, InvalidInput for shares that cannot be had.
    """
    version = _open(store, reference)
    parts = {split.value: share for split, share in shares.items() if share > 0}
    if not parts or any(share < 0 for share in shares.values()):
        raise InvalidInput(fields=[FieldProblem("shares", "are whole numbers, 0 or more, one of them above 0")])
    # What stays of a case is small: a set may be large.
    ids, groups, before = [], [], []
    for entry in store.sets.cases(version.id, as_frozen=True):
        ids.append(entry.case.id)
        groups.append(entry.group)
        before.append(entry.split)
    if not ids:
        raise InvalidInput(f"The set {version.id} holds no case.", fields=[FieldProblem("set", "holds no case")])
    if stratify and len(parts) > 1:
        labels = _labels(store, version, ids)
        try:
            chosen = stratified_splits(groups, labels, parts, seed=seed)
        except InvalidStatisticInput as error:
            raise InvalidInput(
                f"The set cannot be split so: {error}.", fields=[FieldProblem("shares", str(error))]
            ) from None
    else:
        total = sum(parts.values())
        portions = {name: share / total for name, share in parts.items()}
        chosen = [split_of(group, portions, salt=salt) for group in groups]
    moved = {case_id: Split(name) for case_id, name, was in zip(ids, chosen, before, strict=True) if was.value != name}
    if moved:
        store.sets.assign(version.id, splits=moved)
    of_groups = dict(zip(groups, chosen, strict=True))
    return Splitting(
        set_id=version.id,
        method="stratified" if stratify else "hash",
        cases=dict(Counter(chosen)),
        groups=dict(Counter(of_groups.values())),
    )


def freeze_set(store: Store, reference: str, *, spend: bool = False) -> ToldVersion:
    """Check the splits and freeze the version with the hash of its content; says which release cases are spent.

    Raises Conflict, listing what leaks in `extra["leaks"]`, and for an empty set; freezing again changes nothing. Cases
    of another frozen version's release split that stand in another split here are a Conflict, unless `spend` gives
    them up as a test.
    """
    version = store.sets.get(reference)
    if version.status == "frozen":
        return told(store, version)
    if not version.n_cases:
        raise Conflict(f"The set {version.id} holds no case: there is nothing to freeze.")
    # Taken before the check: what changes after it has another hash and is refused by the freeze.
    digest = store.sets.digest(version.id)
    leaks = find_leaks(store, version, near=True)
    if leaks:
        raise Conflict(
            f"The set {version.id} cannot be frozen: {len(leaks)} groups or texts stand in more than one split. "
            "Propose groups and split again.",
            fields=[
                FieldProblem(leak.kind, f"{leak.what!r}: {', '.join(leak.case_ids[:5])}") for leak in leaks[:MOST_SHOWN]
            ],
            extra={"leaks": [leak.model_dump(mode="json") for leak in leaks[:MOST_SHOWN]], "n_leaks": len(leaks)},
        )
    return told(store, store.sets.freeze(version.id, digest, spend=spend))


def _open(store: Store, reference: str) -> SetVersion:
    version = store.sets.get(reference)
    if version.status == "frozen":
        raise Conflict(f"The set {version.id} is frozen: make a new version from it and change that one.")
    return version


def _labels(store: Store, version: SetVersion, ids: Sequence[str]) -> list[str]:
    """One class a case for stratifying: the adjudicated label, else the first of a person, else none."""
    first: dict[str, Label] = {}
    for label in store.labels.of(version.id, version.rubric):
        if label.kind == "human" and label.label is not None:
            there = first.get(label.case_id)
            if there is None or (label.adjudicated and not there.adjudicated):
                first[label.case_id] = label
    return [str(first[case_id].label) if case_id in first else "" for case_id in ids]
