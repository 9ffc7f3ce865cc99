"""Section: how every case ended, per judge. Owns the counts and the reasons behind what is not scored."""

from collections import Counter
from typing import Any

from judge_service.reports.dataset import Dataset, ended

ID = "outcomes"
TITLE = "What came back"

ORDER = ("scored", "tie", "inconsistent", "not_applicable", "judge_error", "not_judged")
"""The ways a case can end, in the order of the bar."""


def build(dataset: Dataset) -> dict[str, Any]:
    """Per judge: counts over all cases that add up to their number, and reasons of what has no score."""
    judges = []
    for column in dataset.columns:
        reasons = Counter(
            f"{judgment.outcome.value}: {judgment.reason.value}"
            for judgment in column.judgments
            if judgment is not None and judgment.reason is not None
        )
        judges.append(
            {
                "judge": column.judge.name,
                "n": len(column.judgments),
                "counts": dict(ended(column.judgments)),
                "reasons": dict(sorted(reasons.items())),
            }
        )
    return {"n": len(dataset.items), "order": list(ORDER), "judges": judges}
