"""Canonical JSON and content hashes: one form for every identity in the service."""

import hashlib
import json
from typing import Any

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: Any) -> str:
    """`value` as JSON with sorted keys, no spaces, UTF-8 characters kept. Raises ValueError on NaN or Infinity."""
    return _ENCODER.encode(value)


def content_hash(value: Any) -> str:
    """SHA-256 (hex) of the canonical JSON of `value`; surrogates in text are hashed as their code points."""
    return text_hash(canonical_json(value))


def text_hash(canonical: str) -> str:
    """`content_hash` of a value whose canonical JSON is known."""
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()
