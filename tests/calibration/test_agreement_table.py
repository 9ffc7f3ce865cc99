from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.agreement_table import (
    ConflictingVerdicts,
    LabelledPair,
    OrderedVerdict,
    agreement_row,
    agreement_table,
    join_verdicts,
)
from calibration.estimate import InvalidStatisticInput

PAIRS = [LabelledPair("c1", "g", "A"), LabelledPair("c2", "g", "B"), LabelledPair("c3", "g", "A")]


def verdict(case: str, order: str, said: str | None, line: int = 0, judge: str = "j") -> OrderedVerdict:
    return OrderedVerdict(case, judge, "plain", order, said, line)


def test_position_is_mapped_to_the_response_by_order() -> None:
    assert verdict("c", "AB", "first").response == "A"
    assert verdict("c", "BA", "first").response == "B"
    assert verdict("c", "BA", "second").response == "A"
    assert verdict("c", "BA", "tie").response == "tie"
    assert verdict("c", "BA", None).response is None


def test_missing_verdicts_stay_in_the_denominator_and_are_counted() -> None:
    joined = join_verdicts(
        PAIRS, [verdict("c1", "AB", "first"), verdict("c2", "AB", None), verdict("c1", "BA", "second")]
    )
    (row,) = agreement_table(joined, resamples=50)
    assert row.n == 3
    assert row.value("accuracy_AB") == pytest.approx(100 / 3)
    assert row.value("accuracy_BA") == pytest.approx(100 / 3)
    assert row.value("verdicts_null") == 1
    assert row.value("n_missing") == 1 + 2
    assert row.value("positional_agreement") == pytest.approx(100 / 3)
    assert row.estimates["kappa_AB"].n == 1
    assert row.estimates["kappa_AB"].undefined_reason == "n_below_2"


def test_two_unreadable_verdicts_agree_only_in_the_published_figure() -> None:
    row = agreement_row(["A", "B"], [None, "B"], [None, "B"], resamples=50)
    assert row.value("positional_agreement") == 100
    assert row.value("positional_agreement_parsed") == 50


def test_verdicts_that_join_no_case_are_listed_and_not_counted() -> None:
    stray = verdict("c9", "AB", "first", 2)
    joined = join_verdicts(PAIRS, [verdict("c1", "AB", "first", 1), stray])
    assert joined.unjoined == (stray,)
    (row,) = agreement_table(joined, resamples=50)
    assert row.value("verdicts_first") == 1


def test_the_same_line_twice_counts_once_and_a_conflict_names_both_lines() -> None:
    joined = join_verdicts(PAIRS, [verdict("c1", "AB", "first", 1), verdict("c1", "AB", "first", 2)])
    assert joined.repeated == 1
    with pytest.raises(ConflictingVerdicts, match="lines 1 and 7"):
        join_verdicts(PAIRS, [verdict("c1", "AB", "first", 1), verdict("c1", "AB", "second", 7)])
    with pytest.raises(ConflictingVerdicts):
        join_verdicts(PAIRS, [verdict("c1", "AB", None, 1), verdict("c1", "AB", "second", 2)])


@pytest.mark.parametrize(
    ("pairs", "verdicts", "message"),
    [
        (PAIRS, [verdict("c1", "XY", "first", 3)], "line 3: order"),
        (PAIRS, [verdict("c1", "AB", "third", 4)], "line 4: verdict"),
        ([PAIRS[0], PAIRS[0]], [], "occurs twice"),
        ([LabelledPair("c", "g", "C")], [], "human label"),
    ],
)
def test_bad_input_is_refused(pairs: list[LabelledPair], verdicts: list[OrderedVerdict], message: str) -> None:
    with pytest.raises(InvalidStatisticInput, match=message):
        join_verdicts(pairs, verdicts)


def test_a_tie_is_right_only_for_a_tie_and_folds_to_undecided() -> None:
    row = agreement_row(["tie", "A", "tie"], ["tie", "tie", "A"], ["tie", "A", "tie"], resamples=50)
    assert row.value("accuracy_AB") == pytest.approx(100 / 3)
    assert row.value("folded_correct") == 100
    assert row.value("flips") == 0
    assert row.value("verdicts_tie") == 4


def test_flips_are_counted_by_the_slot_they_lean_to() -> None:
    row = agreement_row(["A"] * 4, ["A", "A", "B", "A"], ["B", "B", "A", "A"], resamples=50)
    assert [row.value(name) for name in ("flips", "flips_to_first", "flips_to_second")] == [3, 2, 1]


def test_one_class_everywhere_leaves_kappa_null() -> None:
    row = agreement_row(["A"] * 12, ["A"] * 12, ["A"] * 12, resamples=50)
    assert row.value("accuracy") == 100
    assert row.estimates["kappa_AB"].undefined_reason == "one_class"
    assert "NaN" not in json.dumps(row.to_dict(), allow_nan=False)


def test_intervals_need_ten_cases_and_are_reproducible() -> None:
    human = ["A", "B"] * 6
    said = ["A", "B", "B", "B"] * 3
    first = agreement_row(human, said, human, resamples=500, seed=5)
    assert first == agreement_row(human, said, human, resamples=500, seed=5)
    assert first.estimates["kappa_AB"].flags[-1] == "few_groups"
    few = agreement_row(human[:8], said[:8], human[:8], resamples=500)
    assert few.estimates["accuracy"].low is None
    assert few.estimates["accuracy"].interval_reason == "too_few_groups"


def test_cases_that_share_a_cluster_are_resampled_together() -> None:
    human = ["A", "B"] * 20
    said = (["A", "A"] * 2 + ["A", "B"] * 2) * 5
    alone = agreement_row(human, said, said, resamples=2000)
    doubled = agreement_row(human * 2, said * 2, said * 2, clusters=[str(i) for i in range(40)] * 2, resamples=2000)
    for name in ("accuracy", "kappa_AB"):
        assert doubled.estimates[name].method.endswith("cluster_bootstrap_percentile")
        assert doubled.value(name) == pytest.approx(alone.value(name))
        assert doubled.estimates[name].low == pytest.approx(alone.estimates[name].low)
        assert doubled.estimates[name].high == pytest.approx(alone.estimates[name].high)
    assert doubled.estimates["accuracy_AB"].method == "cluster_bootstrap_percentile"


responses = st.sampled_from(["A", "B", "tie", None])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["A", "B", "tie"]), responses, responses), min_size=1, max_size=30))
def test_relabelling_responses_and_swapping_orders_changes_nothing_else(cases: list[tuple[str, str, str]]) -> None:
    other = {"A": "B", "B": "A", "tie": "tie", None: None}
    human, ab, ba = ([case[i] for case in cases] for i in range(3))
    row = agreement_row(human, ab, ba, resamples=20)
    mirrored = agreement_row([other[x] for x in human], [other[x] for x in ba], [other[x] for x in ab], resamples=20)
    swapped = {
        "accuracy_AB": "accuracy_BA",
        "accuracy_BA": "accuracy_AB",
        "kappa_AB": "kappa_BA",
        "kappa_BA": "kappa_AB",
    }
    for name in row.estimates:
        twin = mirrored.value(swapped.get(name, name))
        assert twin == (None if row.value(name) is None else pytest.approx(row.value(name), abs=1e-9))
    assert row.counts == mirrored.counts
    folded = sum(row.value(f"folded_{side}") for side in ("correct", "incorrect", "undecided"))
    assert folded == pytest.approx(100)


@pytest.mark.parametrize("said", ["A", "B"])
def test_a_judge_that_was_always_right_or_always_wrong_is_not_certain(said: str) -> None:
    row = agreement_row(["A"] * 12, [said] * 12, [said] * 12)
    accuracy, single = row.estimates["accuracy"], row.estimates["accuracy_AB"]
    assert accuracy.value == single.value == (100.0 if said == "A" else 0.0)
    assert (accuracy.low, accuracy.high) == (single.low, single.high)
    assert accuracy.low is not None
    assert accuracy.high is not None
    assert accuracy.high - accuracy.low == pytest.approx(24.25, abs=0.01)
