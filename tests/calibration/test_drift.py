"""Drift against repeats: the exact test against brute force and other libraries, its level, and what a look can see."""

import itertools
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar

from calibration.drift import (
    drift_from_repeats,
    exchangeable_test,
    noise_between,
    smallest_detectable_rate,
    usual_verdicts,
)
from calibration.estimate import InvalidStatisticInput

CLASSES = ("A", "B", "tie")


def by_enumeration(hits: Sequence[int], runs: int, now: Sequence[bool]) -> float:
    """The p-value by listing every choice of which result of each case is the new one."""
    cases = [[1] * (h + n) + [0] * (runs + 1 - h - n) for h, n in zip(hits, now, strict=True)]
    sums = [sum(choice) for choice in itertools.product(*cases)]
    seen = sum(now)
    return min(1.0, 2 * min(sum(s <= seen for s in sums) / len(sums), sum(s >= seen for s in sums) / len(sums)))


@given(st.integers(1, 3), st.data())
def test_the_exact_test_is_that_of_all_choices(runs: int, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 5))
    hits = data.draw(st.lists(st.integers(0, runs), min_size=n, max_size=n))
    now = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    found = exchangeable_test(hits, [runs] * n, now)
    if all(h + x in (0, runs + 1) for h, x in zip(hits, now, strict=True)):
        assert found.undefined_reason == "no_discordant_pairs"
    else:
        assert found.value == pytest.approx(by_enumeration(hits, runs, now))


@pytest.mark.parametrize(("b", "c"), [(1, 6), (3, 3), (0, 5), (12, 2)])
def test_one_repeat_is_the_exact_test_of_mcnemar(b: int, c: int) -> None:
    before = [0] * b + [1] * c + [1] * 10 + [0] * 4
    now = [True] * b + [False] * c + [True] * 10 + [False] * 4
    expected = mcnemar([[0, b], [c, 0]], exact=True).pvalue
    assert exchangeable_test(before, [1] * len(before), now).value == pytest.approx(expected)


def test_a_judge_that_only_wavers_raises_no_alarm_more_often_than_its_level() -> None:
    draw = random.Random(5)
    human = ["A" if i % 2 else "B" for i in range(60)]
    alarms = 0
    for _ in range(200):
        chance = [draw.choice((0.6, 0.8, 0.95)) for _ in human]

        def once(chance: list[float] = chance) -> list[str | None]:
            return [
                label if draw.random() < p else ("B" if label == "A" else "A")
                for label, p in zip(human, chance, strict=True)
            ]

        found = drift_from_repeats([once() for _ in range(5)], once(), human, CLASSES, planned=1)
        alarms += bool(found.alarm)
    # A majority of five against a single draw would alarm in nearly every one of these.
    assert alarms <= stats.binom.ppf(0.999, 200, 0.05)


def test_a_changed_judge_is_found_by_each_question() -> None:
    human = ["A" if i % 2 else "B" for i in range(100)]
    steady = [list(human) for _ in range(5)]
    worse: list[str | None] = ["tie" if i < 15 else label for i, label in enumerate(human)]
    found = drift_from_repeats(steady, worse, human, CLASSES)
    assert set(found.alarm) == {"verdicts", "correctness"}
    assert found.flip_rate.value == pytest.approx(0.15)
    assert found.correctness.mean.value == pytest.approx(-0.15)
    # All right before: each of the 15 has chance 1/6 to be the odd one.
    assert found.correctness_test.value == pytest.approx(2 * (1 / 6) ** 15)
    failing = drift_from_repeats(steady, [None] * 100, human, CLASSES)
    assert set(failing.alarm) == {"correctness", "failures"}
    assert failing.flip_rate.value is None
    # Right answers swapped for other right ones and wrong ones: only the verdicts tell.
    unlabelled = drift_from_repeats(steady, worse, [None] * 100, CLASSES)
    assert unlabelled.alarm == ("verdicts",)
    assert unlabelled.correctness.mean.value is None
    assert unlabelled.smallest_drop.undefined_reason == "empty"


def test_no_change_says_what_it_could_have_seen() -> None:
    human = ["A"] * 120
    found = drift_from_repeats([human] * 5, human, human, CLASSES)
    assert found.alarm == ()
    assert found.largest_unseen is not None
    assert found.largest_unseen.value == pytest.approx(3 / 120)
    level = found.alpha / 3
    k = found.smallest_flip_rate.details["critical"]
    assert stats.binom.sf(k - 1, 120, found.noise) <= level < stats.binom.sf(k - 2, 120, found.noise)
    assert stats.binom.sf(k - 1, 120, found.smallest_flip_rate.value) == pytest.approx(0.8)
    turned = found.smallest_drop.details["cases"]
    assert 2 * (1 / 6) ** turned <= level < 2 * (1 / 6) ** (turned - 1)
    exactly = [None if i < turned else "A" for i in range(120)]
    assert "correctness" in drift_from_repeats([human] * 5, exactly, human, CLASSES).alarm
    one_less = [None if i < turned - 1 else "A" for i in range(120)]
    assert "correctness" not in drift_from_repeats([human] * 5, one_less, human, CLASSES).alarm


def test_few_anchors_can_see_nothing_and_say_so() -> None:
    found = drift_from_repeats([["A"], ["A"]], ["B"], ["A"], CLASSES)
    assert found.alarm == ()
    assert found.smallest_flip_rate.undefined_reason == "too_few_cases"
    assert found.smallest_drop.undefined_reason == "too_few_cases"
    assert smallest_detectable_rate(0, 0.1, 0.01).undefined_reason == "empty"
    assert smallest_detectable_rate(50, 1.0, 0.01).undefined_reason == "too_few_cases"


def test_noise_and_the_usual_verdict() -> None:
    repeats = [["A", "B", None, "tie"], ["A", "A", None, None], ["B", "A", "A", None]]
    rate, bound = noise_between(repeats)
    # Two cases with three verdicts each, one of them odd: 2 of 3 pairs differ in both.
    assert (rate.value, rate.n) == (pytest.approx(2 / 3), 2)
    assert bound == pytest.approx(stats.beta.ppf(0.95, 3, 1)) or bound == 1.0
    assert usual_verdicts(repeats) == ["A", "A", "A", "tie"]
    with pytest.raises(InvalidStatisticInput):
        noise_between([["A", None], [None, "B"]])
    with pytest.raises(InvalidStatisticInput):
        drift_from_repeats([["A"]], ["A"], ["A"], CLASSES)
    with pytest.raises(InvalidStatisticInput):
        exchangeable_test([2], [1], [True])


@settings(max_examples=60)
@given(st.data())
def test_any_runs_give_figures_without_nan(data: st.DataObject) -> None:
    verdict = st.sampled_from(["A", "B", "tie", None])
    n = data.draw(st.integers(1, 12))
    column = st.lists(verdict, min_size=n, max_size=n)
    repeats = data.draw(st.lists(column, min_size=2, max_size=4))
    now, human = data.draw(column), data.draw(column)
    if not any(sum(v is not None for v in given) > 1 for given in zip(*repeats, strict=True)):
        return
    found = drift_from_repeats(repeats, now, human, CLASSES, look=data.draw(st.integers(1, 9)))
    for test in (found.flip_test, found.correctness_test, found.usable_test):
        assert test.value is None or 0 <= test.value <= 1
    assert 0 <= found.noise <= 1
    assert found.noise_rate.value is not None
    assert found.noise_rate.value <= found.noise + 1e-12
    assert "nan" not in str(found.to_dict()).lower()
