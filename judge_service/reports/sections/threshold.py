"""Section: what deciding only above a confidence would keep, and how wrong it would be. Owns the curve's points."""

from typing import Any

from calibration.headline import Headline
from calibration.selective import lowest_threshold
from judge_service.reports.choosing import ThresholdChoice
from judge_service.reports.dataset import JudgeColumn
from judge_service.reports.figures import shown
from judge_service.reports.study import Study
from judge_service.reports.thresholds import SELECTING, THRESHOLDS

ID = "threshold"
TITLE = "What a threshold buys"

POINTS = 101
"""Points of a curve that are shown at most."""

_TEXTS = {
    "no_confidence": "This judge states no confidence, so there is nothing to set a threshold on.",
    "too_few_labels": f"Fewer than {SELECTING} labels: no threshold is usable.",
    "policy_changed": "The confidence belongs to another way of asking the orders than the one recommended.",
    "unequal_probabilities": "The cases were drawn with unequal probabilities: no guarantee is defined over them.",
    "not_confirmed": "The threshold chosen on other cases does not keep its promise on these: not enough evidence.",
    "no_threshold_reaches_the_target": "No threshold reaches the target with 95% confidence: not enough evidence.",
}


def build(study: Study) -> dict[str, Any]:
    """Per judge: risk against coverage, and the usable threshold with its guarantee.

    Shape: `{n, target, grid, judges: [row]}`.
    `row`: `judge`, `baseline`, `measured` (false with `reason` code and `text`); `curve`: at most 101 points
    `{threshold, accepted, errors, coverage, risk}` from the most confident on (coverage of all labelled cases, risk
    among the accepted); figures `aurc` (area under it), with `oracle` and `excess` numbers; `grid`: per threshold
    fixed beforehand `{threshold, accepted, errors, coverage, risk, risk_upper, ok}` on the cases `chosen_on`;
    `usable`: `{threshold, reason, text, chosen_on, cases, accepted, errors, coverage, agreement, guaranteed}`: the
    lowest threshold whose agreement reaches the target with 95% confidence (`guaranteed` is the bound), on the
    report's own cases; null numbers and a reason where there is none; `lowest`: `{threshold, accepted, coverage,
    risk}` or null: the lowest that reaches the target without any guarantee.
    """
    return {
        "n": study.n,
        "target": study.choices.target,
        "grid": list(THRESHOLDS),
        "judges": [
            _row(study, column, figures, usable)
            for column, figures, usable in zip(
                study.labelled.columns, study.figures, study.choice.thresholds, strict=True
            )
        ],
    }


def _row(study: Study, column: JudgeColumn, figures: Headline, choice: ThresholdChoice) -> dict[str, Any]:
    head = {"judge": column.judge.name, "baseline": column.baseline}
    if figures.confidence is None or not figures.confidence["aurc"].defined:
        reason = "no_confidence"
        return {
            **head,
            "measured": False,
            "reason": reason,
            "text": _TEXTS[reason],
            "curve": [],
            "grid": [],
            "usable": _usable(study, choice),
            "lowest": None,
        }
    aurc = figures.confidence["aurc"]
    lowest = lowest_threshold(study.forecasts(column), study.choices.target)
    rows = [] if choice.search is None else choice.search.details.get("rows", [])
    return {
        **head,
        "measured": True,
        "reason": None,
        "text": None,
        "curve": thinned(figures.risk_coverage or []),
        "aurc": shown(aurc),
        "oracle": aurc.details["oracle"],
        "excess": aurc.details["excess"],
        "grid": [
            {
                **row,
                "risk": row["errors"] / row["accepted"] if row["accepted"] else None,
            }
            for row in rows
        ],
        "usable": _usable(study, choice),
        "lowest": None
        if lowest.value is None
        else {
            "threshold": lowest.value,
            **{name: lowest.details[name] for name in ("accepted", "coverage", "risk")},
        },
    }


def _usable(study: Study, choice: ThresholdChoice) -> dict[str, Any]:
    kept = choice.accepted
    return {
        "threshold": choice.threshold,
        "reason": choice.reason,
        "text": None if choice.reason is None else _TEXTS[choice.reason],
        "chosen_on": choice.chosen_on,
        "cases": choice.cases,
        "accepted": kept if choice.threshold is not None else None,
        "errors": choice.errors if choice.threshold is not None else None,
        "coverage": kept / choice.cases if choice.threshold is not None and choice.cases else None,
        "agreement": (kept - choice.errors) / kept if choice.threshold is not None and kept else None,
        "guaranteed": None if choice.risk_upper is None else 1 - choice.risk_upper,
        "target": study.choices.target,
    }


def thinned(points: list[dict[str, float | int]]) -> list[dict[str, float | int]]:
    """At most `POINTS` of them, the first and the last among them."""
    if len(points) <= POINTS:
        return points
    step = (len(points) - 1) / (POINTS - 1)
    return [points[round(number * step)] for number in range(POINTS)]
