"""What of a master schema each kind of server accepts, and the request fields that carry it.

Owns the variants (one per kind of provider) and the list of features that a variant loses. Knows no transport and
sends nothing. Outlines' type adapters are wrapped here and nowhere else.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from judge_service.backends.base import IgnoredFeature
from judge_service.domain.outcome import Enforcement
from judge_service.errors import MissingDependency
from rubrics.model import ChoiceConstraint, Constraint

Variant = Literal["llguidance", "gbnf", "outlines", "openai_strict", "anthropic", "gemini", "none"]
Engine = Literal["vllm", "sglang", "tgi", "ollama", "llamacpp"]

_NUMERIC = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_LENGTHS = frozenset({"minLength", "maxLength"})
_COUNTS = frozenset({"minItems", "maxItems"})
_RARE = frozenset(
    {"uniqueItems", "not", "contains", "if", "then", "else", "patternProperties", "dependentRequired", "propertyNames"}
)
_NOISE = frozenset({"title", "$schema", "$id", "default", "examples", "discriminator"})
_ADVICE = {
    "minLength": "At least {} characters.",
    "maxLength": "At most {} characters.",
    "minItems": "At least {} items.",
    "maxItems": "At most {} items.",
    "minimum": "Not less than {}.",
    "maximum": "Not more than {}.",
    "exclusiveMinimum": "More than {}.",
    "exclusiveMaximum": "Less than {}.",
    "multipleOf": "A multiple of {}.",
    "pattern": "Matches the regular expression {}.",
}

_IGNORED: Mapping[Variant, frozenset[str]] = {
    "llguidance": frozenset(),
    "gbnf": _NUMERIC | _RARE,
    "outlines": _NUMERIC | _RARE,
}
"""Keywords that are sent but have no effect, by measurement; see the table of enforced features in the docs."""

_DROPPED: Mapping[Variant, frozenset[str]] = {
    "openai_strict": _LENGTHS | _RARE,
    "anthropic": _LENGTHS | _COUNTS | _NUMERIC | _RARE,
    "gemini": _LENGTHS | _RARE | {"pattern", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"},
}
"""Keywords that the provider refuses or may ignore: not sent, said in the description instead."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A schema as one kind of provider accepts it (None: none at all) and what that loses, by path in the reply."""

    schema: Mapping[str, Any] | None
    ignored: tuple[IgnoredFeature, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestFields:
    """What a constraint becomes in a request: OpenAI's own parameters and extra body fields."""

    enforcement: Enforcement
    parameters: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    ignored: tuple[IgnoredFeature, ...] = ()


def derive(schema: Mapping[str, Any], variant: Variant) -> Prepared:
    """`schema` (a prepared master: closed objects, no `$ref`) in the form of `variant`."""
    if variant == "none":
        return Prepared(None, (IgnoredFeature("", "schema"),))
    if variant in _DROPPED:
        ignored: list[IgnoredFeature] = []
        return Prepared(_strip(schema, "", variant, ignored), tuple(ignored))
    found = tuple(
        IgnoredFeature(path, keyword) for path, node in walk(schema) for keyword in node if keyword in _IGNORED[variant]
    )
    if variant == "llguidance":
        # White space between tokens costs tokens and lets a model loop on it until its limit.
        return Prepared({**schema, "x-guidance": {"whitespace_flexible": False}}, found)
    return Prepared(schema, found)


def walk(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every node of a schema with its path in the reply: `c1.quote`, `claims[].text`; the root is the empty path."""
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from walk(part, f"{path}.{name}" if path else name)
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), Mapping):
            yield from walk(schema[keyword], f"{path}[]")
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for part in schema.get(keyword, ()):
            yield from walk(part, path)


def _strip(node: Mapping[str, Any], path: str, variant: Variant, ignored: list[IgnoredFeature]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    advice: list[str] = []
    for keyword, value in node.items():
        if keyword in _NOISE:
            continue
        if keyword in _DROPPED[variant] and not (variant == "anthropic" and keyword == "minItems" and value in (0, 1)):
            ignored.append(IgnoredFeature(path, keyword))
            if keyword in _ADVICE:
                advice.append(_ADVICE[keyword].format(value))
        elif keyword == "properties":
            kept[keyword] = {
                name: _strip(part, f"{path}.{name}" if path else name, variant, ignored) for name, part in value.items()
            }
        elif keyword == "items":
            kept[keyword] = _strip(value, f"{path}[]", variant, ignored)
        elif keyword in ("anyOf", "oneOf"):
            kept["anyOf"] = [_strip(part, path, variant, ignored) for part in value]
        elif keyword == "const":
            kept["enum"] = [value]
        else:
            kept[keyword] = value
    if kept.get("type") == "object":
        kept["additionalProperties"] = False
        kept["required"] = list(kept.get("properties", {}))
    if variant == "gemini":
        _for_gemini(kept, path, advice, ignored)
    if advice:
        kept["description"] = " ".join(filter(None, [kept.get("description"), *advice]))
    return kept


def _for_gemini(node: dict[str, Any], path: str, advice: list[str], ignored: list[IgnoredFeature]) -> None:
    # Its schema form has no closed objects (they are closed anyway), an order hint of its own, and string enums only.
    node.pop("additionalProperties", None)
    if node.get("type") == "object":
        node["propertyOrdering"] = list(node.get("properties", {}))
    values = node.get("enum")
    if values and all(type(value) is int for value in values):
        del node["enum"]
        ignored.append(IgnoredFeature(path, "enum"))
        node |= {"type": "integer", "minimum": min(values), "maximum": max(values)}
        advice.append(f"One of {', '.join(map(str, values))}.")


def by_response_format(constraint: Constraint, variant: Variant) -> RequestFields:
    """The constraint as OpenAI's strict `response_format`. A bare choice has no such form: it is only validated."""
    if isinstance(constraint, ChoiceConstraint) or variant == "none":
        return unconstrained(constraint)
    prepared = derive(constraint.schema, variant)
    form = {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": prepared.schema}}
    return RequestFields(Enforcement.PROVIDER, {"response_format": form}, {}, prepared.ignored)


def unconstrained(constraint: Constraint) -> RequestFields:
    """No constraint is sent: the reply is validated, nothing more."""
    keyword = "choice" if isinstance(constraint, ChoiceConstraint) else "schema"
    return RequestFields(Enforcement.NONE, ignored=(IgnoredFeature("", keyword),))


def by_grammar(constraint: Constraint) -> RequestFields:
    """The constraint as LLGuidance grammar text, for a llama.cpp server that was built with LLGuidance.

    Raises ValueError with the construct's name when the schema has no such grammar: that server would answer
    without any constraint and not say so.
    """
    if isinstance(constraint, ChoiceConstraint):
        start = " | ".join(json.dumps(choice, ensure_ascii=False) for choice in constraint.choices)
    else:
        start = f"%json {_dump(derive(constraint.schema, 'llguidance').schema)}"
    grammar = f"%llguidance {{}}\nstart: {start}"
    problem = _grammar_problem(grammar)
    if problem is not None:
        raise ValueError(problem)
    return RequestFields(Enforcement.GRAMMAR, {}, {"grammar": grammar})


@lru_cache(maxsize=512)
def _grammar_problem(grammar: str) -> str | None:
    try:
        from llguidance import LLMatcher, grammar_from
    except ImportError as error:  # pragma: no cover - a declared dependency
        raise MissingDependency("The package llguidance is missing: pip install llguidance") from error
    message = LLMatcher.validate_grammar(grammar_from("grammar", grammar))
    return str(message).splitlines()[0] if message else None


def by_engine(constraint: Constraint, engine: Engine) -> RequestFields:
    """The constraint in the request fields of a self-hosted engine, compiled by Outlines' type adapters.

    Raises ValueError when Outlines cannot compile it.
    """
    if isinstance(constraint, ChoiceConstraint):
        if engine == "llamacpp":
            return by_grammar(constraint)
        if engine == "ollama":
            # Ollama takes a JSON schema and nothing else.
            return unconstrained(constraint)
        return RequestFields(Enforcement.GRAMMAR, *_compiled(engine, "choice", _dump(list(constraint.choices))))
    prepared = derive(constraint.schema, "outlines")
    ignored = prepared.ignored
    if engine in ("vllm", "sglang"):
        # They decode with xgrammar or llguidance, which keep numeric bounds; the other engines do not.
        ignored = tuple(lost for lost in ignored if lost.keyword not in _NUMERIC)
    return RequestFields(Enforcement.GRAMMAR, *_compiled(engine, "json", _dump(prepared.schema)), ignored)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=512)
def _compiled(engine: Engine, kind: str, text: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    output: Any
    try:
        from outlines.types import Choice, JsonSchema
    except ImportError as error:  # pragma: no cover - a declared dependency
        raise MissingDependency("The package outlines is missing: pip install 'outlines>=1.3,<1.4'") from error
    output = Choice(json.loads(text)) if kind == "choice" else JsonSchema(text)
    try:
        fields = dict(_adapter(engine).format_output_type(output))
    except Exception as error:
        # Outlines raises its own, outlines_core's and json's errors here: all mean that it cannot be compiled.
        raise ValueError(f"Outlines cannot compile the constraint for {engine}: {type(error).__name__}") from error
    if engine == "ollama":
        # The adapter gives Ollama's own `format`; the OpenAI-compatible route takes the same schema this way.
        form = {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": fields}}
        return {"response_format": form}, {}
    extra = fields.pop("extra_body", {})
    parameters = {"response_format": fields.pop("response_format")} if "response_format" in fields else {}
    return parameters, {**fields, **extra}


def _adapter(engine: Engine) -> Any:
    from outlines.models.ollama import OllamaTypeAdapter
    from outlines.models.openai import OpenAITypeAdapter
    from outlines.models.sglang import SGLangTypeAdapter
    from outlines.models.tgi import TGITypeAdapter
    from outlines.models.vllm import VLLMTypeAdapter

    adapters: dict[Engine, Callable[[], Any]] = {
        "vllm": VLLMTypeAdapter,
        "sglang": SGLangTypeAdapter,
        "tgi": TGITypeAdapter,
        "ollama": OllamaTypeAdapter,
        "llamacpp": OpenAITypeAdapter,  # its server takes OpenAI's response_format
    }
    return adapters[engine]()
