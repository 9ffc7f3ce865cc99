"""The embedded judge model: llama.cpp inside this process, every reply bound by a checked grammar.

Owns the engine (one per model file and settings in the process), its locked loopback server, deadlines, the
canary and the check that a reply obeys its grammar. The engine answers freely when it drops a grammar, and
nothing in its answer says so: such a reply is a failure here, never a verdict. Must not know rubrics or scores.
"""

import asyncio
import secrets
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from judge_service.backends import grammar as grammars
from judge_service.backends import weights
from judge_service.backends.base import (
    BackendFailure,
    Capabilities,
    CompileReport,
    Completion,
    ProbeResult,
    Request,
    TokenLogprob,
)
from judge_service.domain.call import Usage
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import Enforcement, JudgeErrorReason
from judge_service.errors import ConfigurationError, FieldProblem, MissingDependency
from judge_service.settings import Settings
from rubrics.model import Constraint, Message

_T = TypeVar("_T")

MIN_TOP_LOGPROBS = 50
"""Alternatives read per token when probabilities are wanted: labels the prompt does not favour stand far down."""

_BATCH = 256
"""Prompt tokens per step. A deadline is looked at between steps: half of the engine's usual step frees a slot twice as
soon and costs 2 % more processor time."""

_KEPT_COUNTS = 64

_NOT_ENFORCED = "constraint not enforced by the embedded engine"
_CANARY_PROMPT = (Message("user", "Write a short poem about the sea. Answer in plain prose, without any JSON."),)
_CANARY_GRAMMAR = '%llguidance {}\nstart: %json {"type": "object", "properties": {"canary": {"enum": ["zq-71"]}}, '
_CANARY_GRAMMAR += (
    '"required": ["canary"], "additionalProperties": false, "x-guidance": {"whitespace_flexible": false}}'
)
_CANARY_REPLY = '{"canary":"zq-71"}'


class EmbeddedOptions(BaseModel):
    """`options` of an embedded judge.

    `reuse_prefix` keeps the computed prompt beginning of earlier requests: faster, but a verdict may then depend
    on what was asked before (see docs/decisions/0003-embedded-determinism.md).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model_path: Path | None = None
    context_tokens: int | None = Field(default=None, ge=512)
    reuse_prefix: bool = False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The engine's own OpenAI-compatible server on loopback. `base_url` ends in `/v1`; the key is random."""

    base_url: str
    api_key: str = field(repr=False)
    model: str


def open_backend(judge: Judge, settings: Settings) -> "EmbeddedBackend":
    """A backend on the engine for this judge's model. The model is loaded by the first request.

    Raises MissingModel without a model file, MissingDependency without the engine, ConfigurationError for
    options that make no sense.
    """
    try:
        options = EmbeddedOptions.model_validate(judge.options)
    except ValidationError as error:
        problems = [
            FieldProblem(".".join(["options", *map(str, problem["loc"])]), problem["msg"]) for problem in error.errors()
        ]
        first = f"{problems[0].path}: {problems[0].message}"
        raise ConfigurationError(f"Judge {judge.name!r}: {first}", fields=problems) from error
    for package in ("xllamacpp", "llguidance"):
        if find_spec(package) is None:
            raise MissingDependency(f"The embedded engine needs the package {package}: `pip install {package}`.")
        try:
            import_module(package)
        except ImportError as error:
            # Installed, but a shared library of the system is not: slim images come without the OpenMP runtime.
            raise MissingDependency(
                f"The embedded engine cannot be loaded: {error}. If it is libgomp: `apt install libgomp1`, or the "
                "OpenMP runtime of your system."
            ) from error
    chosen = options.model_path
    if chosen is None and judge.model.lower().endswith(".gguf"):
        chosen = Path(judge.model)
    path = weights.locate(settings, chosen)
    if judge.model and chosen is None and not path.stem.lower().startswith(judge.model.lower()):
        raise ConfigurationError(
            f"Judge {judge.name!r} asks for the model {judge.model!r}, but the embedded model is {path.stem!r}. "
            "Leave `model` empty, or set it or options.model_path to a GGUF file."
        )
    key = EngineKey(
        path=path.resolve(),
        sha256=weights.describe(path, settings).sha256,
        threads=settings.threads,
        slots=settings.parallel,
        window=options.context_tokens or settings.context_tokens,
        reuse_prefix=options.reuse_prefix,
    )
    return EmbeddedBackend(_ENGINES.acquire(key))


@dataclass(frozen=True, slots=True)
class EngineKey:
    """What makes two judges share an engine. `window` is in tokens per slot."""

    path: Path
    sha256: str
    threads: int
    slots: int
    window: int
    reuse_prefix: bool

    @property
    def revision(self) -> str:
        """Everything besides the request that can move a verdict: weights, engine build, threads, batching."""
        build = version("xllamacpp")
        mode = "reuse" if self.reuse_prefix else "cold"
        return f"{self.sha256}/xllamacpp-{build}/threads-{self.threads}/slots-{self.slots}/{mode}"


class _Stop(Exception):
    """The request was given up by its caller."""


class _EngineError(Exception):
    """The engine refused a request."""

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(slots=True)
class _Answer:
    text: str = ""
    finish_reason: str | None = None
    tokens: list[TokenLogprob] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    fingerprint: str | None = None


@dataclass(slots=True)
class _Job:
    """A request on its way through the engine's threads. `started` tells the event loop that a slot was found."""

    stop: threading.Event = field(default_factory=threading.Event)
    started: "Future[None]" = field(default_factory=Future)


class Engine:
    """One loaded model. Created cheap; the first request loads it and runs the canary.

    All blocking work happens in as many threads as the engine has slots, so waiting requests queue in order and
    the event loop never blocks.
    """

    def __init__(self, key: EngineKey) -> None:
        self.key = key
        self.name = key.path.stem
        self._pool = ThreadPoolExecutor(max_workers=key.slots, thread_name_prefix="embedded-engine")
        # Counting tokens needs no slot, and must not wait behind replies that are being written.
        self._counting = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedded-count")
        self._counts: OrderedDict[tuple[Message, ...], int] = OrderedDict()
        self._lock = threading.Lock()
        self._server: Any = None
        self._secret = secrets.token_urlsafe(32)
        self._window = key.window
        self._facts: dict[str, Any] = {}
        self._address = ""
        self._fault: str | None = None

    # -- work in the engine's threads -------------------------------------------------------------------------

    def _loaded(self) -> Any:
        with self._lock:
            if self._server is None:
                self._load()
            if self._fault is not None:
                raise _EngineError(self._fault)
            return self._server

    def _load(self) -> None:
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(self.key.path)
        params.n_ctx = self.key.window * self.key.slots
        params.n_parallel = self.key.slots
        params.n_batch = _BATCH
        params.cpuparams.n_threads = self.key.threads
        params.cpuparams_batch.n_threads = self.key.threads
        params.cache_ram_mib = 256 if self.key.reuse_prefix else 0
        params.cache_prompt = self.key.reuse_prefix
        params.reasoning_format = xllamacpp.common_reasoning_format.COMMON_REASONING_FORMAT_NONE
        # The engine always opens a server on loopback: a random key, no foreign page, no page of its own.
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.api_keys = [self._secret]
        params.cors_origins = ""
        params.ui = False
        params.endpoint_slots = False
        params.verbosity = -1
        try:
            server = xllamacpp.Server(params)
        except Exception as error:
            raise _EngineError(f"the model {self.key.path.name} could not be loaded") from error
        self._address = str(server.listening_address)
        self._facts = {
            "engine": "xllamacpp",
            "version": str(xllamacpp.__version__),
            "model_sha256": self.key.sha256,
            "threads": self.key.threads,
            "slots": self.key.slots,
            "window": self.key.window,
            "reuse_prefix": self.key.reuse_prefix,
        }
        window = self._http("/props", None).get("default_generation_settings", {}).get("n_ctx")
        if isinstance(window, int) and window > 0:
            self._window = window
            self._facts["window"] = window
        answer = self._ask(server, self._canary_body(), threading.Event())
        if answer.text != _CANARY_REPLY:
            self._fault = f"{_NOT_ENFORCED} (canary)"
        self._server = server

    def _canary_body(self) -> dict[str, Any]:
        body = self.body(_CANARY_PROMPT, _CANARY_GRAMMAR, max_tokens=32, temperature=0.0, seed=0)
        return {**body, "logprobs": True, "top_logprobs": 1}

    def body(
        self, messages: tuple[Message, ...], grammar: str, *, max_tokens: int, temperature: float, seed: int | None
    ) -> dict[str, Any]:
        """The request as the engine reads it: no sampler but temperature, so that settings mean the same everywhere."""
        return {
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            "grammar": grammar,
            "max_tokens": max_tokens,
            "temperature": temperature,
            "top_k": 0,
            "top_p": 1.0,
            "min_p": 0.0,
            **({} if seed is None else {"seed": seed}),
            "cache_prompt": self.key.reuse_prefix,
            "chat_template_kwargs": {"enable_thinking": False},
        }

    def _http(self, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        """One call to the engine's own loopback server, for what the in-process interface does not offer."""
        import httpx

        try:
            # Proxies of the environment must not see loopback traffic.
            response = httpx.request(
                "GET" if body is None else "POST",
                self._address + path,
                json=body,
                headers={"Authorization": f"Bearer {self._secret}"},
                timeout=30,
                trust_env=False,
            )
            value = response.raise_for_status().json()
        except httpx.HTTPStatusError as error:
            raise _EngineError(f"the engine answered {path} with status {error.response.status_code}") from error
        except (httpx.HTTPError, ValueError) as error:
            raise _EngineError(f"the engine did not answer {path}") from error
        if not isinstance(value, dict):
            raise _EngineError(f"the engine's answer to {path} is not an object")
        return value

    def _count(self, messages: tuple[Message, ...]) -> int:
        known = self._counts.get(messages)
        if known is not None:
            return known
        body = {
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            "chat_template_kwargs": {"enable_thinking": False},
        }
        count = self._http("/v1/chat/completions/input_tokens", body).get("input_tokens")
        if not isinstance(count, int):
            raise _EngineError("the engine did not count the prompt's tokens")
        with self._lock:
            self._counts[messages] = count
            while len(self._counts) > _KEPT_COUNTS:
                self._counts.popitem(last=False)
        return count

    def _ask(self, server: Any, body: dict[str, Any], stop: threading.Event) -> _Answer:
        """Stream one request, so that it can be given up between prompt steps and between tokens."""
        answer = _Answer()
        problems: list[Exception] = []

        def take(chunk: Any) -> bool:
            if stop.is_set():
                return True
            try:
                _read_chunk(chunk, answer)
            except _EngineError as error:
                problems.append(error)
                return True
            except (KeyError, TypeError, ValueError, AttributeError, IndexError):
                problems.append(_EngineError("the engine sent an answer that cannot be read"))
                return True
            return False

        streamed = {**body, "stream": True, "return_progress": True, "stream_options": {"include_usage": True}}
        try:
            server.handle_chat_completions(streamed, take)
        except (ValueError, RuntimeError, TypeError, UnicodeError) as error:
            raise _EngineError(f"the engine refused the request ({type(error).__name__})") from error
        if stop.is_set():
            raise _Stop
        if problems:
            raise problems[0]
        if answer.finish_reason is None:
            raise _EngineError("the engine's answer ended without a finish reason")
        return answer

    # -- called from the event loop ---------------------------------------------------------------------------

    async def count(self, messages: tuple[Message, ...]) -> int:
        """Prompt tokens of `messages` with the model's chat template applied."""

        def work() -> int:
            self._loaded()
            return self._count(messages)

        try:
            future = self._counting.submit(work)
        except RuntimeError as error:
            raise _EngineError("the embedded engine is closed") from error
        return await asyncio.wrap_future(future)

    async def run(self, work: Callable[[Any, threading.Event], Any], timeout_s: float | None) -> Any:
        """`work(server, stop)` in an engine thread. The time limit begins when the work does, not in the queue.

        When the caller gives up or time runs out, `stop` is set and the slot is free after the step in hand.
        """
        job = _Job()

        def go() -> Any:
            if not job.started.set_running_or_notify_cancel():
                raise _Stop
            server = self._loaded()
            job.started.set_result(None)
            return work(server, job.stop)

        try:
            future = self._pool.submit(go)
        except RuntimeError as error:
            raise _EngineError("the embedded engine is closed") from error
        started = asyncio.wrap_future(job.started)
        waiting = asyncio.wrap_future(future)
        try:
            await asyncio.wait({started, waiting}, return_when=asyncio.FIRST_COMPLETED)
            done, _ = await asyncio.wait({waiting}, timeout=timeout_s)
            if not done:
                job.stop.set()
                raise BackendFailure(
                    JudgeErrorReason.TIMEOUT,
                    f"no reply from the embedded engine within {timeout_s:g} s",
                    retryable=True,
                )
            return waiting.result()
        finally:
            job.stop.set()
            future.cancel()
            job.started.cancel()
            waiting.add_done_callback(_retrieve)

    @property
    def window(self) -> int:
        """Context window of one slot in tokens; what the model really has once it is loaded."""
        return self._window

    @property
    def facts(self) -> Mapping[str, Any]:
        """What is recorded with every call about the engine."""
        return self._facts

    @property
    def endpoint(self) -> Endpoint:
        """Where the engine's own server listens. Only meaningful once the model is loaded."""
        return Endpoint(base_url=f"{self._address}/v1", api_key=self._secret, model=self.name)

    def close(self) -> None:
        """Finish the work in hand and let go of the model. Blocks; called in a thread."""
        self._counting.shutdown(wait=True, cancel_futures=True)
        self._pool.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            self._server = None


def _retrieve(future: "asyncio.Future[Any]") -> None:
    # An abandoned request still ends; looking at its error keeps asyncio from reporting it as forgotten.
    if not future.cancelled():
        future.exception()


class _Engines:
    """The engines of this process by key, each closed when its last backend is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[EngineKey, tuple[Engine, int]] = {}

    def acquire(self, key: EngineKey) -> Engine:
        with self._lock:
            engine, users = self._open.get(key) or (Engine(key), 0)
            self._open[key] = (engine, users + 1)
            return engine

    def release(self, engine: Engine) -> bool:
        """Give one use back; True when it was the last and the engine is to be closed."""
        with self._lock:
            held, users = self._open[engine.key]
            if users > 1:
                self._open[engine.key] = (held, users - 1)
                return False
            del self._open[engine.key]
            return True


_ENGINES = _Engines()


class EmbeddedBackend:
    """Asks the embedded model. Every reply that is returned obeys its grammar, or was cut (`length`)."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._closed = False

    @property
    def capabilities(self) -> Capabilities:
        """Grammar enforcement and log-probabilities; repeatable with one slot and no prefix reuse."""
        key = self._engine.key
        return Capabilities(
            enforcement=Enforcement.GRAMMAR,
            logprobs=True,
            context_tokens=self._engine.window,
            deterministic=key.slots == 1 and not key.reuse_prefix,
            concurrency=key.slots,
            revision=key.revision,
        )

    def compile(self, constraint: Constraint) -> CompileReport:
        """The compile check of the grammar; see `grammar.report`."""
        return grammars.report(constraint)

    async def complete(self, request: Request) -> Completion:
        """Answer one request. Raises BackendFailure, with `context_overflow` before anything is computed."""
        grammar = _compiled(request.ask.constraint)
        sampling = request.sampling
        body = self._engine.body(
            request.ask.messages,
            grammar.text,
            max_tokens=request.max_tokens,
            temperature=sampling.temperature,
            seed=sampling.seed,
        )
        if request.want_probabilities:
            body |= {"logprobs": True, "top_logprobs": max(MIN_TOP_LOGPROBS, sampling.top_logprobs)}

        def work(server: Any, stop: threading.Event) -> _Answer:
            prompt = self._engine._count(request.ask.messages)
            if prompt + request.max_tokens > self._engine.window:
                raise BackendFailure(
                    JudgeErrorReason.CONTEXT_OVERFLOW,
                    f"{prompt} prompt tokens and up to {request.max_tokens} reply tokens make "
                    f"{prompt + request.max_tokens}; the embedded engine's context window has {self._engine.window}",
                )
            return self._engine._ask(server, body, stop)

        answer: _Answer = await self._guarded(self._engine.run(work, request.timeout_s))
        cut = answer.finish_reason == "length"
        if not grammar.accepts(answer.text, partial=cut):
            raise BackendFailure(JudgeErrorReason.PROVIDER_ERROR, _NOT_ENFORCED, usage=answer.usage, raw=answer.text)
        sent = {name: value for name, value in body.items() if name not in ("messages", "grammar")}
        return Completion(
            text=answer.text,
            finish_reason=answer.finish_reason,
            model=self._engine.name,
            enforcement=Enforcement.GRAMMAR,
            usage=answer.usage,
            tokens=tuple(answer.tokens) if request.want_probabilities else None,
            parameters_sent=sent,
            engine=dict(self._engine.facts),
        )

    async def count_tokens(self, request: Request) -> int | None:
        """Prompt tokens with the model's chat template applied. Loads the model when it is not loaded."""
        return await self._guarded(self._engine.count(request.ask.messages))

    async def probe(self) -> ProbeResult:
        """Run the canary: a poem is asked for, one JSON object is all that the grammar allows."""
        try:
            answer: _Answer = await self._guarded(
                self._engine.run(
                    lambda server, stop: self._engine._ask(server, self._engine._canary_body(), stop), 60.0
                )
            )
        except BackendFailure as failure:
            dropped = failure.message.startswith(_NOT_ENFORCED)
            return ProbeResult(
                ready=False,
                constraint_honoured=False if dropped else None,
                logprobs=None,
                model=self._engine.name,
                message=failure.message,
            )
        honoured = answer.text == _CANARY_REPLY
        return ProbeResult(
            ready=honoured,
            constraint_honoured=honoured,
            logprobs=bool(answer.tokens),
            model=self._engine.name,
            message="ready" if honoured else _NOT_ENFORCED,
        )

    async def endpoint(self) -> Endpoint:
        """Load the model and say where the engine's own OpenAI-compatible loopback server listens.

        Requests there bypass this module's checks; send `grammar` yourself and validate the reply.
        """
        await self._guarded(self._engine.run(lambda server, stop: None, None))
        return self._engine.endpoint

    async def aclose(self) -> None:
        """Give the engine back; the last user unloads the model. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        if _ENGINES.release(self._engine):
            await asyncio.to_thread(self._engine.close)

    async def _guarded(self, work: Awaitable[_T]) -> _T:
        try:
            return await work
        except _EngineError as error:
            reason = JudgeErrorReason.PROVIDER_ERROR
            if error.kind == "exceed_context_size_error":
                reason = JudgeErrorReason.CONTEXT_OVERFLOW
            raise BackendFailure(reason, str(error)) from error


def _compiled(constraint: Constraint) -> grammars.Grammar:
    try:
        return grammars.compile_constraint(constraint)
    except grammars.GrammarError as error:
        raise BackendFailure(
            JudgeErrorReason.PROVIDER_ERROR, f"the constraint cannot be enforced by the embedded engine: {error}"
        ) from error


def _read_chunk(chunk: Any, answer: _Answer) -> None:
    """Add one streamed chunk to `answer`. Raises _EngineError for an error chunk."""
    if not isinstance(chunk, Mapping):
        raise _EngineError("the engine sent an answer that cannot be read")
    if "error" in chunk:
        error = chunk["error"]
        known = error if isinstance(error, Mapping) else {}
        kind = str(known.get("type", ""))
        raise _EngineError(f"the engine answered with an error: {known.get('message', 'no message')}", kind)
    answer.fingerprint = chunk.get("system_fingerprint")
    usage = chunk.get("usage")
    if usage:
        answer.usage = Usage(
            prompt_tokens=usage.get("prompt_tokens"),
            completion_tokens=usage.get("completion_tokens"),
            cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
        )
    for choice in chunk.get("choices", ()):
        answer.text += (choice.get("delta") or {}).get("content") or ""
        answer.finish_reason = choice.get("finish_reason") or answer.finish_reason
        for token in (choice.get("logprobs") or {}).get("content") or ():
            answer.tokens.append(
                TokenLogprob(
                    token=token["token"],
                    logprob=float(token["logprob"]),
                    top=tuple((other["token"], float(other["logprob"])) for other in token.get("top_logprobs", ())),
                )
            )


__all__ = ["EmbeddedBackend", "EmbeddedOptions", "Endpoint", "open_backend"]
