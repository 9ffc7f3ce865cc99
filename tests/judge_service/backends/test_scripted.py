import json
import math

import pytest

from judge_service.backends.base import BackendFailure, Completion
from judge_service.backends.scripted import ScriptedBackend, ScriptedReply, open_backend, read_script
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import Enforcement, JudgeErrorReason
from judge_service.errors import ConfigurationError
from judge_service.settings import Settings
from tests.support.asks import choice_ask, extract_ask, pair_ask, request

PAIR = request(pair_ask(), order="AB")


async def test_answers_in_order_then_fails_visibly() -> None:
    backend = ScriptedBackend(["raw", {"verdict": "first"}])
    assert (await backend.complete(PAIR)).text == "raw"
    assert (await backend.complete(PAIR)).text == '{"verdict": "first"}'
    with pytest.raises(BackendFailure, match="no answer left for step `compare` of case `case-1`"):
        await backend.complete(PAIR)
    assert backend.calls == 3
    assert len(backend.requests) == 3


async def test_cycle_starts_again() -> None:
    backend = ScriptedBackend(["a", "b"], cycle=True)
    assert [(await backend.complete(PAIR)).text for _ in range(5)] == ["a", "b", "a", "b", "a"]


async def test_an_answer_may_be_a_callable_a_coroutine_a_completion_or_an_exception() -> None:
    async def slow(asked: object) -> str:
        return "from a coroutine"

    backend = ScriptedBackend(
        [
            lambda asked: asked.subject.case_id,
            slow,
            Completion("done", "length", "m", Enforcement.PROVIDER),
            BackendFailure(JudgeErrorReason.RATE_LIMITED, "wait", retryable=True, retry_after_s=3),
        ]
    )
    assert (await backend.complete(PAIR)).text == "case-1"
    assert (await backend.complete(PAIR)).text == "from a coroutine"
    assert (await backend.complete(PAIR)).finish_reason == "length"
    with pytest.raises(BackendFailure) as caught:
        await backend.complete(PAIR)
    assert (caught.value.reason, caught.value.retry_after_s) == (JudgeErrorReason.RATE_LIMITED, 3)


async def test_a_mapping_answers_by_case_and_step() -> None:
    backend = ScriptedBackend({("case-2", "compare"): "for two", "compare": ["one", "two"], "extract": {"s1": []}})
    assert (await backend.complete(request(pair_ask(), case_id="case-2"))).text == "for two"
    assert (await backend.complete(PAIR)).text == "one"
    assert (await backend.complete(request(extract_ask({"s1": "x"})))).text == '{"s1": []}'
    assert (await backend.complete(PAIR)).text == "two"


async def test_narrowed_entries_serve_any_order_of_arrival() -> None:
    backend = ScriptedBackend(
        [
            ScriptedReply(case="case-1", order="BA", text="ba"),
            ScriptedReply(case="case-1", order="AB", text="ab"),
            ScriptedReply(attempt=2, text="second attempt", times=1),
            "anything",
        ]
    )
    assert (await backend.complete(PAIR)).text == "ab"
    assert (await backend.complete(request(pair_ask(), order="BA"))).text == "ba"
    assert (await backend.complete(PAIR)).text == "ab"
    assert (await backend.complete(request(pair_ask(), case_id="x", attempt=2))).text == "second attempt"
    assert (await backend.complete(request(pair_ask(), case_id="x", attempt=2))).text == "anything"


async def test_latency_is_slept_by_the_given_sleeper_and_ends_at_the_timeout() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    backend = ScriptedBackend(["a", ScriptedReply(text="late", latency_ms=9000)], latency_ms=250, sleep=sleep)
    assert (await backend.complete(PAIR)).text == "a"
    with pytest.raises(BackendFailure) as caught:
        await backend.complete(PAIR)
    assert caught.value.reason is JudgeErrorReason.TIMEOUT
    assert caught.value.retryable
    assert slept == [0.25, 5.0]


async def test_probabilities_become_token_logprobs() -> None:
    backend = ScriptedBackend([ScriptedReply(text="A", probabilities={"A": 0.6, "B": 0.3})])
    tokens = (await backend.complete(request(choice_ask()))).tokens
    assert tokens is not None
    assert tokens[0].token == "A"
    assert {label: round(math.exp(value), 9) for label, value in tokens[0].top} == {"A": 0.6, "B": 0.3}


def _judge(**options: object) -> Judge:
    return Judge(name="script", backend="scripted", options=options)


async def test_configured_inline_and_from_a_file(tmp_path) -> None:
    inline = open_backend(_judge(replies=["x", {"value": {"verdict": "tie"}}]), Settings())
    assert [(await inline.complete(PAIR)).text for _ in range(2)] == ["x", '{"verdict": "tie"}']
    file = tmp_path / "script.jsonl"
    file.write_text(
        '"raw \\u2028 text"\n\n'
        + json.dumps({"case": "case-1", "error": {"reason": "rate_limited", "retryable": True}})
        + "\n"
    )
    filed = open_backend(_judge(file=str(file), enforcement="grammar"), Settings())
    with pytest.raises(BackendFailure) as caught:
        await filed.complete(PAIR)
    assert caught.value.reason is JudgeErrorReason.RATE_LIMITED
    other = await filed.complete(request(pair_ask(), case_id="other"))
    assert (other.text, other.enforcement) == ("raw \u2028 text", Enforcement.GRAMMAR)


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({}, "options"),
        ({"replies": ["a"], "file": "b"}, "options"),
        ({"replies": [{"text": "a", "value": 1}]}, "options.replies.0"),
        ({"replies": ["a"], "latency": 3}, "options.latency"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], path: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_backend(_judge(**options), Settings())
    assert any(problem.path.startswith(path) for problem in caught.value.fields)


def test_a_bad_line_is_named(tmp_path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text('"a"\n{"text": "b", "oops": 1}\n')
    with pytest.raises(ConfigurationError, match="line 2"):
        read_script(file)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_script(tmp_path / "missing.jsonl")
