import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.agreement import Agreement, PairedLabels
from calibration.estimate import InvalidStatisticInput, Reason
from calibration.intervals import wilson
from calibration.raters import human_ceiling
from calibration.resample import Resampler, share
from calibration.selection import compare
from calibration.weighted import design_weights, weighted_mean, weighted_share


def test_by_hand() -> None:
    found = weighted_mean([1, 0, 1, 1], [0.5, 0.25, 0.5, 1.0])
    # Weights 2, 4, 2, 1: (2 + 0 + 2 + 1) / 9.
    assert found.value == pytest.approx(5 / 9)
    assert found.n == 4
    assert found.details["effective_n"] == pytest.approx(81 / 25)
    mean = 5 / 9
    residuals = (2 * (1 - mean)) ** 2 * 2 + (4 * (0 - mean)) ** 2 + (1 - mean) ** 2
    se = (residuals / 81 * 4 / 3) ** 0.5
    assert found.low is not None
    assert (mean - found.low) / se == pytest.approx(4.03, abs=0.3)  # t at 2.24 degrees of freedom: 3.85


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=50), st.floats(0.01, 1))
def test_equal_probabilities_give_the_plain_mean(values: list[float], probability: float) -> None:
    found = weighted_mean(values, [probability] * len(values))
    assert found.value == pytest.approx(sum(values) / len(values))
    assert found.details["effective_n"] == pytest.approx(len(values))


def test_undefined_has_its_reason() -> None:
    assert weighted_mean([], []).undefined_reason is Reason.EMPTY
    assert weighted_mean([1], [0.5]).interval_reason is Reason.N_BELOW_2
    assert weighted_mean([1, 1], [0.5, 1]).interval_reason is Reason.ZERO_VARIANCE


@pytest.mark.parametrize(("values", "shares"), [([1], [0]), ([1], [1.2]), ([float("nan")], [1]), ([1, 2], [1])])
def test_what_is_no_draw_is_refused(values: list[float], shares: list[float]) -> None:
    with pytest.raises(InvalidStatisticInput):
        weighted_mean(values, shares)


def test_the_interval_covers_a_population_drawn_by_uncertainty() -> None:
    drawn = np.random.default_rng(11)
    sure = drawn.random(4000) < 0.7
    right = np.where(sure, drawn.random(4000) < 0.95, drawn.random(4000) < 0.6)
    chances = np.where(sure, 0.03, 0.12)
    hit = 0
    for _ in range(200):
        chosen = drawn.random(4000) < chances
        found = weighted_mean(right[chosen], chances[chosen])
        assert found.low is not None
        assert found.high is not None
        hit += found.low <= right.mean() <= found.high
    assert 180 <= hit <= 199


def test_a_weighted_share_by_hand() -> None:
    # Weights 2, 4, 2, 1: (2 + 2 + 1) / 9, and its size p (1 - p) / V of the linearised variance.
    found = weighted_share(np.array([True, False, True, True]), np.array([2.0, 4.0, 2.0, 1.0]))
    assert found.value == pytest.approx(5 / 9)
    assert (found.n, found.numerator, found.denominator) == (4, 3, 4)
    p = 5 / 9
    variance = (2 * (2 * (1 - p)) ** 2 + (4 * p) ** 2 + (1 - p) ** 2) / 81 * 4 / 3
    size = p * (1 - p) / variance
    assert found.details["effective_n"] == pytest.approx(size)
    assert (found.low, found.high) == pytest.approx(wilson(p * size, size))
    # All hits: V is 0, the size Kish's 81 / 25.
    sure = weighted_share(np.array([True] * 4), np.array([2.0, 4.0, 2.0, 1.0]))
    assert sure.details["effective_n"] == pytest.approx(81 / 25)
    assert (sure.low, sure.high) == pytest.approx(wilson(81 / 25, 81 / 25))
    assert weighted_share(np.zeros(0, dtype=bool), np.zeros(0)).undefined_reason is Reason.EMPTY


def test_groups_are_the_units_of_a_weighted_share() -> None:
    hits = np.array([True, True, False, False, True, False])
    weights = np.array([2.0, 2.0, 4.0, 4.0, 1.0, 1.0])
    found = weighted_share(hits, weights, np.array([0, 0, 1, 1, 2, 2]))
    p = 5 / 14
    variance = ((4 * (1 - p)) ** 2 + (8 * p) ** 2 + (1 - 2 * p) ** 2) / 14**2 * 3 / 2
    assert found.details["effective_n"] == pytest.approx(p * (1 - p) / variance)


@given(st.lists(st.tuples(st.booleans(), st.floats(0.01, 1)), min_size=1, max_size=60))
def test_a_weighted_share_lies_in_its_interval_and_is_no_surer_than_its_cases(drawn: list[tuple[bool, float]]) -> None:
    found = weighted_share(np.array([hit for hit, _ in drawn]), np.array([1 / p for _, p in drawn]))
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert 0 < found.details["effective_n"] <= len(drawn) + 1e-9


def test_weights_are_one_over_probabilities_and_none_where_all_count_alike() -> None:
    weights = design_weights([0.5, 0.25, 1.0])
    assert weights is not None
    assert list(weights) == pytest.approx([6 / 7, 12 / 7, 3 / 7])
    assert design_weights([0.2, 0.2]) is None
    assert design_weights([]) is None
    with pytest.raises(InvalidStatisticInput):
        design_weights([0.5, 0])


def test_tables_of_weights_by_hand() -> None:
    # Three of kind A agree with weight 1, one of kind B is called A with weight 3, two of kind B agree with weight 1.
    weights = np.array([1, 1, 1, 3, 1, 1]) / (8 / 6)
    labels = PairedLabels.of(list("AAAABB"), list("AAABBB"), ("A", "B"))
    found = Agreement(labels, Resampler(6, resamples=50, weights=weights)).headline()
    assert found["raw_agreement"].value == pytest.approx(5 / 8)
    # Shares of the table [[3, 3], [0, 2]] / 8: observed 5/8, by chance (6 * 3 + 2 * 5) / 64.
    chance = 28 / 64
    assert found["cohen_kappa"].value == pytest.approx((5 / 8 - chance) / (1 - chance))
    assert found["cohen_kappa"].details["table"] == [[3, 1], [0, 2]]
    assert found["cohen_kappa"].n == 6
    assert found["majority_baseline"].value == pytest.approx(5 / 8)
    assert found["majority_baseline"].details["class"] == "B"
    assert found["balanced_accuracy"].value == pytest.approx((1 + 2 / 5) / 2)
    assert found["krippendorff_alpha_nominal"].undefined_reason is Reason.UNEQUAL_PROBABILITIES
    assert all(one.method.startswith("hajek") for one in found.values() if one.defined)


def test_equal_weights_change_no_value() -> None:
    judge, human = list("AABBABBA") * 5, list("ABBBABAA") * 5
    labels = PairedLabels.of(judge, human, ("A", "B"))
    plain = Agreement(labels, Resampler(40, resamples=200)).headline()
    same = Agreement(labels, Resampler(40, resamples=200, weights=np.full(40, 3.0))).headline()
    for name, figure in plain.items():
        if not name.startswith("krippendorff"):
            assert same[name].value == pytest.approx(figure.value), name
            assert same[name].n == figure.n
    assert same["cohen_kappa"].low == pytest.approx(plain["cohen_kappa"].low)


def test_differences_weigh_and_people_s_votes_do() -> None:
    weights = np.array([1.0, 1.0, 4.0, 2.0] * 10)
    first, second = np.array([True, True, False, True] * 10), np.array([False, True, True, True] * 10)
    (row,) = compare(["a", "b"], np.array([first, second]), [(0, 1)], Resampler(40, resamples=50, weights=weights))
    assert row.difference.value == pytest.approx((1 - 4) / 8)
    assert (row.difference.details["only_first"], row.difference.details["only_second"]) == (10, 10)
    assert row.p_value.value is not None
    assert row.p_value.value < 0.05  # counted once each, the two win equally often
    votes = [["A", "A"], ["A", "B"], ["B", "B"], ["A", "B"]] * 10
    ceiling = human_ceiling(votes, resampler=Resampler(40, resamples=50, weights=weights))["s1"]
    assert ceiling.value == pytest.approx(5 / 8)
    assert (ceiling.numerator, ceiling.denominator) == (20, 40)


def test_grouped_weights_use_the_cluster_bootstrap() -> None:
    groups = [f"g{i // 2}" for i in range(40)]
    draws = Resampler(40, groups, resamples=500, weights=np.array([1.0, 3.0] * 20))
    found = share(np.array([True, False, True, True] * 10), None, draws)
    assert found.value == pytest.approx(5 / 8)
    assert found.method == "hajek_cluster_bootstrap_percentile"
    assert found.low is not None
    assert found.low < 5 / 8


def test_the_weighted_wilson_interval_covers_rare_disagreement() -> None:
    drawn = np.random.default_rng(5)
    hard = np.arange(2000) < 400
    right = np.where(hard, drawn.random(2000) < 0.5, drawn.random(2000) < 0.98)
    chances = np.where(hard, 0.25, 0.0125)
    hit, plain = 0, 0
    for _ in range(400):
        chosen = drawn.random(2000) < chances
        found = weighted_share(right[chosen], 1 / chances[chosen])
        assert found.low is not None
        assert found.high is not None
        hit += found.low <= right.mean() <= found.high
        low, high = wilson(int(right[chosen].sum()), int(chosen.sum()))
        plain += low <= right.mean() <= high
    assert hit >= 376
    assert plain == 0
