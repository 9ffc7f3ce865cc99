"""Section: which labels a judge takes for which. Owns the tables of counts and the rates per label."""

from typing import Any

from calibration.resample import share
from judge_service.reports.figures import shown
from judge_service.reports.study import Study

ID = "confusion"
TITLE = "Label by label"


def build(study: Study) -> dict[str, Any]:
    """Per judge: counts of its labels against people's, and rates of each label.

    Shape: `{n, classes, people: {label: figure}, judges: [row]}`; `people`: share of each label.
    `row`: `judge`, `baseline`, `table`: rows the judge's label, columns people's, counts; `failed`: cases without a
    verdict by people's label; `rates`: per label figures `recall` (tpr), `specificity` (tnr), `precision`, `f1`.
    """
    import numpy as np

    human = study.labelled.human
    judges = []
    for column, figures, agreement in zip(study.labelled.columns, study.figures, study.agreements, strict=True):
        counts = agreement.counts
        judges.append(
            {
                "judge": column.judge.name,
                "baseline": column.baseline,
                "table": counts[:-1].tolist(),
                "failed": counts[-1].tolist(),
                "rates": {
                    label: {
                        "recall": shown(rates["tpr"]),
                        "specificity": shown(rates["tnr"]),
                        "precision": shown(rates["precision"]),
                        "f1": shown(agreement.f1(label)),
                    }
                    for label, rates in figures.per_class.items()
                },
            }
        )
    return {
        "n": study.n,
        "classes": list(study.classes),
        "people": {
            label: shown(share(np.array([value == label for value in human], dtype=bool), None, study.resampler))
            for label in study.classes
        },
        "judges": judges,
    }
