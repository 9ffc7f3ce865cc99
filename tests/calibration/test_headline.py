from __future__ import annotations

import json

import numpy as np
import pytest

from calibration.agreement import Agreement, PairedLabels
from calibration.confidence import Forecasts
from calibration.estimate import Estimate, InvalidStatisticInput
from calibration.headline import headline
from calibration.position import position_sensitivity
from calibration.probability import auroc
from calibration.resample import Resampler, bootstrap, joint_types
from calibration.selective import aurc

NAMES = ("A", "B", "tie")


def judged(n: int, seed: int = 0) -> tuple[list[str], list[str | None], list[str | None], list[float | None]]:
    chance = np.random.default_rng(seed)
    human = chance.choice(NAMES, n, p=[0.45, 0.4, 0.15]).tolist()
    orders: list[list[str | None]] = [
        [label if chance.random() < 0.7 else str(chance.choice(NAMES)) for label in human] for _ in range(2)
    ]
    orders[0][3] = None
    confidence: list[float | None] = chance.uniform(0.4, 1, n).round(1).tolist()
    return human, orders[0], orders[1], confidence


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("digits", [1, 6])
def test_kinds_of_cases_change_no_interval(grouped: bool, digits: int) -> None:
    human, ab, ba, _ = judged(90)
    confidence = np.random.default_rng(1).uniform(0.4, 1, 90).round(digits).tolist()
    groups = [i // 2 for i in range(90)] if grouped else None
    labels = PairedLabels.of(ab, human, NAMES, groups=groups)
    together = headline(labels, confidence=confidence, order_ab=ab, order_ba=ba, resamples=300)
    alone = Agreement(labels, labels.resampler(resamples=300)).headline()
    plain = Resampler(90, groups, resamples=300)
    position = position_sensitivity(ab, ba, resampler=plain)
    for name, estimate in {**together.agreement, **together.position}.items():
        other = alone.get(name) or position[name]
        assert estimate.value == other.value
        assert (estimate.low, estimate.high) == (pytest.approx(other.low), pytest.approx(other.high)), name


def test_a_headline_is_json_with_every_number_reasoned() -> None:
    human, ab, ba, confidence = judged(60)
    confidence[5] = None
    labels = PairedLabels.of(ab, human, NAMES, ordered=False)
    found = headline(labels, confidence=confidence, order_ab=ab, order_ba=ba, resamples=200)
    record = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert record["n"] == 60
    assert record["tier"] == "exploratory"
    assert record["agreement"]["raw_agreement"]["details"]["failed"] == 1
    assert record["confidence"]["ece"]["n"] == 58
    assert {"ab_only", "random_order", "swap_tie"} <= record["policies"].keys()
    single = headline(labels, order_ab=ab, resamples=200)
    assert single.policies is None
    assert single.confidence is None
    assert {estimate.undefined_reason for estimate in single.position.values()} == {"single_order"}


def test_a_headline_of_nothing_is_null_and_not_an_error() -> None:
    found = headline(PairedLabels.of([], [], NAMES), confidence=[], order_ab=[], order_ba=[])
    for figures in (found.agreement, found.position, found.confidence):
        for estimate in figures.values():
            assert isinstance(estimate, Estimate)
            assert estimate.value is None
            assert estimate.undefined_reason is not None


def test_columns_of_other_lengths_are_refused() -> None:
    with pytest.raises(InvalidStatisticInput, match="confidence"):
        headline(PairedLabels.of(["A"], ["A"], NAMES), confidence=[0.5, 0.6])


def test_kinds_that_a_statistic_tells_apart_take_the_long_way() -> None:
    values = np.arange(40.0)
    declared = Resampler(40, resamples=100, types=joint_types(values % 2))
    plain = Resampler(40, resamples=100)
    assert declared.sums(values[:, None]) == pytest.approx(plain.sums(values[:, None]))
    parity = (values % 2)[:, None]
    assert declared.sums(parity) == pytest.approx(plain.sums(parity))


def test_resampled_curves_agree_with_the_plain_bootstrap() -> None:
    chance = np.random.default_rng(2)
    stated = chance.uniform(0.3, 1, 600)
    stated[:50] = 0.8
    correct = (chance.random(600) < stated).astype(int)
    forecasts = Forecasts.of(stated, correct)
    resampler = Resampler(600, resamples=60)

    def of_cases(statistic: str, cases: np.ndarray) -> float:
        drawn = Forecasts.of(stated[cases], correct[cases])
        return aurc(drawn).value if statistic == "aurc" else auroc(drawn).value

    for name, estimate, close in (
        ("aurc", aurc(forecasts, resampler=resampler), 1e-6),
        ("auroc", auroc(forecasts, resampler=resampler), 0.005),
    ):
        replicates = bootstrap(lambda cases, name=name: of_cases(name, cases), resampler)
        assert estimate.low == pytest.approx(np.quantile(replicates, 0.025), abs=close)
        assert estimate.high == pytest.approx(np.quantile(replicates, 0.975), abs=close)


@pytest.mark.parametrize(("cases", "size", "resamples"), [(900, 3, 20), (66_000, 2, 3)])
def test_resampled_curves_of_groups_count_exactly_however_many_cases(cases: int, size: int, resamples: int) -> None:
    chance = np.random.default_rng(3)
    stated = chance.uniform(0.3, 1, cases)
    correct = (chance.random(cases) < stated).astype(int)
    groups = (np.arange(cases) // size).tolist()
    resampler = Resampler(cases, groups, resamples=resamples)
    found = aurc(Forecasts.of(stated, correct, groups=groups), resampler=resampler)
    replicates = bootstrap(lambda drawn: aurc(Forecasts.of(stated[drawn], correct[drawn])).value, resampler)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(replicates, [0.025, 0.975])), rel=1e-5)


def test_perfect_and_constant_judges_have_no_interval_of_zero_width() -> None:
    human = ["yes", "no"] * 20
    perfect = Agreement(PairedLabels.of(human, human, ("yes", "no")), Resampler(40, resamples=300))
    for estimate in (perfect.kappa(), perfect.ac(), perfect.alpha(), perfect.mcc()):
        assert (estimate.value, estimate.low, estimate.high) == (1.0, None, None)
        assert estimate.interval_reason == "zero_variance"
    constant = Agreement(PairedLabels.of(["yes"] * 40, human, ("yes", "no")), Resampler(40, resamples=300))
    kappa = constant.kappa()
    assert (kappa.value, kappa.low, kappa.interval_reason) == (0.0, None, "zero_variance")
    assert "constant_rater" in kappa.flags


@pytest.mark.parametrize(("right", "low", "high"), [(True, 0.8389, 1.0), (False, 0.0, 0.1611)])
def test_all_or_nothing_in_groups_is_as_sure_as_the_number_of_groups(right: bool, low: float, high: float) -> None:
    human = ["yes", "no"] * 50
    said = human if right else ["no", "yes"] * 50
    groups = [f"g{i // 5}" for i in range(100)]
    labels = PairedLabels.of(said, human, ("yes", "no"), groups=groups)
    raw = Agreement(labels, Resampler(100, groups, resamples=300)).raw()
    assert (raw.value, raw.numerator, raw.denominator, raw.n) == (float(right), 100 * right, 100, 100)
    # Wilson at 20 of 20 groups, or 0 of 20.
    assert (raw.low, raw.high) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))
    assert (raw.method, raw.flags) == ("wilson_of_groups", ("few_groups",))
