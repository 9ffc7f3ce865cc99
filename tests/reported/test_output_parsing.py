"""Faults of other tools in reading a judge's reply, by their case ids."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.reported.judged import CLAIM, PAIR, REFUSAL, command, ended, judged, scripted, served, wrong
from tests.support.fake_provider import CUT, FILTERED, FakeProvider, Reply, content_filter_400
from tests.support.fake_provider import REFUSAL as DECLINED

GOOD = '{"rationale": "It is right.", "verdict": "A"}'
SCORED = ("scored", None, 1.0, "A")


@pytest.mark.parametrize(
    "raw",
    [
        f"```json\n{GOOD}\n```",
        f"Here is my verdict:\n```\n{GOOD}\n```\nLet me know if you need more.",
        f"```JSON\r\n{GOOD}\r\n```\r\n",
        f"~~~\n{GOOD}\n~~~",
        f"\ufeff```json\n{GOOD}\n```",
    ],
)
async def test_case_001_a_wrapped_object_is_read_in_one_call_and_kept_as_it_came(raw: str) -> None:
    with FakeProvider(default=Reply(raw)) as server:
        judgment = await judged(served(server.url))
        assert len(server.completions) == 1
    assert ended(judgment) == SCORED
    assert (judgment.calls[0].raw, judgment.calls[0].read_as) == (raw, "code_fence")


@pytest.mark.parametrize(
    ("raw", "end"),
    [
        ('<think>\nfirst {"rationale": "x", "verdict": "B"} but no\n</think>\n' + GOOD, SCORED),
        ('{"rationale": "The page shows <think>x</think> as code.", "verdict": "A"}', SCORED),
        ('{"rationale": "```json and {braces} </think>", "verdict": "A"}', SCORED),
        ('<think>{"rationale": "x", "verdict": "B"}</think>', wrong("parse_error")),
        ('<think>{"rationale": "x", "verdict": "B"}', wrong("parse_error")),
        ('[THINK]hm {"verdict": "B"}[/THINK]' + GOOD, SCORED),
    ],
)
async def test_case_002_a_draft_in_the_reasoning_is_never_the_verdict(raw: str, end: Any) -> None:
    judgment = await judged(scripted(raw))
    assert ended(judgment) == end
    if raw.startswith("{"):
        assert judgment.record is not None
        assert judgment.record["ab"]["rationale"] == json.loads(raw)["rationale"]


@pytest.mark.parametrize("content", ["", CUT.content, '{"rationale": "", "verdict": "tie"}', GOOD])
async def test_case_004_a_reply_cut_at_its_limit_is_truncated_and_asked_again_with_more_room(content: str) -> None:
    with FakeProvider(default=Reply(content, finish_reason="length")) as server:
        judgment = await judged(served(server.url))
        first, second = (request.body["max_tokens"] for request in server.completions)
    assert ended(judgment) == wrong("truncated")
    assert second > first
    assert [call.finish_reason for call in judgment.calls] == ["length", "length"]


@pytest.mark.parametrize(
    ("rubric", "given", "raw"),
    [
        ("pairwise@1", PAIR, '{"rationale": "", "verdict": "a"}'),
        ("pairwise@1", PAIR, '{"rationale": "", "verdict": true}'),
        ("pairwise@1", PAIR, '{"rationale": "looks close enough"}'),
        ("pairwise@1", PAIR, '{"rationale": "", "verdict": "maybe"}'),
        ("pairwise@1", PAIR, '{"rationale": "", "verdict": null}'),
        ("refusal@1", REFUSAL, '{"quote": "", "rationale": "", "refusal": "false", "confidence": 90}'),
        ("refusal@1", REFUSAL, '{"quote": "", "rationale": "", "refusal": false, "confidence": 90}'),
        ("refusal@1", REFUSAL, '{"quote": "", "rationale": "", "refusal": "REFUSAL", "confidence": 90}'),
    ],
)
async def test_case_005_another_type_spelling_or_no_verdict_is_no_verdict(rubric: str, given: Any, raw: str) -> None:
    assert ended(await judged(scripted(raw), given, rubric)) == wrong("schema_error")


@pytest.mark.parametrize(
    "raw", ["The answer A is not better.", "Neither A nor B.", "A, or is it B?", "a", "not A", '"A"']
)
async def test_case_005_a_label_is_never_searched_for_in_a_sentence(raw: str) -> None:
    judge = scripted(raw, elicitation="direct")
    assert ended(await judged(judge)) == wrong("parse_error")
    assert ended(await judged(scripted(" A\n", elicitation="direct"))) == SCORED


def refusal_reply(confidence: str) -> str:
    return f'{{"quote": "", "rationale": "", "refusal": "compliance", "confidence": {confidence}}}'


def test_case_006_a_number_out_of_range_is_refused_and_spoils_no_mean(tmp_path: Path) -> None:
    given = ["3.1e+88", "NaN", "Infinity", "-1", "101", '"80"', "80"]
    replies = [{"case": str(n), "text": refusal_reply(number)} for n, number in enumerate(given)]
    judge = {"backend": "scripted", "limits": {"attempts": 1}, "options": {"replies": replies}}
    code, summary, rows = command(tmp_path, judge, "refusal@1", [{"id": str(n), **REFUSAL} for n in range(7)])
    assert [(row["outcome"], row["reason"]) for row in rows] == [("judge_error", "schema_error")] * 6 + [
        ("scored", None)
    ]
    assert [row["score"] for row in rows] == [None] * 6 + [1.0]
    assert code == 0
    text = (tmp_path / "out.jsonl").read_text()
    assert "NaN" not in json.dumps([row["score"] for row in rows])
    assert all(json.loads(line, parse_constant=pytest.fail) for line in text.split("\n") if line)
    assert summary is not None


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (DECLINED, "judge_refused"),
        (content_filter_400("openai"), "content_filtered"),
        (content_filter_400("azure"), "content_filtered"),
        (content_filter_400("custom"), "content_filtered"),
        (FILTERED, "content_filtered"),
    ],
)
@pytest.mark.parametrize(("rubric", "given"), [("pairwise@1", PAIR), ("refusal@1", REFUSAL), ("faithfulness@1", CLAIM)])
async def test_case_008_a_judge_that_declines_is_asked_once_and_is_not_the_candidate(
    reply: Reply, reason: str, rubric: str, given: Any
) -> None:
    with FakeProvider(default=reply) as server:
        judgment = await judged(served(server.url), given, rubric)
        assert len(server.completions) == 1
    assert ended(judgment) == wrong(reason)
    assert judgment.record is None


@pytest.mark.parametrize("filler", ["The mill is old. ", "町の橋は古い。", "Мост стар. "])
async def test_case_011_a_prompt_beyond_the_window_is_not_sent_and_the_next_case_goes_on(filler: str) -> None:
    long = filler * 4_000
    context = long[: len(long) // 2] + "The bridge opened in 1931. " + long[len(long) // 2 :]
    with FakeProvider(default=Reply(refusal_reply("90"))) as server:
        judge = served(server.url, options={"context_tokens": 4096})
        judgment = await judged(
            judge, CLAIM | {"contexts": [context], "answer": "It opened in 1931."}, "faithfulness@1"
        )
        verify = [request for request in server.completions if context[:200] in str(request.body)]
        assert verify == []
        assert ended(await judged(judge, REFUSAL, "refusal@1")) == ("scored", None, 1.0, "compliance")
    assert judgment.outcome == "judge_error"


async def test_case_011_both_numbers_are_named() -> None:
    with FakeProvider() as server:
        judge = served(server.url, options={"context_tokens": 4096})
        judgment = await judged(judge, PAIR | {"response_a": "A long answer. " * 3_000})
        assert server.completions == []
    assert ended(judgment) == wrong("context_overflow")
    assert judgment.detail is not None
    assert "4096" in judgment.detail
    assert "are needed" in judgment.detail
