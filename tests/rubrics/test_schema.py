"""Master schemas: the prepared form, the portable subset with field paths, snapshots of every built-in rubric."""

import json
from decimal import Decimal
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from rubrics.model import JsonConstraint
from rubrics.records import DecodingModel
from rubrics.registry import built_in_rubrics
from rubrics.schema import UnportableSchema, json_constraint, lint, master_schema
from tests.rubrics.replies import value_of
from tests.rubrics.stored import matches_stored

CONSTRAINTS = [
    pytest.param(constraint, id=f"{rubric.id}-{step}")
    for rubric in built_in_rubrics()
    for step, constraint in rubric.sample_constraints().items()
    if isinstance(constraint, JsonConstraint)
]
NAMED = [
    pytest.param(f"{rubric.name}_v{rubric.version}.{step}.json", constraint, id=f"{rubric.id}-{step}")
    for rubric in built_in_rubrics()
    for step, constraint in rubric.sample_constraints().items()
    if isinstance(constraint, JsonConstraint)
]


@pytest.mark.parametrize(("name", "constraint"), NAMED)
def test_every_master_schema_is_as_stored(name: str, constraint: JsonConstraint) -> None:
    matches_stored("snapshots", name, json.dumps(constraint.schema, indent=1, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_every_master_schema_is_portable_and_compiles(constraint: JsonConstraint) -> None:
    import llguidance

    assert lint(constraint.schema) == ()
    jsonschema.Draft202012Validator.check_schema(dict(constraint.schema))
    grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(constraint.schema))
    assert llguidance.LLMatcher.validate_grammar(grammar) == ""
    text = json.dumps(constraint.schema)
    assert not any(word in text for word in ("$ref", "$defs", '"title"', '"default"'))


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@given(data=st.data())
def test_whatever_the_schema_allows_the_model_accepts(constraint: JsonConstraint, data: st.DataObject) -> None:
    raw = data.draw(value_of(constraint.schema))
    jsonschema.validate(raw, dict(constraint.schema))
    parsed = constraint.model.model_validate_json(json.dumps(raw))
    assert json.loads(parsed.model_dump_json()) == raw


def test_every_step_has_a_sample_constraint() -> None:
    for rubric in built_in_rubrics():
        assert {name.partition(".")[0] for name in rubric.sample_constraints()} == set(rubric.steps)


class Claim(DecodingModel):
    """A claim."""

    id: Literal[1, 2, 3]
    label: Literal["supported", "unsupported"]


class Nested(DecodingModel):
    claims: Annotated[tuple[Claim, ...], Field(max_length=5)]
    note: Annotated[str, Field(max_length=20)] | None = None


def test_nested_model_is_inlined_closed_and_complete() -> None:
    assert master_schema(Nested) == {
        "type": "object",
        "properties": {
            "claims": {
                "type": "array",
                "maxItems": 5,
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "integer", "enum": [1, 2, 3]},
                        "label": {"type": "string", "enum": ["supported", "unsupported"]},
                    },
                    "required": ["id", "label"],
                    "additionalProperties": False,
                },
            },
            "note": {"anyOf": [{"type": "string", "maxLength": 20}, {"type": "null"}]},
        },
        "required": ["claims", "note"],
        "additionalProperties": False,
    }
    assert Nested.model_validate_json('{"claims": [], "note": null}').note is None


class Described(DecodingModel):
    inner: Annotated[Claim, Field(description="beside a reference")]
    word: Annotated[Literal["only"], Field(description="kept on a leaf")]


def test_siblings_of_references_move_and_single_values_become_enums() -> None:
    schema = master_schema(Described)
    assert "description" not in schema["properties"]["inner"]
    assert schema["properties"]["word"] == {"type": "string", "enum": ["only"], "description": "kept on a leaf"}


class Loop(DecodingModel):
    child: "Loop | None"


class Unbounded(DecodingModel):
    text: str


class Items(DecodingModel):
    inner: tuple[Unbounded, ...]


def _model(annotation: Any) -> type[DecodingModel]:
    from pydantic import create_model

    return create_model("Made", __base__=DecodingModel, field=(annotation, ...))


@pytest.mark.parametrize(
    ("model", "path", "keyword"),
    [
        (Loop, "child", "$ref"),
        (Unbounded, "text", "maxLength"),
        (Items, "inner", "maxItems"),
        (Items, "inner[].text", "maxLength"),
        (_model(Annotated[int, Field(ge=0, le=100)]), "field", "minimum"),
        (_model(int), "field", "enum"),
        (_model(float), "field", "type"),
        (_model(Decimal), "field", "anyOf"),
        (_model(dict[str, int]), "field", "properties"),
        (_model(Any), "field", "type"),
        (_model(tuple[int, str]), "field", "prefixItems"),
        (_model(set[Literal["a", "b"]]), "field", "uniqueItems"),
        (_model(Annotated[str, Field(max_length=5, pattern="^a+$")]), "field", "pattern"),
        (_model(Literal["a", 1]), "field", "type"),
        (_model(Literal["ä"]), "field", "enum"),
        (_model(Annotated[str, Field(max_length=0)]), "field", "maxLength"),
        (_model(Annotated[tuple[bool, ...], Field(max_length=0)]), "field", "maxItems"),
        (_model(Annotated[tuple[bool, ...], Field(max_length=100_000)]), "field", "maxItems"),
    ],
)
def test_what_some_judge_would_ignore_is_named_with_its_path(
    model: type[DecodingModel], path: str, keyword: str
) -> None:
    with pytest.raises(UnportableSchema) as caught:
        master_schema(model)
    assert (path, keyword) in {(problem.path, problem.keyword) for problem in caught.value.problems}
    assert f"{path}:" in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "path", "keyword"),
    [
        ({"type": "array", "items": {"type": "boolean"}, "maxItems": 2}, "$", "type"),
        ({"type": "object", "properties": {}, "required": [], "additionalProperties": False}, "$", "properties"),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string", "enum": []}},
                "required": ["a"],
                "additionalProperties": False,
            },
            "a",
            "enum",
        ),
        (
            {
                "type": "object",
                "properties": {"ä": {"type": "boolean"}},
                "required": ["ä"],
                "additionalProperties": False,
            },
            "ä",
            "properties",
        ),
        ({"type": "object", "properties": {"a": {"type": "boolean"}}, "required": []}, "$", "required"),
        ({"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}, "$", "additionalProperties"),
    ],
)
def test_linter_on_raw_schemas(schema: dict[str, Any], path: str, keyword: str) -> None:
    assert (path, keyword) in {(problem.path, problem.keyword) for problem in lint(schema)}


def test_nesting_is_limited() -> None:
    schema: dict[str, Any] = {"type": "boolean"}
    for _ in range(5):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"], "additionalProperties": False}
    assert [(problem.path, problem.keyword) for problem in lint(schema)] == [("a.a.a.a", "depth")]


def test_a_constraint_is_prepared_once() -> None:
    assert json_constraint(Nested) is json_constraint(Nested)
