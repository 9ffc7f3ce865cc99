"""Simulated judges with planted biases through the real report: each is found within its interval, none is invented."""

from typing import Any

import pytest

from judge_service.domain.outcome import JudgeErrorReason
from judge_service.reports.selection import build_report
from tests.judge_service.reports.studies import Pair, Reply, right, row, section, study_of

FIRST = 0.3
"""Chance that the judge takes what it sees first, in both orders."""
LONGER = 0.4
"""Chance that the judge takes the longer answer, whatever people say."""
OWN = 0.25
"""Chance that the judge takes its own family's answer, whatever people say."""
TIMEOUTS, REFUSALS = 0.10, 0.05
RIGHT = 0.9
TOO_SURE = {0.7: 0.6, 0.8: 0.65, 0.9: 0.7, 0.98: 0.74}
"""Stated confidence and the true chance to be right."""


def clean(pair: Pair) -> Reply:
    """Right as often as it says, in both orders alike."""
    stated = pair.draw.choice((0.75, 0.85, 0.95))
    return Reply.same(right(pair, stated), confidence=stated)


def leaning(pair: Pair) -> Reply:
    if pair.draw.random() < FIRST:
        return Reply("A", "B")
    return Reply.same(right(pair, RIGHT))


def lengthy(pair: Pair) -> Reply:
    return Reply.same(pair.longer if pair.draw.random() < LONGER else right(pair, RIGHT))


def partial(pair: Pair) -> Reply:
    return Reply.same(pair.own if pair.draw.random() < OWN else right(pair, RIGHT))


def boastful(pair: Pair) -> Reply:
    stated = pair.draw.choice(list(TOO_SURE))
    return Reply.same(right(pair, TOO_SURE[stated]), confidence=stated)


def noisy(pair: Pair) -> Reply:
    """Changes its mind between the orders, towards neither: noise, no bias."""
    return Reply(right(pair, RIGHT), right(pair, RIGHT))


def failing(pair: Pair) -> Reply:
    chance = pair.draw.random()
    if chance < TIMEOUTS:
        return Reply(None, None, failure=JudgeErrorReason.TIMEOUT)
    if chance < TIMEOUTS + REFUSALS:
        return Reply(None, None, failure=JudgeErrorReason.JUDGE_REFUSED)
    return Reply.same(right(pair, RIGHT))


JUDGES = {
    "clean": clean,
    "leaning": leaning,
    "lengthy": lengthy,
    "partial": partial,
    "boastful": boastful,
    "noisy": noisy,
    "failing": failing,
}


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return build_report(study_of(JUDGES, 1200, seed=11))


def holds(figure: dict[str, Any], value: float) -> bool:
    return bool(figure["low"] <= value <= figure["high"])


def test_a_leaning_to_the_first_answer_is_found(report: dict[str, Any]) -> None:
    found = row(report, "order", "leaning")
    assert holds(found["consistency"], 1 - FIRST)
    assert holds(found["hard_flips"], FIRST)
    assert holds(found["first_share"], (1 + FIRST) / 2)
    assert holds(found["fairness"], -FIRST)
    assert found["bias_test"]["value"] < 1e-6
    assert (found["to_first"], found["to_second"]) == (found["hard_flips"]["numerator"], 0)


def test_noise_between_the_orders_is_no_leaning(report: dict[str, Any]) -> None:
    found = row(report, "order", "noisy")
    assert holds(found["consistency"], RIGHT**2 + (1 - RIGHT) ** 2)
    assert holds(found["fairness"], 0.0)
    assert holds(found["first_share"], 0.5)
    assert found["bias_test"]["value"] > 0.01


def test_a_liking_for_length_is_found(report: dict[str, Any]) -> None:
    found = row(report, "biases", "lengthy")["length"]
    # People choose the longer answer half the time, and the judge agrees with them where it reads.
    assert holds(found["excess"], LONGER * 0.5)
    assert holds(found["judge_longer"], LONGER + (1 - LONGER) * 0.5)
    assert holds(found["people_longer"], 0.5)
    assert found["p"] < 1e-6
    assert found["coefficient"]["low"] > 0


def test_a_liking_for_its_own_family_is_found(report: dict[str, Any]) -> None:
    found = row(report, "biases", "partial")["family"]
    assert found["family"] == "gpt"
    assert holds(found["bias"], OWN)
    assert holds(found["own_when_people_own"], OWN + (1 - OWN) * RIGHT)
    assert holds(found["other_when_people_other"], (1 - OWN) * RIGHT)
    assert found["p"] < 1e-6


def test_too_much_confidence_is_found_and_mended(report: dict[str, Any]) -> None:
    found = row(report, "confidence", "boastful")
    assert found["miscalibrated"] is True
    assert found["ece"]["value"] > found["by_chance_95"]
    for part in found["bins"]:
        stated = min(TOO_SURE, key=lambda value: abs(value - part["mean_confidence"]))
        assert part["accuracy_low"] <= TOO_SURE[stated] <= part["accuracy_high"]
    mended = next(one for one in found["maps"] if one["method"] == "logistic")
    assert mended["kept"]
    assert mended["ece"]["value"] < found["ece"]["value"] / 2
    assert mended["improvement"]["low"] > 0


def test_failures_are_counted_by_reason_and_cost_the_floor(report: dict[str, Any]) -> None:
    found = row(report, "outcomes", "failing")["failures"]
    assert holds(found["judge_error:timeout"], TIMEOUTS)
    assert holds(found["judge_error:judge_refused"], REFUSALS)
    assert holds(row(report, "judges", "failing")["valid"], 1 - TIMEOUTS - REFUSALS)
    assert row(report, "judges", "failing")["agreement"]["denominator"] == 1200
    assert holds(row(report, "judges", "failing")["agreement"], RIGHT * (1 - TIMEOUTS - REFUSALS))
    assert "valid_rate" in row(report, "judges", "failing")["floors"]["codes"]


@pytest.mark.parametrize("judge", sorted(JUDGES))
def test_no_judge_shows_a_bias_that_it_does_not_have(report: dict[str, Any], judge: str) -> None:
    order, biases = row(report, "order", judge), row(report, "biases", judge)
    if judge != "leaning":
        assert order["bias_test"]["value"] is None or order["bias_test"]["value"] > 0.01
        share = order["first_share"]
        assert share["value"] == 0.5 if share["low"] is None else holds(share, 0.5)
    if judge != "lengthy":
        assert holds(biases["length"]["excess"], 0.0)
        assert biases["length"]["p"] > 0.01
    if judge != "partial":
        assert holds(biases["family"]["bias"], 0.0)
        assert biases["family"]["p"] > 0.01
    if judge != "failing":
        assert (
            row(report, "outcomes", judge)["failures"]["all"]["numerator"]
            == (row(report, "outcomes", judge)["counts"]["inconsistent"])
        )


def test_the_clean_judge_is_calibrated_and_chosen(report: dict[str, Any]) -> None:
    found = row(report, "confidence", "clean")
    assert found["miscalibrated"] is False
    for part in found["bins"]:
        assert part["accuracy_low"] <= part["mean_confidence"] <= part["accuracy_high"]
    usable = row(report, "threshold", "clean")["usable"]
    assert usable["agreement"] >= 0.9
    assert usable["guaranteed"] >= 0.9
    kept = [one for one in found["maps"] if one["kept"]]
    assert kept == []
    assert section(report, "judges")["judges"][0]["floors"]["met"] is True
