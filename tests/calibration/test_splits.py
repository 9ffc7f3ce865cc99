from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.estimate import InvalidStatisticInput
from calibration.splits import (
    BandCurve,
    choose_bands,
    group_cases,
    jaccard,
    leakage,
    near_duplicates,
    normalise,
    shingles,
    split_of,
    stratified_splits,
)

SHARES = {"development": 0.2, "calibration": 0.5, "release": 0.3}
WORDS = [f"word{i}" for i in range(400)]


def sentence(chance: random.Random, length: int = 30) -> list[str]:
    return [chance.choice(WORDS) for _ in range(length)]


def test_lsh_finds_the_near_duplicates_that_the_exact_index_confirms() -> None:
    chance = random.Random(3)
    texts, partners = [], []
    for number in range(150):
        words = sentence(chance)
        texts.append(" ".join(words))
        if number < 40:
            partners.append((len(texts) - 1, len(texts)))
            texts.append(" ".join([*words[:-1], "changed"]).upper())
    found = near_duplicates(texts, threshold=0.8)
    assert found.shingle_words == 3
    expected = {}
    for i, j in partners:
        similarity = jaccard(shingles(texts[i], 3), shingles(texts[j], 3))
        assert similarity > 0.8
        expected[i, j] = similarity
    assert {(i, j): similarity for i, j, similarity in found.pairs} == expected
    assert all(found.group[i] == found.group[j] for i, j in partners)
    assert len(set(found.group)) == 150
    assert found.largest == 2
    assert found.flags == ()


def test_equal_texts_are_together_and_empty_ones_alone() -> None:
    found = near_duplicates(["Two  words", "two words", "", " \n", "other thing"])
    assert found.group == (0, 0, 1, 2, 3)


def test_chaining_into_one_large_group_is_flagged() -> None:
    found = near_duplicates(["the very same text"] * 10 + [f"quite another matter number {i}" for i in range(40)])
    assert found.largest >= 10
    assert found.flags == ("large_component",)


def test_pairs_share_a_group_by_prompt_answer_mirrored_or_given() -> None:
    long = ["the bridge was opened in nineteen thirty one by the mayor", "a short recipe for bread with salt and water"]
    found = group_cases(
        ["first question here", "second matter there", "third of them all", "fourth and last", "first question here"],
        [[long[0], "Yes.", long[1], "no answer to be given at all", "x"], ["z", long[0], "Yes.", "Yes.", "y"]],
        given=[None, None, "doc", "doc", None],
    )
    assert found.group == (0, 0, 1, 1, 0)


def test_bands_are_chosen_for_the_wanted_recall() -> None:
    for threshold in (0.5, 0.8, 0.95):
        curve = choose_bands(threshold)
        assert curve.bands * curve.rows <= 512
        assert curve.detection(threshold) >= 0.99
        assert BandCurve(512 // (curve.rows + 1), curve.rows + 1).detection(threshold) < 0.99
    assert BandCurve(20, 5).detection(1.0) == 1.0
    assert BandCurve(9, 13).detection(0.8) == pytest.approx(0.40, abs=0.01)


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


def test_normalisation_folds_case_width_and_space() -> None:
    assert normalise("  Ｆｕｌｌ\u00a0Width\n text ") == "full width text"
    assert jaccard(frozenset(), frozenset()) == 0.0
