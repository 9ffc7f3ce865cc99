"""The embedded judge model for real: enforcement, canary, limits, probabilities, repeatability, the locked server."""

import asyncio
import json
import math
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from judge_service.backends import embedded
from judge_service.backends.base import BackendFailure, Completion, Request
from judge_service.backends.embedded import EmbeddedBackend, open_backend
from judge_service.backends.grammar import compile_constraint
from judge_service.domain.judge import Judge, Sampling
from judge_service.domain.outcome import Enforcement, JudgeErrorReason
from judge_service.errors import ConfigurationError, MissingDependency, MissingModel
from judge_service.settings import Settings
from rubrics.model import Ask, ChoiceConstraint, JsonConstraint, Message
from tests.support.asks import choice_ask, extract_ask, pair_ask, request, verify_ask
from tests.support.engine_server import engine_server, model_settings
from tests.support.waiting import LONG_ENOUGH_S

JUDGE = Judge(name="small", backend="embedded")
CLAIMS = {"c1": "Oslo has ten harbours.", "c2": "The mayor signed in May."}
PASSAGES = {"p1": "The mayor of Oslo signed the treaty in March."}


def talk(text: str) -> tuple[Message, ...]:
    return (Message("system", "You are a careful judge."), Message("user", text))


def ask_about(text: str, constraint: JsonConstraint | ChoiceConstraint | None = None) -> Ask:
    ask = pair_ask()
    return Ask("compare", talk(text), constraint or ask.constraint, ask.verdicts, ask.items)


@pytest.fixture
async def backend() -> AsyncIterator[EmbeddedBackend]:
    opened = open_backend(JUDGE, model_settings())
    yield opened
    await opened.aclose()


pytestmark = pytest.mark.model


async def test_replies_obey_the_schema_and_say_what_was_sent(backend: EmbeddedBackend) -> None:
    reply = await backend.complete(request(ask_about("Which is better? First: ten. Second: eleven."), timeout_s=300))
    value = json.loads(reply.text)
    assert list(value) == ["rationale", "verdict"]
    assert value["verdict"] in ("first", "second", "tie")
    assert (reply.finish_reason, reply.enforcement, reply.refusal) == ("stop", Enforcement.GRAMMAR, None)
    assert reply.tokens is None
    assert reply.model.startswith("SmolLM2-135M")
    assert reply.usage.prompt_tokens is not None
    assert reply.usage.prompt_tokens > 10
    assert reply.usage.cached_tokens == 0
    assert reply.usage.completion_tokens is not None
    assert reply.parameters_sent["temperature"] == 0.0
    assert reply.parameters_sent["max_tokens"] == 256
    assert "messages" not in reply.parameters_sent
    assert len(reply.engine["model_sha256"]) == 64
    assert reply.engine["slots"] == 1
    assert reply.engine["threads"] >= 1
    assert reply.engine["version"]
    assert backend.capabilities.revision is not None
    assert reply.engine["model_sha256"] in backend.capabilities.revision


@pytest.mark.parametrize(
    "ask",
    [pair_ask(), choice_ask(), extract_ask({"s1": "One.", "s2": "Two."}), verify_ask(CLAIMS, PASSAGES)],
    ids=["pair", "choice", "extract", "verify"],
)
async def test_adversarial_sampling_never_leaves_the_schema(backend: EmbeddedBackend, ask: Ask) -> None:
    assert isinstance(ask.constraint, JsonConstraint | ChoiceConstraint)
    compiled = compile_constraint(ask.constraint)
    for seed in range(4):
        sampling = Sampling(temperature=2.0, seed=seed)
        asked = request(ask, sampling=sampling, max_tokens=compiled.max_tokens * 3, timeout_s=300)
        reply = await backend.complete(asked)
        assert reply.finish_reason == "stop", reply
        if isinstance(ask.constraint, ChoiceConstraint):
            assert reply.text in ask.constraint.choices
        else:
            jsonschema.validate(json.loads(reply.text), dict(ask.constraint.schema))
            ask.constraint.model.model_validate_json(reply.text)


async def test_the_canary_passes_and_gives_log_probabilities(backend: EmbeddedBackend) -> None:
    found = await backend.probe()
    assert (found.ready, found.constraint_honoured, found.logprobs, found.message) == (True, True, True, "ready")


async def test_a_grammar_that_the_engine_drops_is_an_error_and_no_verdict(
    backend: EmbeddedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real engine is given a grammar it cannot compile: it writes prose with `stop`, and that must not count."""
    true_body = embedded.Engine.body

    def broken(self: embedded.Engine, messages: Any, grammar: str, **rest: Any) -> dict[str, Any]:
        dropped = '%llguidance {}\nstart: %json {"type": "array", "uniqueItems": true}'
        return true_body(self, messages, dropped, **rest)

    await backend.probe()
    monkeypatch.setattr(embedded.Engine, "body", broken)
    with pytest.raises(BackendFailure) as caught:
        await backend.complete(request(ask_about("Say hello."), max_tokens=16, timeout_s=300))
    failure = caught.value
    assert failure.reason is JudgeErrorReason.PROVIDER_ERROR
    assert failure.message == "constraint not enforced by the embedded engine"
    assert not failure.retryable
    assert failure.raw
    found = await backend.probe()
    assert (found.ready, found.constraint_honoured) == (False, False)


async def test_an_engine_that_fails_its_canary_at_start_answers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_CANARY_GRAMMAR", '%llguidance {}\nstart: "free text"')
    backend = open_backend(JUDGE, model_settings().model_copy(update={"context_tokens": 1024}))
    try:
        for _ in range(2):
            with pytest.raises(BackendFailure, match="constraint not enforced by the embedded engine"):
                await backend.complete(request(choice_ask(), timeout_s=300))
        assert (await backend.probe()).constraint_honoured is False
    finally:
        await backend.aclose()


async def test_a_constraint_that_does_not_compile_never_reaches_the_engine(backend: EmbeddedBackend) -> None:
    pair = pair_ask().constraint
    assert isinstance(pair, JsonConstraint)
    schema = {**pair.schema, "properties": {**pair.schema["properties"], "verdict": {"type": "number"}}}
    constraint = JsonConstraint(pair.model, schema)
    report = backend.compile(constraint)
    assert report.enforcement is Enforcement.NONE
    assert report.error is not None
    assert "verdict" in report.error
    with pytest.raises(BackendFailure, match="verdict: type 'number'"):
        await backend.complete(request(ask_about("x", constraint)))
    assert backend.compile(pair).enforcement is Enforcement.GRAMMAR


async def test_a_prompt_that_does_not_fit_names_both_numbers_and_costs_no_call(
    backend: EmbeddedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = backend.capabilities.context_tokens
    assert window == 4096
    asked = request(ask_about("fish " * 4000), timeout_s=300)
    prompt = await backend.count_tokens(asked)
    assert prompt is not None
    assert prompt > 4000
    untouchable = OddServer([], AssertionError("the engine was asked"))
    monkeypatch.setattr(backend._engine, "_server", untouchable)
    with pytest.raises(BackendFailure) as caught:
        await backend.complete(asked)
    assert caught.value.reason is JudgeErrorReason.CONTEXT_OVERFLOW
    assert str(prompt + 256) in caught.value.message
    assert "4096" in caught.value.message
    short = request(ask_about("fish"), max_tokens=4096)
    with pytest.raises(BackendFailure) as caught:
        await backend.complete(short)
    assert caught.value.reason is JudgeErrorReason.CONTEXT_OVERFLOW


async def test_counted_prompt_tokens_are_those_used(backend: EmbeddedBackend) -> None:
    for ask in (pair_ask(), ask_about("Zwölf Boxkämpfer jagen 🐟 <|im_end|> quer.")):
        asked = request(ask, timeout_s=300)
        reply = await backend.complete(asked)
        assert await backend.count_tokens(asked) == reply.usage.prompt_tokens


async def test_a_reply_that_is_cut_says_so(backend: EmbeddedBackend) -> None:
    reply = await backend.complete(request(ask_about("Explain at length."), max_tokens=6, timeout_s=300))
    assert reply.finish_reason == "length"
    assert reply.text.startswith('{"rationale":"')
    assert reply.usage.completion_tokens == 6


def mass(reply: Completion, labels: tuple[str, ...]) -> dict[str, float]:
    assert reply.tokens is not None
    return {token: math.exp(value) for token, value in reply.tokens[0].top if token in labels}


async def test_log_probabilities_are_those_before_the_mask(backend: EmbeddedBackend) -> None:
    ask = Ask("compare", talk("Which is better, A: red or B: blue?"), ChoiceConstraint(("A", "B")), {}, {})
    asked = request(ask, want_probabilities=True, max_tokens=4, timeout_s=300)
    reply = await backend.complete(asked)
    assert reply.tokens is not None
    assert reply.tokens[0].token == reply.text
    assert len(reply.tokens[0].top) == 50
    found = mass(reply, ("A", "B"))
    assert set(found) == {"A", "B"}
    # Most of the mass may lie on words that the grammar forbids: it is not renormalised here.
    assert 0.0 < sum(found.values()) < 0.95
    assert sum(math.exp(value) for _, value in reply.tokens[0].top) <= 1.0 + 1e-6
    chosen = max(found, key=lambda label: found[label])
    assert reply.text == chosen
    wide = await backend.complete(
        request(ask, want_probabilities=True, sampling=Sampling(top_logprobs=200), max_tokens=4, timeout_s=300)
    )
    assert wide.tokens is not None
    assert len(wide.tokens[0].top) == 200
    hot = await backend.complete(
        request(ask, want_probabilities=True, sampling=Sampling(temperature=1.5), max_tokens=4, timeout_s=300)
    )
    assert mass(hot, ("A", "B")) == found


async def test_the_tokens_of_a_reply_join_to_its_text(backend: EmbeddedBackend) -> None:
    reply = await backend.complete(request(ask_about("Compare."), want_probabilities=True, timeout_s=300))
    assert reply.tokens is not None
    assert "".join(token.token for token in reply.tokens) == reply.text


def asks_of_a_run() -> list[Request]:
    shared = "Read the rubric below and follow it. The answer must be faithful to the context. " * 3
    return [
        request(ask, want_probabilities=True, timeout_s=120, max_tokens=180)
        for n in range(2)
        for ask in (
            ask_about(f"{shared} First: {n} fish. Second: {'many ' * 9 * n}fish."),
            Ask("c", talk(f"{shared} Case {n}. A or B?"), ChoiceConstraint(("A", "B")), {}, {}),
        )
    ]


async def test_the_same_requests_give_the_same_bytes_whatever_came_before_or_runs_beside() -> None:
    settings = model_settings()
    asks = asks_of_a_run()

    async def run(order: list[int], *, together: bool) -> dict[int, Any]:
        backend = open_backend(JUDGE, settings)
        assert backend.capabilities.deterministic
        try:
            if together:
                replies = await asyncio.gather(*(backend.complete(asks[n]) for n in order))
            else:
                replies = [await backend.complete(asks[n]) for n in order]
        finally:
            await backend.aclose()
        return {n: (reply.text, reply.tokens, reply.usage) for n, reply in zip(order, replies, strict=True)}

    forward = list(range(len(asks)))
    first = await run(forward, together=False)
    assert await run(forward[::-1], together=False) == first
    assert await run(forward, together=True) == first


async def test_twenty_requests_at_once_all_end_and_the_event_loop_stays_free(backend: EmbeddedBackend) -> None:
    await backend.probe()
    beats, running = 0, True

    async def heartbeat() -> None:
        nonlocal beats
        while running:
            await asyncio.sleep(0.001)
            beats += 1

    pulse = asyncio.create_task(heartbeat())
    asked = [request(ask_about(f"Case {n}: A or B?", ChoiceConstraint(("A", "B"))), timeout_s=300) for n in range(20)]
    replies = await asyncio.gather(*(backend.complete(one) for one in asked))
    running = False
    await pulse
    assert all(reply.text in ("A", "B") for reply in replies)
    # A loop that waited for each answer would get a turn or two between them.
    assert beats > 10 * len(asked)


async def test_a_request_beyond_its_time_ends_and_frees_its_slot(backend: EmbeddedBackend) -> None:
    await backend.probe()
    slow = request(ask_about("fish and chips " * 900), timeout_s=0.05)
    started = time.process_time()
    with pytest.raises(BackendFailure) as caught:
        await backend.complete(slow)
    # Work of this process, the engine's threads among it: to the end it would be many times as much.
    assert time.process_time() - started < 10.0
    assert (caught.value.reason, caught.value.retryable) == (JudgeErrorReason.TIMEOUT, True)
    after = await backend.complete(request(ask_about("A or B?", ChoiceConstraint(("A", "B"))), timeout_s=300))
    assert after.text in ("A", "B")


class BusyServer:
    """Stands in for an engine that is busy until it is told to go on."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def handle_chat_completions(self, body: Any, take: Any) -> None:
        self.go_on.wait(LONG_ENOUGH_S)
        take({"choices": [{"delta": {"content": "A"}, "finish_reason": "stop"}]})


async def test_waiting_for_a_slot_does_not_use_up_a_requests_time(
    backend: EmbeddedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    await backend.probe()
    server = BusyServer()
    monkeypatch.setattr(backend._engine, "_server", server)
    busy = asyncio.create_task(backend.complete(request(choice_ask(), timeout_s=30)))
    queued = asyncio.create_task(backend.complete(request(choice_ask(), timeout_s=0.05)))
    done, _ = await asyncio.wait({queued}, timeout=0.3)
    assert not done
    server.go_on.set()
    assert [(await task).text for task in (busy, queued)] == ["A", "A"]


async def test_a_cancelled_request_leaves_the_queue_or_the_engine(backend: EmbeddedBackend) -> None:
    await backend.probe()
    tasks = [asyncio.create_task(backend.complete(request(ask_about("fish " * 2000), timeout_s=300))) for _ in range(6)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ended)
    started = time.process_time()
    reply = await backend.complete(request(ask_about("A or B?", ChoiceConstraint(("A", "B"))), timeout_s=300))
    assert reply.text in ("A", "B")
    # Six prompts of 2,000 tokens take this model over a minute.
    assert time.process_time() - started < 60.0


async def test_text_the_engine_cannot_read_is_a_failure_of_the_call(backend: EmbeddedBackend) -> None:
    with pytest.raises(BackendFailure) as caught:
        await backend.complete(request(ask_about("half a surrogate: \ud800")))
    assert caught.value.reason is JudgeErrorReason.PROVIDER_ERROR
    assert not caught.value.retryable


class OddServer:
    """Stands in for the engine's object: answers as the real one does when something is wrong with it."""

    def __init__(self, chunks: list[Any], error: Exception | None = None) -> None:
        self.chunks, self.error = chunks, error

    def handle_chat_completions(self, body: Any, take: Any) -> None:
        if self.error is not None:
            raise self.error
        for chunk in self.chunks:
            if take(chunk):
                return


OVERFLOW = {"error": {"type": "exceed_context_size_error", "message": "request (9 tokens) exceeds"}}


@pytest.mark.parametrize(
    ("server", "reason", "words"),
    [
        (OddServer([OVERFLOW]), JudgeErrorReason.CONTEXT_OVERFLOW, "exceeds"),
        (OddServer([{"error": "gone"}]), JudgeErrorReason.PROVIDER_ERROR, "no message"),
        (OddServer([]), JudgeErrorReason.PROVIDER_ERROR, "without a finish reason"),
        (OddServer(["what?"]), JudgeErrorReason.PROVIDER_ERROR, "cannot be read"),
        (OddServer([{"choices": [{"delta": 3}]}]), JudgeErrorReason.PROVIDER_ERROR, "cannot be read"),
        (OddServer([{"choices": 1}]), JudgeErrorReason.PROVIDER_ERROR, "cannot be read"),
        (
            OddServer([{"choices": [{"logprobs": {"content": [{}]}}]}]),
            JudgeErrorReason.PROVIDER_ERROR,
            "cannot be read",
        ),
        (OddServer([], ValueError("secret prompt")), JudgeErrorReason.PROVIDER_ERROR, "refused the request"),
        (
            OddServer([{"choices": [{"delta": {"content": "first"}, "finish_reason": "stop"}]}]),
            JudgeErrorReason.PROVIDER_ERROR,
            "constraint not enforced",
        ),
    ],
)
async def test_odd_answers_of_the_engine_are_failures_with_a_reason(
    backend: EmbeddedBackend, monkeypatch: pytest.MonkeyPatch, server: OddServer, reason: JudgeErrorReason, words: str
) -> None:
    await backend.probe()
    monkeypatch.setattr(backend._engine, "_server", server)
    with pytest.raises(BackendFailure) as caught:
        await backend.complete(request(pair_ask()))
    assert caught.value.reason is reason
    assert words in caught.value.message
    assert "secret" not in caught.value.message


async def test_the_loopback_server_is_locked() -> None:
    async with engine_server() as endpoint, httpx.AsyncClient(base_url=endpoint.base_url, trust_env=False) as client:
        assert endpoint.base_url.startswith("http://127.0.0.1:")
        assert endpoint.api_key not in repr(endpoint)
        body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
        origin = {"Origin": "https://attacker.example"}
        refused = await client.post("/chat/completions", json=body, headers=origin)
        assert refused.status_code == 401
        wrong = await client.post("/chat/completions", json=body, headers={"Authorization": "Bearer wrong"})
        assert wrong.status_code == 401
        headers = {"Authorization": f"Bearer {endpoint.api_key}"}
        allowed = await client.post("/chat/completions", json=body, headers=headers | origin, timeout=LONG_ENOUGH_S)
        assert allowed.status_code == 200
        preflight = await client.options(
            "/chat/completions", headers=origin | {"Access-Control-Request-Method": "POST"}
        )
        for response in (refused, wrong, allowed, preflight):
            assert response.headers.get("access-control-allow-origin", "") == ""


async def test_judges_with_the_same_model_share_one_engine_and_the_last_one_unloads_it() -> None:
    settings = model_settings()
    one, other = open_backend(JUDGE, settings), open_backend(JUDGE.model_copy(update={"name": "other"}), settings)
    apart = open_backend(JUDGE.model_copy(update={"options": {"reuse_prefix": True}}), settings)
    assert one._engine is other._engine
    assert apart._engine is not one._engine
    assert not apart.capabilities.deterministic
    assert one.capabilities.revision != apart.capabilities.revision
    await apart.aclose()
    await one.aclose()
    await one.aclose()
    assert (await other.probe()).ready
    await other.aclose()
    with pytest.raises(BackendFailure, match="closed"):
        await other.complete(request(pair_ask()))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("embedded-engine")]
    again = open_backend(JUDGE, settings)
    assert again._engine is not one._engine
    await again.aclose()


async def test_reusing_the_prompts_beginning_is_counted() -> None:
    judge = JUDGE.model_copy(update={"options": {"reuse_prefix": True}})
    backend = open_backend(judge, model_settings())
    try:
        ask = ask_about("A or B?", ChoiceConstraint(("A", "B")))
        await backend.complete(request(ask, timeout_s=300))
        again = await backend.complete(request(ask, timeout_s=300))
        assert again.usage.cached_tokens is not None
        assert again.usage.prompt_tokens is not None
        assert again.usage.cached_tokens == again.usage.prompt_tokens - 1
    finally:
        await backend.aclose()


def test_without_a_model_opening_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(MissingModel, match="judge-service models pull"):
        open_backend(JUDGE, Settings(data_dir=tmp_path))
    with pytest.raises(MissingModel, match="no model file"):
        open_backend(JUDGE.model_copy(update={"model": "missing.gguf"}), Settings(data_dir=tmp_path))


def test_options_are_checked(tmp_path: Path) -> None:
    odd = JUDGE.model_copy(update={"options": {"contxt": 1}})
    with pytest.raises(ConfigurationError) as caught:
        open_backend(odd, Settings(data_dir=tmp_path))
    assert [problem.path for problem in caught.value.fields] == ["options.contxt"]
    not_gguf = tmp_path / "model.gguf"
    not_gguf.write_bytes(b"not a model")
    with pytest.raises(ConfigurationError, match="not a GGUF file"):
        open_backend(JUDGE.model_copy(update={"options": {"model_path": str(not_gguf)}}), Settings(data_dir=tmp_path))
    with pytest.raises(ConfigurationError, match="asks for the model 'gpt-4o'"):
        open_backend(JUDGE.model_copy(update={"model": "gpt-4o"}), model_settings())


async def test_a_broken_model_file_is_a_failure_of_the_call(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\0" * 64)
    judge = JUDGE.model_copy(update={"options": {"model_path": str(broken)}})
    backend = open_backend(judge, Settings(data_dir=tmp_path))
    with pytest.raises(BackendFailure, match="could not be loaded"):
        await backend.complete(request(pair_ask()))
    await backend.aclose()


def test_an_engine_without_its_system_library_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "xllamacpp"
    package.mkdir()
    (package / "__init__.py").write_text('raise ImportError("libgomp.so.1: cannot open shared object file")')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    with pytest.raises(MissingDependency, match=r"libgomp\.so\.1: cannot open.*apt install libgomp1"):
        open_backend(Judge(name="embedded", backend="embedded"), Settings(data_dir=tmp_path))
