"""Sentences: what must not be cut, and pieces that restore the text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubrics.sentences import split_pieces, split_sentences
from tests.support.growth import growth


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("The studio was fined £2.4m after the accident. Nobody else was hurt.", 2),
        ("Dr. Okoye met C. D. E. Lindqvist yesterday, e.g. at No. 5 Main St. in Oxford.", 1),
        ("Am 3. Mai 2025 spielte der 1. FC in der 2. Liga.", 1),
        ("She has Ph.D.-level training. It took 3.5 years.", 2),
        ("Version 2.0.1 shipped on Monday. Users liked it.", 2),
        ("The bridge opened in 1931. It is 60 m long.", 2),
        ("Is it safe? Yes! See example.org for details.", 3),
        ("Am 3. Oktober 1990 kam z.B. Dr. Müller. Das war ca. 5 Uhr. Er wurde 90 Jahre alt.", 3),
        ("Er scored 5. Then he left.", 2),
        ("J. K. Rowling et al. wrote it (cf. Fig. 3, p. 12). Inc. magazine, vs. Apple Inc. it lost.", 2),
        ("Es ist d.h. gut, usw. und so fort. Siehe Abb. 3 auf S. 12. Vgl. Kap. 4.", 3),
        ("Mme. Curie née à Paris. M. Dupont la connaît.", 2),
        ("Il Sig. Rossi abita qui. La Sig.ra Verdi no.", 2),
        ("He met at 5 p.m. on Jan. 5th. It was fun.", 2),
        ("今日は晴れ。明日は雨？はい！", 3),
        ("यह एक वाक्य है। दूसरा वाक्य।", 2),
        ("هل هذا؟ نعم.", 2),
        ('He said "It works." Then he left.', 2),
        ("He lives in the U.S. She does not.", 2),
        ("Visit https://x.example/a.b?c=1. Then go.", 2),
        ("1. First item. 2. Second item.", 2),
        ("- item one\n- item two", 2),
        ("# Title\n\nText here.", 2),
        ("The bridge opened\nin 1931. It is long.", 2),
        ("He waited... and left.", 1),
        ("", 0),
        (" \n ", 0),
    ],
)
def test_number_of_sentences(text: str, sentences: int) -> None:
    found = split_sentences(text)
    assert len(found) == sentences, [sentence.text for sentence in found]


@given(st.one_of(st.text(), st.text(alphabet="aA1.!? \n\r\t-*。[]\"'(“\u2028\u200b", max_size=80)))
def test_pieces_restore_the_text_and_offsets_cut_it(text: str) -> None:
    assert "".join(split_pieces(text)) == text
    sentences = split_sentences(text)
    assert [text[sentence.start : sentence.end] for sentence in sentences] == [sentence.text for sentence in sentences]
    assert [sentence.id for sentence in sentences] == [f"s{number}" for number in range(1, len(sentences) + 1)]
    covered = "".join(sentence.text for sentence in sentences)
    assert "".join(covered.split()) == "".join(text.split())


@given(st.integers(0, 99), st.integers(0, 999), st.sampled_from(["£", "$", "", "v", "Version "]))
def test_a_number_is_never_cut(whole: int, part: int, sign: str) -> None:
    text = f"It was {sign}{whole}.{part} in all. That was it."
    assert [sentence.text for sentence in split_sentences(text)] == [
        f"It was {sign}{whole}.{part} in all.",
        "That was it.",
    ]


@pytest.mark.parametrize(
    ("piece", "times"), [("a` b[1] ``", 20_000), ("[", 100_000), ("1. ", 30_000), ("\n", 50_000), ("word ", 50_000)]
)
def test_cutting_long_odd_texts_grows_with_their_length_and_no_faster(piece: str, times: int) -> None:
    text = piece * times
    assert "".join(split_pieces(text)) == text
    # Eight times the length: 8, where each character looked at all others it would be 64.
    assert growth(split_pieces, piece * (times // 8), text) < 24
