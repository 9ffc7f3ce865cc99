"""Section: does the order of presentation change verdicts? Owns the counts per judge; pairs only."""

from typing import Any

from calibration.position import position_sensitivity
from calibration.resample import Resampler
from judge_service.reports.dataset import Dataset

ID = "order"
TITLE = "Does the order matter?"


def build(dataset: Dataset) -> dict[str, Any] | None:
    """Per judge: consistency over pairs with two verdicts, and how often the answer shown first won."""
    if dataset.rubric.kind != "pairwise":
        return None
    resampler = Resampler(len(dataset.items), dataset.units)
    judges = []
    for column in dataset.columns:
        ab, ba = dataset.orders(column)
        figures = position_sensitivity(ab, ba, resampler=resampler)
        leaning = figures["bias_test"].details
        judges.append(
            {
                "judge": column.judge.name,
                "pairs": figures["consistency"].n,
                "consistency": figures["consistency"].to_dict(),
                "first_share": figures["first_slot_share"].to_dict(),
                "to_first": leaning["primacy"],
                "to_second": leaning["recency"],
                "shown_first": ab.count("A") + ba.count("B"),
                "shown_second": ab.count("B") + ba.count("A"),
                "ties": ab.count("tie") + ba.count("tie"),
            }
        )
    return {"cases": len(dataset.items), "judges": judges}
