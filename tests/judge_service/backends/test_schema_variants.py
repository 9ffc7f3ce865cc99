import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_service.backends.base import IgnoredFeature
from judge_service.backends.schema_variants import (
    by_engine,
    by_grammar,
    by_response_format,
    derive,
    unconstrained,
    walk,
)
from judge_service.domain.outcome import Enforcement
from rubrics.model import ChoiceConstraint, JsonConstraint
from rubrics.records import DecodingModel

CHOICE = ChoiceConstraint(("A", "B", "tie"))
MASTER = {
    "type": "object",
    "properties": {
        "claims": {
            "type": "array",
            "maxItems": 4,
            "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string", "maxLength": 160, "description": "The claim."},
                    "label": {"type": "string", "enum": ["supported", "unsupported"]},
                },
                "required": ["text", "label"],
                "additionalProperties": False,
            },
        },
        "note": {"anyOf": [{"type": "string", "maxLength": 80}, {"type": "null"}]},
        "confidence": {"type": "integer", "enum": [0, 50, 100]},
        "share": {"type": "number", "minimum": 0, "maximum": 1, "multipleOf": 0.5},
    },
    "required": ["claims", "note", "confidence", "share"],
    "additionalProperties": False,
}
JSON = JsonConstraint(DecodingModel, MASTER)


def _lost(variant: str) -> set[tuple[str, str]]:
    return {(lost.path, lost.keyword) for lost in derive(MASTER, variant).ignored}


def test_openai_strict_keeps_enums_and_moves_lengths_into_the_description() -> None:
    prepared = derive(MASTER, "openai_strict")
    assert prepared.schema == {
        "type": "object",
        "properties": {
            "claims": {
                "type": "array",
                "maxItems": 4,
                "items": {
                    "type": "object",
                    "properties": {
                        "text": {"type": "string", "description": "The claim. At most 160 characters."},
                        "label": {"type": "string", "enum": ["supported", "unsupported"]},
                    },
                    "required": ["text", "label"],
                    "additionalProperties": False,
                },
            },
            "note": {"anyOf": [{"type": "string", "description": "At most 80 characters."}, {"type": "null"}]},
            "confidence": {"type": "integer", "enum": [0, 50, 100]},
            "share": {"type": "number", "minimum": 0, "maximum": 1, "multipleOf": 0.5},
        },
        "required": ["claims", "note", "confidence", "share"],
        "additionalProperties": False,
    }
    assert _lost("openai_strict") == {("claims[].text", "maxLength"), ("note", "maxLength")}


def test_what_each_variant_loses() -> None:
    numbers = {("share", "minimum"), ("share", "maximum"), ("share", "multipleOf")}
    lengths = {("claims[].text", "maxLength"), ("note", "maxLength")}
    assert _lost("llguidance") == set()
    assert _lost("gbnf") == numbers
    assert _lost("outlines") == numbers
    assert _lost("anthropic") == numbers | lengths | {("claims", "maxItems")}
    assert _lost("gemini") == lengths | {("share", "multipleOf"), ("confidence", "enum")}
    assert _lost("none") == {("", "schema")}


def test_gemini_has_its_own_order_hint_and_no_closed_objects() -> None:
    schema = derive(MASTER, "gemini").schema
    assert schema is not None
    assert schema["propertyOrdering"] == ["claims", "note", "confidence", "share"]
    assert all("additionalProperties" not in node for _, node in walk(schema))
    assert schema["properties"]["confidence"] == {
        "type": "integer",
        "minimum": 0,
        "maximum": 100,
        "description": "One of 0, 50, 100.",
    }


def test_llguidance_is_compact_and_the_master_stays_as_it_was() -> None:
    before = json.dumps(MASTER)
    assert derive(MASTER, "llguidance").schema == {**MASTER, "x-guidance": {"whitespace_flexible": False}}
    for variant in ("llguidance", "gbnf", "outlines", "openai_strict", "anthropic", "gemini", "none"):
        derive(MASTER, variant)
    assert json.dumps(MASTER) == before


def test_noise_and_single_values() -> None:
    schema = {
        "title": "T",
        "type": "object",
        "properties": {"kind": {"const": "x", "default": "x"}, "u": {"oneOf": [{"type": "null"}, {"type": "string"}]}},
    }
    for variant in ("openai_strict", "anthropic"):
        assert derive(schema, variant).schema == {
            "type": "object",
            "properties": {"kind": {"enum": ["x"]}, "u": {"anyOf": [{"type": "null"}, {"type": "string"}]}},
            "required": ["kind", "u"],
            "additionalProperties": False,
        }


def test_response_format() -> None:
    fields = by_response_format(JSON, "gbnf")
    assert fields.enforcement is Enforcement.PROVIDER
    assert fields.parameters["response_format"]["json_schema"]["strict"] is True
    assert fields.parameters["response_format"]["json_schema"]["schema"] is MASTER
    assert by_response_format(CHOICE, "openai_strict") == unconstrained(CHOICE)
    assert unconstrained(CHOICE).ignored == (IgnoredFeature("", "choice"),)


def test_grammar_text_is_checked_before_it_is_sent() -> None:
    fields = by_grammar(JSON)
    assert fields.enforcement is Enforcement.GRAMMAR
    assert fields.extra["grammar"].startswith('%llguidance {}\nstart: %json {"type":"object"')
    assert by_grammar(CHOICE).extra["grammar"] == '%llguidance {}\nstart: "A" | "B" | "tie"'
    with pytest.raises(ValueError, match="uniqueItems"):
        by_grammar(JsonConstraint(DecodingModel, {"type": "array", "items": {"type": "string"}, "uniqueItems": True}))


def test_engine_fields_as_outlines_compiles_them() -> None:
    assert by_engine(JSON, "vllm").extra == {"structured_outputs": {"json": MASTER}}
    assert by_engine(CHOICE, "vllm").extra == {"structured_outputs": {"regex": "(A|B|tie)"}}
    assert by_engine(JSON, "sglang").parameters["response_format"]["json_schema"]["schema"] == MASTER
    assert by_engine(CHOICE, "sglang").extra == {"regex": "(A|B|tie)"}
    assert by_engine(JSON, "tgi").extra == {"grammar": {"type": "json", "value": MASTER}}
    assert by_engine(CHOICE, "tgi").extra == {"grammar": {"type": "regex", "value": "(A|B|tie)"}}
    assert by_engine(JSON, "ollama").parameters["response_format"]["json_schema"]["schema"] == MASTER
    assert by_engine(CHOICE, "ollama").enforcement is Enforcement.NONE
    assert by_engine(JSON, "llamacpp").parameters["response_format"]["json_schema"]["schema"] == MASTER
    assert "grammar" in by_engine(CHOICE, "llamacpp").extra
    assert by_engine(JSON, "vllm").ignored == ()
    assert {lost.keyword for lost in by_engine(JSON, "tgi").ignored} == {"minimum", "maximum", "multipleOf"}


leaf = st.sampled_from(
    [
        {"type": "string", "maxLength": 5},
        {"type": "string", "enum": ["a", "b"]},
        {"type": "integer", "enum": [0, 10]},
        {"type": "boolean"},
        {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
    ]
)
schemas = st.recursive(
    leaf,
    lambda inner: st.one_of(
        st.builds(lambda item: {"type": "array", "items": item, "maxItems": 3}, inner),
        st.dictionaries(st.sampled_from(["p", "q", "r"]), inner, min_size=1).map(
            lambda parts: {
                "type": "object",
                "properties": parts,
                "required": list(parts),
                "additionalProperties": False,
            }
        ),
    ),
    max_leaves=6,
)


@given(schemas, st.sampled_from(["openai_strict", "anthropic", "gemini", "gbnf", "llguidance"]))
def test_every_variant_is_a_schema_that_keeps_the_declared_order(schema, variant) -> None:
    made = derive(schema, variant).schema
    jsonschema.Draft202012Validator.check_schema(made)
    before = [list(node["properties"]) for _, node in walk(schema) if "properties" in node]
    assert [list(node["properties"]) for _, node in walk(made) if "properties" in node] == before
