"""Groups and splits of an open set, and the checks that nothing leaks between splits.

Owns which texts of a case are compared and how a plan of splits is carried out. The methods are `calibration.splits`'s.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from calibration.estimate import InvalidStatisticInput
from calibration.splits import (
    DEFAULT_THRESHOLD,
    group_cases,
    leakage,
    normalise,
    split_of,
    stratified_splits,
)
from judge_service.domain.calibration_set import Label, SetCase, SetVersion, Split
from judge_service.errors import Conflict, FieldProblem, InvalidInput
from judge_service.store import Store
from rubrics.model import Rubric
from rubrics.registry import UnknownRubric, get_rubric

MOST_SHOWN = 20
_PROMPTS = ("prompt", "question")
_ANSWERS = ("response_a", "response_b", "answer_a", "answer_b", "answer", "statement")


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


class Leak(BaseModel):
    """Something that is in two splits. `kind`: `group`, `text`, or `few_shot` (an example of the rubric's prompt)."""

    model_config = ConfigDict(frozen=True)

    kind: str
    what: str
    case_ids: tuple[str, ...]


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

    A group keeps the name it was given; joined groups take the first one's. Holds the set's texts in memory.
    Raises Conflict for a frozen version.
    """
    version = _open(store, reference) if apply else store.sets.get(reference)
    if not 0 < threshold <= 1:
        raise InvalidInput(fields=[FieldProblem("threshold", "must be above 0 and at most 1")])
    entries = list(store.sets.cases(version.id))
    prompts, answers = _texts(entries)
    given = [entry.case.group for entry in entries]
    found = group_cases(prompts, answers, given=given, threshold=threshold, seed=seed)
    members: dict[int, list[int]] = {}
    for place, number in enumerate(found.group):
        members.setdefault(number, []).append(place)
    names: dict[str, str | None] = {}
    proposed: list[ProposedGroup] = []
    changed = 0
    for places in members.values():
        named = [given[place] for place in places if given[place] is not None]
        ids = [entries[place].case.id for place in places]
        name = named[0] if named else f"near-{ids[0]}" if len(places) > 1 else None
        for place in places:
            if given[place] != name:
                names[entries[place].case.id] = name
                changed += 1
        if len(places) > 1:
            proposed.append(ProposedGroup(name=str(name), case_ids=tuple(ids)))
    proposed.sort(key=lambda group: (-len(group.case_ids), group.name))
    if apply and names:
        store.sets.assign(version.id, groups=names)
    return Grouping(
        set_id=version.id,
        threshold=threshold,
        n_cases=len(entries),
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
    entries = list(store.sets.cases(version.id))
    if not entries:
        raise InvalidInput(f"The set {version.id} holds no case.", fields=[FieldProblem("set", "holds no case")])
    groups = [entry.group for entry in entries]
    if stratify and len(parts) > 1:
        labels = _labels(store, version, entries)
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
    splits = {entry.case.id: Split(name) for entry, name in zip(entries, chosen, strict=True)}
    moved = {entry.case.id: splits[entry.case.id] for entry in entries if entry.split is not splits[entry.case.id]}
    if moved:
        store.sets.assign(version.id, splits=moved)
    of_groups = {group: splits[entry.case.id].value for group, entry in zip(groups, entries, strict=True)}
    return Splitting(
        set_id=version.id,
        method="stratified" if stratify else "hash",
        cases=dict(Counter(chosen)),
        groups=dict(Counter(of_groups.values())),
    )


def find_leaks(store: Store, version: SetVersion) -> tuple[Leak, ...]:
    """Every group and every text that stands in two splits, and examples of the rubric's prompt outside development."""
    entries = list(store.sets.cases(version.id, as_frozen=True))
    whole = [_whole(entry) for entry in entries]
    groups = [entry.group for entry in entries]
    splits = [entry.split.value for entry in entries]
    found = leakage(groups, splits, texts=whole, few_shot=_few_shot(version))
    of_group: dict[str, list[str]] = {}
    for group, entry in zip(groups, entries, strict=True):
        of_group.setdefault(group, []).append(entry.case.id)
    leaks = [Leak(kind="group", what=str(group), case_ids=tuple(of_group[str(group)])) for group in found.groups]
    for places in found.texts:
        ids = tuple(entries[place].case.id for place in places)
        leaks.append(Leak(kind="text", what=whole[places[0]][:80], case_ids=ids))
    if any("response_a" in entry.case.input for entry in entries):
        # Pairs on one prompt are not independent, whatever the answers are.
        prompts, _ = _texts(entries)
        told = set(found.texts)
        for places in leakage(groups, splits, texts=prompts).texts:
            if places not in told:
                ids = tuple(entries[place].case.id for place in places)
                leaks.append(Leak(kind="text", what=prompts[places[0]][:80], case_ids=ids))
    leaks.extend(
        Leak(kind="few_shot", what=whole[place][:80], case_ids=(entries[place].case.id,)) for place in found.few_shot
    )
    return tuple(leaks)


def freeze_set(store: Store, reference: str) -> SetVersion:
    """Check the splits and freeze the version with the hash of its content.

    Raises Conflict, listing what leaks in `extra["leaks"]`, and for an empty set; freezing again changes nothing.
    """
    version = store.sets.get(reference)
    if version.status == "frozen":
        return version
    if not version.n_cases:
        raise Conflict(f"The set {version.id} holds no case: there is nothing to freeze.")
    leaks = find_leaks(store, version)
    if leaks:
        raise Conflict(
            f"The set {version.id} cannot be frozen: {len(leaks)} groups or texts stand in more than one split. "
            "Propose groups and split again.",
            fields=[
                FieldProblem(leak.kind, f"{leak.what!r}: {', '.join(leak.case_ids[:5])}") for leak in leaks[:MOST_SHOWN]
            ],
            extra={"leaks": [leak.model_dump(mode="json") for leak in leaks[:MOST_SHOWN]], "n_leaks": len(leaks)},
        )
    return store.sets.freeze(version.id, store.sets.digest(version.id))


def _open(store: Store, reference: str) -> SetVersion:
    version = store.sets.get(reference)
    if version.status == "frozen":
        raise Conflict(f"The set {version.id} is frozen: make a new version from it and change that one.")
    return version


def _texts(entries: Sequence[SetCase]) -> tuple[list[str], list[list[str]]]:
    """The text that opens each case, and its answers by position. Prompts that are missing group nothing."""
    prompts = []
    for entry in entries:
        found = [entry.case.input.get(name) for name in _PROMPTS]
        prompts.append(next((text for text in found if isinstance(text, str)), ""))
    used = [name for name in _ANSWERS if any(isinstance(entry.case.input.get(name), str) for entry in entries)]
    columns = []
    for name in used:
        values = [entry.case.input.get(name) for entry in entries]
        columns.append([value if isinstance(value, str) else "" for value in values])
    return prompts, columns


def _whole(entry: SetCase) -> str:
    """What a judge would be shown of the case, as one text; mirrored pairs are one text."""
    fields = entry.case.input
    pair = [fields.get(name) for name in ("response_a", "response_b")]
    parts = [normalise(text) for name, text in sorted(fields.items()) if isinstance(text, str) and text not in pair]
    parts.extend(sorted(normalise(text) for text in pair if isinstance(text, str)))
    return "\x1f".join(parts)


def _few_shot(version: SetVersion) -> list[str]:
    if version.rubric is None:
        return []
    try:
        rubric: Rubric[Any] = get_rubric(version.rubric)
    except UnknownRubric:
        return []
    from judge_service.domain.case import Case

    examples = [Case(id="example", input=dict(example.case)) for example in rubric.examples]
    return [_whole(SetCase(case=case)) for case in examples]


def _labels(store: Store, version: SetVersion, entries: Sequence[SetCase]) -> list[str]:
    """One class a case for stratifying: the adjudicated label, else the first of a person, else none."""
    first: dict[str, Label] = {}
    for label in store.labels.of(version.id, version.rubric):
        if label.kind == "human" and label.label is not None:
            there = first.get(label.case_id)
            if there is None or (label.adjudicated and not there.adjudicated):
                first[label.case_id] = label
    return [str(first[entry.case.id].label) if entry.case.id in first else "" for entry in entries]
