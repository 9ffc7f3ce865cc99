"""One backend over any chat transport: what is asked for, what is dropped, what came back.

Owns `ProviderBackend`, which the modules `via_*` open with their own transport and constraint form. Makes no retry.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from judge_service.backends.base import (
    BackendFailure,
    Capabilities,
    CompileReport,
    Completion,
    IgnoredFeature,
    ProbeResult,
    Request,
)
from judge_service.backends.schema_variants import RequestFields, unconstrained
from judge_service.backends.transport import (
    ChatAnswer,
    ChatRequest,
    ChatTransport,
    Clock,
    ProviderOptions,
    completion_of,
    failure_of,
    refuses_logprobs,
    utc_now,
    within,
)
from judge_service.domain.canonical import content_hash
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import Enforcement, JudgeErrorReason
from judge_service.errors import ConfigurationError
from rubrics.model import ChoiceConstraint, Constraint, JsonConstraint
from rubrics.records import DecodingModel

ConstraintForm = Callable[[Constraint], RequestFields]
"""A constraint as request fields. Raises ValueError for one that has no such form."""

BYTES_A_TOKEN = 4
PROBE_TIMEOUT_S = 30.0
_CANARY = "QX7"
_CANARY_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"code": {"type": "string", "enum": [_CANARY]}},
    "required": ["code"],
    "additionalProperties": False,
}
# Asks for prose: only a server that decodes under the constraint gives the one legal answer.
_CANARY_MESSAGES = (
    {"role": "system", "content": "You write plain English prose and never JSON."},
    {"role": "user", "content": "Write one friendly sentence about the weather."},
)


class CanaryReply(DecodingModel):
    """The one legal answer of the canary."""

    code: str


class ProviderBackend:
    """A model behind a chat transport. Shared by concurrent requests; every failure is a BackendFailure.

    `form` turns a constraint into request fields; `enforcement` is what it reaches where it succeeds.
    """

    def __init__(
        self,
        judge: Judge,
        options: ProviderOptions,
        transport: ChatTransport,
        form: ConstraintForm,
        *,
        model: str | None = None,
        enforcement: Enforcement = Enforcement.PROVIDER,
        canary: bool = True,
        clock: Clock = utc_now,
    ) -> None:
        self._options = options
        self._transport = transport
        self._form = form
        self._model = model or judge.model
        self._enforcement = enforcement
        self._canary = canary
        self._clock = clock
        self._host = host_of(options.base_url) or self._model.partition("/")[0]
        self._logprobs = options.logprobs
        self._probed: ProbeResult | None = None
        self._loaded = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loading = asyncio.Lock()

    @property
    def capabilities(self) -> Capabilities:
        """What is known so far; a probe or the first refusal settles `logprobs`."""
        return Capabilities(
            enforcement=self._enforcement,
            logprobs=self._logprobs,
            context_tokens=self._options.context_tokens,
            estimates_tokens=True,
        )

    def compile(self, constraint: Constraint) -> CompileReport:
        """What is sent for this constraint, and what that loses."""
        try:
            fields = self._form(constraint)
        except ValueError as error:
            return CompileReport(Enforcement.NONE, error=str(error))
        lost = [name for name, value in fields.parameters.items() if not self._transport.takes(name, value)]
        if lost:
            return CompileReport(Enforcement.NONE, tuple(IgnoredFeature("", name) for name in lost))
        return CompileReport(fields.enforcement, fields.ignored)

    def _taken(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        sent = {name: value for name, value in wanted.items() if self._transport.takes(name, value)}
        if "top_logprobs" in wanted and not {"logprobs", "top_logprobs"} <= sent.keys():
            # One without the other gives no probability over the labels.
            sent.pop("logprobs", None)
            sent.pop("top_logprobs", None)
        return sent

    async def complete(self, request: Request) -> Completion:
        """One answer. Raises BackendFailure within `timeout_s`, whatever the server does.

        The first call also loads the SDK, which takes seconds on a busy machine and is not the provider's time.
        """
        await self._load()
        try:
            return await within(request.timeout_s, self._complete(request))
        except TimeoutError as error:
            raise self._failure(error, request.timeout_s) from None

    async def _complete(self, request: Request) -> Completion:
        try:
            fields = self._form(request.ask.constraint)
        except (ValueError, ConfigurationError) as error:
            # Sending it all the same would get free text that looks like an answer.
            raise BackendFailure(JudgeErrorReason.SCHEMA_ERROR, f"The constraint cannot be sent: {error}") from None
        wanted = self._parameters(request) | dict(fields.parameters)
        sent = self._taken(wanted)
        dropped = tuple(sorted(wanted.keys() - sent.keys()))
        if request.want_probabilities and self._logprobs is False:
            dropped = tuple(sorted({*dropped, "logprobs"}))
        enforcement = fields.enforcement if fields.parameters.keys() <= sent.keys() else Enforcement.NONE
        extra = {**self._options.extra_body, **fields.extra}
        answer = await self._send(request, sent, extra)
        return completion_of(
            answer,
            host=self._host,
            model=self._model,
            enforcement=enforcement,
            # A schema runs to kilobytes and follows from rubric and judge: its hash is kept with the call.
            sent={**sent, **extra, **_hashes(sent, fields)},
            dropped=dropped,
        )

    def _parameters(self, request: Request) -> dict[str, Any]:
        wanted: dict[str, Any] = {"temperature": request.sampling.temperature, "max_tokens": request.max_tokens}
        if request.sampling.seed is not None:
            wanted["seed"] = request.sampling.seed
        if request.want_probabilities and self._logprobs is not False:
            # 20 is the most that OpenAI and vLLM give by default.
            wanted |= {"logprobs": True, "top_logprobs": min(request.sampling.top_logprobs, 20)}
        return wanted

    async def _load(self) -> None:
        # Connections belong to an event loop, and a script may run several, one after the other.
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._loading, self._loaded = loop, asyncio.Lock(), False
        if self._loaded:
            return
        async with self._loading:
            if not self._loaded:
                try:
                    await self._transport.load()
                except (ValueError, ConfigurationError) as error:
                    message = f"No request can be sent: {error}"
                    raise BackendFailure(JudgeErrorReason.PROVIDER_ERROR, message, fatal=True) from error
                self._loaded = True

    async def _send(self, request: Request, sent: Mapping[str, Any], extra: Mapping[str, Any]) -> ChatAnswer:
        messages = [{"role": message.role, "content": message.content} for message in request.ask.messages]
        try:
            return await self._exchange(ChatRequest(self._model, messages, sent, extra, request.timeout_s), request)
        except BackendFailure:
            raise
        except Exception as error:
            if "logprobs" in sent and self._options.logprobs is None and refuses_logprobs(error):
                self._logprobs = False
                raise BackendFailure(
                    JudgeErrorReason.PROVIDER_ERROR,
                    f"{self._host} gives no token probabilities for this model; they are not asked for any more.",
                    retryable=True,
                ) from None
            raise self._failure(error, request.timeout_s) from None

    async def _exchange(self, chat: ChatRequest, request: Request) -> ChatAnswer:
        """One request, one answer. The one place for a backend that asks again."""
        return await self._transport.send(chat)

    def _failure(self, error: BaseException, timeout_s: float) -> BackendFailure:
        return failure_of(error, host=self._host, now=self._clock(), timeout_s=timeout_s)

    async def count_tokens(self, request: Request) -> int | None:
        """An estimate where the window is configured, else None: the server's tokenizer is not here.

        Four bytes of UTF-8 a token, about what English needs. It keeps a prompt that is clearly too long from a server
        that would cut it without a word.
        """
        if self._options.context_tokens is None:
            return None
        return sum(len(message.content.encode()) // BYTES_A_TOKEN + 4 for message in request.ask.messages)

    async def probe(self) -> ProbeResult:
        """The canary, then a one-token reply with token probabilities. Found once; failures are not kept."""
        if self._probed is not None:
            return self._probed
        try:
            await self._load()
            fields = self._form(JsonConstraint(CanaryReply, _CANARY_SCHEMA)) if self._canary else None
            answer = await self._ask(fields, max_tokens=64)
            honoured = None if fields is None or fields.enforcement is Enforcement.NONE else _honours(answer.text)
            if self._logprobs is None:
                self._logprobs = await self._has_logprobs()
        except BackendFailure as failure:
            return ProbeResult(False, None, None, None, failure.message)
        except (TimeoutError, ValueError) as error:
            return ProbeResult(False, None, None, None, str(error) or "No answer in time.")
        message = {
            True: "The constraint is honoured.",
            False: "The server answers, but it drops the constraint: replies are only validated.",
            None: "The server answers.",
        }[honoured]
        self._probed = ProbeResult(True, honoured, self._logprobs, answer.model, message)
        return self._probed

    async def _ask(self, fields: RequestFields | None, *, max_tokens: int, **more: Any) -> Completion:
        fields = fields or unconstrained(ChoiceConstraint((_CANARY,)))
        wanted = {"temperature": 0.0, "max_tokens": max_tokens, **fields.parameters, **more}
        sent = self._taken(wanted)
        extra = {**self._options.extra_body, **fields.extra}
        request = ChatRequest(self._model, _CANARY_MESSAGES, sent, extra, PROBE_TIMEOUT_S)
        try:
            answer = await within(PROBE_TIMEOUT_S, self._transport.send(request))
        except Exception as error:
            raise self._failure(error, PROBE_TIMEOUT_S) from None
        return completion_of(
            answer,
            host=self._host,
            model=self._model,
            enforcement=fields.enforcement,
            sent=sent,
            dropped=(),
        )

    async def _has_logprobs(self) -> bool:
        if "logprobs" not in self._taken({"logprobs": True, "top_logprobs": 2}):
            return False
        try:
            answer = await self._ask(None, max_tokens=1, logprobs=True, top_logprobs=2)
        except BackendFailure as failure:
            if failure.retryable or failure.fatal:
                raise
            return False
        return bool(answer.tokens)

    async def aclose(self) -> None:
        """Close the transport. A later request opens it again."""
        self._loaded = False
        await self._transport.aclose()


def _hashes(sent: Mapping[str, Any], fields: RequestFields) -> dict[str, Any]:
    constraint = {name: value for name, value in fields.parameters.items() if name in sent} | dict(fields.extra)
    return {name: {"sha256": content_hash(value)} for name, value in constraint.items()}


def _honours(text: str) -> bool:
    return "".join(text.split()) == f'{{"code":"{_CANARY}"}}'


def host_of(base_url: str | None) -> str | None:
    """Host (and port) of a base URL: the part that may stand in messages."""
    return None if base_url is None else urlsplit(base_url).netloc
