"""What stands in two splits of a set: groups, texts, near-duplicate sources, examples of the rubric's own prompt.

Owns what leaking is. Holds hashes instead of texts, as a set may be large.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from calibration.duplicates import CaseIndex, CaseLengths, long_enough, normalise
from calibration.splits import leakage
from judge_service.domain.calibration_set import SetVersion
from judge_service.domain.case import Case
from judge_service.sets.case_texts import hashed, prompt_of, reader, sources_of, texts_of, whole_of
from judge_service.store import Store
from rubrics.model import Rubric
from rubrics.registry import UnknownRubric, get_rubric


class Leak(BaseModel):
    """Something that is in two splits.

    `kind`: `group`, `text`, `near_duplicate` (of a source text) or `few_shot` (an example of the rubric's prompt).
    """

    model_config = ConfigDict(frozen=True)

    kind: str
    what: str
    case_ids: tuple[str, ...]


def find_leaks(store: Store, version: SetVersion, *, near: bool = False) -> tuple[Leak, ...]:
    """Every group and every text that stands in two splits, and examples of the rubric's prompt outside development.

    With `near` source texts are compared for near-duplicates too, as proposed groups are, which reads the set twice
    more. Near-duplicate prompts and answers are no leak: questions of one form, and answers to them, may be put alike.
    """
    ids, groups, splits, whole, prompts = [], [], [], [], []
    sources: list[list[str]] = []
    lengths = CaseLengths()
    for entry in store.sets.cases(version.id, as_frozen=True):
        ids.append(entry.case.id)
        groups.append(entry.group)
        splits.append(entry.split.value)
        if near:
            lengths.add(texts_of(entry.case))
        # Hashes instead of texts: equal texts have equal ones, and a set may be large.
        whole.append(hashed(whole_of(entry.case)))
        sources.append([hashed(normalise(text)) for text in sources_of(entry.case) if long_enough(text)])
        # Pairs on one prompt are not independent, whatever the answers are.
        prompts.append(hashed(normalise(prompt_of(entry.case))) if "response_a" in entry.case.input else "")
    found = leakage(groups, splits, texts=whole, few_shot=[hashed(text) for text in _few_shot(version)])
    of_group: dict[str, list[str]] = {}
    for group, case_id in zip(groups, ids, strict=True):
        of_group.setdefault(group, []).append(case_id)
    leaks = [Leak(kind="group", what=str(group), case_ids=tuple(of_group[str(group)])) for group in found.groups]

    def named(kind: str, places: Sequence[int]) -> Leak:
        entry = store.sets.case(version.id, ids[places[0]])
        text = "" if entry is None else prompt_of(entry.case) or whole_of(entry.case)
        return Leak(kind=kind, what=text[:80], case_ids=tuple(ids[place] for place in places))

    leaks.extend(named("text", places) for places in found.texts)
    told = set(found.texts)
    for places in _shared_sources(sources, splits):
        if places not in told:
            told.add(places)
            leaks.append(named("text", places))
    if near and len(set(splits)) > 1:
        for places in _near_sources(store, version, lengths, splits):
            if places not in told:
                told.add(places)
                leaks.append(named("near_duplicate", places))
    shared = leakage(groups, splits, texts=prompts).texts
    leaks.extend(named("text", places) for places in shared if places not in told)
    leaks.extend(named("few_shot", [place]) for place in found.few_shot)
    return tuple(leaks)


def _shared_sources(sources: Sequence[Sequence[str]], splits: Sequence[str]) -> list[tuple[int, ...]]:
    """Places of cases in several splits that hold one source text."""
    held: dict[str, list[int]] = {}
    for place, own in enumerate(sources):
        for text in dict.fromkeys(own):
            held.setdefault(text, []).append(place)
    return list(dict.fromkeys(tuple(places) for places in held.values() if len({splits[i] for i in places}) > 1))


def _near_sources(
    store: Store, version: SetVersion, lengths: CaseLengths, splits: Sequence[str]
) -> Iterator[tuple[int, ...]]:
    """Places of cases in several splits whose source texts are near-duplicates, chained."""
    index = CaseIndex(lengths.words(), kinds=("sources",))
    for entry in store.sets.cases(version.id, as_frozen=True):
        index.add(texts_of(entry.case))
    members: dict[int, list[int]] = {}
    for place, group in enumerate(index.groups(reader(store, version.id)).group):
        members.setdefault(group, []).append(place)
    # What was added while this was read is seen by the freeze's own check of the hash.
    known = (tuple(place for place in places if place < len(splits)) for places in members.values())
    yield from (places for places in known if len({splits[place] for place in places}) > 1)


def _few_shot(version: SetVersion) -> list[str]:
    if version.rubric is None:
        return []
    try:
        rubric: Rubric[Any] = get_rubric(version.rubric)
    except UnknownRubric:
        return []
    return [whole_of(Case(id="example", input=dict(example.case))) for example in rubric.examples]
