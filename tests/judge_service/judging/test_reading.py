"""Strict reading: what is a reply, what is not, and why."""

import json
import random
import string
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, create_model

from judge_service.domain.outcome import JudgeErrorReason
from judge_service.judging.reading import ReplyProblem, read_choice, read_json, read_reply
from rubrics.model import ChoiceConstraint, JsonConstraint
from rubrics.records import DecodingModel


class Verdict(DecodingModel):
    rationale: str = Field(max_length=300)
    verdict: Literal["supported", "unsupported"]


class Level(DecodingModel):
    score: Literal[0, 50, 87, 100]


class Flag(DecodingModel):
    match: bool
    reason: str


class Item(DecodingModel):
    quote: str = Field(max_length=40)
    verdict: Literal["supported", "fabrication"]


def constraint(model: type[DecodingModel]) -> JsonConstraint:
    return JsonConstraint(model, model.model_json_schema())


ITEMS = frozenset({"c1", "c2"})
PER_ITEM = constraint(create_model("PerItem", __base__=DecodingModel, c1=(Item, ...), c2=(Item, ...)))
GOOD = '{"rationale": "it says so", "verdict": "supported"}'
ITEM = {"quote": "x", "verdict": "supported"}


def reason(raw: str, shape: JsonConstraint | ChoiceConstraint, items: frozenset[str] = frozenset()) -> str:
    with pytest.raises(ReplyProblem) as caught:
        read_reply(raw, shape, items)
    return caught.value.reason.value


@pytest.mark.parametrize(
    ("raw", "read_as"),
    [
        (GOOD, "whole"),
        (f"\ufeff \n{GOOD}\n\n", "whole"),
        (f"```json\n{GOOD}\n```", "code_fence"),
        (f"Here is my verdict:\n```\n{GOOD}\n```\nLet me know if you need more.", "code_fence"),
        (f"```json {GOOD} ```", "code_fence"),
        (f'<think>\nfirst {{"verdict": "unsupported"}} but no\n</think>\n{GOOD}', "after_reasoning"),
        (f"<think>a</think><think>b</think>{GOOD}", "after_reasoning"),
        (f"[THINK]hm[/THINK]{GOOD}", "after_reasoning"),
        (f"<think>x ```json\n{{}}\n``` y</think>\n```json\n{GOOD}\n```", "code_fence"),
    ],
)
def test_one_object_in_its_wrapper_is_read(raw: str, read_as: str) -> None:
    read = read_json(raw, constraint(Verdict))
    assert isinstance(read.value, Verdict)
    assert read.value.verdict == "supported"
    assert read.read_as == read_as
    assert json.loads(raw[read.start : read.end])["verdict"] == "supported"


@pytest.mark.parametrize("inside", ["<think>x</think>", "```json\n{}\n```", "{[}", '"', "</think>", "\\", "🙂\u2028"])
def test_tags_fences_and_braces_inside_strings_stay(inside: str) -> None:
    raw = json.dumps({"rationale": inside, "verdict": "unsupported"})
    for reply in (raw, f"<think>thought</think>{raw}", f"```json\n{raw}\n```"):
        read = read_json(reply, constraint(Verdict))
        assert isinstance(read.value, Verdict)
        assert read.value.rationale == inside


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "   \n",
        "BANANA",
        "The claim is not supported by the source.",
        f"<think>{GOOD}</think>",
        f"<think>{GOOD}",
        f"I would say {GOOD}",
        f"{GOOD} {GOOD}",
        f"```json\n{GOOD}\n```\nor\n```json\n{GOOD}\n```",
        f"```json\n{GOOD}",
        GOOD[:-1],
        GOOD + "}",
        GOOD.replace('"', "'"),
        GOOD[:-1] + ",}",
        "[" + GOOD + "]",
        '"supported"',
        "null",
        "true",
        "{" * 5_000,
        '{"rationale":' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"rationale": "a\nb", "verdict": "supported"}',
    ],
)
def test_what_is_not_one_json_object_is_a_parse_error(raw: str) -> None:
    assert reason(raw, constraint(Verdict)) == "parse_error"


@pytest.mark.parametrize(
    ("raw", "shape"),
    [
        ('{"match": "false", "reason": "other colour"}', Flag),
        ('{"match": "FALSE", "reason": ""}', Flag),
        ('{"reason": "looks close enough"}', Flag),
        ('{"match": "maybe", "reason": ""}', Flag),
        ('{"match": 1, "reason": ""}', Flag),
        ('{"match": null, "reason": ""}', Flag),
        ('{"score": 3.1e+88}', Level),
        ('{"score": NaN}', Level),
        ('{"score": Infinity}', Level),
        ('{"score": -Infinity}', Level),
        ('{"score": -1}', Level),
        ('{"score": 101}', Level),
        ('{"score": "87"}', Level),
        ('{"score": 87.0}', Level),
        ('{"score": true}', Level),
        ('{"score": false}', Level),
        ('{"score": 1' + "0" * 400 + "}", Level),
        ('{"rationale": "", "verdict": "Supported"}', Verdict),
        ('{"rationale": "", "verdict": "supported "}', Verdict),
        ('{"rationale": "", "verdict": "maybe"}', Verdict),
        ('{"rationale": "", "verdict": "supported", "score": 1}', Verdict),
        ('{"rationale": "", "verdict": "supported", "verdict": "unsupported"}', Verdict),
        ('{"rationale": "", "verdict": "supported", "verdict": "supported"}', Verdict),
        ('{"rationale": "\\ud800", "verdict": "supported"}', Verdict),
        (json.dumps({"rationale": "x" * 301, "verdict": "supported"}), Verdict),
        ("{}", Verdict),
    ],
)
def test_what_does_not_fit_is_a_schema_error_and_is_never_clamped(raw: str, shape: type[DecodingModel]) -> None:
    assert reason(raw, constraint(shape)) == "schema_error"


def test_a_legal_number_and_a_legal_flag_are_read() -> None:
    level, flag = (
        read_json('{"score": 87}', constraint(Level)),
        read_json('{"match":false,"reason":""}', constraint(Flag)),
    )
    assert level.value == Level(score=87)
    assert flag.value == Flag(match=False, reason="")


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"c1": ITEM}, "missing_verdict"),
        ({}, "missing_verdict"),
        ({"c1": ITEM, "c3": ITEM}, "id_mismatch"),
        ({"c1": ITEM, "c2": ITEM, "c3": ITEM}, "id_mismatch"),
        ({"1": ITEM, "2": ITEM}, "id_mismatch"),
        ({"c1": ITEM, "c2": {"quote": "x"}}, "schema_error"),
        ({"c1": ITEM, "c2": {"quote": "x", "verdict": "maybe"}}, "schema_error"),
        ({"c1": ITEM, "c2": None}, "schema_error"),
    ],
)
def test_item_wise_replies_have_reasons_of_their_own(reply: dict[str, Any], expected: str) -> None:
    assert reason(json.dumps(reply), PER_ITEM, ITEMS) == expected


def test_an_item_answered_twice_is_a_duplicate_verdict() -> None:
    one = json.dumps(ITEM)
    assert reason(f'{{"c1": {one}, "c2": {one}, "c1": {one}}}', PER_ITEM, ITEMS) == "duplicate_verdict"
    inner = '{"quote": "x", "verdict": "supported", "verdict": "supported"}'
    assert reason(f'{{"c1": {one}, "c2": {inner}}}', PER_ITEM, ITEMS) == "schema_error"


def test_order_of_items_does_not_matter() -> None:
    read = read_json(json.dumps({"c2": ITEM, "c1": ITEM}), PER_ITEM, ITEMS)
    assert read.value.model_dump() == {"c1": ITEM, "c2": ITEM}  # type: ignore[union-attr]


CHOICE = ChoiceConstraint(("A", "B", "tie"))


@pytest.mark.parametrize(("raw", "label"), [("A", "A"), (" tie\n", "tie"), ("<think>B?</think>\nA", "A")])
def test_a_choice_is_the_whole_reply(raw: str, label: str) -> None:
    assert read_choice(raw, CHOICE).value == label


@pytest.mark.parametrize(
    "raw", ["", "a", "A.", "Answer A", "A B", "AB", "Tie", "not A", "Neither A nor B.", '"A"', "<think>A</think>"]
)
def test_a_choice_is_never_searched_for(raw: str) -> None:
    assert reason(raw, CHOICE) == "parse_error"


def malformed(seed: int) -> str:
    """A reply that is wrong in one known way."""
    rng = random.Random(seed)
    good = {"rationale": "".join(rng.choices(string.printable, k=rng.randrange(60))), "verdict": "supported"}
    text = json.dumps(good)

    def with_key(name: str, value: Any) -> str:
        return json.dumps({**good, name: value})

    wrong_verdict = ["", "SUPPORTED", "supported.", "un", None, True, 1, 0.5, ["supported"], {}]
    wrong_rationale = [None, 3, [], {}, "y" * 301, False]
    stray_key = ["score", "verdict ", "Verdict", "", "\u200bverdict"]
    ending = [', "verdict": "unsupported"}', ', "verdict": "supported"}', ",}", ', "x": NaN}']
    ways = [
        lambda: text[: rng.randrange(len(text))],
        lambda: text + rng.choice(["}", "]", ",", " and", text, '"', "\x00"]),
        lambda: rng.choice(["So: ", "// ", "1. ", "[", "{", "\x00", "supported "]) + text,
        lambda: with_key("verdict", rng.choice(wrong_verdict)),
        lambda: with_key("rationale", rng.choice(wrong_rationale)),
        lambda: with_key(rng.choice(stray_key), rng.choice([1, "supported", None])),
        lambda: json.dumps({"rationale": good["rationale"]}),
        lambda: json.dumps({"verdict": "supported"}),
        lambda: text[:-1] + rng.choice(ending),
        lambda: text.replace('"supported"', rng.choice(["NaN", "Infinity", "supported", "'supported'", "1e999"])),
        lambda: f"<think>{text}" + rng.choice(["", "</think>", "</think> yes", "</think>\n<think>"]),
        lambda: f"```json\n{text}\n```\n```json\n{text}\n```",
        lambda: "".join(rng.choices(string.printable + '{}[]":,é漢🙂\u2028\ud800', k=rng.randrange(1, 200))),
        lambda: rng.choice("[{") * rng.randrange(1, 3_000),
        lambda: json.dumps([good]),
        lambda: json.dumps(text),
    ]
    return rng.choice(ways)()


def test_ten_thousand_malformed_replies_are_never_a_verdict_and_never_an_escape() -> None:
    seen: dict[str, int] = {}
    for seed in range(10_000):
        raw = malformed(seed)
        with pytest.raises(ReplyProblem) as caught:
            read_json(raw, constraint(Verdict))
        seen[caught.value.reason.value] = seen.get(caught.value.reason.value, 0) + 1
    assert sum(seen.values()) == 10_000
    assert set(seen) == {JudgeErrorReason.PARSE_ERROR.value, JudgeErrorReason.SCHEMA_ERROR.value}
    assert min(seen.values()) > 1_000


@given(st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")))
def test_arbitrary_text_ends_in_a_value_or_a_reason(raw: str) -> None:
    for shape in (constraint(Verdict), PER_ITEM, CHOICE):
        try:
            value = read_reply(raw, shape, ITEMS).value
        except ReplyProblem:
            continue
        assert value in CHOICE.choices
