"""The grammar: what it accepts, what it refuses to compile, and that it says exactly what its schema says."""

import json
import string
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge_service.backends import grammar
from judge_service.domain.outcome import Enforcement
from rubrics.model import ChoiceConstraint, JsonConstraint
from rubrics.records import DecodingModel
from rubrics.registry import all_rubrics


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def asked(schema: dict[str, Any]) -> JsonConstraint:
    return JsonConstraint(DecodingModel, schema)


def text(longest: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": longest}


CONFIDENCE = {"type": "integer", "enum": list(range(0, 101, 10))}
VERDICT = {"type": "string", "enum": ["supported", "fabrication", "stale_fact"]}
VERIFY = closed(
    claims=closed(
        **{
            key: closed(
                source={"type": "string", "enum": ["p1", "p2", "none"]},
                quote=text(20),
                verdict=VERDICT,
                confidence=CONFIDENCE,
            )
            for key in ("c1", "c2")
        }
    ),
    rationale=text(30),
)
EXTRACT = closed(s1={"type": "array", "items": {**text(8), "minLength": 1}, "maxItems": 2}, s2=CONFIDENCE)
NULLABLE = closed(note={"anyOf": [text(5), {"type": "null"}]}, sure={"type": "boolean"})


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def verify_reply(**changes: Any) -> dict[str, Any]:
    claim = {"source": "p1", "quote": "ten fish", "verdict": "supported", "confidence": 90}
    return {"claims": {"c1": {**claim, **changes}, "c2": claim}, "rationale": "Both stand there."}


def test_accepts_a_compact_reply_and_nothing_looser() -> None:
    compiled = grammar.compile_constraint(asked(VERIFY))
    good = compact(verify_reply())
    assert compiled.accepts(good)
    assert not compiled.accepts(json.dumps(verify_reply()))
    assert not compiled.accepts(good + " ")
    assert not compiled.accepts("```json\n" + good + "\n```")
    assert not compiled.accepts(good[:-1])
    assert compiled.accepts(good[:-1], partial=True)
    assert not compiled.accepts("Sure! " + good, partial=True)
    assert not compiled.accepts("")


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": "Supported"},
        {"verdict": "unknown"},
        {"confidence": 95},
        {"confidence": 1e15},
        {"confidence": "90"},
        {"source": "p3"},
        {"quote": "x" * 21},
        {"extra": 1},
    ],
)
def test_refuses_a_reply_outside_the_schema(changes: dict[str, Any]) -> None:
    assert not grammar.compile_constraint(asked(VERIFY)).accepts(compact(verify_reply(**changes)))


def test_keys_stand_in_declared_order_and_none_is_missing() -> None:
    compiled = grammar.compile_constraint(asked(closed(b=VERDICT, a=VERDICT)))
    assert compiled.accepts('{"b":"supported","a":"stale_fact"}')
    assert not compiled.accepts('{"a":"stale_fact","b":"supported"}')
    assert not compiled.accepts('{"b":"supported"}')


def test_declared_order_is_part_of_the_key() -> None:
    one, other = asked(closed(b=VERDICT, a=VERDICT)), asked(closed(a=VERDICT, b=VERDICT))
    assert grammar.constraint_key(one) != grammar.constraint_key(other)
    assert grammar.constraint_key(one) == grammar.constraint_key(asked(closed(b=VERDICT, a=VERDICT)))
    assert grammar.compile_constraint(one) is grammar.compile_constraint(asked(closed(b=VERDICT, a=VERDICT)))


def test_a_choice_is_one_label_and_nothing_else() -> None:
    compiled = grammar.compile_constraint(ChoiceConstraint(("A", "B", "A tie", 'q"uote\\', "größer")))
    for label in ("A", "B", "A tie", 'q"uote\\', "größer"):
        assert compiled.accepts(label)
    for other in ("a", "A ", "AB", "", "C", "Answer: A", "\ud800"):
        assert not compiled.accepts(other)
    assert compiled.max_tokens == len("größer".encode()) + 1


@pytest.mark.parametrize("choices", [(), ("A", "A"), ("A", ""), ("A", " B"), ("A", "B\n")])
def test_a_choice_that_is_not_clear_is_refused(choices: tuple[str, ...]) -> None:
    with pytest.raises(grammar.GrammarError) as caught:
        grammar.compile_constraint(ChoiceConstraint(choices))
    assert caught.value.keyword == "choices"


@pytest.mark.parametrize(
    ("schema", "path", "keyword"),
    [
        (closed(a={"type": "array", "items": VERDICT, "maxItems": 2, "uniqueItems": True}), "a", "uniqueItems"),
        (closed(a=closed(b={**text(5), "format": "made-up"})), "a.b", "format"),
        (closed(a={"type": "array", "items": text(2), "maxItems": 100_000}), "a", "maxItems"),
        (closed(a={"type": "array", "items": text(2)}), "a", "maxItems"),
        (closed(a={"type": "array", "items": {"type": "string"}, "maxItems": 2}), "a[]", "maxLength"),
        (closed(a={"type": "number", "minimum": 0, "maximum": 1}), "a", "type"),
        (closed(a={"type": "integer"}), "a", "minimum"),
        (closed(a={"not": {"type": "string"}}), "a", "type"),
        (closed(a={**text(5), "not": {"const": "x"}}), "a", "not"),
        (closed(a={"$ref": "#/$defs/x"}), "a", "type"),
        (closed(a={"oneOf": [VERDICT]}), "a", "type"),
        (closed(a={}), "a", "type"),
        (closed(a=True), "a", "schema"),
        (closed(a={"enum": [1.5]}), "a", "enum"),
        (closed(a={"enum": []}), "a", "enum"),
        (closed(a={"anyOf": []}), "a", "anyOf"),
        ({**closed(a=VERDICT), "additionalProperties": True}, "reply", "additionalProperties"),
        ({"type": "object", "properties": {"a": VERDICT}, "additionalProperties": False}, "reply", "required"),
        ({"type": "object", "properties": {}, "additionalProperties": False}, "reply", "properties"),
        ({"type": "array", "items": VERDICT, "maxItems": 2}, "reply", "type"),
        (closed(a={**text(5), "pattern": "(?=x)y"}), "reply", "grammar"),
        (closed(a={"type": "integer", "minimum": 5, "maximum": 1}), "reply", "grammar"),
    ],
)
def test_what_the_engine_would_drop_is_refused_with_its_path(schema: dict[str, Any], path: str, keyword: str) -> None:
    found = grammar.report(asked(schema))
    assert found.enforcement is Enforcement.NONE
    assert [(part.path, part.keyword) for part in found.ignored] == [(path, keyword)]
    assert found.error is not None
    assert found.error.startswith(f"{path}: ")


def test_limits_of_size_and_depth() -> None:
    deep: dict[str, Any] = VERDICT
    for _ in range(grammar.MAX_DEPTH + 1):
        deep = closed(a=deep)
    wide = closed(**{f"k{n}": VERDICT for n in range(grammar.MAX_PROPERTIES + 1)})
    many = closed(a={"enum": [f"v{n}" for n in range(grammar.MAX_VALUES + 1)]})
    long = closed(a=text(grammar.MAX_STRING + 1))
    for schema, keyword in ((deep, "depth"), (wide, "properties"), (many, "enum"), (long, "maxLength")):
        assert [part.keyword for part in grammar.report(asked(schema)).ignored] == [keyword]


def test_longest_reply_is_counted_with_structure() -> None:
    schema = closed(rationale=text(10), w={"enum": ["A", "BB"]}, n={"type": "integer", "minimum": -5, "maximum": 100})
    longest = compact({"rationale": "x" * 10, "w": "BB", "n": 100})
    assert grammar.worst_case_tokens(asked(schema)) == len(longest) + 1
    listed = closed(a={"type": "array", "items": text(4), "maxItems": 3})
    assert grammar.worst_case_tokens(asked(listed)) == len(compact({"a": ["xxxx"] * 3})) + 1


@pytest.mark.parametrize(
    ("name", "constraint"),
    [
        (f"{rubric.id} {step}", constraint)
        for rubric in all_rubrics()
        for step, constraint in rubric.sample_constraints().items()
    ],
)
def test_every_rubric_compiles(name: str, constraint: Any) -> None:
    found = grammar.report(constraint)
    assert found.enforcement is Enforcement.GRAMMAR, (name, found.error)
    assert grammar.worst_case_tokens(constraint) > 0


# JSON escapes of control characters are spelled in more than one way; printable text has one compact form.
CHARACTERS = st.characters(blacklist_categories=("Cc", "Cs", "Zl", "Zp"))


def valid(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "anyOf" in schema:
        return st.one_of([valid(branch) for branch in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema["type"]:
        case "object":
            names = list(schema["properties"])
            return st.tuples(*(valid(child) for child in schema["properties"].values())).map(
                lambda values: dict(zip(names, values, strict=True))
            )
        case "array":
            return st.lists(valid(schema["items"]), min_size=schema.get("minItems", 0), max_size=schema["maxItems"])
        case "string":
            return st.text(CHARACTERS, min_size=schema.get("minLength", 0), max_size=schema["maxLength"])
        case "boolean":
            return st.booleans()
        case _:
            return st.none()


SCHEMAS = (VERIFY, EXTRACT, NULLABLE)


@pytest.mark.parametrize("schema", SCHEMAS)
@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_every_valid_reply_is_accepted_and_fits_its_bound(schema: dict[str, Any], data: st.DataObject) -> None:
    compiled = grammar.compile_constraint(asked(schema))
    reply = compact(data.draw(valid(schema)))
    assert compiled.accepts(reply)
    if reply.isascii() and "\\" not in reply:
        assert len(reply) < compiled.max_tokens


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-200, 200) | st.floats(allow_nan=False) | st.text(CHARACTERS, max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["c1", "c2", "claims", "x"]), inner),
    max_leaves=8,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] + [place for key, child in inner for place in places(child, (*path, key))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    head, *rest = path
    if isinstance(value, dict):
        return {key: replaced(child, tuple(rest), new) if key == head else child for key, child in value.items()}
    return [replaced(child, tuple(rest), new) if at == head else child for at, child in enumerate(value)]


@pytest.mark.parametrize("schema", SCHEMAS)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_grammar_and_schema_agree_on_changed_replies(schema: dict[str, Any], data: st.DataObject) -> None:
    value = data.draw(valid(schema))
    value = replaced(value, data.draw(st.sampled_from(places(value))), data.draw(ANY_JSON))
    expected = jsonschema.Draft202012Validator(schema).is_valid(value)
    # An integer written as 10.0 is an integer to JSON Schema, and another text to a decoder.
    reply = compact(value)
    if expected and json.loads(reply) == value and not any(part in reply for part in (".0", "e+")):
        assert grammar.compile_constraint(asked(schema)).accepts(reply)
    if not expected:
        assert not grammar.compile_constraint(asked(schema)).accepts(reply)


@given(st.text(string.printable, max_size=60))
def test_prose_is_never_accepted(reply: str) -> None:
    compiled = grammar.compile_constraint(asked(VERIFY))
    assert not compiled.accepts(reply)
