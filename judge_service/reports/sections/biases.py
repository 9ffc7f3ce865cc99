"""Section: length, family, planted orders, repeats: what moves a verdict that should not. Owns which are shown."""

from typing import Any

from calibration import bias, repeats
from calibration.estimate import Reason
from judge_service.reports.dataset import JudgeColumn
from judge_service.reports.families import ANSWER_KEYS, judge_family, own_side
from judge_service.reports.figures import shown
from judge_service.reports.study import Study

ID = "biases"
TITLE = "Length, family, planted orders, repeats"

LENGTH_UNIT = "words: runs of characters without white space"


def build(study: Study) -> dict[str, Any]:
    """Per judge: each known way in which a verdict may be moved, measured or with the reason why not.

    Shape: `{n, length_unit, judges: [row]}`; every part is `{measured, reason, text, ...}`, its figures only where
    measured.
    `row`: `judge`, `baseline`, and
    `length` (pairs): figures `judge_longer`, `people_longer` (share choosing the longer answer, where each decided),
    `excess` (judge minus people where both decided: the bias), `p` (exact McNemar), `matched`, `unmatched` (agreement
    where the longer answer is at most 10% longer; the rest), `coefficient` (log length ratio at an equal human label,
    logistic); `family` (pairs): `family`, `cases` (one answer of the judge's own family), figures
    `own_when_people_own`, `other_when_people_other`, `bias` (their difference), `judge_own`, `people_own`, `excess`,
    `p`; `planted`: `figures` of the probe set, or not measured with the command that measures it;
    `repeats`: figures `stability`, `identical`, `pairwise`.
    """
    lengths = _lengths(study) if study.pairs else None
    return {
        "n": study.n,
        "length_unit": LENGTH_UNIT,
        "judges": [
            {
                "judge": column.judge.name,
                "baseline": column.baseline,
                "length": _length(study, column, lengths),
                "family": _family(study, column),
                "planted": _planted(study, column),
                "repeats": _repeats(study, column),
            }
            for column in study.labelled.columns
        ],
    }


def _not_measured(reason: str, text: str) -> dict[str, Any]:
    return {"measured": False, "reason": reason, "text": text}


_ONE_ANSWER = _not_measured("single_answer", "This rubric judges one answer, so no answer is preferred.")


def _lengths(study: Study) -> tuple[list[int], list[int]]:
    model = study.dataset.rubric.case_model
    inputs = [model.model_validate(item.case.input) for item in study.labelled.items]
    return (
        [len(str(getattr(case, "response_a", "")).split()) for case in inputs],
        [len(str(getattr(case, "response_b", "")).split()) for case in inputs],
    )


def _length(study: Study, column: JudgeColumn, lengths: tuple[list[int], list[int]] | None) -> dict[str, Any]:
    if lengths is None:
        return dict(_ONE_ANSWER)
    if study.n == 0:
        return _not_measured(Reason.EMPTY.value, "No case is labelled.")
    a, b = lengths
    said, human = study.labelled.predicted(column), study.labelled.human
    matched = [max(x, y) <= bias.MATCHED_RATIO * min(x, y) + 1e-9 for x, y in zip(a, b, strict=True)]
    longer = [(x > y) - (x < y) for x, y in zip(a, b, strict=True)]
    figures = bias.length_preference(said, human, a, b, resampler=study.draws(said, human, longer, matched))
    groups = study.labelled.groups
    regression = bias.length_regression(said, human, a, b, groups=groups if len(set(groups)) < len(groups) else None)
    return {
        "measured": True,
        "reason": None,
        "text": None,
        "judge_longer": shown(figures["judge_longer_rate"]),
        "people_longer": shown(figures["human_longer_rate"]),
        "excess": shown(figures["excess"]),
        "p": figures["excess_test"].value,
        "matched": shown(figures["length_matched_accuracy"]),
        "unmatched": shown(figures["length_unmatched_accuracy"]),
        "coefficient": shown(regression.coefficients["log_length_ratio"]),
    }


def _family(study: Study, column: JudgeColumn) -> dict[str, Any]:
    if not study.pairs:
        return dict(_ONE_ANSWER)
    families = study.choices.families
    models = sorted({judgment.model for judgment in column.judgments if judgment is not None})
    own = None if column.baseline else judge_family(column.judge, models, families)
    if own is None:
        return _not_measured("no_family", "The judge's model belongs to no known family: name it with --family.")
    sides = [own_side(item.case.metadata, own, families) for item in study.labelled.items]
    cases = sum(side is not None for side in sides)
    if cases == 0:
        keys = " or ".join(f"{a}/{b}" for a, b in ANSWER_KEYS)
        text = f"No case names one answer of the family {own} and one of another in its metadata ({keys})."
        return {**_not_measured("no_answers_of_the_family", text), "family": own}
    said, human = study.labelled.predicted(column), study.labelled.human
    figures = bias.self_preference(sides, said, human, resampler=study.draws(said, human, sides))
    return {
        "measured": True,
        "reason": None,
        "text": None,
        "family": own,
        "cases": cases,
        "own_when_people_own": shown(figures["own_when_human_own"]),
        "other_when_people_other": shown(figures["other_when_human_other"]),
        "bias": shown(figures["equal_opportunity_bias"]),
        "judge_own": shown(figures["judge_own_rate"]),
        "people_own": shown(figures["human_own_rate"]),
        "excess": shown(figures["excess_own_rate"]),
        "p": figures["excess_test"].value,
    }


def _planted(study: Study, column: JudgeColumn) -> dict[str, Any]:
    if column.baseline:
        return _not_measured("baseline", "A judge without a model reads no text as an order.")
    probing = study.probes.get(column.judge.name)
    if probing is None:
        command = f"judge-service judges probe {column.judge.name}"
        return {
            **_not_measured("not_measured", f"Not measured: `{command}` measures it."),
            "command": command,
        }
    return {"measured": True, "reason": None, "text": None, "figures": dict(probing)}


def _repeats(study: Study, column: JudgeColumn) -> dict[str, Any]:
    verdicts = study.labelled.repeats(column)
    if not any(len(cast) > 1 for cast in verdicts):
        text = "Not measured: this judge asks once. Set `repeats` to 2 or more."
        return _not_measured(Reason.N_BELOW_2.value, text)
    draws = study.draws([tuple(cast) for cast in verdicts])
    return {
        "measured": True,
        "reason": None,
        "text": None,
        "stability": shown(repeats.repetition_stability(verdicts, resampler=draws)),
        "identical": shown(repeats.all_identical_rate(verdicts, resampler=draws)),
        "pairwise": shown(repeats.pairwise_repeat_agreement(verdicts, resampler=draws)),
    }
