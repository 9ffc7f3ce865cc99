"""How often judges agree with a project's labels, as if all its cases had been labelled: weighted by the stored
probabilities, so that cases chosen because they are hard count as often as they occur.

The figures of a set without draws are the statistics' own; this is for labels that were drawn.
"""

from collections import defaultdict
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from calibration.intervals import proportion
from calibration.weighted import weighted_share
from judge_service.domain.calibration_set import LabelCondition
from judge_service.domain.outcome import Outcome
from judge_service.reports.labelled_set import final_label
from judge_service.store import Store

FEWEST = 30
"""Labelled cases below which there is no estimate."""


class JudgeEstimate(BaseModel):
    """One judge: agreement over the population, weighted, and beside it over the drawn cases as they are.

    A failed judgment does not agree. `estimate` is null with `reason` `few_labels` under 30 labelled cases.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    judge: str
    n: int
    reason: str | None
    weighted: dict[str, Any] | None
    unweighted: dict[str, Any] | None


def estimates(store: Store, project_id: str) -> list[JudgeEstimate]:
    """An estimate for every judge with judgments on the project's labelled cases, by name. Raises NotFound.

    Labels that saw a verdict are left out, as everywhere.
    """
    project = store.projects.get(project_id)
    chances = {
        case.case_id: case.probability or 1.0 for case in store.projects.cases(project_id) if not case.qualification
    }
    labels = {
        case_id: [label for label in mine if label.condition is LabelCondition.BLIND]
        for case_id, mine in store.labels.of_cases(project.set_id, chances, project.rubric).items()
    }
    compared: dict[str, list[tuple[bool, float]]] = defaultdict(list)
    finals = {case_id: said for case_id, mine in labels.items() if (said := final_label(mine).label) is not None}
    entries = store.sets.named(project.set_id, finals)
    hashes = {case_id: entry.case.content_hash for case_id, entry in entries.items()}
    made = store.judgments.of_cases(project.rubric_hash, hashes.values())
    for case_id, final in sorted(finals.items()):
        newest: dict[str, bool] = {}
        for judgment in made.get(hashes.get(case_id, ""), ()):
            newest[judgment.judge] = judgment.outcome is Outcome.SCORED and judgment.label == final
        for judge, same in newest.items():
            compared[judge].append((same, chances[case_id]))
    return [_estimate(judge, pairs) for judge, pairs in sorted(compared.items())]


def _estimate(judge: str, pairs: list[tuple[bool, float]]) -> JudgeEstimate:
    if len(pairs) < FEWEST:
        return JudgeEstimate(judge=judge, n=len(pairs), reason="few_labels", weighted=None, unweighted=None)
    same = [value for value, _ in pairs]
    return JudgeEstimate(
        judge=judge,
        n=len(pairs),
        reason=None,
        weighted=weighted_share(np.array(same), np.array([1 / chance for _, chance in pairs])).to_dict(),
        unweighted=proportion(sum(same), len(same)).to_dict(),
    )
