"""Section: the cases where a judge and the label differ, with their texts. Owns which cases are listed."""

from typing import Any

from judge_service.domain.judgment import Judgment
from judge_service.reports.dataset import Dataset, LabelledItem

ID = "disagreements"
TITLE = "Where judges and people differ"

LISTED = 100
"""How many cases are listed at most; the rest is counted."""
TEXT_LIMIT = 4_000
"""Longest text shown, in characters."""


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_LIMIT else f"{text[:TEXT_LIMIT]} [... {len(text) - TEXT_LIMIT} more characters]"


def _texts(item: LabelledItem) -> list[dict[str, str]]:
    """Every text of a case with the name of its field, in the case's own order."""
    found = []

    def walk(name: str, value: Any) -> None:
        if isinstance(value, str):
            found.append({"name": name, "text": _cut(value)})
        elif isinstance(value, dict):
            title = str(value.get("id", name))
            for key, part in value.items():
                if key != "id":
                    walk(f"{name} {title}" if key == "text" else f"{name} {title} {key}", part)
        elif isinstance(value, (list, tuple)):
            for number, part in enumerate(value, start=1):
                walk(name if isinstance(part, dict) else f"{name} {number}", part)

    for name, value in item.case.input.items():
        walk(name, value)
    return found


def _answer(judgment: Judgment | None) -> dict[str, Any]:
    if judgment is None:
        return {"outcome": "not_judged", "label": None, "reason": None, "detail": None, "score": None, "says": None}
    record = judgment.record or {}
    says = record.get("rationale")
    if says is None:
        shown = [record.get(order) for order in ("ab", "ba")]
        says = next((one["rationale"] for one in shown if isinstance(one, dict) and one.get("rationale")), None)
    return {
        "outcome": judgment.outcome.value,
        "label": judgment.label,
        "reason": judgment.reason.value if judgment.reason is not None else None,
        "detail": judgment.detail,
        "score": judgment.score,
        "says": _cut(says) if isinstance(says, str) else None,
    }


def build(dataset: Dataset) -> dict[str, Any]:
    """Labelled cases on which a judge with a model gave another label or none; without such a judge, any judge."""
    models = [column for column in dataset.columns if not column.baseline] or list(dataset.columns)
    cases = []
    for i in dataset.labelled:
        item = dataset.items[i]
        differ = [
            column
            for column in models
            if column.judgments[i] is None or getattr(column.judgments[i], "label", None) != item.label
        ]
        if differ:
            cases.append(
                {
                    "id": item.case.id,
                    "metadata": dict(item.case.metadata),
                    "texts": _texts(item),
                    "human_label": item.label,
                    "human_note": item.note,
                    "judges": [
                        {
                            "judge": column.judge.name,
                            "agrees": getattr(column.judgments[i], "label", None) == item.label,
                            **_answer(column.judgments[i]),
                        }
                        for column in dataset.columns
                    ],
                }
            )
    return {
        "n": len(dataset.labelled),
        "differ": len(cases),
        "of_judges": [column.judge.name for column in models],
        "cases": cases[:LISTED],
        "not_listed": max(0, len(cases) - LISTED),
    }
