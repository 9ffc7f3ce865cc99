"""How long a reply can get: the token limit that a constraint's worst case needs, so that nothing legal is cut."""

import json
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from rubrics.model import ChoiceConstraint, Constraint
from rubrics.records import DecodingModel

_FLOOR = 16
_UNBOUNDED = 1024
"""Counted for a string without a bound; released rubrics have none."""

_known: WeakKeyDictionary[type[DecodingModel], int] = WeakKeyDictionary()


def _worst(schema: Mapping[str, Any]) -> int:
    if "enum" in schema:
        return max(len(json.dumps(value, ensure_ascii=False)) for value in schema["enum"])
    if "const" in schema:
        return len(json.dumps(schema["const"], ensure_ascii=False))
    if "anyOf" in schema:
        return max(_worst(option) for option in schema["anyOf"])
    kind = schema.get("type")
    if kind == "string":
        return int(schema.get("maxLength", _UNBOUNDED)) + 2
    if kind == "array":
        return 2 + int(schema.get("maxItems", 16)) * (_worst(schema.get("items", {})) + 1)
    if kind == "object":
        properties: Mapping[str, Any] = schema.get("properties", {})
        return 2 + sum(len(name) + 4 + _worst(value) for name, value in properties.items())
    return 24


def reply_limit(constraint: Constraint) -> int:
    """Tokens that the longest legal compact reply can need, counting one token a character.

    Degenerate text runs at about one token a character, so anything less could cut a legal reply. It is a cap,
    not a cost.
    """
    if isinstance(constraint, ChoiceConstraint):
        return max(_FLOOR, max(len(choice) for choice in constraint.choices) + 2)
    limit = _known.get(constraint.model)
    if limit is None:
        limit = _known[constraint.model] = max(_FLOOR, _worst(constraint.schema) + 8)
    return limit
