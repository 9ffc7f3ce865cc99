from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.estimate import REASON_TEXT, Estimate, InvalidStatisticInput, Reason
from calibration.resample import Resampler, bootstrap, enumerate_means


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["value", "low", "high"])
def test_no_estimate_holds_nan_or_infinity(field: str, bad: float) -> None:
    numbers = {"value": 0.5, "low": 0.1, "high": 0.9} | {field: bad}
    with pytest.raises(InvalidStatisticInput):
        Estimate(n=3, method="m", **numbers)


def test_a_value_and_a_reason_exclude_each_other() -> None:
    with pytest.raises(InvalidStatisticInput):
        Estimate(None, None, None, 0, "m")
    with pytest.raises(InvalidStatisticInput):
        Estimate(0.5, None, None, 1, "m", undefined_reason=Reason.EMPTY)
    with pytest.raises(InvalidStatisticInput):
        Estimate(0.5, 0.1, None, 1, "m")
    with pytest.raises(InvalidStatisticInput):
        Estimate(0.5, 0.9, 0.1, 1, "m")


def test_an_undefined_estimate_explains_itself_in_json() -> None:
    record = Estimate.undefined(Reason.ALL_TIES, 4, "m", details={"x": np.nan, "y": np.arange(2)}).to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == {
        "value": None,
        "low": None,
        "high": None,
        "n": 4,
        "method": "m",
        "undefined_reason": "all_ties",
        "explanation": REASON_TEXT[Reason.ALL_TIES],
        "details": {"x": None, "y": [0, 1]},
    }


def test_every_reason_has_a_sentence() -> None:
    assert set(REASON_TEXT) == set(Reason)


def test_change_of_unit_moves_value_and_interval() -> None:
    estimate = Estimate(0.5, 0.25, 0.75, 8, "m", numerator=4, denominator=8).times(100)
    assert (estimate.value, estimate.low, estimate.high, estimate.numerator) == (50, 25, 75, 4)


def test_few_groups_have_no_interval_and_some_have_a_warning() -> None:
    for n, reason, flag in ((9, "too_few_groups", False), (10, None, True), (30, None, False)):
        resampler = Resampler(n)
        values = np.arange(n, dtype=float)
        estimate = resampler.interval(values.mean(), resampler.sums(values[:, None])[:, 0] / n)
        assert estimate.interval_reason == reason
        assert ("few_groups" in estimate.flags) is flag
        assert estimate.details["resamples"] == 10_000
        assert estimate.details["groups"] == n


def test_more_than_a_twentieth_undefined_is_unstable() -> None:
    resampler = Resampler(20, resamples=1000)
    replicates = np.linspace(0, 1, 1000)
    replicates[:50] = np.nan
    assert resampler.interval(0.5, replicates).interval_reason is None
    replicates[:51] = np.nan
    unstable = resampler.interval(0.5, replicates)
    assert unstable.interval_reason == "unstable_bootstrap"
    assert unstable.details["undefined_resamples"] == 51
    assert "fast_bootstrap" in unstable.flags


def test_bootstrap_of_a_mean_has_the_exact_standard_error() -> None:
    values = [1.0, 0.0, 0.0, -1.0, 1.0]
    exact = enumerate_means(values)
    assert exact.size == 5**5
    assert exact.std() == pytest.approx(0.334664, abs=1e-6)
    resampler = Resampler(5)
    assert resampler.sums(np.array(values)[:, None])[:, 0].std() / 5 == pytest.approx(exact.std(), rel=0.03)


def test_chunks_do_not_change_the_draws() -> None:
    kept = Resampler(3000, resamples=300, seed=4)
    assert kept._draws.kept is not None
    values = np.random.default_rng(0).integers(0, 2, (3000, 1))
    in_chunks = np.concatenate([np.asarray(chunk, dtype=np.float64) @ values for chunk in kept._draws.drawn()])
    assert np.array_equal(kept.sums(values), in_chunks)


def test_draws_are_held_once_while_they_are_in_use() -> None:
    first = Resampler(40, resamples=50, seed=987)
    same = Resampler(80, [case // 2 for case in range(80)], resamples=50, seed=987)
    assert same._draws is first._draws
    assert first.with_types(np.zeros(40, dtype=np.int64))._draws is first._draws
    assert Resampler(40, resamples=50, seed=988)._draws is not first._draws
    assert Resampler(40, resamples=51, seed=987)._draws is not first._draws


@given(
    kinds=st.lists(st.integers(0, 4), min_size=1, max_size=40),
    size=st.integers(1, 3),
    rounds=st.integers(1, 3),
)
def test_kinds_of_cases_give_the_sums_of_the_cases_themselves(kinds: list[int], size: int, rounds: int) -> None:
    groups = [place // size for place in range(len(kinds))]
    plain = Resampler(len(kinds), groups, resamples=30)
    by_kind = [plain.with_types(np.array(kinds)) for _ in range(rounds)]
    features = np.column_stack([np.array(kinds) == 1, np.array(kinds) * 0.25])
    for resampler in by_kind:
        assert resampler.has_kinds
        assert resampler.sums(features) == pytest.approx(plain.sums(features), abs=1e-12)
    # What the kinds do not tell apart takes the long way and is right all the same.
    own = np.arange(len(kinds))[:, None]
    assert np.array_equal(by_kind[0].sums(own), plain.sums(own))


def test_any_statistic_can_be_resampled_by_case_numbers() -> None:
    values = np.arange(12.0)
    resampler = Resampler(12, ["a", "a", *range(10)], resamples=200)
    replicates = bootstrap(lambda cases: float(values[cases].mean()), resampler)
    sums = resampler.sums(np.column_stack([values, np.ones(12)]))
    assert replicates == pytest.approx(sums[:, 0] / sums[:, 1])
