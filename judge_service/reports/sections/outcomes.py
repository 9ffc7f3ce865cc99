"""Section: how every case ended, per judge. Owns the counts and the reasons behind what is not scored."""

from collections import Counter
from typing import Any

from calibration.intervals import proportion
from judge_service.reports.dataset import ended
from judge_service.reports.figures import shown
from judge_service.reports.study import Study

ID = "outcomes"
TITLE = "What came back"

ORDER = ("scored", "tie", "inconsistent", "not_applicable", "judge_error", "not_judged")
"""The ways a case can end, in the order of the bar."""


def build(study: Study) -> dict[str, Any]:
    """Per judge: counts over all cases that add up to their number, and reasons of what has no score.

    Shape: `{n, order, judges: [{judge, baseline, n, counts, reasons, failures}]}`. `order` lists the endings in the
    order of the bar; `counts` has each of them and adds up to `n`; `reasons` counts `outcome: reason`; `failures` has
    a figure per ending or `outcome:reason` over the labelled cases, and `all`.
    """
    judges = []
    for column, labelled in zip(study.dataset.columns, study.labelled.columns, strict=True):
        reasons = Counter(
            f"{judgment.outcome.value}: {judgment.reason.value}"
            for judgment in column.judgments
            if judgment is not None and judgment.reason is not None
        )
        failed = Counter(why for why in study.labelled.failures(labelled) if why is not None)
        judges.append(
            {
                "judge": column.judge.name,
                "baseline": column.baseline,
                "n": len(column.judgments),
                "counts": dict(ended(column.judgments)),
                "reasons": dict(sorted(reasons.items())),
                "failures": {
                    "all": shown(proportion(failed.total(), study.n)),
                    **{why: shown(proportion(count, study.n)) for why, count in sorted(failed.items())},
                },
            }
        )
    return {"n": len(study.dataset.items), "order": list(ORDER), "judges": judges}
