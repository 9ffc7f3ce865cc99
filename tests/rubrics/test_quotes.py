"""Look-alike characters do not break a quote; changed letters and digits do; offsets cut the original."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rubrics.quotes import Folded, Span, find_quote, fold

TEXT = "The “Grand” bridge — 1,900\u00a0m long — was ﬁnished in 1931; Zo\u00eb’s café opened\u200b later…"


@pytest.mark.parametrize(
    ("quote", "cut_out"),
    [
        ('The "Grand" bridge', "The “Grand” bridge"),
        ("bridge - 1,900 m long", "bridge — 1,900\u00a0m long"),
        ("was finished in 1931", "was ﬁnished in 1931"),
        ("Zoe\u0308's cafe\u0301 opened", "Zo\u00eb’s café opened"),
        ("opened later...", "opened\u200b later…"),
        ("  was ﬁnished\n in  1931 ", "was ﬁnished in 1931"),
        ("1\u200b931", "1931"),
        ("Zoë\u2019s", "Zo\u00eb’s"),
    ],
)
def test_the_same_words_written_otherwise_are_found(quote: str, cut_out: str) -> None:
    span = find_quote(TEXT, quote)
    assert span is not None
    assert TEXT[span.start : span.end] == cut_out


@pytest.mark.parametrize(
    "quote",
    [
        "was finished in 1932",
        "900 m long",  # another number
        "1,90",
        "193",
        "rand",  # part of a word
        "bridg",
        "Zoe's",  # another letter
        "cafe",
        "the “Grand”",
        "",
        " \u200b",
        "nothing like it",
    ],
)
def test_changed_letters_and_digits_are_not_found(quote: str) -> None:
    assert find_quote(TEXT, quote) is None


def test_superscripts_and_fractions_are_other_digits() -> None:
    assert find_quote("an area of 5 m² and ½ more", "5 m2") is None
    assert find_quote("x2 is not it", "x²") is None


def test_a_quote_cut_at_its_limit_may_end_inside_a_word() -> None:
    assert find_quote(TEXT, "was ﬁnish") is None
    assert find_quote(TEXT, "was ﬁnish", cut=True) == Span(TEXT.index("was"), TEXT.index("was") + 9)


def test_scripts_without_spaces_are_cut_anywhere() -> None:
    text = "橋は1931年に開通した。"
    span = find_quote(text, "1931年に開通")
    assert span is not None
    assert text[span.start : span.end] == "1931年に開通"


def test_a_later_whole_occurrence_counts() -> None:
    text = "In 19312 nothing; in 1931 everything."
    span = find_quote(text, "1931")
    assert span == Span(21, 25)


def test_part_of_a_ligature_or_of_a_syllable_is_no_match() -> None:
    assert find_quote("oﬃ", "of") is None
    assert find_quote("한 국", "하") is None


def test_direction_marks_and_soft_hyphens_show_nothing() -> None:
    text = "שלום \u202bעולם\u202c! Donau\u00addampf\u00adschiff"
    assert find_quote(text, "שלום עולם!") is not None
    assert find_quote(text, "Donaudampfschiff") == Span(text.index("Donau"), len(text))


@given(st.text(max_size=40), st.data())
def test_every_span_cuts_what_reads_like_the_quote(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    quote = data.draw(st.sampled_from([text[start:end], unicodedata.normalize("NFD", text[start:end])]))
    span = find_quote(text, quote, cut=data.draw(st.booleans()))
    if span is not None:
        assert 0 <= span.start < span.end <= len(text)
        assert fold(text[span.start : span.end]) == fold(quote)


@given(
    st.lists(st.sampled_from(["Zoë", "1,900", "m²", "ﬁn", "“a”", "—", "été", "naïve", "10"]), min_size=1, max_size=8),
    st.data(),
)
@example(["ﬁn", "Zoë"], None)
def test_whole_words_are_found_in_both_normal_forms(words: list[str], data: st.DataObject | None) -> None:
    text = "\u00a0".join(words)
    first = data.draw(st.integers(0, len(words) - 1)) if data else 0
    quote = " ".join(words[first:])
    for form in ("NFC", "NFD"):
        assert find_quote(text, unicodedata.normalize(form, quote)) is not None  # type: ignore[arg-type]
        assert find_quote(unicodedata.normalize(form, text), quote) is not None  # type: ignore[arg-type]


@given(st.text(max_size=60))
def test_folding_is_idempotent(text: str) -> None:
    assert fold(fold(text)) == fold(text)


def test_one_folded_text_serves_many_quotes() -> None:
    folded = Folded(TEXT)
    assert folded.find("was finished") == find_quote(TEXT, "was finished")
    assert folded.find("1931") == find_quote(TEXT, "1931")


@given(st.text(alphabet="ab 1`\x00\t\u0301\u00e9\u200b\ufb01\u2014\u00a0", max_size=40))
def test_stretches_taken_as_they_are_fold_like_single_characters(text: str) -> None:
    """The text and the same text with a zero-width joiner at every place fold to the same."""
    spread = "".join(
        f"{char}\u2060" if not unicodedata.combining(following) else char
        for char, following in zip(text, f"{text[1:]} ", strict=False)
    )
    assert fold(spread) == fold(text)


ASCII = st.text(st.sampled_from("ab 9  \t\n\r\x00\x1b\x1c\x1f\x7f`'\".,-")) | st.text(st.characters(max_codepoint=127))


@given(ASCII)
def test_the_quick_way_for_ascii_folds_as_the_slow_one(text: str) -> None:
    slow, quick = Folded(text), Folded(text)
    slow._fold_slowly()
    assert fold(text) == slow.folded.strip(" ")
    assert (quick.folded, list(quick._starts), list(quick._ends)) == (slow.folded, list(slow._starts), list(slow._ends))
