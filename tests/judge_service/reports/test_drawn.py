"""Cases drawn with unequal probabilities count by them, and figures that cannot weigh them say so."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from judge_service.domain.calibration_set import Split
from judge_service.reports.decision import decide
from judge_service.reports.drawn import drawn_cases
from judge_service.reports.measuring import measure
from judge_service.reports.render import to_html
from judge_service.reports.sections import labels
from judge_service.reports.selection import build_report, facts
from judge_service.reports.statistics import Rules, set_statistics
from judge_service.reports.study import Study
from tests.judge_service.reports.studies import FAST, NOON, OTHER, Reply, dataset_of, set_of

KEY = "inclusion_probability"


def drawn(chances: list[Any]) -> Any:
    made = dataset_of({"j": lambda pair: Reply.same(pair.label)}, len(chances))
    items = tuple(
        item
        if chance is None
        else replace(item, case=item.case.model_copy(update={"metadata": {**item.case.metadata, KEY: chance}}))
        for item, chance in zip(made.items, chances, strict=True)
    )
    return replace(made, items=items)


def test_nothing_is_said_where_nothing_was_drawn() -> None:
    assert drawn_cases(drawn([None] * 40).items) is None
    assert drawn_cases(drawn([0, True, 2.0, "0.5", float("nan"), None]).items) is None


@pytest.mark.parametrize(
    ("chances", "n", "lowest", "highest", "uneven"),
    [([0.25] * 40, 40, 0.25, 0.25, False), ([0.25, 0.5] * 20, 40, 0.25, 0.5, True), ([0.5, None], 1, 0.5, 1.0, True)],
)
def test_probabilities_are_counted(chances: list[Any], n: int, lowest: float, highest: float, uneven: bool) -> None:
    found = drawn_cases(drawn(chances).items)
    assert found is not None
    assert (found["n"], found["of"]) == (n, len(chances))
    assert (found["lowest"], found["highest"], found["uneven"]) == (lowest, highest, uneven)
    assert found["text"].startswith(f"{n} of {len(chances)} labelled cases were drawn")
    assert ("weighs each case" in found["text"]) is uneven


def test_statistics_the_report_and_its_decision_say_so() -> None:
    uneven = drawn([0.1, 1.0] * 60)
    found = set_statistics(set_of(uneven), Rules(resamples=100))["set"]["labels"]["drawn"]
    study = Study(uneven, FAST, labelled_set=set_of(uneven))
    assert labels.build(study)["drawn"] == found
    assert found["text"] in decide(study)["holds"]
    even = drawn([0.1] * 120)
    assert "drawn" not in decide(Study(even, FAST, labelled_set=set_of(even)))["holds"]


HARD, EASY = 0.5, 0.0625


def population() -> tuple[Any, list[bool]]:
    """2,000 pairs of which 400 are hard: the judge is right on half of those and on 95% of the others."""
    hard = [i % 5 == 0 for i in range(2000)]
    counters = {True: 0, False: 0}

    def act(pair: Any) -> Reply:
        kind = hard[len(done)]
        done.append(kind)
        counters[kind] += 1
        wrong = counters[kind] % 2 == 0 if kind else counters[kind] % 20 == 0
        return Reply.same(OTHER[pair.label] if wrong else pair.label, confidence=0.6 if kind else 0.9)

    done: list[bool] = []
    return dataset_of({"j": act}, 2000), hard


def sample(seed: int = 3) -> Any:
    """A draw of it that takes hard cases eight times as often, with the probability stored in each case's metadata."""
    whole, hard = population()
    drawing = random.Random(seed)
    chances = [HARD if one else EASY for one in hard]
    kept = [i for i, chance in enumerate(chances) if drawing.random() < chance]
    part = whole.only(kept)
    items = tuple(
        replace(item, case=item.case.model_copy(update={"metadata": {**item.case.metadata, KEY: chances[i]}}))
        for i, item in zip(kept, part.items, strict=True)
    )
    return replace(part, items=items)


def test_agreement_of_an_uneven_draw_is_that_of_what_it_was_drawn_from() -> None:
    whole, _ = population()
    truth = set_statistics(set_of(whole), Rules(resamples=100))["judges"][0]["agreement"]
    assert truth["raw_agreement"]["value"] == pytest.approx(0.86)
    part = sample()
    found = set_statistics(set_of(part), Rules(resamples=500))
    row = found["judges"][0]
    raw = row["agreement"]["raw_agreement"]
    plain = raw["numerator"] / raw["denominator"]
    assert plain < 0.75
    assert raw["value"] == pytest.approx(0.86, abs=0.05)
    assert raw["low"] < 0.86 < raw["high"]
    assert raw["method"] == "hajek_wilson"
    assert raw["details"]["effective_n"] == row["effective_n"] < raw["n"] == len(part.items)
    kappa = row["agreement"]["cohen_kappa"]
    assert kappa["value"] == pytest.approx(truth["cohen_kappa"]["value"], abs=0.1)
    assert kappa["low"] < truth["cohen_kappa"]["value"] < kappa["high"]
    assert row["agreement"]["krippendorff_alpha_nominal"]["undefined_reason"] == "unequal_probabilities"
    assert row["position"]["consistency"]["method"].startswith("hajek")
    assert row["thresholds_of_confidence"]["usable_threshold"]["undefined_reason"] == "unequal_probabilities"
    drawn_from = found["set"]["labels"]["drawn"]
    assert drawn_from["stands_for"] == pytest.approx(2000, rel=0.1)


def test_over_many_draws_the_weighted_agreement_is_right_and_the_plain_one_is_not() -> None:
    raws = []
    for seed in range(12):
        part = sample(seed)
        (row,) = set_statistics(set_of(part), Rules(resamples=20))["judges"]
        raws.append(row["agreement"]["raw_agreement"])
    assert sum(raw["value"] for raw in raws) / 12 == pytest.approx(0.86, abs=0.012)
    assert sum(raw["numerator"] / raw["denominator"] for raw in raws) / 12 == pytest.approx(0.65, abs=0.03)
    assert sum(raw["low"] < 0.86 < raw["high"] for raw in raws) >= 11


def test_no_figure_is_silently_over_the_drawn_cases() -> None:
    part = sample()
    study = Study(part, FAST, labelled_set=set_of(part))

    def figures(data: Any) -> Iterator[dict[str, Any]]:
        if isinstance(data, dict):
            if {"value", "n", "method"} <= set(data) and data["value"] is not None:
                yield data
            data = list(data.values())
        if isinstance(data, list):
            for one in data:
                yield from figures(one)

    report = build_report(study)
    statistics = {k: v for k, v in set_statistics(set_of(part), Rules(resamples=100)).items() if k != "shares"}
    seen = 0
    for data in (report["sections"], statistics):
        for figure in figures(data):
            seen += 1
            weighted = figure["method"].startswith("hajek")
            assert weighted is not ("over_drawn_cases" in figure.get("flags", [])), figure
    assert seen > 50
    row = next(part["data"] for part in report["sections"] if part["id"] == "agreement")["judges"][0]
    assert row["raw"]["value"] == pytest.approx(0.86, abs=0.05)
    assert study.choice.thresholds[0].reason == "unequal_probabilities"
    assert study.choice.policies[0].verdict is None
    page = to_html(report)
    assert "of the drawn cases" in page
    assert ">weighted<" in page


def test_trust_carries_the_weighted_agreement_and_no_map() -> None:
    part = sample()
    ((calibration, figures, fitted),) = measure(replace(set_of(part), runs={"j": ()}), Split.CALIBRATION, NOON)
    assert calibration.agreement == pytest.approx(0.86, abs=0.05)
    assert calibration.effective_n is not None
    assert calibration.effective_n < calibration.n == len(part.items)
    whole, _ = population()
    ((even, everything, _),) = measure(replace(set_of(whole), runs={"j": ()}), Split.CALIBRATION, NOON)
    assert calibration.ece == figures["judge"]["confidence"]["ece"]["value"]
    assert calibration.ece == pytest.approx(even.ece, abs=0.06)
    for name in ("brier", "log_loss", "auroc", "mce"):
        weighed, truth = (record["judge"]["confidence"][name] for record in (figures, everything))
        assert weighed["method"].startswith("hajek_"), name
        assert weighed["value"] == pytest.approx(truth["value"], abs=0.1), name
    assert figures["pairs"]["uneven"] is True
    assert fitted is not None
    assert not fitted.used
    assert "unequal probabilities" in str(fitted.refused)
    assert even.effective_n is None


def test_labels_that_are_worth_few_evenly_drawn_ones_license_what_few_do() -> None:
    # 120 labels, of which three carry nearly all of the weight.
    uneven = drawn([0.001] * 3 + [1.0] * 117)
    study = Study(uneven, FAST, labelled_set=set_of(uneven))
    statistics = set_statistics(set_of(uneven), Rules(resamples=100))
    assert statistics["set"]["labels"]["drawn"]["effective_n"] == pytest.approx(3117**2 / (3e6 + 117))
    assert statistics["tier"] == statistics["judges"][0]["tier"] == "counts only"
    assert labels.build(study)["tier"] == facts(study)["tier"] == "counts only"
    assert statistics["selection"]["verdict"] == "not enough evidence"
    assert statistics["selection"]["reasons"] == [
        "120 human labels, as sure as 3 evenly drawn ones, at least 100 are needed"
    ]
    ((calibration, _, _),) = measure(replace(set_of(uneven), runs={"j": ()}), Split.CALIBRATION, NOON)
    assert calibration.n == 120
    assert calibration.shortcoming == (
        "120 labelled cases that were drawn unevenly, as sure as 3 evenly drawn ones; at least 30 of those are needed."
    )
    even = drawn([0.5] * 120)
    assert set_statistics(set_of(even), Rules(resamples=100))["tier"] == "selection between clearly different judges"
    ((calibration, _, _),) = measure(replace(set_of(even), runs={"j": ()}), Split.CALIBRATION, NOON)
    assert calibration.shortcoming is None


def test_the_better_judge_of_the_population_leads_although_it_is_worse_on_the_drawn_cases() -> None:
    hard = [i % 5 == 0 for i in range(2000)]
    places, turn = iter(list(range(2000)) * 2), iter(range(10_000))

    def on(kind: bool) -> Any:
        def act(pair: Any) -> Reply:
            wrong = hard[next(places)] is kind and next(turn) % 4 != 0
            return Reply.same(OTHER[pair.label] if wrong else pair.label)

        return act

    two = dataset_of({"fails_on_hard": on(True), "fails_on_easy": on(False)}, 2000)
    drawing = random.Random(4)
    kept = [i for i in range(2000) if drawing.random() < (HARD if hard[i] else EASY)]
    part = two.only(kept)
    items = tuple(
        replace(item, case=item.case.model_copy(update={"metadata": {KEY: HARD if hard[i] else EASY}}))
        for i, item in zip(kept, part.items, strict=True)
    )
    (row,) = set_statistics(set_of(replace(part, items=items)), Rules(resamples=100))["comparisons"]["pairs"]
    # In the population 15% against 60% are wrong; of the drawn cases those that fail on hard ones fail more often.
    assert row["difference"]["details"]["only_first"] < row["difference"]["details"]["only_second"]
    assert row["difference"]["value"] == pytest.approx(0.45, abs=0.1)
    assert row["p_value"]["value"] < 0.01


def test_cases_out_of_reach_are_said() -> None:
    found = drawn_cases(drawn([0.25, 0.5] * 20).items, unreachable=12)
    assert found is not None
    assert found["unreachable"] == 12
    assert "12 cases could not have been drawn" in found["text"]
