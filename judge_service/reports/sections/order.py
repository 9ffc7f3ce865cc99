"""Section: does the order of presentation change verdicts, and which way of ordering pays? Pairs only."""

from typing import Any

from calibration.estimate import REASON_TEXT, Reason
from calibration.headline import Headline
from calibration.position import position_sensitivity
from calibration.tests import mcnemar
from judge_service.reports.dataset import JudgeColumn
from judge_service.reports.figures import jsonable, shown
from judge_service.reports.study import Study

ID = "order"
TITLE = "Does the order matter?"

_FIGURES = {
    "consistency": "consistency",
    "consistency_all": "consistency_all",
    "hard_flips": "hard_flip_rate",
    "soft_flips": "soft_flip_rate",
    "fairness": "preference_fairness",
    "bias_test": "bias_test",
    "first_share": "first_slot_share",
}


def build(study: Study) -> dict[str, Any] | None:
    """Per judge: what changed when the answers swapped places, and every policy for two orders against people.

    Shape: `{cases, labelled, people_tie, judges: [row]}`; counts of verdicts are over all cases, accuracy over labelled
    ones.
    `row`: `judge`, `baseline`, `measured` (false with a `reason` code: `single_order`, or `empty` where no pair has two
    verdicts); `pairs` with a verdict in both orders; figures `consistency` (same answer), `consistency_all` (over all
    cases), `hard_flips` (A against B), `soft_flips` (win against tie), `fairness` ((second - first)/pairs; below 0
    leans to the first), `bias_test` (sign test, p in `value`), `first_share` (first slot, of decided verdicts; 0.5
    unbiased); `to_first`, `to_second` (pairs leaning to the answer shown first, second), `shown_first`,
    `shown_second`, `ties` (counts of verdicts); figures `accuracy_ab`, `accuracy_ba`; `accuracy_p` (exact McNemar
    between the orders, number or null); `noise`: `{value, reason, text}`: flips beyond those of repeats of one order;
    `policies`: list of `{policy, calls, accuracy, decided_accuracy, versus_first, versus_random, p_holm, verdict}`
    (`verdict` keep, drop, `not enough evidence`, or null for single orders); `chosen`: `{policy, configured, changed,
    verdict, note, chosen_on}`.
    """
    if not study.pairs:
        return None
    return {
        "cases": len(study.dataset.items),
        "labelled": study.n,
        "people_tie": study.labelled.human.count("tie"),
        "judges": [_row(study, place) for place in range(len(study.dataset.columns))],
    }


def _row(study: Study, place: int) -> dict[str, Any]:
    column, figures = study.dataset.columns[place], study.figures[place]
    ab, ba = study.dataset.orders(column)
    if column.single_order:
        position = position_sensitivity(ab, None)
    elif study.n == len(study.dataset.items) and figures.position is not None:
        position = figures.position
    else:
        position = position_sensitivity(ab, ba, resampler=study.resampler_of_all)
    leaning = position["bias_test"].details
    pairs = position["consistency"].n if not column.single_order else 0
    reason = Reason.SINGLE_ORDER if column.single_order else Reason.EMPTY if pairs == 0 else None
    return {
        "judge": column.judge.name,
        "baseline": column.baseline,
        "measured": reason is None,
        "reason": None if reason is None else reason.value,
        "pairs": pairs,
        **{name: shown(position[key]) for name, key in _FIGURES.items()},
        "to_first": leaning.get("primacy", 0),
        "to_second": leaning.get("recency", 0),
        "shown_first": ab.count("A") + ba.count("B"),
        "shown_second": ab.count("B") + ba.count("A"),
        "ties": ab.count("tie") + ba.count("tie"),
        **_per_order(study, study.labelled.columns[place], figures),
        "noise": _noise(column),
        "policies": [] if figures.policies is None else [jsonable(one.to_dict()) for one in figures.policies.values()],
        "chosen": _chosen(study, place),
    }


def _per_order(study: Study, column: JudgeColumn, figures: Headline) -> dict[str, Any]:
    if figures.policies is None:
        return {"accuracy_ab": None, "accuracy_ba": None, "accuracy_p": None}
    ab, ba = study.labelled.orders(column)
    human = study.labelled.human
    only_ab = sum(a == h != b for a, b, h in zip(ab, ba, human, strict=True))
    only_ba = sum(b == h != a for a, b, h in zip(ab, ba, human, strict=True))
    return {
        "accuracy_ab": shown(figures.policies["ab_only"].accuracy),
        "accuracy_ba": shown(figures.policies["ba_only"].accuracy),
        "accuracy_p": mcnemar(only_ab, only_ba).value,
    }


def _noise(column: JudgeColumn) -> dict[str, Any]:
    """Whether flips are more than the judge's own noise: that needs repeats of one order, which are not kept apart."""
    text = "Without repeats of one order, noise and the effect of the order cannot be told apart"
    return {"value": None, "reason": Reason.N_BELOW_2.value, "text": f"{text}: {REASON_TEXT[Reason.N_BELOW_2]}."}


def _chosen(study: Study, place: int) -> dict[str, Any]:
    chosen = study.choice.policies[place]
    return {
        "policy": chosen.policy,
        "configured": chosen.configured,
        "changed": chosen.changed,
        "verdict": chosen.verdict,
        "note": chosen.note,
        "chosen_on": chosen.chosen_on,
    }
