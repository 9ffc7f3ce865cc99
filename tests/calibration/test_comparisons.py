from __future__ import annotations

import random

import numpy as np
import pytest

from calibration import drift, power, repeats
from calibration.agreement import Agreement, PairedLabels
from calibration.annotator_test import alternative_annotator_test
from calibration.bias import (
    length_preference,
    length_regression,
    self_preference,
    self_preference_against_control,
)
from calibration.estimate import InvalidStatisticInput
from calibration.paired import clustered_mean, paired_delta, paired_delta_by_slice
from calibration.position import (
    flips_beyond_noise,
    fold_swap_average,
    fold_swap_average_vectors,
    keep_or_drop,
    order_policies,
    position_sensitivity,
)
from calibration.ranking import Comparison, bradley_terry, leaderboard, win_rate_of_credits
from calibration.raters import ac1, alpha, fleiss_kappa, human_ceiling, votes
from calibration.resample import Resampler


@pytest.mark.parametrize(("n", "expected"), [(30, 0.10), (100, 0.25), (200, 0.45), (400, 0.74), (800, 0.96)])
def test_power_at_five_points(n: int, expected: float) -> None:
    assert power.power_of_difference(n, 0.10, 0.05).value == pytest.approx(expected, abs=0.012)


@pytest.mark.parametrize(("n", "expected"), [(30, 0.23), (100, 0.61), (200, 0.89)])
def test_power_at_ten_points(n: int, expected: float) -> None:
    assert power.power_of_difference(n, 0.15, 0.05).value == pytest.approx(expected, abs=0.012)


def test_sizes_scale_with_the_design_effect_and_refuse_the_impossible() -> None:
    assert power.labels_for_half_width(0.8, 0.05, design=power.design_effect(5, 0.25)).value == 492
    assert power.labels_for_difference(0.1, 0.1).undefined_reason == "zero_variance"
    assert power.largest_unseen_rate(300).value == pytest.approx(0.01)
    with pytest.raises(InvalidStatisticInput):
        power.labels_for_difference(0.7, 0.6)
    tiers = [power.tier(n) for n in (29, 30, 100, 200, 500)]
    assert len(set(tiers)) == 5
    assert tiers[0] == "counts only"


def test_looks_spend_alpha_once() -> None:
    assert sum(drift.alpha_at_look(k) for k in range(1, 20_000)) == pytest.approx(0.05, rel=1e-4)
    assert drift.alpha_at_look(2, planned=5) == pytest.approx(0.01)
    with pytest.raises(InvalidStatisticInput):
        drift.alpha_at_look(6, planned=5)


def test_drift_separates_changed_verdicts_from_changed_correctness() -> None:
    human = ["pass", "fail"] * 50
    worse = ["pass" if i < 20 else label for i, label in enumerate(human)]
    found = drift.drift(human, worse, human, ("fail", "pass"), noise=0.02)
    assert found.flip_rate.value == pytest.approx(0.1)
    assert found.accuracy_change.value == pytest.approx(-0.1)
    assert set(found.alarm) == {"verdicts", "correctness"}
    quiet = drift.drift(human, human, human, ("fail", "pass"), noise=0.02)
    assert quiet.alarm == ()
    assert quiet.accuracy_test.undefined_reason == "no_discordant_pairs"
    assert quiet.largest_unseen.value == pytest.approx(0.03)
    noisy = drift.drift(human, worse, human, ("fail", "pass"), noise=drift.noise_upper_bound(12, 100))
    assert "verdicts" not in noisy.alarm
    assert drift.drifted_towards(human, worse, ("fail", "pass")).tolist() == [[40, 10], [0, 50]]


def test_repeats_need_two_runs_and_say_when_they_are_unequal() -> None:
    assert repeats.repetition_stability([["A"], ["B"]]).undefined_reason == "n_below_2"
    unequal = repeats.repetition_stability([["A", "A"], ["B", "A", "B"]])
    assert unequal.flags == ("unequal_repeats",)
    assert repeats.pairwise_repeat_agreement([["A", "A"], ["B", "A", "B"]]).flags == ()
    failed = repeats.all_identical_rate([["A", None, "A"], ["B", None, None]])
    assert (failed.value, failed.n, failed.details["cases_without_repeats"]) == (1.0, 1, 1)
    assert repeats.score_variance([[1.0], [0.0]])["mean"].undefined_reason == "n_below_2"
    assert repeats.score_variance([[1, 0], [0, 1]])["between_case_variance"].flags == ("negative",)
    assert repeats.score_variance([[1, 1], [1, 1]])["run_noise_share"].undefined_reason == "zero_variance"


def test_paired_deltas_count_the_unpaired_and_use_the_wider_error() -> None:
    found = paired_delta([0, 1, None, 1], [1, 1, 1, None])
    assert (found.mean.n, found.unpaired, found.wins, found.ties) == (2, 2, 1, 1)
    groups = [str(i // 4) for i in range(80)]
    candidate = [float((i // 4) % 3 == 0) for i in range(80)]
    clustered = paired_delta([0.0] * 80, candidate, groups=groups)
    plain = paired_delta([0.0] * 80, candidate)
    assert clustered.mean.method == "clustered_t"
    assert clustered.mean.high - clustered.mean.low > plain.mean.high - plain.mean.low
    assert clustered.mean.details["design_effect"] == pytest.approx(4, abs=0.1)
    opposite = clustered_mean([1.0, 0.0] * 20, [str(i // 2) for i in range(40)])
    assert opposite.details["clustered_se"] == pytest.approx(0)
    assert opposite.high > opposite.low
    assert clustered_mean([1.0, 0.0, 1.0], ["a", "a", "b"]).interval_reason == "too_few_groups"
    rows = paired_delta_by_slice([0.0] * 80, candidate, ["x", "y"] * 40)
    assert rows["x"].p_holm is not None
    assert rows["x"].p_holm >= 0


def test_length_regression_is_null_when_it_cannot_be_fitted() -> None:
    judge = ["A", "B"] * 20
    lengths = [20.0, 10.0] * 20, [10.0, 20.0] * 20
    separated = length_regression(judge, judge, *lengths)
    assert separated.undefined_reason in ("separation", "zero_variance")
    assert length_regression(["A"] * 5, ["A"] * 5, [1.0] * 5, [2.0] * 5).undefined_reason == "one_class"
    assert length_regression(["tie"], ["A"], [1.0], [2.0]).undefined_reason == "empty"
    chance = random.Random(1)
    n = 300
    a, b = ([chance.uniform(50, 200) for _ in range(n)] for _ in range(2))
    human = [chance.choice("AB") for _ in range(n)]
    said = ["A" if chance.random() < (0.8 if x > y else 0.2) else "B" for x, y in zip(a, b, strict=True)]
    found = length_regression(said, human, a, b)
    assert found.coefficients["log_length_ratio"].low > 0
    grouped = length_regression(said, human, a, b, groups=[i // 3 for i in range(n)])
    assert grouped.coefficients["log_length_ratio"].value == pytest.approx(found.coefficients["log_length_ratio"].value)
    assert grouped.coefficients["log_length_ratio"].method == "logit/cluster_robust_wald"
    assert length_preference(said, human, a, b)["excess"].low > 0


def test_self_preference_needs_both_sides_and_has_a_control() -> None:
    own = ["A"] * 20 + ["B"] * 20
    human = ["A", "B"] * 20
    biased = list(own)
    found = self_preference(own, biased, human)
    assert found["equal_opportunity_bias"].value == pytest.approx(1.0)
    assert found["excess_own_rate"].value == pytest.approx(0.5)
    fair = self_preference(own, human, human)
    assert fair["equal_opportunity_bias"].value == 0.0
    assert fair["excess_test"].undefined_reason == "no_discordant_pairs"
    assert (
        self_preference(["A", "A"], ["A", "B"], ["B", "B"])["equal_opportunity_bias"].undefined_reason
        == "no_positive_labels"
    )
    assert self_preference(["A"], ["A"], ["A"])["equal_opportunity_bias"].undefined_reason == "no_negative_labels"
    assert self_preference([None], ["A"], ["A"])["equal_opportunity_bias"].undefined_reason == "empty"
    against = self_preference_against_control(own, biased, human, human, Resampler(40, resamples=300))
    assert against.value == pytest.approx(1.0)
    assert (against.low, against.high, against.interval_reason) == (None, None, "zero_variance")


def test_policies_are_kept_only_on_evidence() -> None:
    human = ["A", "B"] * 100
    first = ["A"] * 200
    second = ["B"] * 200
    found = order_policies(
        first, second, human, prob_a_ab=[0.7] * 200, prob_a_ba=[0.1 if h == "B" else 0.7 for h in human]
    )
    assert found["random_order"].accuracy.value == pytest.approx(0.5)
    assert found["swap_tie"].verdict == "drop"
    assert found["swap_tie"].decided_accuracy.undefined_reason == "all_ties"
    assert found["swap_average"].p_holm >= found["swap_average"].p_value.value
    assert (found["swap_average"].accuracy.value, found["swap_average"].verdict) == (1.0, "keep")
    same = order_policies(human, human, human)
    assert same["swap_tie"].verdict == "not enough evidence"
    assert same["swap_tie"].p_value.undefined_reason == "no_discordant_pairs"
    clustered = order_policies(
        first, second, human, resampler=Resampler(200, [i // 4 for i in range(200)], resamples=300)
    )
    assert clustered["swap_tie"].accuracy.method == "wilson_of_groups"
    assert clustered["random_order"].accuracy.method.endswith("cluster_bootstrap_percentile")
    assert keep_or_drop(position_sensitivity(first, second)["preference_fairness"]) == "drop"


def test_folds_of_two_orders() -> None:
    assert fold_swap_average([0.9, 0.5, 0.2, None, 0.6], [0.3, 0.6, 0.3, 0.9, 0.5]) == ["A", "tie", "B", None, "tie"]
    vectors = fold_swap_average_vectors(
        [[0.6, 0.3, 0.1], [0.4, 0.4, 0.2], [np.nan] * 3], [[0.2, 0.7, 0.1]] + [[0.4, 0.4, 0.2]] * 2
    )
    assert vectors == ["B", "tie", None]
    with pytest.raises(InvalidStatisticInput):
        fold_swap_average([1.2], [0.1])


def test_flips_are_read_against_repeats_of_the_same_order() -> None:
    ab, ba = ["A"] * 10 + ["B"] * 10, ["B"] * 10 + ["B"] * 10
    assert flips_beyond_noise(ab, ba, None).undefined_reason == "n_below_2"
    assert flips_beyond_noise(ab, ba, ab).value == pytest.approx(0.5)
    assert flips_beyond_noise(ab, ba, ba).value == pytest.approx(0.0)


def test_leaderboard_of_prompts() -> None:
    chance = random.Random(5)
    strength = {"weak": 0.0, "middle": 1.0, "strong": 2.5}
    comparisons = []
    for prompt in range(60):
        for one, other in (("weak", "middle"), ("middle", "strong"), ("strong", "weak")):
            wins = chance.random() < 1 / (1 + np.exp(strength[other] - strength[one]))
            comparisons.append(Comparison(one, other, float(wins), prompt))
    board = leaderboard(comparisons, resamples=300)
    assert board.strengths.ranking() == ["strong", "middle", "weak"]
    assert board.rank_interval["strong"] == (1, 1)
    assert board.strengths.log_strength["strong"].low > board.strengths.log_strength["weak"].high
    assert board.not_separated == ()
    assert max(abs(gap) for gap in board.strengths.fit_gaps.values()) < 0.2
    undefeated = leaderboard([Comparison("x", "y", 1.0, i) for i in range(20)])
    assert undefeated.strengths.undefined_reason == "disconnected"
    assert undefeated.strengths.ranking() == []
    assert win_rate_of_credits([1.0, 0.5] * 20, [str(i // 2) for i in range(40)]).value == pytest.approx(0.75)
    assert bradley_terry(["a", "b"], [[0, 0], [0, 0]]).undefined_reason == "empty"


def test_annotator_test_at_its_edges() -> None:
    chance = random.Random(2)
    truth = [chance.randrange(3) for _ in range(60)]
    noisy = [[value if chance.random() < 0.7 else chance.randrange(3) for value in truth] for _ in range(3)]
    good = alternative_annotator_test(noisy, truth, epsilon=0.15)
    assert good.passed
    assert good.rho.value > 0.8
    bad = alternative_annotator_test(noisy, [None] * 60, epsilon=0.15)
    assert not bad.passed
    perfect = alternative_annotator_test([truth] * 3, truth, epsilon=0.1)
    assert perfect.annotators[0].p_value.flags == ("zero_variance",)
    assert perfect.omega.value == 1.0
    equal = alternative_annotator_test([truth] * 3, truth, epsilon=0.0)
    assert equal.omega.value == 0.0
    few = alternative_annotator_test([row[:29] for row in noisy], truth[:29], epsilon=0.15)
    assert few.rho.undefined_reason == "too_few_labels"
    assert few.passed is None
    two = alternative_annotator_test(noisy[:2], truth, epsilon=0.15, ordinal=True)
    assert "two_annotators" in two.flags
    grouped = alternative_annotator_test(noisy, truth, epsilon=0.15, groups=[i // 2 for i in range(60)])
    assert grouped.rho.value == pytest.approx(good.rho.value)


def test_raters_with_nothing_in_common() -> None:
    assert alpha([[1, None], [None, 2]]).undefined_reason == "no_pairable_units"
    assert alpha([["x", "x"], ["x", "x"]], classes=("x", "y")).undefined_reason == "one_class"
    assert ac1([["x", "x"], ["x", "x"]], classes=("x", "y")).value == 1.0
    assert fleiss_kappa([[2, 0], [1, 2]]).undefined_reason == "unequal_raters"
    assert fleiss_kappa([[2, 0], [2, 0]]).undefined_reason == "one_class"
    with pytest.raises(InvalidStatisticInput):
        alpha([["x"], ["y"]])
    with pytest.raises(InvalidStatisticInput):
        alpha([["x"], ["y"]], "interval", classes=("x", "y"))


def test_alpha_and_votes_have_intervals_over_cases() -> None:
    chance = np.random.default_rng(0)
    ratings = chance.integers(1, 4, (3, 40))
    ratings[1] = ratings[0]
    for metric in ("nominal", "ordinal", "interval"):
        found = alpha(ratings.tolist(), metric, resampler=Resampler(40, resamples=300))
        assert found.low < found.value < found.high
    cast = [["A", "A", "B"]] * 20 + [["B", "tie"]] * 20
    figures = votes(["A"] * 40, cast, resampler=Resampler(40, resamples=300))
    assert figures["judge_s1"].denominator == 100
    assert figures["judge_s2"].denominator == 80
    assert figures["judge_s1"].low < figures["judge_s1"].value
    assert human_ceiling(cast)["s1"].value == pytest.approx(20 / 80)
    assert human_ceiling(cast[:29])["s1"].undefined_reason == "too_few_labels"
    invalid = votes([None], [["A", "tie"]])
    assert (invalid["judge_s1"].denominator, invalid["judge_s2"].denominator) == (2, 1)
    assert invalid["judge_s1"].value == 0


def test_a_skewed_set_says_so_beside_kappa() -> None:
    skewed = Agreement(PairedLabels.from_table([[80, 10], [5, 5]]))
    assert "skewed_prevalence" in skewed.kappa().flags
    constant = Agreement(PairedLabels.of(["a"] * 4, ["a", "b", "a", "b"], ("a", "b")))
    assert constant.kappa().value == 0
    assert "constant_rater" in constant.kappa().flags
    assert constant.mcc().undefined_reason == "one_class"
    assert constant.per_class()["b"]["precision"].undefined_reason == "empty"
    with pytest.raises(InvalidStatisticInput):
        PairedLabels.of(["c"], ["a"], ("a", "b"))
