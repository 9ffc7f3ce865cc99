"""Section: judges side by side on the same cases. Owns which figures stand in the table and what they count."""

from typing import Any

import numpy as np

from calibration.resample import share
from calibration.selection import Floors
from judge_service.reports.dataset import ended
from judge_service.reports.figures import shown
from judge_service.reports.floors import floor_words
from judge_service.reports.spending import spending
from judge_service.reports.study import Study

ID = "judges"
TITLE = "Judges side by side"


def build(study: Study) -> dict[str, Any]:
    """Per judge the figures that a choice looks at first. Judges keep their given order, which is none of merit.

    Shape: `{n, cases, judges: [row], people, constant}`.
    `row`: `judge`, `backend`, `baseline`, `description`; figures `agreement`, `kappa`, `ac1`, `valid` (share of cases
    with a verdict), `consistency` (null for single answers); `outcomes` (counts over all cases), `failed` (labelled
    cases without a verdict); `ece` (figure or null), `ece_by_chance` and `ece_by_chance_95` (numbers or null);
    `policy`; `calls`, `prompt_tokens`, `completion_tokens`, `cost_usd`, `cost_known_for`, `cost_per_1000`,
    `seconds_median`, `seconds_p95`, `seconds_p99`, `seconds_slowest`; `floors`: `{met, failed: [text], codes}`, null
    where nothing is selected (a baseline, or no label). `people`: figures `agreement`, `alpha`, `ac1`, `cases` with two
    labels. `constant`: `answer`, figures `agreement`. A figure is an object with `value`, `low`, `high`, `n`,
    `undefined_reason` and more (see `reports.figures`).
    """
    selection = study.choice.selection
    floors = {} if selection is None else {row.judge: row for row in selection.floors}
    judges = []
    for place, (column, whole, figures) in enumerate(
        zip(study.labelled.columns, study.dataset.columns, study.figures, strict=True)
    ):
        agreement = figures.agreement
        ece = None if figures.confidence is None else figures.confidence["ece"]
        floor = floors.get(column.judge.name)
        judges.append(
            {
                "judge": column.judge.name,
                "backend": column.judge.backend,
                "baseline": column.baseline,
                "description": column.judge.description,
                "agreement": shown(agreement["raw_agreement"]),
                "kappa": shown(agreement["cohen_kappa"]),
                "ac1": shown(agreement["gwet_ac1"]),
                "valid": shown(share(np.array(study.labelled.usable(column), dtype=bool), None, study.resampler)),
                "consistency": None if figures.position is None else shown(figures.position["consistency"]),
                "outcomes": dict(ended(whole.judgments)),
                "failed": sum(label is None for label in study.labelled.predicted(column)),
                "ece": None if ece is None else shown(ece),
                "ece_by_chance": None if ece is None else ece.details.get("null_mean"),
                "ece_by_chance_95": None if ece is None else ece.details.get("null_q95"),
                "policy": study.choice.policies[place].policy,
                **spending(whole),
                "floors": None if floor is None else _floors(study, floor),
            }
        )
    return {
        "n": study.n,
        "cases": len(study.dataset.items),
        "judges": judges,
        "people": {
            "agreement": shown(study.ceiling["s1"]),
            "cases": sum(len(cast) >= 2 for cast in study.votes),
        },
        "constant": study.constant,
    }


def _floors(study: Study, floors: Floors) -> dict[str, Any]:
    return {
        "met": floors.met,
        "failed": [floor_words(miss, study.constant["answer"]) for miss in floors.missed],
        "codes": [miss.code for miss in floors.missed],
    }
