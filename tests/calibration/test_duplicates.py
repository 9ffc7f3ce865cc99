from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.duplicates import (
    BandCurve,
    CaseIndex,
    CaseLengths,
    CaseTexts,
    TextIndex,
    choose_bands,
    group_cases,
    jaccard,
    near_duplicates,
    normalise,
    shingles,
)

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


def test_normalisation_folds_case_width_and_space() -> None:
    assert normalise("  Ｆｕｌｌ\u00a0Width\n text ") == "full width text"
    assert jaccard(frozenset(), frozenset()) == 0.0


def test_an_index_finds_what_a_look_at_all_pairs_finds() -> None:
    chance = random.Random(7)
    texts: list[str] = []
    for _ in range(60):
        words = sentence(chance)
        texts.append(" ".join(words))
        for _ in range(chance.randrange(4)):
            words = [*words]
            words[chance.randrange(len(words))] = chance.choice(WORDS)
            texts.append(" ".join(words))
    chance.shuffle(texts)
    sets = [shingles(text, 3) for text in texts]
    expected = {
        (i, j)
        for j in range(len(texts))
        for i in range(j)
        if jaccard(sets[i], sets[j]) >= 0.8 and texts.index(texts[i]) == i and texts.index(texts[j]) == j
    }
    found = near_duplicates(texts, threshold=0.8)
    assert {(i, j) for i, j, _ in found.pairs} == expected
    assert len(expected) > 20
    index = TextIndex(3, threshold=0.8)
    assert [index.add(text) for text in texts] == list(range(len(texts)))
    read: list[int] = []

    def reading(numbers: Sequence[int]) -> list[str]:
        read.extend(numbers)
        return [texts[number] for number in numbers]

    # The same groups from fewer comparisons: what is joined already is not looked at again.
    assert index.groups(reading) == found.group
    assert 0 < len(read) <= len(texts)
    assert len(index) == len(texts)


def test_any_seed_proposes_equal_texts_and_groups_do_not_depend_on_it() -> None:
    chance = random.Random(11)
    texts = [" ".join(sentence(chance)) for _ in range(100)]
    texts += [f"{text} again" for text in texts[:30]]
    first = near_duplicates(texts, seed=1)
    assert len(set(first.group)) == 100
    assert near_duplicates(texts, seed=2).group == first.group


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(alphabet="ab \u00c4\ud800", max_size=6), max_size=90))
def test_groups_of_any_texts_are_those_of_their_normal_forms(texts: list[str]) -> None:
    group = near_duplicates(texts, threshold=1).group
    for i, one in enumerate(texts):
        for j, other in enumerate(texts):
            alike = i == j or (normalise(one) == normalise(other) != "")
            assert (group[i] == group[j]) == alike


def test_cases_chain_over_prompts_answers_and_sources() -> None:
    text = "the bridge was opened in nineteen thirty one by the mayor"
    cases = [
        CaseTexts("one question", (text, "")),
        CaseTexts("another matter", ("", text), ("a page that is long enough to tell",)),
        CaseTexts("third", ("Yes.",), ("short", "A page that is  long enough to tell")),
        CaseTexts("fourth", ("Yes.",), ("short",)),
        CaseTexts(""),
        CaseTexts(""),
    ]
    lengths = CaseLengths()
    for case in cases:
        lengths.add(case)
    assert lengths.words() == {"prompts": 2, "answers": 2, "sources": 2}

    def groups(**kinds: Iterable[str]) -> tuple[int, ...]:
        index = CaseIndex(lengths.words(), **kinds)
        for case in cases:
            index.add(case)
        return index.groups(lambda numbers: [cases[number] for number in numbers]).group

    assert groups() == (0, 0, 0, 1, 2, 3)
    assert groups(kinds=("sources",)) == (0, 1, 1, 2, 3, 4)
