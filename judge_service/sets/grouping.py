"""Groups and splits of an open set, and the checks that nothing leaks between splits.

Owns which texts of a case are compared and how a plan of splits is carried out. The methods are `calibration.splits`'s.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from calibration.estimate import InvalidStatisticInput
from calibration.splits import (
    DEFAULT_THRESHOLD,
    group_cases,
    leakage,
    long_enough,
    normalise,
    split_of,
    stratified_splits,
)
from judge_service.domain.calibration_set import Label, SetCase, SetVersion, Split, ToldVersion
from judge_service.domain.case import Case
from judge_service.errors import Conflict, FieldProblem, InvalidInput
from judge_service.sets.versions import told
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
    sources = [_sources(entry.case) for entry in entries]
    found = group_cases(prompts, answers, sources=sources, given=given, threshold=threshold, seed=seed)
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


def find_leaks(store: Store, version: SetVersion) -> tuple[Leak, ...]:
    """Every group and every text that stands in two splits, and examples of the rubric's prompt outside development."""
    ids, groups, splits, whole, prompts = [], [], [], [], []
    sources: list[list[str]] = []
    for entry in store.sets.cases(version.id, as_frozen=True):
        ids.append(entry.case.id)
        groups.append(entry.group)
        splits.append(entry.split.value)
        # Hashes instead of texts: equal texts have equal ones, and a set may be large.
        whole.append(_hashed(_whole(entry.case)))
        sources.append([_hashed(normalise(text)) for text in _sources(entry.case) if long_enough(text)])
        # Pairs on one prompt are not independent, whatever the answers are.
        prompts.append(_hashed(normalise(_prompt(entry.case))) if "response_a" in entry.case.input else "")
    found = leakage(groups, splits, texts=whole, few_shot=[_hashed(text) for text in _few_shot(version)])
    of_group: dict[str, list[str]] = {}
    for group, case_id in zip(groups, ids, strict=True):
        of_group.setdefault(group, []).append(case_id)
    leaks = [Leak(kind="group", what=str(group), case_ids=tuple(of_group[str(group)])) for group in found.groups]

    def named(kind: str, places: Sequence[int]) -> Leak:
        entry = store.sets.case(version.id, ids[places[0]])
        text = "" if entry is None else _prompt(entry.case) or _whole(entry.case)
        return Leak(kind=kind, what=text[:80], case_ids=tuple(ids[place] for place in places))

    leaks.extend(named("text", places) for places in found.texts)
    told = set(found.texts)
    for places in _shared_sources(sources, splits):
        if places not in told:
            told.add(places)
            leaks.append(named("text", places))
    shared = leakage(groups, splits, texts=prompts).texts
    leaks.extend(named("text", places) for places in shared if places not in told)
    leaks.extend(named("few_shot", [place]) for place in found.few_shot)
    return tuple(leaks)


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
    return told(store, store.sets.freeze(version.id, digest, spend=spend))


def _open(store: Store, reference: str) -> SetVersion:
    version = store.sets.get(reference)
    if version.status == "frozen":
        raise Conflict(f"The set {version.id} is frozen: make a new version from it and change that one.")
    return version


def _texts(entries: Sequence[SetCase]) -> tuple[list[str], list[list[str]]]:
    """The text that opens each case, and its answers by position. Prompts that are missing group nothing."""
    prompts = [_prompt(entry.case) for entry in entries]
    used = [name for name in _ANSWERS if any(isinstance(entry.case.input.get(name), str) for entry in entries)]
    columns = []
    for name in used:
        values = [entry.case.input.get(name) for entry in entries]
        columns.append([value if isinstance(value, str) else "" for value in values])
    return prompts, columns


def _prompt(case: Case) -> str:
    found = [case.input.get(name) for name in _PROMPTS]
    return next((text for text in found if isinstance(text, str)), "")


def _sources(case: Case) -> list[str]:
    """Texts that a case was made from: everything but its prompt and its answers, each by itself."""
    own = (*_PROMPTS, *_ANSWERS)
    return [text for name, value in sorted(case.input.items()) if name not in own for text in _texts_of(value)]


def _shared_sources(sources: Sequence[Sequence[str]], splits: Sequence[str]) -> list[tuple[int, ...]]:
    """Places of cases in several splits that hold one source text."""
    held: dict[str, list[int]] = {}
    for place, own in enumerate(sources):
        for text in dict.fromkeys(own):
            held.setdefault(text, []).append(place)
    return list(dict.fromkeys(tuple(places) for places in held.values() if len({splits[i] for i in places}) > 1))


def _whole(case: Case) -> str:
    """Every text that a judge would be shown of the case, as one; mirrored pairs are one text."""
    pair = {name: case.input[name] for name in ("response_a", "response_b") if name in case.input}
    parts = [text for name, value in sorted(case.input.items()) if name not in pair for text in _texts_of(value)]
    parts.extend(sorted(text for value in pair.values() for text in _texts_of(value)))
    return "\x1f".join(parts)


def _texts_of(value: Any) -> list[str]:
    if isinstance(value, str):
        return [normalise(value)]
    if isinstance(value, Mapping):
        return [text for _, part in sorted(value.items()) for text in _texts_of(part)]
    if isinstance(value, list):
        return [text for part in value for text in _texts_of(part)]
    return []


def _hashed(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest() if text else ""


def _few_shot(version: SetVersion) -> list[str]:
    if version.rubric is None:
        return []
    try:
        rubric: Rubric[Any] = get_rubric(version.rubric)
    except UnknownRubric:
        return []
    return [_whole(Case(id="example", input=dict(example.case))) for example in rubric.examples]


def _labels(store: Store, version: SetVersion, ids: Sequence[str]) -> list[str]:
    """One class a case for stratifying: the adjudicated label, else the first of a person, else none."""
    first: dict[str, Label] = {}
    for label in store.labels.of(version.id, version.rubric):
        if label.kind == "human" and label.label is not None:
            there = first.get(label.case_id)
            if there is None or (label.adjudicated and not there.adjudicated):
                first[label.case_id] = label
    return [str(first[case_id].label) if case_id in first else "" for case_id in ids]
