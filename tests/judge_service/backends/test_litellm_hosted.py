"""Hosted models: what is sent to whom by LiteLLM's own tables, without calling any of them."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from judge_service.backends import via_instructor, via_litellm
from judge_service.backends.base import Backend, BackendFailure
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import Enforcement
from judge_service.errors import ConfigurationError
from judge_service.settings import Settings
from tests.support.asks import PAIR_SCHEMA, choice_ask, pair_ask, request
from tests.support.fake_provider import FakeProvider, Reply

CONSTRAINT = pair_ask().constraint


@pytest.fixture
async def provider(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeProvider]:
    """A server that LiteLLM takes for OpenAI's own."""
    with FakeProvider() as running:
        monkeypatch.setenv("OPENAI_API_BASE", running.url)
        monkeypatch.setenv("MY_KEY", "sk-test-SECRET123abc")
        yield running


@pytest.fixture
def loaded() -> Iterator[None]:
    """LiteLLM is imported before a limit of time runs."""
    from judge_service.backends.clients import load_litellm

    load_litellm()
    return None


@pytest.fixture
async def opened() -> AsyncIterator[Callable[..., Backend]]:
    backends: list[Backend] = []

    def build(model: str, **options: object) -> Backend:
        judge = Judge(name="j", backend="litellm", model=model, options=options)
        backends.append(via_litellm.open_backend(judge, Settings()))
        return backends[-1]

    yield build
    for backend in backends:
        await backend.aclose()


async def test_openai_gets_the_strict_schema_and_its_price_is_known(
    provider: FakeProvider, opened: Callable[..., Backend]
) -> None:
    backend = opened("openai/gpt-4o-mini", api_key_env="MY_KEY")
    made = await backend.complete(request(pair_ask(), want_probabilities=True))
    sent = provider.completions[0].body
    assert sent["model"] == "gpt-4o-mini"
    assert sent["response_format"]["json_schema"]["strict"] is True
    assert "maxLength" not in str(sent["response_format"])
    assert (made.enforcement, made.parameters_dropped) == (Enforcement.PROVIDER, ())
    assert made.usage.cost_usd == pytest.approx((120 * 0.15 + 30 * 0.6) / 1e6)
    assert provider.completions[0].headers["authorization"] == "Bearer sk-test-SECRET123abc"
    report = backend.compile(CONSTRAINT)
    assert [(lost.path, lost.keyword) for lost in report.ignored] == [("rationale", "maxLength")]


async def test_what_a_reasoning_model_does_not_take_is_dropped_and_said(
    provider: FakeProvider, opened: Callable[..., Backend]
) -> None:
    backend = opened("openai/o3", api_key_env="MY_KEY")
    provider.script = [Reply(content='{"rationale":"x","verdict":"tie"}', model="o3-2025-04-16")]
    made = await backend.complete(request(pair_ask(), want_probabilities=True))
    assert made.parameters_dropped == ("logprobs", "temperature", "top_logprobs")
    assert made.model == "o3-2025-04-16"
    sent = provider.completions[0].body
    assert {"temperature", "logprobs", "top_logprobs"} & sent.keys() == set()
    assert sent["max_completion_tokens"] == 256
    assert "temperature" not in made.parameters_sent


@pytest.mark.parametrize(
    ("model", "lost"),
    [
        ("anthropic/claude-sonnet-4-5", {("rationale", "maxLength")}),
        ("gemini/gemini-2.5-flash", {("rationale", "maxLength")}),
        ("mistral/mistral-large-latest", {("rationale", "maxLength")}),
    ],
)
async def test_each_provider_has_its_own_form(
    loaded: None, model: str, lost: set[tuple[str, str]], opened: Callable[..., Backend]
) -> None:
    backend = opened(model)
    report = backend.compile(CONSTRAINT)
    assert report.enforcement is Enforcement.PROVIDER
    assert {(i.path, i.keyword) for i in report.ignored} == lost
    assert backend.compile(choice_ask().constraint).enforcement is Enforcement.NONE


async def test_a_chosen_token_without_alternatives_is_no_probability(
    provider: FakeProvider, opened: Callable[..., Backend]
) -> None:
    backend = opened("openai/m", base_url=provider.url)
    body = {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "A"},
                "logprobs": {"content": [{"token": "A", "logprob": -0.7, "bytes": [65], "top_logprobs": []}]},
            }
        ],
    }
    provider.script = [Reply(body=body)]
    assert (await backend.complete(request(choice_ask(), want_probabilities=True))).tokens is None


async def test_a_model_without_a_known_provider_is_said_once_and_for_all(
    loaded: None, opened: Callable[..., Backend]
) -> None:
    backend = opened("no-such-thing/foo")
    with pytest.raises(BackendFailure, match="write `provider/model`, or set base_url") as caught:
        await backend.complete(request(pair_ask()))
    assert caught.value.fatal
    assert backend.compile(CONSTRAINT).error is None
    assert not (await backend.probe()).ready


async def test_a_missing_key_is_a_refused_key(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch, opened: Callable[..., Backend]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    backend = opened("openai/gpt-4o-mini")
    with pytest.raises(BackendFailure, match="no key for OpenAI: set `api_key_env`") as caught:
        await backend.complete(request(pair_ask()))
    assert caught.value.fatal
    assert provider.completions == []


async def test_engine_constraints_need_an_address(opened: Callable[..., Backend]) -> None:
    for constraint in ("grammar", "vllm", "sglang", "tgi", "ollama"):
        with pytest.raises(ConfigurationError) as caught:
            opened("openai/m", constraint=constraint)
        assert caught.value.fields[0].path == "options.base_url"
    with pytest.raises(ConfigurationError) as caught:
        opened("")
    assert caught.value.fields[0].path == "model"


@pytest.mark.parametrize(("constraint", "field"), [("vllm", "structured_outputs"), ("tgi", "grammar")])
async def test_engine_constraints_reach_the_wire(
    provider: FakeProvider, constraint: str, field: str, opened: Callable[..., Backend]
) -> None:
    backend = opened("hosted_vllm/org/m", base_url=provider.url, constraint=constraint)
    made = await backend.complete(request(pair_ask()))
    assert made.enforcement is Enforcement.GRAMMAR
    sent = provider.completions[0].body
    assert sent["model"] == "org/m"
    assert PAIR_SCHEMA in sent[field].values()


async def test_instructor_takes_tools_where_the_model_has_them(provider: FakeProvider) -> None:
    judge = Judge(name="j", backend="instructor", model="openai/gpt-4o-mini", options={"api_key_env": "MY_KEY"})
    backend = via_instructor.open_backend(judge, Settings())
    made = await backend.complete(request(pair_ask()))
    await backend.aclose()
    assert provider.completions[0].body["tools"]
    assert made.text.startswith('{"')
