import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_service.domain.outcome import Outcome
from judge_service.runs.aggregate import Aggregate, aggregate
from judge_service.store import OutcomeCount
from rubrics.registry import get_rubric

PAIRWISE = get_rubric("pairwise@1")
FAITHFULNESS = get_rubric("faithfulness@1")
SCORE = {"A": 1.0, "tie": 0.5, "B": 0.0}


def scored(label: str, n: int) -> OutcomeCount:
    return OutcomeCount(Outcome.SCORED, None, label, n, score_sum=n * SCORE[label], prompt_tokens=n, cost_usd=0.5 * n)


def test_a_run_that_has_not_begun_is_all_null_with_reasons() -> None:
    numbers = aggregate(PAIRWISE, [], 4)
    assert (numbers.n_total, numbers.n_judged, numbers.n_pending, numbers.coverage) == (4, 0, 4, 0.0)
    assert numbers.mean_score.model_dump() == {
        "value": None,
        "n": 0,
        "n_failed": 4,
        "low_bound": 0.0,
        "high_bound": 1.0,
        "undefined_reason": "no case was scored",
    }
    assert numbers.outcomes == {"scored": 0, "not_applicable": 0, "inconsistent": 0, "judge_error": 0}
    assert numbers.labels == {"A": 0, "tie": 0, "B": 0}
    assert numbers.usage.model_dump() == {"prompt_tokens": None, "completion_tokens": None, "cost_usd": None}


def test_cases_not_judged_yet_widen_the_bounds() -> None:
    numbers = aggregate(PAIRWISE, [scored("A", 3)], 4)
    assert numbers.mean_score.value == 1.0
    assert (numbers.mean_score.low_bound, numbers.mean_score.high_bound) == (0.75, 1.0)
    assert numbers.coverage == 0.75


def test_a_rubric_of_single_answers_has_no_pair_counts() -> None:
    counts = [OutcomeCount(Outcome.SCORED, None, "unsupported", 4, score_sum=3.0)]
    numbers = aggregate(FAITHFULNESS, counts, 4)
    assert numbers.pairs is None
    assert numbers.mean_score.value == 0.75
    assert numbers.labels == {"unsupported": 4, "supported": 0}


def test_more_judgments_than_cases_is_a_fault() -> None:
    with pytest.raises(ValueError, match="3 judgments of 2 cases"):
        aggregate(PAIRWISE, [scored("A", 3)], 2)


N = st.integers(0, 50)


@given(a=N, b=N, ties=N, inconsistent=N, errors=N, empty=N, pending=N)
def test_the_numbers_always_add_up(
    a: int, b: int, ties: int, inconsistent: int, errors: int, empty: int, pending: int
) -> None:
    counts = [
        *(scored(label, n) for label, n in (("A", a), ("B", b), ("tie", ties)) if n),
        OutcomeCount(Outcome.INCONSISTENT, None, None, inconsistent),
        OutcomeCount(Outcome.JUDGE_ERROR, "timeout", None, errors),
        OutcomeCount(Outcome.NOT_APPLICABLE, "empty_answer", None, empty),
    ]
    total = a + b + ties + inconsistent + errors + empty + pending
    numbers = aggregate(PAIRWISE, counts, total)
    mean = numbers.mean_score
    assert sum(numbers.outcomes.values()) + numbers.n_pending == total
    assert numbers.n_scored + mean.n_failed + numbers.outcomes["not_applicable"] == total
    if mean.value is None:
        assert numbers.n_scored == 0
        assert mean.undefined_reason
    else:
        assert mean.low_bound is not None
        assert mean.high_bound is not None
        assert mean.low_bound <= mean.value + 1e-12
        assert mean.value <= mean.high_bound + 1e-12
    assert numbers.pairs is not None
    if numbers.pairs.win_rate_a is None:
        assert numbers.pairs.undefined_reason
    else:
        assert numbers.pairs.win_rate_b is not None
        assert math.isclose(numbers.pairs.win_rate_a + numbers.pairs.win_rate_b, 1.0)
    assert Aggregate.model_validate_json(numbers.model_dump_json()) == numbers


def test_repeats_have_a_mean_share_and_a_panel_has_none() -> None:
    counts = [
        OutcomeCount(Outcome.SCORED, None, "A", 4, 4.0, n_repeated=3, vote_share_sum=2.4, n_unstable=2),
        OutcomeCount(Outcome.INCONSISTENT, None, None, 1, n_repeated=1, vote_share_sum=0.5, n_unstable=1),
    ]
    found = aggregate(PAIRWISE, counts, 5).self_consistency
    assert (found.value, found.n, found.n_unstable, found.undefined_reason) == (pytest.approx(0.725), 4, 3, None)
    none = aggregate(PAIRWISE, counts, 5, panel=True).self_consistency
    assert (none.value, none.n, none.undefined_reason) == (None, 0, "no case was judged more than once")
