import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_service.errors import Unavailable
from judge_service.gate.limits import Admission, RateLimiter


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_gives_its_minute_and_then_says_how_long_to_wait():
    clock = Clock()
    limiter = RateLimiter(6, clock=clock)
    assert [limiter.take("a") for _ in range(6)] == [0.0] * 6
    assert limiter.take("a") == pytest.approx(10.0)
    clock.now += 9.5
    assert limiter.take("a") == pytest.approx(0.5)
    clock.now += 0.5
    assert limiter.take("a") == 0.0


def test_names_do_not_share_a_bucket():
    limiter = RateLimiter(1, clock=Clock())
    assert limiter.take("a") == 0.0
    assert limiter.take("b") == 0.0
    assert limiter.take("a") > 0


def test_only_so_many_names_are_remembered():
    limiter = RateLimiter(1, clock=Clock(), names=2)
    for name in "abc":
        limiter.take(name)
    assert limiter.take("c") > 0
    assert limiter.take("a") == 0.0


@given(st.integers(1, 600), st.lists(st.floats(0, 30), min_size=1, max_size=60))
def test_never_more_than_capacity_plus_refill(per_minute, gaps):
    clock = Clock()
    limiter = RateLimiter(per_minute, clock=clock)
    start, passed = clock.now, 0
    for gap in gaps:
        clock.now += gap
        for _ in range(3):
            passed += limiter.take("a") == 0.0
    assert passed <= per_minute + (clock.now - start) * per_minute / 60 + 1e-6


def test_only_so_much_is_under_way_at_once():
    admission = Admission(2)
    with admission.enter():
        with admission.enter(), pytest.raises(Unavailable, match="busy"), admission.enter():
            pytest.fail("a third was admitted")
        with admission.enter():
            pass
    with pytest.raises(ZeroDivisionError), admission.enter():
        raise ZeroDivisionError
    with admission.enter(), admission.enter():
        pass
