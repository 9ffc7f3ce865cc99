"""The verdict of a report, said first. Owns its four patterns in words and when no choice may be made.

This report describes judges and never selects one by itself: below 30 labels nothing is recommended, ever; from 30
labels on it says what a selection needs.
"""

from typing import Any

from judge_service.reports.dataset import Dataset

FLOOR = 30
"""Labels below which nothing is recommended."""
SELECTION = 100
"""Labels below which judges may be described but not selected."""


def decide(dataset: Dataset, judges: list[dict[str, Any]], order: dict[str, Any] | None) -> dict[str, Any]:
    """Pattern, sentence, the one missing quantity and at most four reasons, from the sections' own figures."""
    n = len(dataset.human)
    needed = FLOOR if n < FLOOR else SELECTION
    missing = max(0, needed - n)
    sentence = f"Not enough evidence to choose a judge for {dataset.rubric.id}."
    if missing:
        cases = "case" if missing == 1 else "cases"
        sentence += f" Missing: at least {missing} more labelled {cases}."
    else:
        sentence += " Missing: a frozen calibration set with people's blind labels; these labels are not one."
    return {
        "pattern": "not_enough_evidence",
        "sentence": sentence,
        "labels": n,
        "labels_needed": needed,
        "missing_labels": missing,
        "reasons": _reasons(n, judges, order),
    }


def _reasons(n: int, judges: list[dict[str, Any]], order: dict[str, Any] | None) -> list[str]:
    reasons = [
        f"{n} labelled cases describe how a judge behaves; they cannot show that one judge is better than another. "
        f"Below {FLOOR} labels nothing is recommended."
        if n < FLOOR
        else f"{n} labels describe judges; choosing between clearly different ones needs {SELECTION} or more."
    ]
    models = [row for row in judges if not row["baseline"]]
    baselines = [row for row in judges if row["baseline"]]
    said = [f"{row['judge']} {_count(row)}" for row in models]
    if said:
        reasons.append(f"Agreement with people on {n} labelled cases: {', '.join(said)}.")
    if baselines:
        best = ", ".join(f"{row['judge']} {_count(row)}" for row in baselines)
        reasons.append(f"Judges without a model, which any judge must beat: {best}.")
    names = {row["judge"] for row in models}
    for row in order["judges"] if order is not None else ():
        if row["judge"] in names and row["pairs"]:
            same = int(row["consistency"]["numerator"])
            reasons.append(
                f"{row['judge']} gave the same answer in both orders for {same} of {row['pairs']} pairs, and chose "
                f"the answer shown first in {row['shown_first']} of {row['shown_first'] + row['shown_second']} "
                "decided verdicts."
            )
            break
    return reasons[:4]


def _count(row: dict[str, Any]) -> str:
    agreement = row["agreement"]
    if agreement["value"] is None:
        return "not measured"
    return f"{int(agreement['numerator'])} of {int(agreement['denominator'])}"
