"""Labels that are hard to carry over a file: texts with line ends and quotes, formulas, every field of a label."""

from typing import Any

from tests.judge_service.annotation.projects import pair

ITEMS = {"answers": {}, "items": [{"id": "c1", "text": 'Five days, "so"\nit is.', "answers": {"verdict": "supported"}}]}
HARD = 'He said "no", then left.\nSecond; line \t שלום 🙂'
LABELS: list[dict[str, Any]] = [
    {"case_id": "model-x/0", "annotator": "Ann", "label": "A", "seconds": 2.5, "note": HARD, "order_shown": "BA"},
    {"case_id": "model-x/0", "annotator": "Bob", "label": None, "probability": 0.125},
    {"case_id": "model-x/1", "annotator": "00123", "label": "tie", "items": ITEMS, "condition": "assisted"},
    {"case_id": "model-x/1", "annotator": "=cmd()", "label": "B", "adjudicated": True},
]
KINDS = ("jsonl", "csv", "parquet", "label-studio")


def cases(n: int) -> list[dict[str, Any]]:
    """Case rows without labels."""
    return [{"id": case.id, **case.input} for case in (pair(number).case for number in range(n))]
