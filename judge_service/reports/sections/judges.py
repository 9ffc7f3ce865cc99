"""Section: judges side by side on the same cases. Owns which figures stand in the table and what they count."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from calibration.agreement import Agreement, PairedLabels
from calibration.resample import Resampler
from judge_service.reports.dataset import Dataset, JudgeColumn, ended

ID = "judges"
TITLE = "Judges side by side"


def _cost(column: JudgeColumn) -> dict[str, Any]:
    made = [judgment for judgment in column.judgments if judgment is not None]
    calls = [call for judgment in made for call in judgment.calls]
    seconds = sorted(judgment.latency_ms / 1000 for judgment in made)
    known = [judgment.usage.cost_usd for judgment in made if judgment.usage.cost_usd is not None]
    return {
        "calls": len(calls),
        "prompt_tokens": _total([judgment.usage.prompt_tokens for judgment in made]),
        "completion_tokens": _total([judgment.usage.completion_tokens for judgment in made]),
        "cost_usd": sum(known) if known else None,
        "cost_known_for": len(known),
        "seconds_median": median(seconds) if seconds else None,
        "seconds_slowest": seconds[-1] if seconds else None,
    }


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


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
                **_cost(column),
            }
        )
    return {"n": len(dataset.human), "cases": len(dataset.items), "judges": judges}
