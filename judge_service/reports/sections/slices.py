"""Section: the same judges on parts of the cases. Owns which keys are sliced and what a slice shows."""

from collections import Counter
from typing import Any

import numpy as np

from calibration import contingency
from calibration.estimate import finite
from calibration.intervals import proportion
from calibration.power import tier
from calibration.resample import MIN_GROUPS, Resampler, ratio_replicates, share
from calibration.tests import holm
from calibration.weighted import effective_size
from judge_service.errors import FieldProblem, InvalidInput
from judge_service.reports.dataset import Dataset, slice_of
from judge_service.reports.figures import shown
from judge_service.reports.study import Study

ID = "slices"
TITLE = "Slices"

MOST_VALUES = 60
"""Values of a key that are shown at most: those with the most cases."""
FEW_VALUES = 12
MOST_KEYS = 3
NO_VERDICT_BELOW = 30


def build(study: Study) -> dict[str, Any]:
    """Agreement of every judge in each slice of the declared keys, else of a few keys with few values.

    Raises InvalidInput for a declared key that no labelled case has.

    Shape: `{n, declared, keys: [{key, without, values: [{value, n, groups, tier, verdict_from, judges: [row]}]}],
    available: [{key, values}]}`. `declared`: the keys were named beforehand; else at most three keys with few values
    were taken, nothing is tested and the slices only describe. `row`: `judge`, `baseline`, figure `agreement`, `kappa`
    (number or null), `valid` (number of cases with a verdict), `p_holm` (exact test of the slice against the other
    cases, Holm over the judge's slices of the key; null undeclared, where slice or rest has fewer than 30 cases, or for
    cases drawn unevenly, which the test does not weigh).
    """
    available = _available(study.labelled)
    declared = bool(study.choices.by)
    keys = study.choices.by or tuple(row["key"] for row in available if row["values"] <= FEW_VALUES)[:MOST_KEYS]
    return {
        "n": study.n,
        "declared": declared,
        "keys": [_key(study, key, declared) for key in keys],
        "available": available,
    }


def _available(labelled: Dataset) -> list[dict[str, Any]]:
    """Metadata keys that cut the cases into parts: more than one value, and fewer values than half the cases."""
    values: dict[str, set[Any]] = {}
    for item in labelled.items:
        for key, value in item.case.metadata.items():
            if value is not None:
                values.setdefault(key, set()).add(value)
    return [
        {"key": key, "values": len(found)}
        for key, found in sorted(values.items())
        if 1 < len(found) <= max(2, len(labelled.items) // 2)
    ]


def _key(study: Study, key: str, declared: bool) -> dict[str, Any]:
    labelled = study.labelled
    of = [slice_of(item, key) for item in labelled.items]
    counts = Counter(value for value in of if value is not None)
    if not counts and labelled.items:
        raise InvalidInput(fields=[FieldProblem("by", f"no labelled case has metadata {key!r}")])
    kept = sorted(value for value, _ in counts.most_common(MOST_VALUES))
    human = labelled.human
    said = [labelled.predicted(column) for column in labelled.columns]
    right = np.array([[a == b for a, b in zip(row, human, strict=True)] for row in said], dtype=bool)
    right = right.reshape(len(labelled.columns), len(human))
    values = []
    for value in kept:
        inside = np.array([one == value for one in of], dtype=bool)
        values.append(_value(study, value, inside, right, said))
    if declared and not study.uneven:
        _test(values, right, of, kept)
    return {
        "key": key,
        "without": sum(value is None for value in of),
        "not_shown": len(counts) - len(kept),
        "values": values,
    }


def _value(study: Study, value: str, inside: Any, right: Any, said: list[list[str | None]]) -> dict[str, Any]:
    places = np.flatnonzero(inside)
    groups = [study.labelled.groups[i] for i in places]
    n = len(places)
    weights = study.labelled.weights
    mine_weights = None if weights is None else weights[places]
    resampler = Resampler(n, groups, resamples=study.choices.resamples, seed=study.choices.seed, weights=mine_weights)
    replicates = None
    if weights is None and resampler.clustered and resampler.n_groups >= MIN_GROUPS and len(right):
        sums = resampler.sums(np.column_stack([right[:, places].T, np.ones(n, dtype=bool)]))
        replicates = ratio_replicates(sums[:, :-1], sums[:, -1:])
    rows = []
    for place, column in enumerate(study.labelled.columns):
        hits = int(right[place, places].sum())
        figure = proportion(hits, n)
        if mine_weights is not None:
            figure = share(right[place, places], None, resampler)
        elif resampler.clustered:
            drawn = np.zeros(0) if replicates is None else replicates[:, place]
            figure = resampler.interval(hits / n, drawn, n=n, numerator=hits, denominator=n)
        mine = [said[place][i] for i in places]
        rows.append(
            {
                "judge": column.judge.name,
                "baseline": column.baseline,
                "agreement": shown(figure),
                "kappa": _kappa(study, mine, [study.labelled.human[i] for i in places], mine_weights),
                "valid": sum(label is not None for label in mine),
                "p_holm": None,
            }
        )
    return {
        "value": value,
        "n": n,
        "groups": resampler.n_groups,
        "tier": tier(effective_size(n, resampler.weights)),
        "verdict_from": NO_VERDICT_BELOW,
        "judges": rows,
    }


def _kappa(study: Study, said: list[str | None], human: list[str], weights: Any) -> float | None:
    number = {label: place for place, label in enumerate(study.classes)}
    table = np.zeros((len(number), len(number)))
    for place, (a, b) in enumerate(zip(said, human, strict=True)):
        if a is not None:
            table[number[a], number[b]] += 1 if weights is None else weights[place]
    known = sum(a is not None for a in said)
    return finite(float(contingency.cohen(table))) if known > 1 else None


def _test(values: list[dict[str, Any]], right: Any, of: list[str | None], kept: list[str]) -> None:
    """Each slice against the other cases that have the key, exactly; Holm over the slices of a judge."""
    from scipy.stats import fisher_exact

    known = np.array([one is not None for one in of], dtype=bool)
    for place in range(len(right)):
        p_values: list[float | None] = []
        for value in kept:
            inside = np.array([one == value for one in of], dtype=bool)
            rest = known & ~inside
            if min(int(inside.sum()), int(rest.sum())) < NO_VERDICT_BELOW:
                p_values.append(None)
                continue
            table = [[int((right[place] & part).sum()), int((~right[place] & part).sum())] for part in (inside, rest)]
            p_values.append(float(fisher_exact(np.array(table))[1]))
        for row, p in zip(values, holm(p_values), strict=True):
            row["judges"][place]["p_holm"] = p
