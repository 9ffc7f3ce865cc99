"""Rows of agreement with people from recorded verdicts: hands them to `calibration` and names the figures.

Owns the shape of a row. The figures and their definitions are `calibration.agreement_table`'s.
"""

from typing import Any

from calibration.agreement_table import LabelledPair, OrderedVerdict, agreement_table, join_verdicts
from judge_service.reports.recorded import Recorded

NO_GROUP = "all"
"""Group of cases that name none."""


def agreement_rows(recorded: Recorded) -> list[dict[str, Any]]:
    """One flat object per group, judge and strategy, sorted by these.

    Figures stand under their own names, null where undefined; `intervals` has [low, high] of each figure that has
    one, `reasons` the code of each figure that is null, `estimates` everything known about each.
    """
    joined = join_verdicts(
        (
            LabelledPair(id=case.id, group=case.group or NO_GROUP, human=case.human_label, cluster=case.cluster)
            for case in recorded.labelled
            if case.human_label is not None
        ),
        (
            OrderedVerdict(
                case_id=line.verdict.case_id,
                judge=line.verdict.judge,
                strategy=line.verdict.strategy,
                order=line.verdict.order,
                verdict=line.verdict.verdict,
                line=line.number,
            )
            for line in recorded.verdicts
        ),
    )
    rows = []
    for row in agreement_table(joined):
        flat = row.to_dict()
        estimates = flat.pop("estimates")
        flat["intervals"] = {
            name: [item["low"], item["high"]] for name, item in estimates.items() if item["low"] is not None
        }
        flat["reasons"] = {
            name: item["undefined_reason"] for name, item in estimates.items() if item["undefined_reason"] is not None
        }
        flat["estimates"] = estimates
        rows.append(flat)
    return rows
