import json
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from judge_service.backends import via_instructor
from judge_service.backends.base import Backend, BackendFailure
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import Enforcement, JudgeErrorReason
from judge_service.settings import Settings
from tests.support import fake_provider as fake
from tests.support.asks import choice_ask, pair_ask, request
from tests.support.fake_provider import FakeProvider, Reply

GOOD = '{"rationale": "It is right.", "verdict": "first"}'


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with FakeProvider() as running:
        yield running


@pytest.fixture(params=["json", "md_json", "tools"])
async def backend(request: pytest.FixtureRequest, provider: FakeProvider) -> AsyncIterator[Backend]:
    judge = Judge(name="j", backend="instructor", model="m", options={"base_url": provider.url, "mode": request.param})
    opened = via_instructor.open_backend(judge, Settings())
    yield opened
    await opened.aclose()


def _answers(provider: FakeProvider, *texts: str) -> None:
    """Script `texts` as content, or as the arguments of a tool call where one is asked for."""
    pending = list(texts)

    def answer(asked: fake.Recorded) -> Reply:
        text = pending.pop(0)
        tools = asked.body.get("tools")
        if not tools:
            return Reply(content=text)
        call = {"id": "c", "type": "function", "function": {"name": tools[0]["function"]["name"], "arguments": text}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        body: dict[str, Any] = {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
            "usage": {"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150},
        }
        return Reply(body=body)

    provider.default = answer


async def test_a_valid_answer_is_asked_for_once(backend: Backend, provider: FakeProvider) -> None:
    _answers(provider, GOOD)
    made = await backend.complete(request(pair_ask()))
    assert json.loads(made.text) == json.loads(GOOD)
    assert (made.enforcement, made.earlier_usage, made.usage.prompt_tokens) == (Enforcement.REASK, (), 120)
    assert len(provider.completions) == 1
    assert provider.completions[0].body["max_tokens"] == 256
    assert provider.completions[0].body["temperature"] == 0.0


async def test_an_invalid_answer_is_asked_for_again_once_and_both_are_counted(
    backend: Backend, provider: FakeProvider
) -> None:
    _answers(provider, '{"rationale": "x", "verdict": "maybe"}', GOOD)
    made = await backend.complete(request(pair_ask()))
    assert json.loads(made.text)["verdict"] == "first"
    assert [usage.prompt_tokens for usage in made.earlier_usage] == [120]
    assert len(provider.completions) == 2
    assert len(provider.completions[1].body["messages"]) > len(provider.completions[0].body["messages"])


async def test_an_answer_that_stays_invalid_is_handed_on_as_it_is(
    backend: Backend, provider: FakeProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bad = '{"rationale": "x", "verdict": "maybe"}'
    _answers(provider, bad, bad, GOOD)
    made = await backend.complete(request(pair_ask()))
    assert made.text == bad
    assert len(made.earlier_usage) == 1
    assert len(provider.completions) == 2
    assert "maybe" not in caplog.text


@pytest.mark.parametrize("reply", [fake.REFUSAL, fake.FILTERED, fake.CUT])
async def test_a_refusal_or_a_cut_is_not_asked_again(backend: Backend, provider: FakeProvider, reply: Reply) -> None:
    provider.script = [reply]
    made = await backend.complete(request(pair_ask()))
    assert len(provider.completions) == 1
    assert (made.refusal, made.finish_reason) == (reply.refusal, reply.finish_reason)


@pytest.mark.parametrize(
    ("reply", "reason", "wait"),
    [
        (fake.rate_limited("4"), JudgeErrorReason.RATE_LIMITED, 4.0),
        (fake.UNAUTHORIZED, JudgeErrorReason.PROVIDER_ERROR, None),
        (fake.context_overflow(), JudgeErrorReason.CONTEXT_OVERFLOW, None),
        (fake.content_filter_400("custom"), JudgeErrorReason.CONTENT_FILTERED, None),
        (fake.SERVER_ERROR, JudgeErrorReason.PROVIDER_ERROR, None),
    ],
)
async def test_a_failed_request_is_not_asked_again(
    backend: Backend, provider: FakeProvider, reply: Reply, reason: JudgeErrorReason, wait: float | None
) -> None:
    provider.script = [reply]
    with pytest.raises(BackendFailure) as caught:
        await backend.complete(request(pair_ask()))
    assert (caught.value.reason, caught.value.retry_after_s) == (reason, wait)
    assert "SECRET123" not in caught.value.message
    assert len(provider.completions) == 1


async def test_a_hanging_server_ends_at_the_limit(backend: Backend, provider: FakeProvider) -> None:
    _answers(provider, GOOD)
    await backend.complete(request(pair_ask()))
    provider.script = [fake.hanging("drip")]
    with pytest.raises(BackendFailure) as caught:
        await backend.complete(request(pair_ask(), timeout_s=0.3))
    assert caught.value.reason is JudgeErrorReason.TIMEOUT


@pytest.mark.parametrize(
    "body", [{"id": "x"}, [1], {"choices": []}, {"choices": {"0": 1}}, {"choices": [{"message": 3}]}]
)
async def test_an_answer_of_another_shape_is_a_failure(backend: Backend, provider: FakeProvider, body: Any) -> None:
    provider.script = [Reply(body=body)]
    with pytest.raises(BackendFailure) as caught:
        await backend.complete(request(pair_ask()))
    assert caught.value.reason is JudgeErrorReason.PROVIDER_ERROR
    assert len(provider.completions) == 1


async def test_a_bare_label_is_asked_for_plainly(backend: Backend, provider: FakeProvider) -> None:
    provider.script = [Reply(content="A")]
    made = await backend.complete(request(choice_ask()))
    assert (made.text, made.enforcement) == ("A", Enforcement.NONE)
    assert "tools" not in provider.completions[0].body


async def test_the_probe_needs_no_constraint(backend: Backend, provider: FakeProvider) -> None:
    found = await backend.probe()
    assert (found.ready, found.constraint_honoured) == (True, None)
