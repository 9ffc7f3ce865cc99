"""Faults of other tools in structured output, by their case ids."""

import json
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError

from judge_service.backends.embedded import open_backend
from judge_service.backends.schema_variants import by_response_format
from judge_service.domain.call import RAW_LIMIT
from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import Enforcement
from judge_service.errors import InvalidInput
from rubrics.model import Label, Scale
from rubrics.records import DecodingModel
from rubrics.registry import get_rubric
from rubrics.schema import json_constraint, master_schema
from tests.reported.judged import PAIR, core, ended, judged, scripted, served, wrong
from tests.support.engine_server import model_settings
from tests.support.fake_provider import PROSE, FakeProvider, Reply
from tests.support.random_asks import ask_drawn

GOOD = Reply('{"rationale": "It is right.", "verdict": "A"}')


@pytest.mark.parametrize(("attempts", "end"), [(3, wrong("parse_error")), (4, ("scored", None, 1.0, "A"))])
async def test_case_051_a_dropped_schema_is_noticed_at_every_reply(attempts: int, end: Any) -> None:
    with FakeProvider([PROSE, PROSE, PROSE, GOOD]) as server:
        judgment = await judged(served(server.url, limits={"attempts": attempts}))
        assert len(server.completions) == attempts
    assert ended(judgment) == end
    assert [call.enforcement for call in judgment.calls] == [Enforcement.PROVIDER] * attempts
    assert [call.attempt for call in judgment.calls] == list(range(1, attempts + 1))


@pytest.mark.parametrize("wanted", ["grammar", "provider", "reask"])
async def test_case_051_a_judge_that_cannot_enforce_what_it_must_is_refused_before_any_call(wanted: str) -> None:
    with FakeProvider() as server:
        judge = served(server.url, enforcement=wanted, options={"constraint": "none"})
        with pytest.raises(InvalidInput) as caught:
            await judged(judge)
        assert server.requests == []
    assert [problem.path for problem in caught.value.fields] == ["judge.enforcement"]
    assert "served" in caught.value.message
    assert wanted in caught.value.message


class Claim(DecodingModel):
    id: Literal[1, 2, 3]
    label: Literal["supported", "unsupported"]


class Nested(DecodingModel):
    claims: Annotated[tuple[Claim, ...], Field(max_length=3)]
    note: Annotated[str, Field(max_length=80)] | None


class Unbounded(DecodingModel):
    claims: tuple[Claim, ...]
    number: int


def walk(node: Any) -> Any:
    if isinstance(node, dict):
        yield node
        for part in node.values():
            yield from walk(part)
    elif isinstance(node, list):
        for part in node:
            yield from walk(part)


@pytest.mark.parametrize("variant", ["openai_strict", "gbnf"])
def test_case_053_the_schema_that_is_sent_is_closed_whole_and_plain(variant: Any) -> None:
    sent = by_response_format(json_constraint(Nested), variant).parameters["response_format"]["json_schema"]["schema"]
    objects = [node for node in walk(sent) if node.get("type") == "object"]
    assert len(objects) == 2
    for node in objects:
        assert node["additionalProperties"] is False
        assert set(node["required"]) == set(node["properties"])
    text = json.dumps(sent)
    assert not any(f'"{word}"' in text for word in ("$ref", "$defs", "default", "$schema", "title"))
    claims = sent["properties"]["claims"]["items"]["properties"]
    assert claims["id"]["type"] == "integer"
    assert Nested.model_validate_json('{"claims": [], "note": null}').note is None
    with pytest.raises(ValidationError):
        Nested.model_validate_json('{"claims": []}')


def test_case_053_what_not_every_judge_enforces_is_named_with_its_path() -> None:
    with pytest.raises(ValueError, match=r"claims: needs `maxItems`.*number: an integer must be an enum"):
        master_schema(Unbounded)


class Loop(DecodingModel):
    inner: "tuple[Loop, ...]"


class Outer(DecodingModel):
    held: Loop


@pytest.mark.parametrize("model", [Loop, Outer])
def test_case_053_a_model_that_holds_itself_is_refused(model: type[DecodingModel]) -> None:
    with pytest.raises(ValueError, match=r"recursive|itself"):
        master_schema(model)


async def test_case_054_no_source_and_no_claim_make_no_schema_and_no_call() -> None:
    given = {"question": None, "contexts": [], "answer": "It is so [1]. And so [2]."}
    judgment = await judged(scripted("never read"), given, "citation_support@1")
    assert judgment.outcome == "not_applicable"
    assert judgment.calls == ()
    assert judgment.record is not None
    assert judgment.record["missing_sources"] == [1, 2]
    claims = {"question": "?", "contexts": ["It is."], "answer": "Hello there."}
    judgment = await judged(scripted({"step": "extract", "value": {"s1": []}}), claims, "faithfulness@1")
    assert ended(judgment) == ("not_applicable", "no_claims", None, None)
    assert [call.step for call in judgment.calls] == ["extract"]


@pytest.mark.parametrize("labels", [[], ["pass"], ["pass", "Pass "], ["a", "b", "A"], ["yes", " "]])
def test_case_054_degenerate_labels_are_refused(labels: list[str]) -> None:
    with pytest.raises(ValueError, match="label"):
        Scale(tuple(Label(name, "means this") for name in labels), ordered=False, minimum=0, maximum=1)


@pytest.mark.parametrize("raw", ['{\n "rationale":' + "\n" * 70_000, '{"rationale": "' + "a" * 70_000, " " * 70_000])
async def test_case_056_an_endless_reply_is_truncated_and_kept_up_to_a_limit(raw: str) -> None:
    judgment = await judged(scripted({"text": raw, "finish_reason": "length", "step": "compare"}))
    assert ended(judgment) == wrong("truncated")
    call = judgment.calls[0]
    assert call.finish_reason == "length"
    assert call.raw_cut
    assert len(call.raw or "") == RAW_LIMIT == 64 * 1024


@pytest.mark.parametrize("rubric", ["faithfulness@1", "pairwise@1", "citation_support@1", "refusal@1"])
def test_case_056_every_string_and_list_of_every_rubric_has_an_end(rubric: str) -> None:
    for constraint in get_rubric(rubric).sample_constraints().values():
        schema = getattr(constraint, "schema", {})
        for node in walk(dict(schema)):
            if node.get("type") == "string" and "enum" not in node:
                assert node["maxLength"] <= 1000
            if node.get("type") == "array":
                assert node["maxItems"] <= 100


async def test_case_056_a_cut_reply_is_asked_again_once_at_most() -> None:
    judge = scripted({"text": "{", "finish_reason": "length", "step": "compare"}, limits={"attempts": 5})
    judgment = await core(judge).judge(Case(id="c", input=PAIR), get_rubric("pairwise@1"), judge)
    assert ended(judgment) == wrong("truncated")
    assert len(judgment.calls) == 2


@pytest.mark.model
async def test_case_056_random_prompts_of_any_text_all_give_replies_that_parse() -> None:
    """The first of the thousand that `python -m benchmarks.random_prompts` puts to the embedded model."""
    backend = open_backend(Judge(name="drawn", backend="embedded"), model_settings())
    try:
        found = [one async for one in ask_drawn(backend, range(40))]
    finally:
        await backend.aclose()
    assert [one.problem for one in found] == [None] * 40
    assert {one.finish_reason for one in found} == {"stop"}
    assert all(one.completion_tokens <= one.limit for one in found)
