"""The verdict: four patterns with their sentences, one missing quantity, floors in words, and what is chosen where."""

from dataclasses import replace
from typing import Any

import pytest

from judge_service.domain.calibration_set import Split
from judge_service.domain.judge import OrderPolicy
from judge_service.reports.decision import HOLDS, MARKS, ON_DEVELOPMENT, decide
from judge_service.reports.study import Choices, Study
from tests.judge_service.reports.studies import FAST, Act, Pair, Reply, dataset_of, right, set_of, study_of


def agreeing(share: float, *, cost: float | None = None, confidence: bool = False) -> Act:
    """Right in this share of the cases; with `confidence` surer where it is right."""

    def act(pair: Pair) -> Reply:
        answer = right(pair, share)
        stated = None
        if confidence:
            stated = 0.95 if answer == pair.label else 0.6
        return Reply.same(answer, cost=cost, confidence=stated)

    return act


def silent(pair: Pair) -> Reply:
    return Reply(None, None)


def test_a_judge_that_is_clearly_ahead_is_selected_with_its_threshold() -> None:
    found = decide(study_of({"large": agreeing(0.9, confidence=True), "small": agreeing(0.7)}, 400))
    assert (found["pattern"], found["mark"], found["judge"]) == ("select", "✓", "large")
    assert found["sentence"] == (
        "Select large for pairwise@1, judging both orders. At confidence above 0.65 it may decide alone."
    )
    assert (found["policy"], found["threshold"], found["missing"]) == ("both_orders", 0.65, None)
    first, lead, keeps, *rest = found["reasons"]
    assert first.startswith("large agrees with people on 90.0% (")
    assert "No ceiling is known: fewer than 30 cases have two labels." in first
    assert first.endswith("Always answering A gets 50.0%.")
    assert lead.startswith("It is ahead of small, the next best, by 20.0 points (")
    assert lead.endswith("same 400 cases).")
    assert keeps.startswith("Above 0.65 it keeps 360 of 400 cases (90.0%) and agrees on 100.0% of them; at least 9")
    assert rest == [HOLDS]
    assert found["holds"] == HOLDS
    assert 0 <= found["optimism"]["value"] < 0.01


def test_a_judge_without_confidence_has_no_threshold() -> None:
    found = decide(study_of({"large": agreeing(0.9)}, 400))
    assert found["sentence"] == (
        "Select large for pairwise@1, judging both orders. It has no threshold: a person checks its verdicts."
    )
    assert found["threshold"] is None


def test_judges_within_the_margin_will_do_and_the_cheapest_is_named() -> None:
    dataset = dataset_of({"dear": agreeing(0.9, cost=0.002), "cheap": agreeing(0.9)}, 600)
    dear, cheap = dataset.columns
    verdicts = {one.case_id: one for one in dear.judgments if one is not None}
    priced = tuple(
        one.model_copy(
            update={
                "label": verdicts[one.case_id].label,
                "score": verdicts[one.case_id].score,
                "record": verdicts[one.case_id].record,
                "usage": one.usage.model_copy(update={"cost_usd": 0.001}),
            }
        )
        for one in cheap.judgments
        if one is not None
    )
    dataset = replace(dataset, columns=(dear, replace(cheap, judgments=priced)))
    found = decide(Study(dataset, FAST, labelled_set=set_of(dataset)))
    assert found["pattern"] == "any_of"
    assert found["sentence"] == "Any of cheap, dear will do: they differ by less than 2 points. The cheapest is cheap."
    assert (found["judge"], found["judges"]) == ("cheap", ["cheap", "dear"])
    unpriced = tuple(
        one.model_copy(update={"usage": one.usage.model_copy(update={"cost_usd": None})}) for one in priced
    )
    dataset = replace(dataset, columns=(dear, replace(cheap, judgments=unpriced)))
    found = decide(Study(dataset, FAST, labelled_set=set_of(dataset)))
    assert found["sentence"].endswith("Which of them is the cheapest is not known.")
    assert (found["pattern"], found["judge"]) == ("any_of", None)


def test_none_meets_the_floor() -> None:
    choices = replace(FAST, floor=0.85)
    found = decide(study_of({"large": agreeing(0.8), "small": agreeing(0.7)}, 400, choices=choices))
    assert (found["pattern"], found["mark"], found["floor"]) == ("none", "✕", 0.85)
    assert found["sentence"].startswith("No judge meets the floor of 85.0%. The best, large, agrees on 80.0% (7")
    assert found["sentence"].endswith(", n = 400).")
    assert found["reasons"][1].startswith("Not offered: large may agree on no more than 7")
    assert "under the floor of 85.0%" in found["reasons"][1]


def test_two_people_set_the_floor_where_nobody_declares_one() -> None:
    study = study_of({"large": agreeing(0.9)}, 400, people=2)
    assert study.choice.floor == pytest.approx(0.95)
    found = decide(study)
    assert found["sentence"].startswith("No judge meets the floor of 95.0%. The best, large, agrees on 90.0%")
    assert "Two people agree with each other on 100.0%" in found["reasons"][0]


def test_a_judge_that_failed_on_everything_is_never_offered() -> None:
    found = decide(study_of({"mute": silent}, 200))
    assert found["pattern"] == "none"
    assert found["sentence"].startswith("No judge meets the floor of 50.0%. The best, mute, agrees on 0.0%")
    study = study_of({"mute": silent, "large": agreeing(0.9)}, 200)
    assert study.choice.selection is not None
    codes = {row.judge: [miss.code for miss in row.missed] for row in study.choice.selection.floors}
    assert codes["mute"][:3] == ["valid_rate", "constant_answer", "kappa_null"]
    found = decide(study)
    assert found["judge"] == "large"
    assert "Not offered: mute gave a usable reply to 0.0% of the cases, under 95.0%." in found["reasons"]


def test_judges_that_cannot_be_told_apart_name_the_labels_that_are_missing() -> None:
    found = decide(study_of({"one": agreeing(0.88, cost=0.002), "two": agreeing(0.84, cost=0.001)}, 200))
    assert found["pattern"] == "not_enough_evidence"
    assert found["missing"]["what"] == "labels"
    assert found["missing"]["amount"] > 0
    amount = f"{found['missing']['amount']:,}"
    assert found["sentence"] == (
        f"Not enough evidence to choose. Missing: about {amount} more labelled cases to tell one from two."
    )
    assert found["judge"] is None
    assert "may be chance." in found["reasons"][1]


@pytest.mark.parametrize(
    ("n", "changes", "what", "text"),
    [
        (20, {}, "labels", "at least 10 more labelled cases"),
        (29, {}, "labels", "at least 1 more labelled case"),
        (64, {}, "labels", "at least 36 more labelled cases"),
        (
            160,
            {"labels": ["A"] * 160},
            "labels_of_second_class",
            "at least 10 more labelled cases of the second most frequent label",
        ),
        (160, {"groups": 4}, "groups", "at least 6 more independent groups of cases"),
    ],
)
def test_too_little_evidence_names_one_quantity(n: int, changes: dict[str, Any], what: str, text: str) -> None:
    found = decide(study_of({"large": agreeing(0.9)}, n, **changes))
    assert (found["pattern"], found["mark"]) == ("not_enough_evidence", MARKS["not_enough_evidence"])
    assert (found["missing"]["what"], found["missing"]["text"]) == (what, text)
    assert found["sentence"] == f"Not enough evidence to choose. Missing: {text}."
    assert (found["judge"], found["threshold"], found["holds"]) == (None, None, None)
    assert len(found["reasons"]) <= 4


def test_without_a_frozen_set_nothing_is_chosen() -> None:
    dataset = dataset_of({"large": agreeing(0.9)}, 200)
    assert decide(Study(dataset, FAST))["missing"]["what"] == "frozen_set"
    found = decide(Study(dataset, FAST, labelled_set=set_of(dataset, "open")))
    assert found["sentence"] == "Not enough evidence to choose. Missing: the freeze of sim@1, which may still change."
    bare = replace(dataset, columns=())
    assert decide(Study(bare, FAST, labelled_set=set_of(bare)))["missing"]["what"] == "judges"


def test_a_decision_on_the_development_split_is_to_be_confirmed() -> None:
    dataset = dataset_of({"large": agreeing(0.9), "small": agreeing(0.7)}, 400)
    found = decide(Study(dataset, FAST, labelled_set=set_of(dataset, split=Split.DEVELOPMENT)))
    assert found["pattern"] == "select"
    assert found["holds"] == f"{HOLDS} {ON_DEVELOPMENT}"
    assert found["reasons"][-1] == found["holds"]


def orders(flips: float, ties: bool) -> Act:
    """Contradicts itself in this share of the pairs, to neither side."""

    def act(pair: Pair) -> Reply:
        if pair.draw.random() < flips:
            return Reply("A", "B") if pair.draw.random() < 0.5 else Reply("B", "A")
        return Reply.same(pair.label)

    return act


def test_where_people_never_tie_both_orders_are_not_dropped() -> None:
    choice = study_of({"J": orders(0.2, ties=False)}, 400).choice.policies[0]
    assert (choice.policy, choice.configured, choice.changed, choice.verdict) == (
        "both_orders",
        "both_orders",
        False,
        "drop",
    )
    assert choice.note.startswith("People never say tie here")


def test_where_people_tie_a_policy_that_loses_agreement_is_dropped() -> None:
    labels = ["tie" if i % 40 == 0 else "AB"[i % 2] for i in range(400)]
    study = study_of({"J": orders(0.3, ties=True)}, 400, labels=labels)
    choice = study.choice.policies[0]
    assert (choice.policy, choice.changed, choice.verdict) == ("single_drawn", True, "drop")
    said = study.choice.said[0]
    ab, ba = study.labelled.orders(study.labelled.columns[0])
    assert all(label in (a, b) for label, a, b in zip(said, ab, ba, strict=True))
    assert None not in said
    assert study.choice.thresholds[0].reason in ("no_confidence", "policy_changed")


def test_a_single_order_is_no_policy_to_compare() -> None:
    choice = study_of({"J": agreeing(0.9)}, 200, policy=OrderPolicy.SINGLE_AB).choice.policies[0]
    assert (choice.verdict, choice.note) == (None, "Judged in one order only.")


def test_the_threshold_is_chosen_on_the_tuning_split_and_measured_on_the_report_s_own() -> None:
    judges = {"large": agreeing(0.9, confidence=True)}
    tuning = study_of(judges, 400, seed=5)
    own = dataset_of(judges, 240, seed=6)
    study = Study(own, FAST, labelled_set=set_of(own), tuning=tuning)
    [choice] = study.choice.thresholds
    assert (choice.threshold, choice.chosen_on, choice.cases) == (0.65, "the calibration split", 240)
    assert (choice.accepted, choice.errors) == (216, 0)
    # One threshold is tested here, so its bound is not shared among ten.
    assert choice.risk_upper == pytest.approx(1 - 0.05 ** (1 / 216))
    worse = dataset_of({"large": lambda pair: Reply.same(right(pair, 0.8), confidence=0.95)}, 200, seed=7)
    [refused] = Study(worse, FAST, labelled_set=set_of(worse), tuning=tuning).choice.thresholds
    assert (refused.threshold, refused.reason) == (None, "not_confirmed")


def test_at_most_four_reasons_in_order() -> None:
    judges = {"large": agreeing(0.9, confidence=True), "small": agreeing(0.7), "mute": silent}
    reasons = decide(study_of(judges, 400, choices=Choices(floor=0.6, resamples=1000)))["reasons"]
    assert [text.split()[0] for text in reasons] == ["large", "It", "Above", "Not"]
