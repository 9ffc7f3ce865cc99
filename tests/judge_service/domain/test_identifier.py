import re

import pytest

from judge_service.domain.identifier import ordered_id


def test_later_ones_sort_after_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for second in (1, 999, 1_700_000_000, 1_800_000_000, 60_000_000_000):
        monkeypatch.setattr("judge_service.domain.identifier.time.time_ns", lambda now=second: now * 1_000_000_000)
        made.append(ordered_id("jdg"))
    assert made == sorted(made)
    assert all(re.fullmatch("jdg_[0-9a-f]{32}", one) for one in made)


def test_those_of_one_moment_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judge_service.domain.identifier.time.time_ns", lambda: 1)
    assert len({ordered_id("jdg") for _ in range(1000)}) == 1000
