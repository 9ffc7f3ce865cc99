"""What every backend over HTTP makes of a provider's faults, against a real server on loopback."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from judge_service.backends import via_litellm, via_openai, via_outlines
from judge_service.backends.base import Backend, BackendFailure
from judge_service.domain.canonical import content_hash
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import Enforcement, JudgeErrorReason
from judge_service.errors import ConfigurationError
from judge_service.settings import Settings
from tests.support import fake_provider as fake
from tests.support.asks import choice_ask, pair_ask, request
from tests.support.fake_provider import FakeProvider, Reply
from tests.support.waiting import LONG_ENOUGH_S

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
KEY = "sk-test-SECRET123abc"
Open = Callable[..., Backend]

MODULES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "litellm": (via_litellm, "litellm", {}),
    "openai": (via_openai, "openai", {}),
    "outlines-vllm": (via_outlines, "outlines", {"engine": "vllm"}),
    "outlines-litellm": (via_outlines, "outlines", {"engine": "vllm", "client": "litellm"}),
}


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with FakeProvider() as running:
        yield running


@pytest.fixture(params=MODULES)
async def open_backend(
    request: pytest.FixtureRequest, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Open]:
    module, name, fixed = MODULES[request.param]
    opened: list[Backend] = []
    monkeypatch.setenv("FAKE_KEY", KEY)

    def build(**options: Any) -> Backend:
        judge = Judge(
            name="j",
            backend=name,
            model="some-model",
            options={"base_url": provider.url, "api_key_env": "FAKE_KEY", **fixed, **options},
        )
        opened.append(module.open_backend(judge, Settings(), clock=lambda: NOW))
        return opened[-1]

    yield build
    for backend in opened:
        await backend.aclose()
        await backend.aclose()


async def _fails(backend: Backend, **kwargs: Any) -> BackendFailure:
    with pytest.raises(BackendFailure) as caught:
        await backend.complete(request(pair_ask(), order="AB", **kwargs))
    return caught.value


FAULTS = {
    "429": (fake.rate_limited("7"), JudgeErrorReason.RATE_LIMITED, True, 7.0, False),
    "429 date": (fake.rate_limited(NOW + timedelta(seconds=90)), JudgeErrorReason.RATE_LIMITED, True, 90.0, False),
    "429 past date": (fake.rate_limited(NOW - timedelta(days=1)), JudgeErrorReason.RATE_LIMITED, True, 0.0, False),
    "429 bare": (fake.rate_limited(), JudgeErrorReason.RATE_LIMITED, True, None, False),
    "429 nonsense": (fake.rate_limited("soon"), JudgeErrorReason.RATE_LIMITED, True, None, False),
    "429 quota": (
        fake.error(429, "You exceeded your current quota", code="insufficient_quota"),
        JudgeErrorReason.PROVIDER_ERROR,
        False,
        None,
        True,
    ),
    "500": (fake.SERVER_ERROR, JudgeErrorReason.PROVIDER_ERROR, True, None, False),
    "503": (fake.UNAVAILABLE, JudgeErrorReason.PROVIDER_ERROR, True, None, False),
    "503 wait": (fake.error(503, "busy", Retry_After="3"), JudgeErrorReason.PROVIDER_ERROR, True, 3.0, False),
    "401": (fake.UNAUTHORIZED, JudgeErrorReason.PROVIDER_ERROR, False, None, True),
    "403": (fake.FORBIDDEN, JudgeErrorReason.PROVIDER_ERROR, False, None, True),
    "404": (fake.error(404, "no model x?key=" + KEY), JudgeErrorReason.PROVIDER_ERROR, False, None, False),
    "400": (fake.error(400, "bad schema " + KEY), JudgeErrorReason.PROVIDER_ERROR, False, None, False),
    "400 max_tokens": (
        fake.error(400, "max_tokens is too large: 999999."),
        JudgeErrorReason.PROVIDER_ERROR,
        False,
        None,
        False,
    ),
    "overflow openai": (fake.context_overflow(), JudgeErrorReason.CONTEXT_OVERFLOW, False, None, False),
    "overflow llama": (fake.context_overflow("llama.cpp"), JudgeErrorReason.CONTEXT_OVERFLOW, False, None, False),
    "overflow vllm": (fake.context_overflow("vllm"), JudgeErrorReason.CONTEXT_OVERFLOW, False, None, False),
    "filter openai": (fake.content_filter_400(), JudgeErrorReason.CONTENT_FILTERED, False, None, False),
    "filter azure": (fake.content_filter_400("azure"), JudgeErrorReason.CONTENT_FILTERED, False, None, False),
    "filter custom": (fake.content_filter_400("custom"), JudgeErrorReason.CONTENT_FILTERED, False, None, False),
    "cut body": (fake.hanging("close"), JudgeErrorReason.PROVIDER_ERROR, True, None, False),
    "no byte": (fake.hanging("gone"), JudgeErrorReason.PROVIDER_ERROR, True, None, False),
    "redirect": (
        fake.error(302, "moved", Location="http://127.0.0.1:9/elsewhere"),
        JudgeErrorReason.PROVIDER_ERROR,
        False,
        None,
        False,
    ),
    "no choices": (Reply(body={"id": "x"}), JudgeErrorReason.PROVIDER_ERROR, True, None, False),
    "a list": (Reply(body=[1]), JudgeErrorReason.PROVIDER_ERROR, True, None, False),
    "empty choices": (Reply(body={"id": "x", "choices": []}), JudgeErrorReason.PROVIDER_ERROR, True, None, False),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_each_fault_has_its_reason_and_one_call(
    open_backend: Open, provider: FakeProvider, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    reply, reason, retryable, wait, fatal = FAULTS[fault]
    provider.script = [reply]
    backend = open_backend()
    with caplog.at_level(logging.DEBUG):
        failure = await _fails(backend)
    found = (failure.reason, failure.retryable, failure.retry_after_s, failure.fatal)
    assert found == (reason, retryable, wait, fatal), failure.message
    assert len(provider.completions) == 1
    assert "SECRET123" not in failure.message
    assert "Which answer" not in failure.message
    assert "SECRET123" not in caplog.text
    assert str(reply.status) in failure.message or reply.status == 200


@pytest.mark.parametrize("how", ["headers", "body", "drip"])
async def test_a_hanging_server_ends_at_the_limit_and_frees_its_connection(
    open_backend: Open, provider: FakeProvider, how: str
) -> None:
    backend = open_backend()
    await backend.complete(request(pair_ask()))  # the SDK is loaded now
    provider.script = [fake.hanging(how)]
    async with asyncio.timeout(LONG_ENOUGH_S):
        failure = await _fails(backend, timeout_s=0.3)
    assert (failure.reason, failure.retryable) == (JudgeErrorReason.TIMEOUT, True)
    assert (await backend.complete(request(pair_ask()))).finish_reason == "stop"
    await fake.until(lambda: provider.open_requests == 0)


async def test_a_server_that_is_not_there(open_backend: Open, provider: FakeProvider) -> None:
    failure = await _fails(open_backend(base_url="http://127.0.0.1:9/v1"))
    assert (failure.reason, failure.retryable) == (JudgeErrorReason.PROVIDER_ERROR, True)
    assert "127.0.0.1:9" in failure.message


async def test_refusal_filter_and_cut_are_answers_that_say_so(open_backend: Open, provider: FakeProvider) -> None:
    backend = open_backend()
    provider.script = [fake.REFUSAL, fake.FILTERED, fake.CUT, fake.PROSE]
    refused = await backend.complete(request(pair_ask()))
    assert (refused.refusal, refused.text) == ("I can't help with that.", "")
    filtered = await backend.complete(request(pair_ask()))
    assert (filtered.finish_reason, filtered.text) == ("content_filter", "")
    cut = await backend.complete(request(pair_ask()))
    assert (cut.finish_reason, cut.text) == ("length", fake.CUT.content)
    prose = await backend.complete(request(pair_ask()))
    assert prose.text == fake.PROSE.content


async def test_a_completion_carries_everything(open_backend: Open, provider: FakeProvider) -> None:
    provider.script = [
        Reply(
            model="some-model-2026-01",
            usage={"prompt_tokens": 1000, "completion_tokens": 50, "prompt_tokens_details": {"cached_tokens": 900}},
            logprobs=[{"A": 0.75, "B": 0.25}],
        ),
        Reply(usage=None),
    ]
    backend = open_backend(extra_body={"cache_prompt": True})
    made = await backend.complete(request(pair_ask(), want_probabilities=True))
    assert made.model == "some-model-2026-01"
    assert (made.usage.prompt_tokens, made.usage.completion_tokens, made.usage.cached_tokens) == (1000, 50, 900)
    assert made.usage.cost_usd is None
    assert made.tokens is not None
    assert {label: round(math.exp(p), 6) for label, p in made.tokens[0].top} == {"A": 0.75, "B": 0.25}
    assert made.parameters_dropped == ()
    sent = provider.completions[0].body
    for name, value in {"temperature": 0.0, "seed": 0, "max_tokens": 256, "logprobs": True, "top_logprobs": 20}.items():
        assert sent[name] == value
        assert made.parameters_sent[name] == value
    assert sent["cache_prompt"] is True
    constraint = next(name for name in ("response_format", "structured_outputs") if name in sent)
    assert made.parameters_sent[constraint] == {"sha256": content_hash(sent[constraint])}
    assert sent["messages"] == [
        {"role": "system", "content": "You judge."},
        {"role": "user", "content": "Which answer is better?"},
    ]
    assert provider.completions[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in repr(made)
    unknown = await backend.complete(request(pair_ask()))
    assert (unknown.usage.prompt_tokens, unknown.usage.completion_tokens, unknown.usage.cost_usd) == (None, None, None)
    assert unknown.tokens is None


async def test_a_server_that_refuses_logprobs_is_asked_without_from_then_on(
    open_backend: Open, provider: FakeProvider
) -> None:
    provider.script = [fake.error(400, "Logprobs is not supported for this model.")]
    backend = open_backend()
    failure = await _fails(backend, want_probabilities=True)
    assert failure.retryable
    again = await backend.complete(request(pair_ask(), want_probabilities=True))
    assert "logprobs" not in provider.completions[1].body
    assert again.parameters_dropped == ("logprobs",)
    assert backend.capabilities.logprobs is False


async def test_the_probe_finds_out_whether_the_constraint_is_honoured(
    open_backend: Open, provider: FakeProvider
) -> None:
    backend = open_backend()
    found = await backend.probe()
    assert (found.ready, found.constraint_honoured, found.logprobs) == (True, True, True)
    calls = len(provider.completions)
    assert calls == 2
    assert await backend.probe() == found
    assert len(provider.completions) == calls
    provider.script = [fake.PROSE, fake.error(400, "logprobs are not supported")]
    deaf = await open_backend(extra_body={"n": 1}).probe()
    assert (deaf.ready, deaf.constraint_honoured, deaf.logprobs) == (True, False, False)
    provider.script = [fake.UNAUTHORIZED]
    refused = await open_backend(extra_body={"n": 2}).probe()
    assert not refused.ready
    assert refused.message.startswith("401 from 127.0.0.1")


async def test_many_at_once_share_one_backend(open_backend: Open, provider: FakeProvider) -> None:
    backend = open_backend()
    replies = await asyncio.gather(*(backend.complete(request(pair_ask())) for _ in range(30)))
    assert {reply.text for reply in replies} == {'{"rationale":"x","verdict":"first"}'}
    assert len(provider.completions) == 30


async def test_a_cancelled_call_is_cancelled(open_backend: Open, provider: FakeProvider) -> None:
    backend = open_backend()
    await backend.complete(request(pair_ask()))
    provider.script = [fake.hanging("headers")]
    task = asyncio.ensure_future(backend.complete(request(pair_ask())))
    await fake.until(lambda: provider.open_requests == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_choice_is_sent_as_the_engine_takes_it(open_backend: Open, provider: FakeProvider) -> None:
    backend = open_backend()
    made = await backend.complete(request(choice_ask()))
    if made.enforcement is Enforcement.GRAMMAR:
        assert provider.completions[0].body["structured_outputs"] == {"regex": "(A|B)"}
        assert made.text == "A"
    else:
        assert made.enforcement is Enforcement.NONE
        assert "response_format" not in provider.completions[0].body


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/",
        "http://2852039166/",
        "http://0xA9FEA9FE/v1",
        "http://0251.0376.0251.0376/",
        "http://169.254.43518/",
        "http://[::ffff:169.254.169.254]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[fe80::1]/",
        "http://[fd00:ec2::254]/",
        "http://１６９.２５４.１６９.２５４/",
        "http://169.254.169.254./",
        "http://metadata.google.internal/computeMetadata",
        "http://0x7f000001:8000/",
        "file:///x",
        "ftp://example.org/",
        "https://user:pw@example.org/",
        "https://example.org/v1?key=abc",
        "example.org/v1",
        "http://",
        "http://host:99999/",
    ],
)
def test_addresses_that_are_refused_when_configured(open_backend: Open, url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_backend(base_url=url)
    assert caught.value.fields[0].path == "options.base_url"


async def test_a_name_that_resolves_to_a_refused_address_gets_no_request(
    open_backend: Open, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = provider.port
    answers = {"rebind.example.org": "127.0.0.1", "meta.example.org": "169.254.169.254", "gpu-box": "127.0.0.1"}
    loop = asyncio.get_running_loop()

    async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        return [(2, 1, 6, "", (answers[host], port))]

    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
    monkeypatch.setenv("NO_PROXY", "*")
    for host, options in (
        ("meta.example.org", {}),
        ("meta.example.org", {"allow_private": True}),
        ("rebind.example.org", {}),
    ):
        failure = await _fails(open_backend(base_url=f"http://{host}:{port}/v1", **options))
        assert failure.fatal
        assert "No request was sent" in failure.message
    assert provider.connections == 0
    for host, options in (("gpu-box", {}), ("rebind.example.org", {"allow_private": True})):
        await open_backend(base_url=f"http://{host}:{port}/v1", **options).complete(request(pair_ask()))
    assert len(provider.completions) == 2


def test_configuration_is_checked_when_the_backend_is_opened(
    open_backend: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_backend(api_key_env="NOT_SET_ANYWHERE")
    assert caught.value.fields[0].path == "options.api_key_env"
    with pytest.raises(ConfigurationError) as caught:
        open_backend(api_key="sk-test-SECRET123abc")
    assert caught.value.fields[0].path == "options.api_key"
    assert "SECRET123" not in str(caught.value) + str(caught.value.fields)
    with pytest.raises(ConfigurationError):
        open_backend(base_url=None, constraint="grammar", engine="vllm")


@pytest.mark.parametrize("name", MODULES)
def test_a_script_may_run_one_loop_after_another(name: str, provider: FakeProvider) -> None:
    module, backend_name, fixed = MODULES[name]
    judge = Judge(name="j", backend=backend_name, model="m", options={"base_url": provider.url, **fixed})
    backend = module.open_backend(judge, Settings())

    async def two_at_once() -> list[Any]:
        try:
            return list(await asyncio.gather(*(backend.complete(request(pair_ask())) for _ in range(2))))
        finally:
            await backend.aclose()

    for _ in range(2):
        assert [made.finish_reason for made in asyncio.run(two_at_once())] == ["stop", "stop"]


async def test_a_key_of_another_provider_is_never_sent_to_a_server_of_ones_own(
    open_backend: Open, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other-SECRET456")
    await open_backend(api_key_env=None).complete(request(pair_ask()))
    assert provider.completions[0].headers["authorization"] == "Bearer none"
    assert "SECRET456" not in str(provider.completions[0])
