"""Backend `instructor`: hosted models without schema decoding. Validated by Instructor, and asked again once.

Owns the loop of at most two attempts, all of them counted. Where a provider enforces a schema, `litellm` is the
backend to use: being told that an answer was wrong biases the next one.
"""

import asyncio
import logging
from typing import Any, Literal

from judge_service.backends.base import CompileReport, Request
from judge_service.backends.clients import LiteLLMTransport
from judge_service.backends.provider import ProviderBackend
from judge_service.backends.schema_variants import RequestFields, unconstrained
from judge_service.backends.transport import (
    ChatAnswer,
    ChatRequest,
    ChatTransport,
    Clock,
    ProviderOptions,
    listed,
    part,
    raise_unusable,
    read_key,
    read_options,
    utc_now,
    wire_model,
)
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import Enforcement
from judge_service.errors import MissingDependency
from judge_service.settings import Settings
from rubrics.model import ChoiceConstraint, Constraint, JsonConstraint

Mode = Literal["tools", "json", "md_json"]


class InstructorOptions(ProviderOptions):
    """Options of a judge with backend `instructor`, on top of `ProviderOptions`.

    `mode`: `tools` (a forced tool call), `json` (JSON mode and the schema in the prompt) or `md_json` (the prompt
    alone). `auto` takes the first of them that the provider supports; with a `base_url`, `json`.
    """

    mode: Literal["auto", "tools", "json", "md_json"] = "auto"


_ANY_TOOL = [{"type": "function", "function": {"name": "reply", "parameters": {"type": "object", "properties": {}}}}]


class _Enough(Exception):
    """The model refused, or a filter stopped it: asking again would ask for the same."""


class InstructorBackend(ProviderBackend):
    """Asks, validates, and on an invalid answer asks once more with the error. A bare label is asked for once."""

    def __init__(
        self, judge: Judge, options: InstructorOptions, transport: ChatTransport, *, model: str, clock: Clock = utc_now
    ) -> None:
        super().__init__(
            judge, options, transport, _form, model=model, enforcement=Enforcement.REASK, canary=False, clock=clock
        )
        self._mode = options.mode
        self._with_base_url = options.base_url is not None
        self._sdk: Any = None

    def compile(self, constraint: Constraint) -> CompileReport:
        """Nothing is enforced; a JSON reply is validated and asked for again once."""
        fields = _form(constraint)
        return CompileReport(fields.enforcement, fields.ignored)

    def _chosen_mode(self) -> Mode:
        if self._mode != "auto":
            return self._mode
        if self._with_base_url:
            return "json"
        if self._transport.takes("tools", _ANY_TOOL):
            return "tools"
        return "json" if self._transport.takes("response_format", {"type": "json_object"}) else "md_json"

    async def _load(self) -> None:
        await super()._load()
        if self._sdk is None:
            self._sdk = await asyncio.to_thread(_instructor)

    async def _exchange(self, chat: ChatRequest, request: Request) -> ChatAnswer:
        constraint = request.ask.constraint
        if not isinstance(constraint, JsonConstraint):
            return await super()._exchange(chat, request)
        answers: list[ChatAnswer] = []
        failures: list[Exception] = []

        async def once(**arguments: Any) -> Any:
            messages, model = arguments.pop("messages"), arguments.pop("model")
            parameters = {**chat.parameters, **arguments}
            try:
                answer = await self._transport.send(
                    ChatRequest(model, messages, parameters, chat.extra, chat.timeout_s)
                )
            except Exception as error:
                failures.append(error)
                raise
            answers.append(answer)
            if _stopped(answer):
                raise _Enough
            return answer.body

        mode = self._chosen_mode()
        modes = {"tools": self._sdk.Mode.TOOLS, "json": self._sdk.Mode.JSON, "md_json": self._sdk.Mode.MD_JSON}
        client = self._sdk.from_litellm(once, mode=modes[mode], async_client=True)
        try:
            await client.chat.completions.create(
                model=chat.model,
                messages=[dict(message) for message in chat.messages],
                response_model=constraint.model,
                max_retries=1,
            )
        except Exception:
            # Instructor wraps what happened. A failed request is raised as it was; an answer that stays invalid, was
            # refused or cut is handed on, and the reader says what is wrong with it.
            if failures:
                raise failures[-1] from None
            if not answers:
                raise
        last = answers[-1]
        return ChatAnswer(last.body, last.cost_usd, last.model, _tool_arguments(last), tuple(answers[:-1]))


def _form(constraint: Constraint) -> RequestFields:
    return unconstrained(constraint) if isinstance(constraint, ChoiceConstraint) else RequestFields(Enforcement.REASK)


def _stopped(answer: ChatAnswer) -> bool:
    choices = listed(part(answer.body, "choices"))
    if not choices:
        return True
    refusal = part(part(choices[0], "message"), "refusal")
    return bool(refusal) or part(choices[0], "finish_reason") in ("content_filter", "length")


def _tool_arguments(answer: ChatAnswer) -> str | None:
    for choice in listed(part(answer.body, "choices"))[:1]:
        for call in listed(part(part(choice, "message"), "tool_calls"))[:1]:
            arguments = part(part(call, "function"), "arguments")
            return arguments if isinstance(arguments, str) else None
    return None


def _instructor() -> Any:
    try:
        import instructor
    except ImportError as error:  # pragma: no cover - a declared dependency
        raise MissingDependency("The package instructor is missing: pip install instructor") from error
    # It logs every invalid reply in full; replies are kept with their calls and nowhere else.
    logging.getLogger("instructor").setLevel(logging.CRITICAL + 1)
    return instructor


def open_backend(judge: Judge, settings: Settings, *, clock: Clock = utc_now) -> InstructorBackend:
    """A backend for a configured judge. Raises ConfigurationError naming the wrong option."""
    options = read_options(judge, InstructorOptions)
    if not judge.model:
        raise_unusable(judge, "model", "backend `instructor` needs a model, such as `deepseek/deepseek-chat`")
    transport = LiteLLMTransport(judge.model, options, read_key(judge, options))
    return InstructorBackend(judge, options, transport, model=wire_model(judge.model, options), clock=clock)
