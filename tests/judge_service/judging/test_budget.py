"""What a budget counts, and when no new call may start."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_service.domain.call import Usage
from judge_service.domain.judge import Limits
from judge_service.judging.budget import Budget


def test_without_limits_there_is_no_budget() -> None:
    assert Budget.of(Limits()) is None
    assert Budget.of(Limits(max_cost_usd=1.5)) == Budget(max_cost_usd=1.5)
    assert Budget.of(Limits(max_total_tokens=9)) == Budget(max_tokens=9)


@pytest.mark.parametrize(
    ("budget", "usage", "says"),
    [
        (Budget(max_tokens=10), Usage(prompt_tokens=6, completion_tokens=3), None),
        (Budget(max_tokens=10), Usage(prompt_tokens=6, completion_tokens=4), "10 tokens is used up"),
        (Budget(max_cost_usd=0.5), Usage(prompt_tokens=1, cost_usd=0.49), None),
        (Budget(max_cost_usd=0.5), Usage(prompt_tokens=1, cost_usd=0.5), "US\\$ 0.5 is used up"),
        (Budget(max_cost_usd=0.5), Usage(prompt_tokens=1), "Give the judge a price"),
        (Budget(max_cost_usd=0.5), Usage(), None),
        (Budget(max_tokens=10), Usage(prompt_tokens=1), None),
    ],
)
def test_it_ends_when_it_is_used_up_or_cannot_be_kept(budget: Budget, usage: Usage, says: str | None) -> None:
    budget.spend(usage)
    found = budget.exhausted()
    if says is None:
        assert found is None
    else:
        assert found is not None
        assert re.search(says, found)


@given(st.lists(st.integers(0, 1000)), st.integers(1, 5000))
def test_it_ends_exactly_when_the_sum_reaches_the_limit(tokens: list[int], limit: int) -> None:
    budget = Budget(max_tokens=limit)
    for used in tokens:
        budget.spend(Usage(prompt_tokens=used))
    assert (budget.exhausted() is not None) == (sum(tokens) >= limit)
