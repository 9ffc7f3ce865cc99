import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubrics.texts import Passage, is_blank, numbered, one_line, says_nothing


@pytest.mark.parametrize(
    "text", [None, "", " \n\t", "\u200b", "\ufeff\u2060", "\u00a0\u3000", "\u2800\u3164", "\x00\x1b"]
)
def test_what_cannot_be_seen_is_blank(text: str | None) -> None:
    assert is_blank(text)


@pytest.mark.parametrize("text", ["a", "0", ".", "\u200b\u4e00", "\N{GRINNING FACE}", "\ufffd"])
def test_what_can_be_seen_is_not_blank(text: str) -> None:
    assert not is_blank(text)


@pytest.mark.parametrize(("text", "nothing"), [("...", True), ("—", True), ("☺", True), ("٣", False), ("は", False)])
def test_only_letters_and_digits_say_something(text: str, nothing: bool) -> None:
    assert says_nothing(text) is nothing


@given(st.text())
def test_one_line_has_one_line(text: str) -> None:
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    assert "\n" not in line


def test_one_line_keeps_text_without_breaks() -> None:
    assert one_line("a  b {{ c }}") == "a  b {{ c }}"
    assert one_line("s1: a\n s2: b\r\n\r\nc") == "s1: a s2: b c"


def test_passages_come_as_text_or_objects_and_keep_their_place() -> None:
    passages = [Passage.model_validate(value) for value in ("a", " ", {"text": "c", "id": "x", "title": "T"})]
    assert list(numbered("ctx", passages)) == ["ctx1", "ctx3"]
    assert passages[2].shown == "Title: T\nc"
    assert passages[0].shown == "a"
