import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.estimate import InvalidStatisticInput, Reason
from calibration.weighted import weighted_mean


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
