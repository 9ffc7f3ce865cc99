"""Judges against each other on the same labelled cases: every paired difference, and which of them may be chosen.

Owns what a judge's verdict and price of a case are for that. The rules of choosing are `calibration.selection`'s.
"""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np

from calibration.resample import Resampler
from calibration.selection import Candidate, compare, select
from judge_service.reports.choosing import ALPHA, price
from judge_service.reports.dataset import Dataset, JudgeColumn
from judge_service.reports.judge_figures import labels_said
from judge_service.reports.rules import Rules
from judge_service.reports.thresholds import SELECTING

MARGIN = 0.02
"""How much worse a cheaper judge may be and still be chosen; fixed before any label is seen."""


def comparisons(dataset: Dataset, rules: Rules, resampler: Resampler) -> dict[str, Any]:
    """The difference in raw agreement of every two judges, first minus second, with Holm over all pairs.

    `resampler` is over the labelled cases of `dataset`. A case without a verdict is wrong here even where `failures`
    leaves it out of a judge's own figures: judges are compared on the same cases.
    """
    names = [column.judge.name for column in dataset.columns]
    human = np.array(dataset.human, dtype=object)
    right = np.zeros((len(names), len(human)), dtype=bool)
    for place, column in enumerate(dataset.columns):
        right[place] = np.array(_verdicts(dataset, column, rules), dtype=object) == human
    rows = compare(names, right, list(combinations(range(len(names)), 2)), resampler)
    return {
        "metric": "raw_agreement",
        "correction": f"Holm over {len(rows)} pairs",
        "pairs": [
            {
                "first": row.leader,
                "second": row.other,
                "difference": row.difference.to_dict(),
                "p_value": row.p_value.to_dict(),
                "p_holm": row.p_holm,
            }
            for row in rows
        ],
    }


def selection(dataset: Dataset, humans: Mapping[str, Any], rules: Rules, resampler: Resampler) -> dict[str, Any] | None:
    """Which judge may be chosen, in fixed words with the reasons; None where no judge with a model judged.

    `humans` are the set's human figures: their agreement is the floor, and where they hardly agree nothing is chosen.
    Below 100 labels nothing is chosen either. `resampler` is over the labelled cases of `dataset`.
    """
    columns = [column for column in dataset.columns if not column.baseline]
    if not columns:
        return None
    found = select(
        [
            Candidate(
                column.judge.name,
                _verdicts(dataset, column, rules),
                price(column),
                dataset.usable(column),
            )
            for column in columns
        ],
        dataset.human,
        dataset.rubric.scale.names,
        groups=dataset.groups,
        margin=MARGIN,
        alpha=ALPHA,
        human_agreement=_agreement(humans),
        min_labels=SELECTING,
        resampler=resampler,
    ).to_dict()
    return {"metric": "raw_agreement", "margin": MARGIN, "alpha": ALPHA, "min_labels": SELECTING, **found}


def _verdicts(dataset: Dataset, column: JudgeColumn, rules: Rules) -> list[str | None]:
    return labels_said(dataset, column, "tie" if rules.failures == "tie" else "wrong", rules.inconsistent)


def _agreement(humans: Mapping[str, Any]) -> dict[str, float | None]:
    """What is known of the annotators' agreement, where enough of them labelled the same cases."""
    raw = humans["ceiling"]["s1"]["value"]
    if raw is None:
        return {}
    alpha = humans.get("krippendorff_alpha_ordinal") or humans["krippendorff_alpha_nominal"]
    return {"raw_agreement": raw, "alpha": alpha["value"], "ac1": humans["gwet_ac1"]["value"]}
