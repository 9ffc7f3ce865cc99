"""Counts and shares of labels, or of the values of a metadata key, over all cases of a set, and rates of refusing.

Owns what may be counted (`label`, `label:ANNOTATOR`, a metadata key) and which cases are left out of a denominator.
Judges have no part in it, and neither has whether a case has a final label: what has no value is counted as missing.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calibration.estimate import plain
from calibration.resample import Resampler, share
from judge_service.domain.calibration_set import Label, LabelCondition
from judge_service.errors import FieldProblem, InvalidInput
from judge_service.reports.dataset import Dataset, LabelledItem, slice_of

FINAL = "label"
"""Names the final label of people."""
OF_ANNOTATOR = "label:"
"""Before an annotator's name: the labels of this one, whoever or whatever it is."""
MISSING = "missing"
"""Names the cases without a value among those to leave out."""


def shares(
    dataset: Dataset, keys: Sequence[str], *, by: Sequence[str], leave_out: Sequence[str], resamples: int, seed: int
) -> list[dict[str, Any]]:
    """An entry for each of `keys` over all cases, then one for each value of each slice key of `by`, JSON-ready.

    Cases whose value is in `leave_out` (`missing`: those without one) are counted, but in no denominator. Raises
    InvalidInput for a key that no case has and for a value to leave out that occurs nowhere.
    """
    _check(dataset, keys, leave_out)
    # Every part with its name, once for all keys.
    parts: list[tuple[str | None, str | None, Dataset]] = [(None, None, dataset)]
    for slice_key in by:
        found = {slice_of(item, slice_key) for item in dataset.items}
        parts += [
            (slice_key, value, dataset.narrowed(slice_key, value))
            for value in sorted(value for value in found if value is not None)
        ]
    resamplers = [Resampler(len(part.items), part.units, resamples=resamples, seed=seed) for _, _, part in parts]
    return [
        {"of": key, "by": slice_key, "value": value, **_entry(part, key, frozenset(leave_out), resampler)}
        for key in keys
        for (slice_key, value, part), resampler in zip(parts, resamplers, strict=True)
    ]


def _reader(key: str) -> Callable[[LabelledItem], str | None]:
    if key == FINAL:
        return lambda item: item.label
    if key.startswith(OF_ANNOTATOR):
        annotator = key.removeprefix(OF_ANNOTATOR)

        def read(item: LabelledItem) -> str | None:
            label = _of_annotator(item, annotator)
            return None if label is None else label.label

        return read
    return lambda item: slice_of(item, key)


def _of_annotator(item: LabelledItem, annotator: str) -> Label | None:
    """The annotator's label; of several the one that is human, blind and not adjudicated comes first."""
    return min(
        (label for label in item.given if label.annotator == annotator),
        key=lambda label: (label.kind != "human", label.condition is not LabelCondition.BLIND, label.adjudicated),
        default=None,
    )


def _check(dataset: Dataset, keys: Sequence[str], leave_out: Sequence[str]) -> None:
    if leave_out and not keys:
        raise InvalidInput(fields=[FieldProblem("leave_out", "needs `shares`: the labels or values to count")])
    known: set[str | None] = {MISSING}
    for key in keys:
        if key == FINAL or key.startswith(OF_ANNOTATOR):
            known.update(dataset.rubric.scale.names)
        values = {_reader(key)(item) for item in dataset.items}
        if key.startswith(OF_ANNOTATOR):
            annotator = key.removeprefix(OF_ANNOTATOR)
            if all(_of_annotator(item, annotator) is None for item in dataset.items):
                raise InvalidInput(fields=[FieldProblem("shares", f"{annotator!r} labelled no case")])
        elif key != FINAL and values <= {None}:
            raise InvalidInput(fields=[FieldProblem("shares", f"no case has metadata {key!r}")])
        known |= values
    unknown = [value for value in leave_out if value not in known]
    if unknown:
        message = f"{', '.join(map(repr, unknown))}: no case has this; cases without a value are {MISSING!r}"
        raise InvalidInput(fields=[FieldProblem("leave_out", message)])


def _entry(part: Dataset, key: str, leave_out: frozenset[str], resampler: Resampler) -> dict[str, Any]:
    read = _reader(key)
    values = [read(item) for item in part.items]
    kept = np.array([(MISSING if value is None else value) not in leave_out for value in values], dtype=bool)
    counts = Counter(value for value in values if value is not None)
    of_labels = key == FINAL or key.startswith(OF_ANNOTATOR)
    names = [*part.rubric.scale.names, *sorted(set(counts) - set(part.rubric.scale.names))]
    shown = names if of_labels else sorted(counts)

    def among(hits: Sequence[bool], known: Sequence[bool] | None = None) -> Any:
        eligible = kept if known is None else kept & np.array(known, dtype=bool)
        return plain(share(np.array(hits, dtype=bool), eligible, resampler))

    missing = [value is None for value in values]
    entry: dict[str, Any] = {
        "n": len(values),
        "denominator": int(kept.sum()),
        "missing": sum(missing),
        "left_out": {name: sum(missing) if name == MISSING else counts[name] for name in sorted(leave_out)},
        "counts": {name: counts[name] for name in shown},
        "shares": {name: among([value == name for value in values]) for name in shown if name not in leave_out},
    }
    if MISSING not in leave_out:
        entry["missing_share"] = among(missing)
    if key.startswith(OF_ANNOTATOR):
        annotator = key.removeprefix(OF_ANNOTATOR)
        made = [_of_annotator(item, annotator) for item in part.items]
        entry["kinds"] = dict(Counter(label.kind for label in made if label is not None))
    if of_labels and {"refusal", "compliance"} <= set(part.rubric.scale.names):
        entry["refusals"] = _refusals(part, values, kept, among)
    return entry


def _refusals(part: Dataset, values: Sequence[str | None], kept: Any, among: Callable[..., Any]) -> dict[str, Any]:
    """Refusals against whether an answer was due, which the case says (`answerable`)."""
    due = [item.case.input.get("answerable") for item in part.items]
    answerable, unanswerable = [flag is True for flag in due], [flag is False for flag in due]
    known = [flag is not None for flag in due]
    said = {name: [value == name for value in values] for name in ("refusal", "partial", "compliance")}
    missing = [value is None for value in values]
    refused = [did and sure for did, sure in zip(said["refusal"], known, strict=True)]
    return {
        "n_answerable": int((kept & np.array(answerable, dtype=bool)).sum()),
        "n_unanswerable": int((kept & np.array(unanswerable, dtype=bool)).sum()),
        "n_unknown": int((kept & ~np.array(known, dtype=bool)).sum()),
        "precision": among(unanswerable, refused),
        "recall": among(said["refusal"], unanswerable),
        "missed_refusal_rate": among(said["compliance"], unanswerable),
        "over_refusal_rate": among(said["refusal"], answerable),
        "correct_attempt_rate": among(said["compliance"], answerable),
        "partial_answerable": among(said["partial"], answerable),
        "partial_unanswerable": among(said["partial"], unanswerable),
        "missing_answerable": among(missing, answerable),
        "missing_unanswerable": among(missing, unanswerable),
    }
