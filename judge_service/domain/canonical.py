"""Canonical JSON and content hashes: one form for every identity in the service."""

import hashlib
import json
from collections.abc import Callable, Iterable
from json import encoder
from typing import Any

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _pieces() -> Callable[[Any, int], Iterable[str]] | None:
    """The C encoder that `_ENCODER` makes anew for each value, made once; None where the interpreter has none."""
    make = getattr(encoder, "c_make_encoder", None)
    if make is None:
        return None
    separators = (_ENCODER.key_separator, _ENCODER.item_separator)
    # Without marks of what is under way, which a value that refers to itself would need: JSON cannot hold one.
    made: Callable[[Any, int], Iterable[str]] = make(
        None, _ENCODER.default, encoder.encode_basestring, None, *separators, True, False, False
    )
    return made


_PIECES = _pieces()


def canonical_json(value: Any) -> str:
    """`value` as JSON with sorted keys, no spaces, UTF-8 characters kept. Raises ValueError on NaN or Infinity."""
    return _ENCODER.encode(value) if _PIECES is None else "".join(_PIECES(value, 0))


def content_hash(value: Any) -> str:
    """SHA-256 (hex) of the canonical JSON of `value`; surrogates in text are hashed as their code points."""
    return text_hash(canonical_json(value))


def text_hash(canonical: str) -> str:
    """`content_hash` of a value whose canonical JSON is known."""
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()
