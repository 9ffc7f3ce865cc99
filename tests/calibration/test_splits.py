from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.estimate import InvalidStatisticInput
from calibration.splits import leakage, split_of, stratified_splits

SHARES = {"development": 0.2, "calibration": 0.5, "release": 0.3}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=50), st.text(max_size=5))
def test_splits_by_hash_never_leak_and_never_move(groups: list[str], salt: str) -> None:
    splits = [split_of(group, SHARES, salt=salt) for group in groups]
    assert leakage(groups, splits).ok
    assert splits == [split_of(group, SHARES, salt=salt) for group in groups]


def test_shares_of_splits_are_reached() -> None:
    splits = [split_of(f"group {i}", SHARES) for i in range(4000)]
    for name, part in SHARES.items():
        assert splits.count(name) / 4000 == pytest.approx(part, abs=0.03)
    with pytest.raises(InvalidStatisticInput):
        split_of("g", {"a": 0.5})


def test_stratified_splits_keep_groups_and_classes() -> None:
    groups = [f"g{i // 2}" for i in range(200)]
    labels = ["pass" if (i // 2) % 5 == 0 else "fail" for i in range(200)]
    splits = stratified_splits(groups, labels, {"calibration": 3, "release": 1})
    assert leakage(groups, splits).ok
    assert splits.count("release") == pytest.approx(50, abs=4)
    passes = sum(label == "pass" for label, split in zip(labels, splits, strict=True) if split == "release")
    assert passes == pytest.approx(10, abs=2)
    with pytest.raises(InvalidStatisticInput):
        stratified_splits(["g"] * 5, labels[:5], {"calibration": 3, "release": 1})


def test_leaks_of_groups_texts_and_examples_are_named() -> None:
    found = leakage(
        ["g1", "g2", "g3", "g3"],
        ["development", "calibration", "release", "calibration"],
        texts=["Same Text", "same  text", "an example", "unique"],
        few_shot=["An EXAMPLE", "Same text"],
    )
    assert not found.ok
    assert found.groups == ("g3",)
    assert found.texts == ((0, 1),)
    assert found.few_shot == (1, 2)
