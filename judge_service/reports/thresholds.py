"""Where to cut a confidence or a score: descriptive, with a guarantee, and by the best F1. Owns no formula."""

from collections.abc import Sequence
from typing import Any

from calibration import probability, selective
from calibration.agreement import Agreement, PairedLabels
from calibration.confidence import Forecasts
from calibration.estimate import Estimate, Reason
from calibration.resample import Resampler
from judge_service.domain.calibration_set import Split
from judge_service.reports.dataset import Dataset, JudgeColumn
from judge_service.reports.humans import as_json
from judge_service.reports.rules import Rules

SELECTING = 100
"""Labels below which no threshold is usable."""
THRESHOLDS = tuple(step / 100 for step in range(50, 100, 5))
"""The thresholds of confidence among which the usable one is looked for: fixed before any label is seen."""


def thresholds_of_confidence(
    dataset: Dataset, labels: PairedLabels, confidence: Sequence[float | None], rules: Rules, uneven: bool = False
) -> dict[str, Any]:
    """Where to cut the confidence for a target agreement: descriptive, and with a guarantee from 100 labels on.

    `uneven`: the cases were drawn with unequal probabilities, under which no guarantee is defined.
    """
    groups = None if labels.groups is None else list(labels.groups)
    stated = [value if known else None for value, known in zip(confidence, labels.known, strict=True)]
    forecasts = Forecasts.of(stated, labels.judge == labels.human, groups=groups)
    if len(labels) < SELECTING:
        usable = Estimate.undefined(Reason.TOO_FEW_LABELS, len(labels), "guaranteed_threshold")
    elif uneven:
        usable = Estimate.undefined(Reason.UNEQUAL_PROBABILITIES, len(labels), "guaranteed_threshold")
    else:
        usable = selective.guaranteed_threshold(forecasts, THRESHOLDS, rules.target)
    return as_json(
        {
            "target": rules.target,
            "usable_threshold": usable,
            "lowest_threshold": selective.lowest_threshold(forecasts, rules.target),
        }
    )


def thresholds(
    dataset: Dataset,
    column: JudgeColumn,
    rules: Rules,
    resampler: Resampler,
    tuned: tuple[Dataset, JudgeColumn] | None,
) -> dict[str, Any] | None:
    """One label against the rest by "score > threshold": at 0.5, and at the first threshold with the best F1.

    The score is the probability of the label where the judge gives one, else the judgment's score. Null for rubrics
    without an ordered scale, where no `positive` was named. On release cases no threshold is chosen, unless cases are
    named for it.
    """
    scale = dataset.rubric.scale
    if rules.positive is None and not scale.ordered:
        return None
    positive = rules.positive or (scale.names[-1] if scale.higher_is_better else scale.names[0])
    scores, truth = dataset.scores(column, positive), [label == positive for label in dataset.human]
    known = [i for i, score in enumerate(scores) if score is not None]
    if not known:
        return None
    values = [float(scores[i] or 0.0) for i in known]
    outcome = [truth[i] for i in known]
    chosen: Estimate | None
    if tuned is None and any(item.split is Split.RELEASE for item in dataset.items):
        # Choosing on a test would spend it: that takes a threshold that is asked for.
        chosen = None
        source = "nothing: release cases choose no threshold unless `threshold_from` names them"
    elif tuned is None:
        chosen = selective.threshold_by_f1(values, outcome)
        source = "the cases themselves, so it is optimistic"
    else:
        other, theirs = tuned
        pairs = [
            (score, label == positive)
            for score, label in zip(other.scores(theirs, positive), other.human, strict=True)
            if score is not None
        ]
        chosen = selective.threshold_by_f1([score for score, _ in pairs], [right for _, right in pairs])
        source = f"the {len(pairs)} cases with {rules.threshold_from}"
    found: dict[str, Any] = {
        "positive": positive,
        "score": "probability" if column.probabilistic else "score",
        "without_score": len(scores) - len(known),
        "best_f1_chosen_on": source,
        "above_0.5": _cut(dataset, scores, truth, 0.5, resampler),
        "best_f1": None
        if chosen is None or chosen.value is None
        else _cut(dataset, scores, truth, chosen.value, resampler),
    }
    weights = None if dataset.weights is None else dataset.weights[known]
    forecasts = Forecasts.of(values, outcome, weights=weights)
    groups = [dataset.groups[i] for i in known]
    of_known = Resampler(len(known), groups, resamples=rules.resamples, seed=rules.seed, weights=forecasts.weights)
    found["auroc"] = probability.auroc(forecasts, resampler=of_known)
    if column.probabilistic:
        found["brier"] = probability.brier(forecasts, resampler=of_known)
        verdict = Forecasts.of(
            [max(value, 1 - value) for value in values],
            [(value > 0.5) == right for value, right in zip(values, outcome, strict=True)],
            weights=weights,
        )
        for bins in (10, 15):
            found[f"ece_{bins}_bins"] = probability.ece(forecasts, bins)
            found[f"ece_of_verdict_{bins}_bins"] = probability.ece(verdict, bins)
    return as_json(found)


def _cut(
    dataset: Dataset, scores: Sequence[float | None], truth: Sequence[bool], cut: float, resampler: Resampler
) -> dict[str, Any]:
    said = [None if score is None else "yes" if score > cut else "no" for score in scores]
    labels = PairedLabels.of(said, ["yes" if right else "no" for right in truth], ("no", "yes"), groups=dataset.groups)
    agreement = Agreement(labels, resampler)
    rates = agreement.per_class()["yes"]
    return {
        "threshold": cut,
        "accuracy": agreement.raw(),
        "f1": agreement.f1("yes"),
        "cohen_kappa": agreement.kappa(),
        "precision": rates["precision"],
        "recall": rates["tpr"],
    }
