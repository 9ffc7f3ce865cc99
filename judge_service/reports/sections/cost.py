"""Section: what judging costs, against what it agrees. Owns the front of judges that nothing cheaper equals."""

from typing import Any

from calibration.selection import pareto_front
from judge_service.reports.figures import shown
from judge_service.reports.spending import spending
from judge_service.reports.study import Study

ID = "cost"
TITLE = "What it costs"


def build(study: Study) -> dict[str, Any]:
    """Per judge: US dollars and seconds a case, all calls counted, beside its agreement.

    Shape: `{n, judges: [row], front: [judge]}`. `row`: `judge`, `baseline`, figure `agreement` (under the policy that
    the verdict would use), `measured` (false where no cost is known, with `text`), and `judged`, `calls`,
    `prompt_tokens`, `completion_tokens`, `cost_usd`, `cost_known_for`, `cost_per_case`, `cost_per_1000` (US dollars),
    `seconds_known_for`, `seconds_median`, `seconds_p95`, `seconds_p99`, `seconds_slowest`: numbers or null. `front`:
    judges on the dashed line, cheapest first.
    """
    judges = []
    for column, figures in zip(study.dataset.columns, study.figures, strict=True):
        spent = spending(column)
        known = spent["cost_per_case"] is not None
        judges.append(
            {
                "judge": column.judge.name,
                "baseline": column.baseline,
                "measured": known,
                "text": None if known else "Not measured: the judge's calls name no cost.",
                "agreement": shown(figures.agreement["raw_agreement"]),
                **spent,
            }
        )
    priced = [row for row in judges if row["measured"] and row["agreement"]["value"] is not None]
    front = pareto_front([row["cost_per_case"] for row in priced], [row["agreement"]["value"] for row in priced])
    return {"n": study.n, "judges": judges, "front": [priced[place]["judge"] for place in front]}
