"""Turns a constraint into the explicit grammar text of the embedded engine, and checks texts against it.

Owns the list of schema keywords that the grammar engine enforces, the size limits, the compile check and the
worst-case length of a reply. The engine answers freely when it cannot compile a grammar, so nothing may reach it
that was not compiled here. Must not know engines, models or rubrics.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from judge_service.backends.base import CompileReport, IgnoredFeature
from judge_service.domain.canonical import content_hash
from judge_service.domain.outcome import Enforcement
from rubrics.model import Constraint, JsonConstraint

MAX_STRING = 8_000
"""Longest `maxLength` accepted, in characters."""
MAX_ITEMS = 512
"""Largest `maxItems` accepted: the engine gives up on huge counts at run time, which no compile check shows."""
MAX_PROPERTIES = 512
MAX_VALUES = 2_048
MAX_DEPTH = 8
MAX_GRAMMAR_BYTES = 512 * 1024

_ANNOTATIONS = frozenset({"title", "description"})
_KEYWORDS = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items", "minItems", "maxItems"}),
    "string": frozenset({"minLength", "maxLength", "pattern"}),
    "integer": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "boolean": frozenset[str](),
    "null": frozenset[str](),
}


class GrammarError(ValueError):
    """A constraint that the embedded engine would not enforce.

    `path` names the place in the reply (`claims.c1.verdict`, `reply` for the whole), `keyword` the schema keyword.
    """

    def __init__(self, path: str, keyword: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.keyword = keyword
        self.message = message


@dataclass(frozen=True, slots=True)
class Grammar:
    """A constraint that compiled: the text sent with a request.

    `max_tokens` is the most tokens a reply can need when every token is one character (structure included).
    """

    text: str
    max_tokens: int

    def accepts(self, reply: str, *, partial: bool = False) -> bool:
        """True when the grammar can produce `reply`; with `partial`, when it can produce a text that starts so."""
        from llguidance import LLMatcher

        try:
            raw = list(reply.encode("utf-8"))
        except UnicodeEncodeError:
            return False
        matcher = LLMatcher(_byte_tokenizer(), self.text)
        # A text that ends the grammar stops the matcher: what follows is not consumed and so not accepted.
        if int(matcher.try_consume_tokens(raw)) != len(raw):
            return False
        return partial or bool(matcher.is_accepting())


@lru_cache(maxsize=1)
def _byte_tokenizer() -> Any:
    from llguidance import LLTokenizer

    return LLTokenizer("byte")


def constraint_key(constraint: Constraint) -> str:
    """SHA-256 of what the constraint allows: the cache key of its grammar."""
    return content_hash(_plain(constraint))


def _plain(constraint: Constraint) -> dict[str, Any]:
    if isinstance(constraint, JsonConstraint):
        # Declared order is generation order, so it belongs to the identity; canonical JSON alone would sort it away.
        return {"schema": json.dumps(constraint.schema)}
    return {"choices": list(constraint.choices)}


def compile_constraint(constraint: Constraint) -> Grammar:
    """The checked grammar of `constraint`, cached by its content. Raises GrammarError."""
    spec = _plain(constraint)
    if "schema" in spec:
        return _json_grammar(spec["schema"])
    return _choice_grammar(tuple(spec["choices"]))


def report(constraint: Constraint) -> CompileReport:
    """The compile check as a report; never raises."""
    try:
        compile_constraint(constraint)
    except GrammarError as error:
        return CompileReport(
            enforcement=Enforcement.NONE,
            ignored=(IgnoredFeature(path=error.path, keyword=error.keyword),),
            error=str(error),
        )
    return CompileReport(enforcement=Enforcement.GRAMMAR)


def worst_case_tokens(constraint: Constraint) -> int:
    """Most tokens a reply under `constraint` can need, at one token a character. Raises GrammarError."""
    return compile_constraint(constraint).max_tokens


@lru_cache(maxsize=512)
def _choice_grammar(choices: tuple[str, ...]) -> Grammar:
    if not choices:
        raise GrammarError("reply", "choices", "a choice needs at least one label")
    if len(choices) > MAX_VALUES:
        raise GrammarError("reply", "choices", f"{len(choices)} labels; at most {MAX_VALUES} are allowed")
    if len(set(choices)) != len(choices):
        raise GrammarError("reply", "choices", "a label occurs twice")
    for label in choices:
        if not label or label != label.strip() or not label.isprintable():
            raise GrammarError("reply", "choices", f"the label {label!r} is empty, padded or not printable")
    alternatives = " | ".join(json.dumps(label, ensure_ascii=False) for label in choices)
    longest = max(len(label.encode()) for label in choices)
    return _checked(f"%llguidance {{}}\nstart: {alternatives}", longest + 1)


@lru_cache(maxsize=512)
def _json_grammar(schema_text: str) -> Grammar:
    schema = json.loads(schema_text)
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise GrammarError("reply", "type", "the reply must be an object")
    longest = _longest(schema, "", 0)
    compact = {**schema, "x-guidance": {"whitespace_flexible": False}}
    return _checked("%llguidance {}\nstart: %json " + json.dumps(compact, ensure_ascii=False), longest + 1)


def _checked(text: str, max_tokens: int) -> Grammar:
    from llguidance import LLMatcher

    size = len(text.encode("utf-8", "replace"))
    if size > MAX_GRAMMAR_BYTES:
        raise GrammarError("reply", "size", f"the grammar has {size} bytes; at most {MAX_GRAMMAR_BYTES} are allowed")
    try:
        problem = str(LLMatcher.validate_grammar(text, _byte_tokenizer()) or "")
    except (ValueError, UnicodeEncodeError) as error:
        problem = str(error)
    if problem:
        raise GrammarError("reply", "grammar", f"the grammar does not compile: {problem.splitlines()[0]}")
    return Grammar(text=text, max_tokens=max_tokens)


def _longest(schema: Any, path: str, depth: int) -> int:
    """Longest compact reply under `schema` in characters. Refuses what is not enforced or not bounded."""
    here = path or "reply"
    if not isinstance(schema, Mapping):
        raise GrammarError(here, "schema", "a schema must be an object; `true` and `false` are not enforced")
    if depth > MAX_DEPTH:
        raise GrammarError(here, "depth", f"nested more than {MAX_DEPTH} levels deep")
    if "anyOf" in schema:
        _allow(schema, frozenset({"anyOf"}), here)
        branches = schema["anyOf"]
        if not isinstance(branches, list) or not branches:
            raise GrammarError(here, "anyOf", "anyOf needs at least one branch")
        return max(_longest(branch, path, depth + 1) for branch in branches)
    for keyword in ("enum", "const"):
        if keyword in schema:
            _allow(schema, frozenset({"enum", "const", "type"}), here)
            return _longest_value(schema, keyword, here)
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in _KEYWORDS:
        found = "no type" if kind is None else f"type {kind!r}"
        hint = " Write a bounded number as an enum of integers." if kind == "number" else ""
        raise GrammarError(
            here, "type", f"{found}; use object, array, string, integer, boolean, null or an enum.{hint}"
        )
    _allow(schema, _KEYWORDS[kind] | {"type"}, here)
    return _MEASURES[kind](schema, path, depth)


def _allow(schema: Mapping[str, Any], keywords: frozenset[str], here: str) -> None:
    for keyword in schema:
        if keyword not in keywords and keyword not in _ANNOTATIONS:
            raise GrammarError(here, keyword, f"the keyword `{keyword}` is not enforced by the embedded engine here")


def _longest_value(schema: Mapping[str, Any], keyword: str, here: str) -> int:
    values = schema["enum"] if keyword == "enum" else [schema["const"]]
    if not isinstance(values, list) or not values:
        raise GrammarError(here, keyword, "an enum needs at least one value")
    if len(values) > MAX_VALUES:
        raise GrammarError(here, keyword, f"{len(values)} values; at most {MAX_VALUES} are allowed")
    for value in values:
        if not isinstance(value, str | int | bool | None):
            raise GrammarError(here, keyword, "values must be strings, integers, booleans or null")
    return max(len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")) for value in values)


def _bound(schema: Mapping[str, Any], keyword: str, here: str, largest: int) -> int:
    value = schema.get(keyword)
    if not isinstance(value, int) or isinstance(value, bool):
        raise GrammarError(here, keyword, f"`{keyword}` is needed: a reply must have a longest form")
    if not 0 <= value <= largest:
        raise GrammarError(here, keyword, f"`{keyword}` is {value}; 0 to {largest} are allowed")
    return value


def _longest_object(schema: Mapping[str, Any], path: str, depth: int) -> int:
    here = path or "reply"
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        raise GrammarError(here, "properties", "an object needs named properties")
    if len(properties) > MAX_PROPERTIES:
        raise GrammarError(here, "properties", f"{len(properties)} properties; at most {MAX_PROPERTIES} are allowed")
    if schema.get("additionalProperties") is not False:
        raise GrammarError(here, "additionalProperties", "an object must be closed (`additionalProperties: false`)")
    required = schema.get("required", [])
    if not isinstance(required, list) or set(required) != set(properties):
        raise GrammarError(here, "required", "every property must be required, and only properties can be")
    total = 1  # two braces, and one comma less than there are properties
    for name, child in properties.items():
        total += len(json.dumps(name, ensure_ascii=False).encode()) + 2
        total += _longest(child, f"{path}.{name}" if path else name, depth + 1)
    return total


def _longest_array(schema: Mapping[str, Any], path: str, depth: int) -> int:
    here = path or "reply"
    count = _bound(schema, "maxItems", here, MAX_ITEMS)
    if "items" not in schema:
        raise GrammarError(here, "items", "an array must say what its items are")
    return 2 + max(0, count * (1 + _longest(schema["items"], f"{path}[]", depth + 1)) - 1)


def _longest_string(schema: Mapping[str, Any], path: str, depth: int) -> int:
    return 2 + _bound(schema, "maxLength", path or "reply", MAX_STRING)


def _longest_integer(schema: Mapping[str, Any], path: str, depth: int) -> int:
    here = path or "reply"
    sides = []
    for keyword in ("minimum", "maximum"):
        value = schema.get(keyword, schema.get(f"exclusive{keyword.capitalize()}"))
        if not isinstance(value, int) or isinstance(value, bool):
            raise GrammarError(here, keyword, f"`{keyword}` is needed: a reply must have a longest form")
        sides.append(len(str(value)))
    return max(sides)


def _fixed(length: int) -> Callable[[Mapping[str, Any], str, int], int]:
    return lambda schema, path, depth: length


_MEASURES = cast(
    "dict[str, Callable[[Mapping[str, Any], str, int], int]]",
    {
        "object": _longest_object,
        "array": _longest_array,
        "string": _longest_string,
        "integer": _longest_integer,
        "boolean": _fixed(5),
        "null": _fixed(4),
    },
)
