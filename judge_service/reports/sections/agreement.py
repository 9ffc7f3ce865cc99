"""Section: agreement with people, all measures together, and the paired differences. Owns which measures are shown."""

from typing import Any

from calibration import raters
from calibration.headline import Headline
from judge_service.reports.choosing import ALPHA
from judge_service.reports.dataset import JudgeColumn
from judge_service.reports.figures import shown
from judge_service.reports.study import Study

ID = "agreement"
TITLE = "Agreement with people"

_PLAIN = {
    "raw": "raw_agreement",
    "raw_valid": "raw_agreement_valid",
    "valid": "valid_rate",
    "kappa": "cohen_kappa",
    "ac1": "gwet_ac1",
    "alpha": "krippendorff_alpha_nominal",
    "mcc": "mcc",
    "balanced": "balanced_accuracy",
}
_ORDERED = {
    "within_one": "within_one",
    "kappa_linear": "cohen_kappa_linear",
    "kappa_quadratic": "cohen_kappa_quadratic",
    "ac2": "gwet_ac2_quadratic",
    "alpha_ordinal": "krippendorff_alpha_ordinal",
}


def build(study: Study) -> dict[str, Any]:
    """Every measure of every judge on the same labelled cases, beside two people and the constant answer.

    Shape: `{n, classes, ordered, floor, floor_of, people, constant, judges: [row], comparisons}`.
    `floor`: share or null; `people`: figures `s1`, `s2` (two people, all pairs of labels; decided ones) and `cases`.
    `constant`: `{answer, agreement}`: what always giving the most frequent label reaches.
    `row`: `judge`, `baseline`; figures `raw` (all labelled cases, a failure does not agree), `raw_valid` (cases with a
    verdict), `valid`, `kappa`, `ac1`, `alpha`, `mcc`, `balanced`, `macro_f1`, with ordered labels also `within_one`,
    `kappa_linear`, `kappa_quadratic`, `ac2`, `alpha_ordinal` (else null); `single_labels`: null without single people's
    labels, else figures `s1`, and for pairs `s2`: the judge against single labels, which is what `people` is compared
    with; `skewed`: true where one label has 80% or more, which depresses kappa.
    `comparisons`: null without two judges with a model that meet the floors, else `{leader, adjusted_over, rows:
    [{judge, difference, only_leader, only_judge, p, p_holm, separated}]}`: leader minus judge on the same cases, exact
    McNemar p, Holm over the rows.
    """
    return {
        "n": study.n,
        "classes": list(study.classes),
        "ordered": study.dataset.rubric.scale.ordered,
        "floor": study.choice.floor,
        "floor_of": study.choice.floor_of,
        "people": {
            "s1": shown(study.ceiling["s1"]),
            "s2": shown(study.ceiling["s2"]) if study.pairs else None,
            "cases": sum(len(cast) >= 2 for cast in study.votes),
        },
        "constant": study.constant,
        "judges": [
            _row(study, column, figures) for column, figures in zip(study.labelled.columns, study.figures, strict=True)
        ],
        "comparisons": _comparisons(study),
    }


def _row(study: Study, column: JudgeColumn, figures: Headline) -> dict[str, Any]:
    found = figures.agreement
    return {
        "judge": column.judge.name,
        "baseline": column.baseline,
        **{name: shown(found[key]) for name, key in _PLAIN.items()},
        "macro_f1": shown(figures.macro["macro_f1"]),
        **{name: shown(found[key]) if key in found else None for name, key in _ORDERED.items()},
        "single_labels": _single_labels(study, column),
        "skewed": "skewed_prevalence" in found["cohen_kappa"].flags,
    }


def _single_labels(study: Study, column: JudgeColumn) -> dict[str, Any] | None:
    if not any(study.votes):
        return None
    said = study.labelled.predicted(column)
    if study.pairs:
        # A pair whose orders disagree is a tie here, as in the setups that this follows.
        failures = study.labelled.failures(column)
        said = ["tie" if why == "inconsistent" else label for label, why in zip(said, failures, strict=True)]
    figures = raters.votes(said, study.votes, resampler=study.draws(said, [tuple(cast) for cast in study.votes]))
    return {"s1": shown(figures["judge_s1"]), "s2": shown(figures["judge_s2"]) if study.pairs else None}


def _comparisons(study: Study) -> dict[str, Any] | None:
    selection = study.choice.selection
    if selection is None or not selection.comparisons:
        return None
    rows = [
        {
            "judge": row.other,
            "difference": shown(row.difference),
            "only_leader": row.difference.details["only_first"],
            "only_judge": row.difference.details["only_second"],
            "p": row.p_value.value,
            "p_reason": None if row.p_value.undefined_reason is None else row.p_value.undefined_reason.value,
            "p_holm": row.p_holm,
            "separated": row.other not in selection.leading,
        }
        for row in selection.comparisons
    ]
    return {
        "leader": selection.comparisons[0].leader,
        "alpha": ALPHA,
        "adjusted_over": len(rows),
        "rows": rows,
    }
