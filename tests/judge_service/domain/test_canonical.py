"""One form of JSON for every hash: the one that Python's own encoder writes, whatever makes it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_service.domain import canonical
from judge_service.domain.canonical import canonical_json, content_hash, text_hash

TEXT = st.text(st.characters(exclude_categories=()))
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(TEXT, inner),
    max_leaves=20,
)


@given(VALUES)
def test_it_is_what_the_standard_encoder_writes(value: Any) -> None:
    plain = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    assert canonical_json(value) == plain
    assert content_hash(value) == text_hash(plain)


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": {"b": float("-inf")}}])
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json(value)


@pytest.mark.parametrize("value", [{1, 2}, b"x", [object()]])
def test_what_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        canonical_json(value)


def test_an_interpreter_without_the_fast_encoder_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"b": [1, 2.5, None, True], "a": "\u00e9\ud800"}
    fast = canonical_json(value)
    monkeypatch.setattr(canonical.encoder, "c_make_encoder", None)
    assert canonical._pieces() is None
    monkeypatch.setattr(canonical, "_PIECES", None)
    assert canonical_json(value) == fast == '{"a":"\u00e9\ud800","b":[1,2.5,null,true]}'
