"""Everything that is measured about judges on a labelled set, under the names that docs/statistics lists.

Owns the shape of the result: the whole, its slices, humans and judges side by side. The rules that may be chosen are
`rules`'; how records become arrays is `dataset`'s.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from calibration.power import tier
from calibration.resample import Resampler
from judge_service.errors import FieldProblem, InvalidInput
from judge_service.reports.dataset import Dataset, JudgeColumn, slice_of
from judge_service.reports.differences import comparisons, selection
from judge_service.reports.drawn import drawn_cases, mark
from judge_service.reports.humans import human_figures
from judge_service.reports.judge_figures import core_figures, cost, judge_figures
from judge_service.reports.labelled_set import LabelledSet
from judge_service.reports.rules import Rules, check_rules
from judge_service.reports.shares import shares as shares_of

__all__ = ["FORMAT", "Rules", "cost", "set_statistics", "statistics"]

FORMAT = "set-statistics/1"


def statistics(
    dataset: Dataset,
    rules: Rules | None = None,
    *,
    by: Sequence[str] = (),
    where: str | None = None,
    shares: Sequence[str] = (),
    leave_out: Sequence[str] = (),
) -> dict[str, Any]:
    """Every figure of every judge of `dataset`, JSON-ready; `by` names metadata keys to show slices of.

    `shares` names what to count over all cases, labelled or not, without the values of `leave_out` in denominators.

    `where` (`key=value`) narrows the cases; the threshold of another part may still be taken from outside it. Raises
    InvalidInput for a rule that does not fit the rubric.
    """
    chosen = rules or Rules()
    check_rules(dataset, chosen)
    whole = dataset
    if where is not None:
        dataset = dataset.only(dataset.positions(where, "where"))
    tuned = None
    if chosen.threshold_from is not None:
        tuned = whole.only(whole.positions(chosen.threshold_from, "threshold_from"))
    labelled = dataset.only(dataset.labelled)
    resampler = _resampler(labelled, chosen)
    humans = human_figures(labelled, resampler)
    found = {
        "humans": humans,
        "judges": [
            judge_figures(
                labelled, column, chosen, resampler, unlabelled=_outside(dataset, place), tuned=_column(tuned, place)
            )
            for place, column in enumerate(labelled.columns)
        ],
        "comparisons": comparisons(labelled, chosen, resampler),
        "selection": selection(labelled, humans, chosen, resampler),
        "slices": {key: _slices(dataset, labelled, key, chosen) for key in by},
    }
    if labelled.weights is not None:
        found = mark(found)
    return {
        "format": FORMAT,
        "rubric": dataset.rubric.id,
        "rubric_hash": dataset.rubric.content_hash,
        "kind": dataset.rubric.kind,
        "classes": list(dataset.rubric.scale.names),
        "ordered": dataset.rubric.scale.ordered,
        "rules": asdict(chosen),
        "n_cases": len(dataset.items),
        "n_labelled": len(labelled.items),
        "n_groups": len(set(labelled.groups)),
        "tier": tier(labelled.effective_n),
        **found,
        "shares": shares_of(dataset, shares, by=by, leave_out=leave_out, resamples=chosen.resamples, seed=chosen.seed),
    }


def _outside(dataset: Dataset, place: int) -> int:
    column = dataset.columns[place]
    return sum(judgment is not None for judgment in column.judgments) - sum(
        column.judgments[i] is not None for i in dataset.labelled
    )


def _column(tuned: Dataset | None, place: int) -> tuple[Dataset, JudgeColumn] | None:
    return None if tuned is None else (tuned, tuned.columns[place])


def _resampler(dataset: Dataset, rules: Rules) -> Resampler:
    return Resampler(
        len(dataset.labelled), dataset.groups, resamples=rules.resamples, seed=rules.seed, weights=dataset.weights
    )


def _slices(whole: Dataset, dataset: Dataset, key: str, rules: Rules) -> list[dict[str, Any]]:
    """The core figures of each value of a metadata key, with its own n and tier; no verdict below 30."""
    values = dataset.slices(key)
    without = sum(slice_of(item, key) is None for item in dataset.items)
    if not values and (dataset.items or all(slice_of(item, key) is None for item in whole.items)):
        which = "labelled case" if dataset.items else "case"
        message = f"no {which} has metadata {key!r}"
        raise InvalidInput(f"by: {message}.", fields=[FieldProblem("by", message)])
    rows = []
    for value in values:
        part = dataset.narrowed(key, value)
        n = len(part.labelled)
        resampler = _resampler(part, rules)
        rows.append(
            {
                "key": key,
                "value": value,
                "n": n,
                "without_key": without,
                "tier": tier(part.effective_n),
                "humans": human_figures(part, resampler),
                "judges": [
                    {"judge": column.judge.name, "n": n, **core_figures(part, column, rules, resampler)}
                    for column in part.columns
                ],
            }
        )
    return rows


def set_statistics(
    labelled: LabelledSet,
    rules: Rules | None = None,
    *,
    by: Sequence[str] = (),
    where: str | None = None,
    shares: Sequence[str] = (),
    leave_out: Sequence[str] = (),
) -> dict[str, Any]:
    """`statistics` of a set with what it is: version, splits, how its labels came about, the runs behind each judge."""
    version = labelled.version
    return {
        "set": {
            "id": version.id,
            "name": version.name,
            "status": version.status,
            "content_hash": version.content_hash,
            "splits": [split.value for split in labelled.splits],
            "labels": {
                **labelled.labels,
                "drawn": drawn_cases(labelled.dataset.items, unreachable=labelled.unreachable),
            },
            "where": where,
            "runs": {name: list(ids) for name, ids in labelled.runs.items()},
            "runs_left_out": list(labelled.left_out),
            "other_content": {name: len(ids) for name, ids in labelled.other_content.items()},
            "release_closed": labelled.closed,
        },
        **statistics(labelled.dataset, rules, by=by, where=where, shares=shares, leave_out=leave_out),
    }
