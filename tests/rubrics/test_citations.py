"""Citation markers: which there are, what they name, and whose they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubrics.citations import MAX_RANGE, MarkerStatus, find_markers, restrict, split_statements
from tests.support.growth import growth


def test_groups_ranges_and_dashes() -> None:
    answer = (
        "A holds [3-5]. B holds [1][2]. C holds [1, 3]. D holds [2–4]. E holds [1,2-3]. F holds [5-3]. "
        "G holds [1-1000000]."
    )
    statements = split_statements(answer)
    assert [(statement.text, statement.sources) for statement in statements] == [
        ("A holds.", (3, 4, 5)),
        ("B holds.", (1, 2)),
        ("C holds.", (1, 3)),
        ("D holds.", (2, 3, 4)),
        ("E holds.", (1, 2, 3)),
        ("F holds.", ()),
        ("G holds.", ()),
    ]
    assert statements[5].markers[0].status is MarkerStatus.MALFORMED
    assert statements[6].markers[0].status is MarkerStatus.OUT_OF_RANGE


@pytest.mark.parametrize("dash", "-\u2010\u2011\u2012–—\u2212")
def test_any_dash_makes_a_range(dash: str) -> None:
    assert split_statements(f"It holds [2{dash}4].")[0].sources == (2, 3, 4)


@pytest.mark.parametrize(
    ("answer", "sources"),
    [
        ("One holds [1]. Two holds [2].", [(1,), (2,)]),
        ("One holds.[1] Two holds.[2]", [(1,), (2,)]),
        ("One holds. [1] Two holds. [2][3]", [(1,), (2, 3)]),
        ("Eins gilt!【1】 Zwei gilt [2]?", [(1,), (2,)]),
        ("[1] says one.\n[2] says two.", [(1,), (2,)]),
        ("One holds [1], and so does this [2] [1].", [(1, 2)]),
        ("今日は晴れ[1]。明日は雨。[2]", [(1,), (2,)]),
        ("It rose 3.5 percent [2]. Dr. Ode agreed [1].", [(2,), (1,)]),
        ("Wow![1] Fine.", [(1,), ()]),
        ("See [0].", [(0,)]),
    ],
)
def test_the_right_sentence_gets_each_source(answer: str, sources: list[tuple[int, ...]]) -> None:
    assert [statement.sources for statement in split_statements(answer)] == sources


@pytest.mark.parametrize(
    "answer",
    [
        "Use `list[1]` here.",
        "Use ``a ` b[1]`` here.",
        "Text.\n```python\nx = a[1]\n```\nMore.",
        "Text.\n~~~\na[1]\n",
        r"An escaped \[1\] bracket.",
        "[1]: https://example.org/",
        "A picture ![1](a.png).",
        "Not [a], [1a], [], [1.5], [-1], [1,], [1--2], [ ].",
    ],
)
def test_what_is_no_citation(answer: str) -> None:
    assert find_markers(answer) == ()


def test_an_escaped_backslash_does_not_escape_the_bracket() -> None:
    assert [marker.text for marker in find_markers("A path\\\\[1]")] == ["[1]"]


def test_an_unclosed_backtick_hides_nothing() -> None:
    assert [marker.sources for marker in find_markers("It`s fine [1].")] == [(1,)]


def test_a_link_definition_is_no_statement() -> None:
    assert [statement.text for statement in split_statements("One holds [1].\n\n[1]: https://example.org/")] == [
        "One holds."
    ]


def test_known_and_unknown_sources_are_told_apart() -> None:
    statement = split_statements("It holds [1, 4, 2].")[0]
    assert restrict(statement, frozenset({1, 2, 3})) == ((1, 2), (4,))


def test_the_longest_range_is_expanded_and_no_longer_one() -> None:
    assert len(split_statements(f"It holds [1-{MAX_RANGE}].")[0].sources) == MAX_RANGE
    assert split_statements(f"It holds [1-{MAX_RANGE + 1}].")[0].sources == ()


@given(st.text(alphabet="aB1 2,-–[]【】`~\\.!\n:(", max_size=60))
def test_markers_and_statements_cut_the_original(answer: str) -> None:
    markers = find_markers(answer)
    assert all(answer[marker.start : marker.end] == marker.text for marker in markers)
    statements = split_statements(answer)
    owned = [marker for statement in statements for marker in statement.markers]
    assert sorted(owned, key=lambda marker: marker.start) == (list(markers) if statements else [])
    for statement in statements:
        assert 0 <= statement.start < statement.end <= len(answer)
        assert statement.text[0] == answer[statement.start]


def test_reading_long_odd_texts_grows_with_their_length_and_no_faster() -> None:
    def odd(n: int) -> str:
        return "a` b[1] ``" * n + "`" * n + "[" * n + "[1," * n

    # Eight times the length: 8, where each character looked at all others it would be 64.
    assert growth(find_markers, odd(2_500), odd(20_000)) < 24
