"""Turns a decoding model into the master schema that judges are constrained by, and checks the portable subset.

Owns the prepared form (inlined, closed, everything required, bounds kept) and the linter. Knows no provider: what
one of them refuses is taken out of a copy elsewhere.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from rubrics.model import JsonConstraint
from rubrics.records import DecodingModel

MAX_DEPTH = 4
"""Levels of nesting that all structured-output engines accept, the root included."""

MAX_NAME = 64
"""Longest property name that all providers accept."""

MAX_ITEMS = 64
MAX_LENGTH = 4_000
"""Bounds beyond which grammar engines compile but fail while generating."""

_DROPPED = frozenset({"title", "default", "$schema", "examples"})
_ALLOWED: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "object": frozenset({"type", "properties", "required", "additionalProperties"}),
        "array": frozenset({"type", "items", "minItems", "maxItems", "description"}),
        "string": frozenset({"type", "minLength", "maxLength", "enum", "description"}),
        "integer": frozenset({"type", "enum", "description"}),
        "boolean": frozenset({"type", "description"}),
        "null": frozenset({"type"}),
    }
)


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """A construct outside the portable subset: `path` is the field (`$` is the root), `keyword` what is wrong."""

    path: str
    keyword: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class UnportableSchema(ValueError):
    """A decoding model uses what some judge could not enforce. `problems` lists every place."""

    def __init__(self, name: str, problems: tuple[SchemaProblem, ...]) -> None:
        self.problems = problems
        super().__init__(f"{name} cannot be enforced by every judge: " + "; ".join(map(str, problems)))


def master_schema(model: type[DecodingModel]) -> dict[str, Any]:
    """The prepared JSON schema of `model`: no `$ref`, `title` or `default`; closed objects; everything required in
    declared order; bounds and integer enums kept.

    Raises UnportableSchema when the model is recursive or leaves the portable subset.
    """
    raw = model.model_json_schema()
    definitions = raw.pop("$defs", {})
    prepared = _prepare(raw, definitions, (), "$", model.__name__)
    problems = tuple(lint(prepared))
    if problems:
        raise UnportableSchema(model.__name__, problems)
    return prepared


@lru_cache(maxsize=1024)
def json_constraint(model: type[DecodingModel]) -> JsonConstraint:
    """The constraint of `model`, prepared once. The schema is shared: do not change it."""
    return JsonConstraint(model=model, schema=master_schema(model))


def _prepare(
    node: Mapping[str, Any], definitions: Mapping[str, Any], open_refs: tuple[str, ...], path: str, name: str
) -> dict[str, Any]:
    if "$ref" in node:
        reference = str(node["$ref"]).rpartition("/")[2]
        if reference in open_refs:
            problem = SchemaProblem(path, "$ref", f"the model is recursive through {reference}")
            raise UnportableSchema(name, (problem,))
        # Siblings of a reference (a field's description) are refused by strict modes: they move into the copy.
        siblings = {key: value for key, value in node.items() if key != "$ref"}
        return _prepare({**definitions[reference], **siblings}, definitions, (*open_refs, reference), path, name)
    if len(node.get("allOf", ())) == 1:
        siblings = {key: value for key, value in node.items() if key != "allOf"}
        return _prepare({**node["allOf"][0], **siblings}, definitions, open_refs, path, name)

    prepared: dict[str, Any] = {key: deepcopy(value) for key, value in node.items() if key not in _DROPPED}
    if "const" in prepared:
        prepared["enum"] = [prepared.pop("const")]
    if "enum" in prepared and "type" not in prepared:
        prepared["type"] = _enum_type(prepared["enum"])
    if "properties" in prepared or prepared.get("type") == "object":
        properties = node.get("properties", {})
        prepared["properties"] = {
            key: _prepare(value, definitions, open_refs, _join(path, key), name) for key, value in properties.items()
        }
        prepared["required"] = list(properties)
        if "properties" in node:
            prepared["additionalProperties"] = False
        # A description belongs to leaves: on objects it is Pydantic's copy of a docstring.
        prepared.pop("description", None)
    if isinstance(node.get("items"), Mapping):
        prepared["items"] = _prepare(node["items"], definitions, open_refs, f"{path}[]", name)
    if "anyOf" in prepared:
        prepared["anyOf"] = [_prepare(option, definitions, open_refs, path, name) for option in node["anyOf"]]
    return prepared


def _enum_type(values: list[Any]) -> str:
    if all(isinstance(value, str) for value in values):
        return "string"
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return "integer"
    return "mixed"


def _join(path: str, key: str) -> str:
    return key if path == "$" else f"{path}.{key}"


def lint(schema: Mapping[str, Any]) -> tuple[SchemaProblem, ...]:
    """Every place where a prepared schema leaves the portable subset, with its field path; empty when it is fine."""
    problems: list[SchemaProblem] = []
    if schema.get("type") != "object":
        problems.append(SchemaProblem("$", "type", "the root must be an object"))
    problems.extend(_lint(schema, "$", 1))
    return tuple(problems)


def _lint(node: Mapping[str, Any], path: str, depth: int) -> Iterator[SchemaProblem]:
    if depth > MAX_DEPTH:
        yield SchemaProblem(path, "depth", f"nested deeper than {MAX_DEPTH} levels")
        return
    if "anyOf" in node:
        yield from _lint_nullable(node, path, depth)
        return
    kind = node.get("type")
    if not isinstance(kind, str) or kind not in _ALLOWED:
        keywords = ", ".join(sorted(set(node) - {"description"})) or "nothing"
        yield SchemaProblem(path, "type", f"needs one closed type; it states {keywords}")
        return
    for keyword in sorted(set(node) - _ALLOWED[kind]):
        yield SchemaProblem(path, keyword, f"`{keyword}` is not enforced by every judge for type {kind}")
    if kind == "object":
        yield from _lint_object(node, path, depth)
    elif kind == "array":
        yield from _lint_array(node, path, depth)
    elif kind == "string" and "enum" not in node:
        yield from _lint_bound(node, path, "maxLength", MAX_LENGTH)
    elif kind == "integer" and "enum" not in node:
        yield SchemaProblem(path, "enum", "an integer must be an enum: bounds on numbers are not enforced everywhere")
    if "enum" in node:
        yield from _lint_enum(node["enum"], path)


def _lint_object(node: Mapping[str, Any], path: str, depth: int) -> Iterator[SchemaProblem]:
    properties = node.get("properties") or {}
    if not properties:
        yield SchemaProblem(path, "properties", "an object needs at least one named property")
    if node.get("additionalProperties") is not False:
        yield SchemaProblem(path, "additionalProperties", "an object must be closed")
    if list(node.get("required", ())) != list(properties):
        yield SchemaProblem(path, "required", "every property must be required, in declared order")
    for key, value in properties.items():
        where = _join(path, key)
        if not key.isascii() or not 0 < len(key) <= MAX_NAME:
            yield SchemaProblem(where, "properties", f"a property name must be ASCII, 1 to {MAX_NAME} characters")
        yield from _lint(value, where, depth + 1)


def _lint_array(node: Mapping[str, Any], path: str, depth: int) -> Iterator[SchemaProblem]:
    yield from _lint_bound(node, path, "maxItems", MAX_ITEMS)
    if node.get("minItems", 0) > node.get("maxItems", MAX_ITEMS):
        yield SchemaProblem(path, "minItems", "minItems is above maxItems")
    if not isinstance(node.get("items"), Mapping):
        yield SchemaProblem(path, "items", "an array must state the type of its items")
    else:
        yield from _lint(node["items"], f"{path}[]", depth + 1)


def _lint_bound(node: Mapping[str, Any], path: str, keyword: str, most: int) -> Iterator[SchemaProblem]:
    bound = node.get(keyword)
    if not isinstance(bound, int):
        yield SchemaProblem(path, keyword, f"needs `{keyword}`, or a reply could run into the token limit")
    elif not 1 <= bound <= most:
        yield SchemaProblem(path, keyword, f"`{keyword}` must be 1 to {most}")


def _lint_enum(values: list[Any], path: str) -> Iterator[SchemaProblem]:
    if not values:
        yield SchemaProblem(path, "enum", "an enum needs at least one value")
    elif _enum_type(values) == "mixed":
        yield SchemaProblem(path, "enum", "an enum holds strings only or integers only")
    if len(set(values)) != len(values):
        yield SchemaProblem(path, "enum", "enum values must differ")
    if any(isinstance(value, str) and (not value or not value.isascii()) for value in values):
        yield SchemaProblem(path, "enum", "enum values must be ASCII and not empty")


def _lint_nullable(node: Mapping[str, Any], path: str, depth: int) -> Iterator[SchemaProblem]:
    for keyword in sorted(set(node) - {"anyOf", "description"}):
        yield SchemaProblem(path, keyword, f"`{keyword}` beside anyOf is not enforced by every judge")
    options = [option for option in node["anyOf"] if option.get("type") != "null"]
    if len(options) != 1 or len(node["anyOf"]) != 2:
        yield SchemaProblem(path, "anyOf", "the only union allowed is a type or null")
        return
    yield from _lint(options[0], path, depth)
