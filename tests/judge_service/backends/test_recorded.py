import json
import math
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from judge_service.backends.base import Backend, BackendFailure
from judge_service.backends.recorded import open_backend, read_verdicts
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import JudgeErrorReason
from judge_service.errors import ConfigurationError
from judge_service.settings import Settings
from tests.support.asks import choice_ask, extract_ask, pair_ask, request, verify_ask

LINES = [
    {"case_id": "a", "judge": "J", "strategy": "s1", "order": "AB", "verdict": "first", "raw": "Output (a)"},
    {"case_id": "a", "judge": "J", "strategy": "s1", "order": "BA", "verdict": "second"},
    {"case_id": "b", "judge": "J", "strategy": "s1", "order": "AB", "verdict": None, "raw": "Sorry"},
    {"case_id": "c", "judge": "J", "strategy": "s1", "order": "AB", "verdict": "tie"},
    {"case_id": "a", "judge": "K", "strategy": "s1", "order": "AB", "verdict": "second"},
    {"case_id": "a", "judge": "J", "strategy": "s2", "order": "AB", "verdict": "second"},
]


def _open(path: Path, lines: list[dict[str, Any]], **options: Any) -> Backend:
    file = path / "verdicts.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return open_backend(Judge(name="r", backend="recorded", options={"file": str(file), **options}), Settings())


async def _pair(backend: Backend, case_id: str, order: Any) -> str:
    reply = await backend.complete(request(pair_ask(), case_id=case_id, order=order))
    return json.loads(reply.text)["verdict"]


async def test_a_pair_is_looked_up_by_case_and_order(tmp_path: Path) -> None:
    backend = _open(tmp_path, LINES, judge="J", strategy="s1")
    assert await _pair(backend, "a", "AB") == "first"
    assert await _pair(backend, "a", "BA") == "second"
    assert await _pair(backend, "c", "AB") == "tie"
    assert await _pair(_open(tmp_path, LINES, judge="K"), "a", "AB") == "second"
    assert (await backend.complete(request(choice_ask(), case_id="a", order="BA"))).text == "B"


async def test_what_was_not_recorded_or_not_readable_is_no_verdict(tmp_path: Path) -> None:
    backend = _open(tmp_path, LINES, judge="J", strategy="s1")
    for case_id, order, reason, raw in (
        ("b", "AB", JudgeErrorReason.PARSE_ERROR, "Sorry"),
        ("b", "BA", JudgeErrorReason.MISSING_VERDICT, None),
        ("z", "AB", JudgeErrorReason.MISSING_VERDICT, None),
    ):
        with pytest.raises(BackendFailure) as caught:
            await _pair(backend, case_id, order)
        assert (caught.value.reason, caught.value.raw, caught.value.retryable) == (reason, raw, False)
    with pytest.raises(BackendFailure) as caught:
        await backend.complete(request(choice_ask(), case_id="c", order="AB"))
    assert caught.value.reason is JudgeErrorReason.SCHEMA_ERROR


async def test_a_verdict_in_the_callers_frame_is_turned_with_the_order(tmp_path: Path) -> None:
    backend = _open(tmp_path, [{"case_id": "a", "verdict": "A"}, {"case_id": "b", "verdict": "first"}])
    assert await _pair(backend, "a", "AB") == "first"
    assert await _pair(backend, "a", "BA") == "second"
    with pytest.raises(BackendFailure, match="none of: A, B, tie"):
        await _pair(backend, "b", "AB")


async def test_scores_of_several_excerpts_count_with_the_largest(tmp_path: Path) -> None:
    lines = [
        {"case_id": "w", "citation": 0, "verdict": None, "score": 0.2},
        {"case_id": "w", "citation": 1, "verdict": None, "score": 0.9},
        {"case_id": "v", "citation": 0, "verdict": None, "score": 0.5},
        {"case_id": "g", "citation": 0, "verdict": "not_supported", "score": 0.0},
        {"case_id": "g", "citation": 1, "verdict": "partially_supported", "score": 0.5},
    ]
    backend = _open(tmp_path, lines, probability=True)
    ask = verify_ask({"c1": "x", "c2": "y"}, {"p1": "z"})
    found = {}
    for case_id in "wvg":
        reply = await backend.complete(request(ask, case_id=case_id))
        found[case_id] = [claim["verdict"] for claim in json.loads(reply.text).values()]
    assert found == {"w": ["supported"] * 2, "v": ["fabrication"] * 2, "g": ["fabrication"] * 2}
    reply = await backend.complete(request(ask, case_id="w"))
    assert reply.tokens is not None
    assert "".join(token.token for token in reply.tokens) == reply.text
    tops = [{k: round(math.exp(p), 9) for k, p in token.top} for token in reply.tokens if token.top]
    assert tops == [{"supported": 0.9, "fabrication": 0.1}] * 2
    extracted = await backend.complete(request(extract_ask({"s1": "One."}), case_id="w"))
    assert json.loads(extracted.text) == {"s1": ["One."]}


async def test_labels_are_mapped(tmp_path: Path) -> None:
    lines = [{"case_id": "a", "verdict": "good"}]
    backend = _open(tmp_path, lines, labels={"good": "supported"})
    ask = verify_ask({"c1": "x"}, {"p1": "z"})
    assert json.loads((await backend.complete(request(ask, case_id="a"))).text)["c1"]["verdict"] == "supported"
    with pytest.raises(BackendFailure, match="Map it with the option `labels`"):
        await _open(tmp_path, lines).complete(request(ask, case_id="a"))


def test_a_file_with_several_judges_needs_a_choice(tmp_path: Path) -> None:
    for options, message in (
        ({}, "set the option `judge` to one of: J, K"),
        ({"judge": "X"}, "set the option `judge` to one of: J, K"),
        ({"judge": "J"}, "set the option `strategy` to one of: s1, s2"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            _open(tmp_path, LINES, **options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"case_id": "a"}\n{"case_id": 3}\n', "line 2: case_id"),
        ("{", "line 1: not JSON"),
        ('{"case_id": "a", "verdict": "x"}\n{"case_id": "a", "verdict": "y"}', "line 2: case 'a' has a second"),
        ('{"case_id": "a", "score": 1.5}', "line 1: score"),
        ('{"case_id": "a", "score": NaN}', "line 1: score"),
        ("\n\n", "no verdict"),
    ],
)
def test_a_bad_line_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_verdicts(text.split("\n"), judge=None, strategy=None)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.jsonl cannot be read"):
        open_backend(Judge(name="r", backend="recorded", options={"file": str(tmp_path / "none.jsonl")}), Settings())


def test_the_revision_follows_the_content(tmp_path: Path) -> None:
    one = _open(tmp_path, LINES[:1]).capabilities.revision
    assert one == _open(tmp_path, LINES[:1]).capabilities.revision != _open(tmp_path, LINES[1:2]).capabilities.revision


def _data(name: str) -> Path:
    root = Path(os.environ.get("JUDGE_DATA_DIR", Path(__file__).parents[3].parent / "shared" / "data"))
    file = root / name / "verdicts.jsonl"
    assert file.exists(), f"{name} is not there: set JUDGE_DATA_DIR to the folder of evaluation data"
    return file


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "judge", "strategy", "order", "expected"),
    [
        ("llmbar", "GPT-4", "Vanilla_NoRules", "AB", None),
        ("pandalm", "gpt-3.5-turbo", None, "AB", 25),
    ],
)
async def test_real_pairs(name: str, judge: str, strategy: str | None, order: Any, expected: int | None) -> None:
    options: dict[str, Any] = {"file": str(_data(name)), "judge": judge}
    if strategy is not None:
        options["strategy"] = strategy
    backend = open_backend(Judge(name="r", backend="recorded", options=options), Settings())
    rows = [json.loads(line) for line in _data(name).read_text().splitlines()]
    rows = [r for r in rows if r["judge"] == judge and strategy in (None, r["strategy"]) and r["order"] == order]
    found: Counter[str] = Counter()
    for row in rows:
        try:
            found[await _pair(backend, row["case_id"], order)] += 1
        except BackendFailure as failure:
            found[failure.reason.value] += 1
    wanted = Counter(row["verdict"] or "parse_error" for row in rows)
    assert found == wanted
    if expected is not None:
        assert found["parse_error"] == expected


@pytest.mark.data
@pytest.mark.parametrize(("name", "judge"), [("wice", "t5-3b-anli-wice"), ("xstest", "string-match")])
def test_real_single_answers_load(name: str, judge: str) -> None:
    options = {"file": str(_data(name)), "judge": judge}
    assert open_backend(Judge(name="r", backend="recorded", options=options), Settings()).capabilities.revision
