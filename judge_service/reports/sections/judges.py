"""Section: judges side by side on the same cases. Owns which figures stand in the table and what they count."""

from typing import Any

from calibration.agreement import Agreement, PairedLabels
from calibration.resample import Resampler
from judge_service.reports.dataset import Dataset, ended
from judge_service.reports.statistics import cost

ID = "judges"
TITLE = "Judges side by side"


def build(dataset: Dataset) -> dict[str, Any]:
    """Per judge: agreement and kappa as estimates, outcomes, tokens, cost, latency. Judges keep their given order."""
    resampler = Resampler(len(dataset.human), dataset.groups)
    classes = dataset.rubric.scale.names
    judges = []
    for column in dataset.columns:
        labels = PairedLabels.of(
            dataset.predicted(column),
            dataset.human,
            classes,
            groups=dataset.groups,
            ordered=dataset.rubric.scale.ordered,
        )
        agreement = Agreement(labels, resampler)
        judges.append(
            {
                "judge": column.judge.name,
                "backend": column.judge.backend,
                "baseline": column.baseline,
                "description": column.judge.description,
                "agreement": agreement.raw().to_dict(),
                "kappa": agreement.kappa().to_dict(),
                "outcomes": dict(ended(column.judgments)),
                **cost(column),
            }
        )
    return {"n": len(dataset.human), "cases": len(dataset.items), "judges": judges}
