"""A version at a glance: splits, groups, labels by kind and annotator, uses, and whether it could be frozen."""

from collections import Counter

from pydantic import BaseModel, ConfigDict

from judge_service.domain.calibration_set import LabelCondition, SetUse, SetVersion, Spent, Split
from judge_service.sets.leaks import find_leaks
from judge_service.store import Store

LEAKS_UP_TO = 20_000
"""Largest open set whose leaks are looked for here; a freeze always looks."""


class SetSummary(BaseModel):
    """Counts of a version. `labels` are `blind`, `assisted`, `adjudicated`, `by_model` and `skipped`; each label is
    counted once, in the last of these that fits. `spent` are release cases that count as development, `uses_elsewhere`
    uses of other versions' release splits that share a case with this one's. `leaks` is null for a frozen set, and for
    an open one that is large.
    """

    model_config = ConfigDict(frozen=True)

    version: SetVersion
    n_groups: int
    splits: dict[str, int]
    labels: dict[str, int]
    annotators: dict[str, int]
    uses: tuple[SetUse, ...]
    uses_elsewhere: tuple[SetUse, ...] = ()
    spent: Spent = Spent()
    leaks: int | None


class SplitFigures(BaseModel):
    """A split: its cases and groups, and how many cases have a person's blind label that says something."""

    model_config = ConfigDict(frozen=True)

    cases: int = 0
    groups: int = 0
    labelled: int = 0


def split_figures(store: Store, set_id: str) -> dict[Split, SplitFigures]:
    """The figures of every split that has a case, as the splits count now. Raises NotFound."""
    version = store.sets.get(set_id)
    labelled = {
        label.case_id
        for label in store.labels.of(version.id)
        if label.kind == "human" and label.label is not None and label.condition is LabelCondition.BLIND
    }
    cases: Counter[Split] = Counter()
    with_label: Counter[Split] = Counter()
    groups: dict[Split, set[str]] = {}
    for entry in store.sets.cases(version.id):
        cases[entry.split] += 1
        with_label[entry.split] += entry.case.id in labelled
        groups.setdefault(entry.split, set()).add(entry.group)
    return {
        split: SplitFigures(cases=n, groups=len(groups[split]), labelled=with_label[split])
        for split, n in cases.items()
    }


def summarise(store: Store, reference: str) -> SetSummary:
    """Count what a version holds. Raises NotFound."""
    version = store.sets.get(reference)
    groups = {entry.group for entry in store.sets.cases(version.id)}
    labels: Counter[str] = Counter(dict.fromkeys(("blind", "assisted", "adjudicated", "by_model", "skipped"), 0))
    annotators: Counter[str] = Counter()
    for label in store.labels.of(version.id):
        annotators[label.annotator] += 1
        kind = "blind" if label.condition is LabelCondition.BLIND else "assisted"
        kind = "adjudicated" if label.adjudicated else kind
        kind = "by_model" if label.kind == "model" else kind
        labels["skipped" if label.label is None else kind] += 1
    look = version.status == "open" and version.n_cases <= LEAKS_UP_TO
    return SetSummary(
        version=version,
        n_groups=len(groups),
        splits={split.value: n for split, n in store.sets.split_counts(version.id).items()},
        labels=dict(labels),
        annotators=dict(annotators.most_common(20)),
        uses=tuple(store.sets.uses(version.id)),
        uses_elsewhere=tuple(store.sets.uses_elsewhere(version.id)),
        spent=store.sets.spent(version.id),
        leaks=len(find_leaks(store, version)) if look else None,
    )
