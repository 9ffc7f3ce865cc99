import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_service.errors import InvalidInput, Malformed
from judge_service.gate.reading import is_json, parse_json

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.booleans())
def test_what_json_can_say_is_read_unchanged(value, escaped):
    assert parse_json(json.dumps(value, ensure_ascii=escaped).encode(), max_depth=100) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_an_error_of_ours(body):
    try:
        value = parse_json(body, max_depth=8)
    except (Malformed, InvalidInput):
        return
    json.dumps(value, allow_nan=False)


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity"])
def test_tokens_that_json_does_not_know_are_refused(token):
    with pytest.raises(Malformed, match="must be finite"):
        parse_json(f'{{"a": {token}}}'.encode(), max_depth=8)


def test_a_number_beyond_a_float_is_refused_by_name():
    with pytest.raises(InvalidInput) as caught:
        parse_json(b'{"case": {"scores": [1, 1e999]}}', max_depth=8)
    assert [field.path for field in caught.value.fields] == ["case.scores[1]"]


def test_an_integer_with_too_many_digits_is_refused():
    with pytest.raises(Malformed, match="too many digits"):
        parse_json(b"1" * 5000, max_depth=8)


@pytest.mark.parametrize("body", [b'{"a": 1, "a": 1}', b'[{"x": {"a": 1, "b": 2, "a": 3}}]', b'{"\\u0061": 1, "a": 2}'])
def test_a_repeated_key_is_refused(body):
    with pytest.raises(Malformed, match="'a' stands twice"):
        parse_json(body, max_depth=8)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b'{"case": {"contexts": ["fine", "\\ud83d"]}}', "case.contexts[1]"),
        (b'{"case": {"\\udc00": 1}}', "case"),
        (b'"\\ud800"', "body"),
    ],
)
def test_half_a_surrogate_pair_is_refused_by_name(body, path):
    with pytest.raises(InvalidInput) as caught:
        parse_json(body, max_depth=8)
    assert [field.path for field in caught.value.fields] == [path]


def test_a_whole_surrogate_pair_is_a_character():
    assert parse_json(b'"\\ud83d\\ude00"', max_depth=8) == "\U0001f600"


@pytest.mark.parametrize("depth", [1, 7, 8])
def test_depth_up_to_the_limit_is_read(depth):
    parse_json(b"[" * depth + b"]" * depth, max_depth=8)


@pytest.mark.parametrize("depth", [9, 500, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_depth_above_the_limit_is_refused(depth, opening, closing):
    with pytest.raises(Malformed, match="more than 8 levels"):
        parse_json(opening * depth + b"1" + closing * depth, max_depth=8)


def test_deep_brackets_inside_a_string_are_text():
    text = "[" * 1000
    assert parse_json(json.dumps({"a": text}).encode(), max_depth=8) == {"a": text}


@pytest.mark.parametrize("body", [b"\xff\xfe", "[1]".encode("utf-16"), b'"\xc3"'])
def test_other_encodings_are_refused(body):
    with pytest.raises(Malformed, match="UTF-8"):
        parse_json(body, max_depth=8)


def test_a_byte_order_mark_is_skipped():
    assert parse_json(b"\xef\xbb\xbf[1]", max_depth=8) == [1]


@pytest.mark.parametrize("body", [b"{", b"", b"{'a': 1}", b"[1,]", b"// x\n1", b"1 2"])
def test_what_is_no_json_is_refused_with_its_place(body):
    with pytest.raises(Malformed, match="line 1 column"):
        parse_json(body, max_depth=8)


def test_numbers_keep_their_type():
    assert parse_json(b"[1, 1.0, -0.0]", max_depth=8) == [1, 1.0, 0.0]
    assert math.copysign(1, parse_json(b"-0.0", max_depth=8)) == -1


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("application/vnd.x+json", True),
        ("text/json", False),
        ("application/x-www-form-urlencoded", False),
        ("", False),
    ],
)
def test_content_types(content_type, expected):
    assert is_json(content_type) is expected
