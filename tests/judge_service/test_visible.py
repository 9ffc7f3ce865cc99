import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from judge_service.visible import shown, visible


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("safe \u202etxt.exe", "safe [U+202E]txt.exe"),
        ("a\u200bb\ufeff", "a[U+200B]b[U+FEFF]"),
        ("bell\x07, nul\x00", "bell[U+0007], nul[U+0000]"),
        ("hidden \U000e0041\U000e0042", "hidden [U+E0041][U+E0042]"),
        ("line\nand\ttab\r\n", "line\nand\ttab\r\n"),
        ("two\u2028lines", "two[U+2028]lines"),
        ("pay\u200cpal a\u200db", "pay[U+200C]pal a[U+200D]b"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("क्\u200dष", "क्\u200dष"),
        ("👩\u200d💻 ❤\ufe0f\u200d🔥", "👩\u200d💻 ❤\ufe0f\u200d🔥"),
        ("**bold** & <b>", "**bold** & <b>"),
    ],
)
def test_misleading_characters_are_written_out_and_others_stay(text: str, right: str) -> None:
    assert visible(text) == right


@given(st.text())
def test_nothing_that_turns_or_hides_text_is_left(text: str) -> None:
    left = visible(text)
    assert not [
        c for c in left if unicodedata.bidirectional(c) in ("RLO", "LRO", "RLE", "LRE", "RLI", "LRI", "FSI", "PDI")
    ]
    assert not [c for c in left if unicodedata.category(c) == "Cc" and c not in "\t\n\r"]
    assert visible(left) == left


def test_markup_and_numbers_are_left_to_the_template() -> None:
    assert shown(Markup("\u202e")) == "\u202e"
    assert shown(7) == 7
