"""What must hold for every input: bounds, symmetry, invariance of names and order, doubled groups, equal routes."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from calibration import probability, raters, tests
from calibration.agreement import Agreement, PairedLabels
from calibration.confidence import Forecasts
from calibration.corrected import JudgeErrors, classical_mean, corrected_share, ppi_mean, rogan_gladen
from calibration.estimate import Estimate
from calibration.intervals import bonett_price, clopper_pearson, newcombe, proportion, wilson
from calibration.position import position_sensitivity
from calibration.ranking import bradley_terry, connected, win_rate
from calibration.resample import Resampler
from calibration.scores import summarise
from calibration.selective import aurc, guaranteed_threshold, risk_coverage

quick = settings(max_examples=50, deadline=None)

CLASSES = ("a", "b", "c")
labels = st.sampled_from(CLASSES)
pairs = st.lists(st.tuples(st.one_of(labels, st.none()), labels), min_size=1, max_size=40)
full_pairs = st.lists(st.tuples(labels, labels), min_size=2, max_size=40)
forecasts = st.lists(st.tuples(st.integers(0, 100).map(lambda x: x / 100), st.integers(0, 1)), min_size=1, max_size=50)
counts = st.integers(0, 200)


def agreement(rows: list[tuple[str | None, str]], *, ordered: bool = True, **options: object) -> Agreement:
    paired = PairedLabels.of([row[0] for row in rows], [row[1] for row in rows], CLASSES, ordered=ordered)
    return Agreement(paired, **options)


def figures(found: Agreement) -> dict[str, Estimate]:
    return found.headline() | {"kappa_se": found.kappa_se()} | found.macro()


def same(left: Estimate, right: Estimate) -> bool:
    if left.value is None or right.value is None:
        return left.undefined_reason == right.undefined_reason
    return left.value == pytest.approx(right.value, abs=1e-9)


@quick
@given(pairs)
def test_agreement_is_bounded_and_never_without_a_reason(rows: list[tuple[str | None, str]]) -> None:
    for name, estimate in figures(agreement(rows)).items():
        if estimate.value is None:
            assert estimate.undefined_reason is not None
        else:
            assert -1 - 1e-9 <= estimate.value <= 1 + 1e-9 or name.startswith("krippendorff"), name
            if estimate.low is not None:
                assert estimate.low <= estimate.value <= estimate.high
    failed = sum(judge is None for judge, _ in rows)
    assert agreement(rows).raw().denominator == len(rows)
    assert agreement(rows).raw_valid().n == len(rows) - failed


@quick
@given(full_pairs)
def test_agreement_is_symmetric_in_judge_and_human(rows: list[tuple[str, str]]) -> None:
    one, other = agreement(rows), agreement([(human, judge) for judge, human in rows])
    for name in ("raw_agreement", "cohen_kappa", "cohen_kappa_linear", "cohen_kappa_quadratic", "gwet_ac1",
                 "gwet_ac2_linear", "krippendorff_alpha_nominal", "krippendorff_alpha_ordinal", "mcc"):  # fmt: skip
        assert same(one.headline()[name], other.headline()[name]), name
    assert same(one.kappa_se(), other.kappa_se())


@quick
@given(pairs, st.permutations(CLASSES), st.randoms(use_true_random=False))
def test_names_and_order_of_rows_do_not_matter(
    rows: list[tuple[str | None, str]], names: list[str], chance: random.Random
) -> None:
    renamed = dict(zip(CLASSES, names, strict=True))
    shuffled = [(None if judge is None else renamed[judge], renamed[human]) for judge, human in rows]
    chance.shuffle(shuffled)
    one, other = agreement(rows, ordered=False).headline(), agreement(shuffled, ordered=False).headline()
    for name, estimate in one.items():
        assert same(estimate, other[name]), name


@quick
@given(pairs)
def test_reversing_an_order_changes_no_weighted_figure(rows: list[tuple[str | None, str]]) -> None:
    mirror = {"a": "c", "b": "b", "c": "a", None: None}
    one, other = agreement(rows), agreement([(mirror[judge], mirror[human]) for judge, human in rows])
    for name, estimate in one.headline().items():
        assert same(estimate, other.headline()[name]), name


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(labels, labels), min_size=12, max_size=30), st.integers(2, 3))
def test_doubling_every_group_changes_neither_value_nor_interval(rows: list[tuple[str, str]], times: int) -> None:
    judge, human = [row[0] for row in rows], [row[1] for row in rows]
    single = PairedLabels.of(judge, human, CLASSES)
    groups = [str(i) for i in range(len(rows))]
    doubled = PairedLabels.of(judge * times, human * times, CLASSES, groups=groups * times)
    one = Agreement(single, single.resampler(resamples=200))
    many = Agreement(doubled, doubled.resampler(resamples=200))
    for first, second in ((one.kappa(), many.kappa()), (one.ac(), many.ac()), (one.mcc(), many.mcc())):
        assert same(first, second)
        if first.low is not None:
            assert second.low == pytest.approx(first.low, abs=1e-9)
            assert second.high == pytest.approx(first.high, abs=1e-9)
            assert second.details["unit"] == "group"
    # The naive interval would have become narrower by the square root of the doubling.
    raw = many.raw()
    if raw.value in (0.0, 1.0):
        assert raw.method == "wilson_of_groups"
        assert (raw.low, raw.high) == (one.raw().low, one.raw().high)
    else:
        assert raw.method == "cluster_bootstrap_percentile"


@quick
@given(st.lists(st.lists(st.one_of(st.integers(1, 4), st.none()), min_size=4, max_size=4), min_size=2, max_size=4))
def test_alpha_of_raters_is_invariant_and_at_most_one(ratings: list[list[int | None]]) -> None:
    for metric in ("nominal", "ordinal", "interval", "ratio"):
        estimate = raters.alpha(ratings, metric)
        assert estimate.value is None or estimate.value <= 1 + 1e-9
        assert same(estimate, raters.alpha(ratings[::-1], metric))
        assert same(estimate, raters.alpha([row[::-1] for row in ratings], metric))
    shifted = [[None if value is None else value + 7 for value in row] for row in ratings]
    assert same(raters.alpha(ratings, "interval"), raters.alpha(shifted, "interval"))
    empty = [[*row, None] for row in ratings]
    assert same(raters.alpha(ratings), raters.alpha(empty))


@quick
@given(full_pairs)
def test_two_raters_have_one_alpha_and_one_ac1_by_both_routes(rows: list[tuple[str, str]]) -> None:
    ratings = [[row[0] for row in rows], [row[1] for row in rows]]
    assert same(agreement(rows).alpha(), raters.alpha(ratings, classes=CLASSES))
    assert same(agreement(rows).alpha("ordinal"), raters.alpha(ratings, "ordinal", classes=CLASSES))
    assert same(agreement(rows).ac(), raters.ac1(ratings, classes=CLASSES))


@quick
@given(counts, counts)
def test_intervals_of_a_proportion_hold_it_and_mirror(successes: int, failures: int) -> None:
    n = successes + failures
    assume(n > 0)
    for interval in (wilson, clopper_pearson):
        low, high = interval(successes, n)
        assert 0 <= low <= successes / n <= high <= 1
        assert low < high
        mirrored = interval(failures, n)
        assert mirrored == (pytest.approx(1 - high, abs=1e-9), pytest.approx(1 - low, abs=1e-9))
    exact, score = clopper_pearson(successes, n), wilson(successes, n)
    assert exact[1] - exact[0] >= (score[1] - score[0]) * 0.9


@quick
@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_paired_differences_are_antisymmetric_and_never_of_zero_width(b: int, c: int, rest: int) -> None:
    n = b + c + rest
    assume(n > 0)
    one, other = bonett_price(b, c, n), bonett_price(c, b, n)
    assert one.value == pytest.approx(-other.value)
    assert one.low == pytest.approx(-other.high)
    assert one.low < one.high
    assert same(tests.mcnemar(b, c), tests.mcnemar(c, b))
    p = tests.mcnemar(b, c)
    assert p.value is None or 0 < p.value <= 1
    assert (p.undefined_reason is not None) == (b + c == 0)
    mid = tests.mcnemar(b, c, form="mid_p")
    assert mid.value is None or 0 < mid.value <= p.value
    assert tests.e_value(b, c).value > 0


@quick
@given(st.integers(1, 60), st.integers(1, 60), st.data())
def test_newcombe_is_antisymmetric(n_1: int, n_2: int, data: st.DataObject) -> None:
    k_1, k_2 = data.draw(st.integers(0, n_1)), data.draw(st.integers(0, n_2))
    one, other = newcombe(k_1, n_1, k_2, n_2), newcombe(k_2, n_2, k_1, n_1)
    assert one.low == pytest.approx(-other.high, abs=1e-12)
    assert -1 <= one.low <= one.value <= one.high <= 1


@quick
@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=8))
def test_holm_is_monotone_and_never_smaller(p_values: list[float | None]) -> None:
    adjusted = tests.holm(p_values)
    known = [(raw, new) for raw, new in zip(p_values, adjusted, strict=True) if raw is not None]
    assert all(raw <= new <= 1 for raw, new in known)
    assert all((raw is None) == (new is None) for raw, new in zip(p_values, adjusted, strict=True))
    assert [new for _, new in sorted(known)] == sorted(new for _, new in known)


@quick
@given(forecasts, st.integers(1, 12), st.randoms(use_true_random=False))
def test_calibration_error_is_bounded_and_loses_nobody(
    rows: list[tuple[float, int]], bins: int, chance: random.Random
) -> None:
    given_ = Forecasts.of([c for c, _ in rows], [y for _, y in rows])
    shuffled = list(rows)
    chance.shuffle(shuffled)
    other = Forecasts.of([c for c, _ in shuffled], [y for _, y in shuffled])
    for rule in ("right_closed", "left_closed", "equal_mass", "equal_rank"):
        error = probability.ece(given_, bins, rule)
        assert 0 <= error.value <= 1
        assert sum(error.details["bin_n"]) == len(rows)
        assert same(error, probability.ece(other, bins, rule))
        assert probability.mce(given_, bins, rule).value >= error.value - 1e-12
        assert probability.squared_error_plugin(given_, bins, rule).value <= error.value + 1e-12
    assert sum(probability.ece(given_, bins, "equal_count").details["bin_n"]) == len(rows)
    parts = probability.murphy(given_)
    whole = parts["reliability"].value - parts["resolution"].value + parts["uncertainty"].value
    assert probability.brier(given_).value == pytest.approx(whole, abs=1e-9)
    assert 0 <= probability.smooth_ece(given_).value <= 1


@quick
@given(forecasts)
def test_risk_and_ranking_of_confidence(rows: list[tuple[float, int]]) -> None:
    given_ = Forecasts.of([c for c, _ in rows], [y for _, y in rows])
    for ties in ("together", "expected"):
        found = aurc(given_, ties=ties)
        assert found.details["oracle"] - 1e-9 <= found.value <= 1 + 1e-9
        squared = Forecasts.of([c * c for c, _ in rows], [y for _, y in rows])
        assert same(found, aurc(squared, ties=ties))
    curve = risk_coverage(given_)
    assert curve[-1]["coverage"] == 1
    assert all(a["threshold"] > b["threshold"] for a, b in itertools.pairwise(curve))
    area = probability.auroc(given_)
    flipped = probability.auroc(Forecasts.of([1 - c for c, _ in rows], [y for _, y in rows]))
    assert area.value is None or area.value == pytest.approx(1 - flipped.value)


@quick
@given(forecasts, st.floats(0.5, 0.99))
def test_a_guaranteed_threshold_reaches_its_target_in_the_sample(rows: list[tuple[float, int]], target: float) -> None:
    given_ = Forecasts.of([c for c, _ in rows], [y for _, y in rows])
    found = guaranteed_threshold(given_, [0.5, 0.7, 0.9], target)
    for row in found.details["rows"]:
        if row["ok"]:
            assert row["errors"] / row["accepted"] <= 1 - target
    assert (found.value is None) == (not any(row["ok"] for row in found.details["rows"]))


@quick
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=60), st.data())
def test_prediction_powered_means_reduce_to_the_classical_one(rows: list[tuple[int, int]], data: st.DataObject) -> None:
    human, judge = [row[0] for row in rows], [row[1] for row in rows]
    others = data.draw(st.lists(st.integers(0, 1), min_size=1, max_size=60))
    alone = classical_mean(human, enforce_size=False)
    assert ppi_mean(human, judge, others, weight=0, enforce_size=False).details["raw_value"] == pytest.approx(
        alone.value
    )
    best = ppi_mean(human, judge, others, enforce_size=False)
    assert 0 <= best.details["lambda"] <= 1
    assert 0 <= best.low <= best.value <= best.high <= 1
    constant = ppi_mean(human, [1] * len(human), [1] * len(others), enforce_size=False)
    assert constant.details["lambda"] == 0


@quick
@given(st.floats(0, 1), st.floats(0.55, 1), st.floats(0.55, 1))
def test_rogan_gladen_inverts_the_errors(truth: float, sensitivity: float, specificity: float) -> None:
    passed = truth * sensitivity + (1 - truth) * (1 - specificity)
    assert corrected_share(passed, sensitivity, specificity).value == pytest.approx(truth, abs=1e-9)


@quick
@given(st.integers(1, 500), st.data())
def test_corrected_rates_stay_in_bounds_or_say_why_not(judged: int, data: st.DataObject) -> None:
    passed = data.draw(st.integers(0, judged))
    m1, m0 = data.draw(st.integers(0, 60)), data.draw(st.integers(0, 60))
    errors = JudgeErrors(data.draw(st.integers(0, m1)), m1, data.draw(st.integers(0, m0)), m0)
    for interval in ("adjusted", "delta"):
        found = rogan_gladen(passed, judged, errors, interval=interval)
        if found.value is None:
            assert found.undefined_reason is not None
        else:
            assert 0 <= found.value <= 1
            assert found.low is None or 0 <= found.low <= found.high <= 1


responses = st.sampled_from(["A", "B", "tie", None])


@quick
@given(st.lists(st.tuples(responses, responses), min_size=1, max_size=40))
def test_position_figures_add_up_and_mirror(rows: list[tuple[str | None, str | None]]) -> None:
    ab, ba = [row[0] for row in rows], [row[1] for row in rows]
    found, swapped = position_sensitivity(ab, ba), position_sensitivity(ba, ab)
    if found["consistency"].defined:
        parts = [found[name].value for name in ("consistency", "hard_flip_rate", "soft_flip_rate")]
        assert sum(parts) == pytest.approx(1)
        assert found["preference_fairness"].value == pytest.approx(-swapped["preference_fairness"].value)
    if found["first_slot_share"].defined:
        assert found["first_slot_share"].value == pytest.approx(1 - swapped["first_slot_share"].value)
    other = {"A": "B", "B": "A", "tie": "tie", None: None}
    renamed = position_sensitivity([other[x] for x in ba], [other[x] for x in ab])
    for name, estimate in found.items():
        if not name.startswith("win_rate"):
            assert same(estimate, renamed[name]), name
        elif estimate.defined:
            assert estimate.value == pytest.approx(1 - renamed[name].value)


@quick
@given(counts, counts, counts)
def test_win_rates_of_both_sides_sum_to_one(wins: int, ties: int, losses: int) -> None:
    one, other = win_rate(wins, ties, losses), win_rate(losses, ties, wins)
    if wins + ties + losses:
        assert one.value + other.value == pytest.approx(1)
    else:
        assert one.undefined_reason == other.undefined_reason == "empty"


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 5).flatmap(
        lambda k: st.lists(st.lists(st.integers(0, 9), min_size=k, max_size=k), min_size=k, max_size=k)
    )
)
def test_strengths_exist_exactly_where_the_graph_is_connected(wins: list[list[int]]) -> None:
    table = np.array(wins)
    np.fill_diagonal(table, 0)
    names = [str(i) for i in range(len(table))]
    found = bradley_terry(names, table)
    if found.undefined_reason is None:
        assert connected(table)
        values = [found.log_strength[name].value for name in names]
        assert sum(values) == pytest.approx(0, abs=1e-7)
        # At the optimum every system's expected wins are its wins.
        games = table + table.T
        expected = [
            sum(games[i, j] / (1 + math.exp(values[j] - values[i])) for j in range(len(names)) if j != i)
            for i in range(len(names))
        ]
        assert expected == pytest.approx(table.sum(axis=1).tolist(), abs=1e-6)
    else:
        assert not connected(table) or table.sum() == 0


@quick
@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=20), st.data())
def test_bounds_of_a_mean_hold_it(values: list[float | None], data: st.DataObject) -> None:
    failed = [value is None and data.draw(st.booleans()) for value in values]
    found = summarise(values, failed)
    assert found.scored + found.failed + found.not_applicable == found.expected == len(values)
    if found.mean.defined:
        assert found.failures_as_zero.value - 1e-9 <= found.mean.value <= found.failures_as_one.value + 1e-9


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(1, 300), st.integers(0, 2**32))
def test_resamples_draw_as_many_groups_as_there_are(groups: list[int], resamples: int, seed: int) -> None:
    resampler = Resampler(len(groups), groups, resamples=resamples, seed=seed)
    weights = np.concatenate(list(resampler.group_weights()))
    assert weights.shape == (resamples, len(set(groups)))
    assert np.all(weights.sum(axis=1) == len(set(groups)))
    sizes = np.bincount(resampler.codes)
    assert np.array_equal(resampler.sums(np.ones((len(groups), 1)))[:, 0], weights @ sizes)
    again = Resampler(len(groups), groups, resamples=resamples, seed=seed)
    assert np.array_equal(np.concatenate(list(again.group_weights())), weights)


@quick
@given(counts, counts)
def test_rates_keep_their_counts(successes: int, failures: int) -> None:
    found = proportion(successes, successes + failures)
    assert (found.numerator, found.denominator) == (successes, successes + failures)
