"""What the annotators of a set agree on among themselves: the ceiling that a judge is held to. Owns no formula."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibration import raters
from calibration.estimate import Estimate, plain
from calibration.resample import Resampler, share
from judge_service.reports.dataset import Dataset

MOST_ANNOTATORS = 12
"""Annotators compared in pairs: those with the most labels."""


def human_figures(dataset: Dataset, resampler: Resampler) -> dict[str, Any]:
    """Agreement among the annotators: the ceiling over pairs of votes, alpha, AC1, Fleiss' kappa, pairs of annotators.

    `resampler` is over the labelled cases. `labels` has the share of every label. `ceiling` is null below 30 cases with
    two votes: no ceiling is known then.
    """
    items = [dataset.items[i] for i in dataset.labelled]
    classes = dataset.rubric.scale.names
    cast = [list(item.votes.values()) for item in items]
    counts = Counter(annotator for item in items for annotator in item.votes)
    names = [name for name, _ in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))]
    rows = [[item.votes.get(name) for item in items] for name in sorted(names)]
    doubled = [votes for votes in cast if len(votes) >= 2]
    figures: dict[str, Any] = {
        "annotators": len(names),
        "labels": label_shares(dataset.human, classes, resampler),
        "cases_with_two_votes": len(doubled),
        "unanimous": sum(len(set(votes)) == 1 for votes in doubled),
        "all_different": sum(len(set(votes)) == len(votes) for votes in doubled if len(votes) > 2),
        "ceiling": raters.human_ceiling(cast, resampler=resampler),
    }
    if names:
        metric = "ordinal" if dataset.rubric.scale.ordered else "nominal"
        table = [[votes.count(label) for label in classes] for votes in cast if votes]
        figures["krippendorff_alpha_nominal"] = raters.alpha(rows, classes=classes, resampler=resampler)
        if metric == "ordinal":
            figures["krippendorff_alpha_ordinal"] = raters.alpha(rows, "ordinal", classes=classes, resampler=resampler)
        figures["gwet_ac1"] = raters.ac1(rows, classes=classes, resampler=resampler)
        of_voted = resampler if len(table) == len(items) else None
        figures["fleiss_kappa"] = raters.fleiss_kappa(table, resampler=of_voted)
        compared = sorted(names[:MOST_ANNOTATORS])
        pairs = raters.pairwise([[item.votes.get(name) for item in items] for name in compared], classes)
        figures["pairs"] = [
            {"annotators": [compared[i], compared[j]], **figures_of} for (i, j), figures_of in pairs.items()
        ]
    return as_json(figures)


def label_shares(labels: Sequence[str | None], classes: Sequence[str], resampler: Resampler) -> dict[str, Estimate]:
    """The share of every label among all of `labels`; None counts in the denominator only."""
    return {
        label: share(np.array([value == label for value in labels], dtype=bool), None, resampler) for label in classes
    }


def as_json(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The same names with JSON-ready values."""
    return {name: plain(value) for name, value in figures.items()}
