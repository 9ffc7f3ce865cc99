"""Texts reach the browser character for character, say their language, and misleading characters are shown."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_service.visible import pieces, visible
from judge_service.web.label_view import exact, language_of

ODD = re.compile(r'<bdi class="odd" data-code="\[U\+[0-9A-F]{4,6}\]">(.*?)</bdi>', re.DOTALL)
TEXTS = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("\u202e\u200b\r\n<&\"'\x00\u200d\ufeff"))
)


@given(TEXTS)
def test_text_comes_back_character_for_character(text: str) -> None:
    page = str(exact(text))
    assert "\r" not in page
    plain = html.unescape(ODD.sub(r"\1", page).replace("&#13;", "\r"))
    # HTML has no character 0.
    assert list(plain) == [one if one != "\x00" else "\ufffd" for one in html.unescape(html.escape(text))]


@given(TEXTS)
def test_pieces_are_what_is_written_out(text: str) -> None:
    found = pieces(text)
    assert "".join(piece for piece, _ in found) == text
    assert "".join(piece if code is None else code for piece, code in found) == visible(text)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Plain words", None),
        ("12 + 3 = ?", None),
        ("", None),
        ("色は青緑です", "ja"),
        ("颜色是青绿色", "zh"),
        ("색은 청록색", "ko"),
        ("שלום", "he"),
        ("ما هو اللون", "und-Arab"),
        ("Какой цвет", "und-Cyrl"),
        ("สีอะไร", "th"),
        ("A word of 青 in English", None),
    ],
)
def test_letters_tell_the_language(text: str, language: str | None) -> None:
    assert language_of(text) == language
