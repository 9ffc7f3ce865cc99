"""Canonical JSON and content hashes: one form for every identity in the service."""

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> str:
    """`value` as JSON with sorted keys, no spaces, UTF-8 characters kept. Raises ValueError on NaN or Infinity."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def content_hash(value: Any) -> str:
    """SHA-256 (hex) of the canonical JSON of `value`; surrogates in text are hashed as their code points."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()
