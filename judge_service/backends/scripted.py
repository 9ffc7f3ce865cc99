"""Backend `scripted`: answers from a script, for testing pipelines without a model.

Owns how a script is read and which of its entries answers a request. Knows no rubric and reads no reply.
"""

import asyncio
import hashlib
import inspect
import json
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

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
from judge_service.errors import ConfigurationError, FieldProblem
from judge_service.settings import Settings
from rubrics.model import Constraint
from rubrics.records import Order

Answer = Any
"""What a script may answer: a str (the raw reply), a JSON value (dumped), a ScriptedReply, a Completion, an
exception (raised), or a callable or awaitable of any of these taking the Request."""

Sleep = Callable[[float], Awaitable[None]]


class ScriptedFault(BaseModel):
    """A failure to raise instead of an answer; see `BackendFailure`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: JudgeErrorReason
    message: str = "A scripted failure."
    retryable: bool = False
    retry_after_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    fatal: bool = False


class ScriptedReply(BaseModel):
    """One entry of a script: what it answers (`text`, `value` or `error`) and, optionally, to which requests.

    `step`, `case`, `order`, `repeat` and `attempt` narrow the requests it fits. `times` says how often it may
    answer; by default once, and without limit if it names a step, case, order, repeat or attempt.
    `probabilities` (label to probability) becomes the token log-probabilities of a bare-label reply.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: str | None = None
    case: str | None = None
    order: Order | None = None
    repeat: int | None = Field(default=None, ge=0)
    attempt: int | None = Field(default=None, ge=1)
    times: int | None = Field(default=None, ge=1)
    text: str | None = None
    value: Any = None
    error: ScriptedFault | None = None
    finish_reason: str | None = "stop"
    refusal: str | None = None
    latency_ms: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    usage: Usage = Usage()
    probabilities: dict[str, float] | None = None

    @model_validator(mode="after")
    def _answers_exactly_one_way(self) -> "ScriptedReply":
        given = [name for name in ("text", "value", "error") if name in self.model_fields_set]
        if len(given) > 1 or (not given and self.refusal is None):
            raise ValueError("give exactly one of `text`, `value` and `error` (or a `refusal`)")
        for label, probability in (self.probabilities or {}).items():
            if not (math.isfinite(probability) and 0 < probability <= 1):
                raise ValueError(f"the probability of {label!r} must lie in (0, 1]")
        return self

    @property
    def narrowed(self) -> bool:
        """Whether the entry is meant for some requests only."""
        return any(part is not None for part in (self.step, self.case, self.order, self.repeat, self.attempt))

    def fits(self, request: Request) -> bool:
        """Whether this entry may answer `request`."""
        subject = request.subject
        return (
            (self.step is None or self.step == request.ask.step)
            and (self.case is None or self.case == subject.case_id)
            and (self.order is None or self.order == subject.order)
            and (self.repeat is None or self.repeat == subject.repeat)
            and (self.attempt is None or self.attempt == subject.attempt)
        )


class ScriptedOptions(BaseModel):
    """Options of a judge with backend `scripted`: `replies` inline, or `file`, a JSONL file of the same entries.

    A bare string is a raw reply. `cycle` starts the script again when it has been used up; otherwise a request
    without an entry fails. `latency_ms` is waited before every answer.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    replies: tuple[str | ScriptedReply, ...] = ()
    file: Path | None = None
    cycle: bool = False
    latency_ms: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    enforcement: Enforcement = Enforcement.NONE

    @model_validator(mode="after")
    def _one_source(self) -> "ScriptedOptions":
        if bool(self.replies) == (self.file is not None):
            raise ValueError("give exactly one of `replies` and `file`")
        return self


@dataclass(slots=True)
class _Slot:
    answer: Answer
    left: int | None


class Script:
    """A list of answers, given in order to the requests that they fit. Entries of a named case go first."""

    def __init__(self, answers: Iterable[Answer], *, cycle: bool = False) -> None:
        self._answers = tuple(answers)
        self._cycle = cycle
        self._by_case: dict[str | None, list[_Slot]] = {}
        self._fill()

    def _fill(self) -> None:
        self._by_case = {}
        for answer in self._answers:
            case: str | None = None
            left: int | None = 1
            if isinstance(answer, ScriptedReply):
                case = answer.case
                left = answer.times if answer.times is not None else None if answer.narrowed else 1
            self._by_case.setdefault(case, []).append(_Slot(answer, left))

    def _take(self, request: Request) -> _Slot | None:
        for case in (request.subject.case_id, None):
            slots = self._by_case.get(case, ())
            for position, slot in enumerate(slots):
                if isinstance(slot.answer, ScriptedReply) and not slot.answer.fits(request):
                    continue
                if slot.left is not None:
                    slot.left -= 1
                    if slot.left == 0:
                        del self._by_case[case][position]
                return slot
        return None

    def __call__(self, request: Request) -> Answer:
        """The next answer for `request`. Raises BackendFailure when there is none."""
        slot = self._take(request)
        if slot is None and self._cycle:
            self._fill()
            slot = self._take(request)
        if slot is None:
            raise BackendFailure(
                JudgeErrorReason.PROVIDER_ERROR,
                f"The script has no answer left for step `{request.ask.step}` of case `{request.subject.case_id}`.",
            )
        return slot.answer


class ScriptedBackend:
    """Answers from a script. `answers` is a list (see `Answer`), or a callable that takes every Request.

    A mapping is keyed by step name, or by `(case id, step)`; its values are answers or lists of answers. `requests`
    keeps every request in the order of arrival. `sleep` is awaited for latencies, so tests need no clock.
    """

    def __init__(
        self,
        answers: Sequence[Answer] | Mapping[Any, Answer] | Callable[[Request], Answer],
        *,
        model: str = "scripted",
        enforcement: Enforcement = Enforcement.NONE,
        latency_ms: float = 0.0,
        cycle: bool = False,
        sleep: Sleep = asyncio.sleep,
        keep_requests: bool = True,
        revision: str | None = None,
    ) -> None:
        if isinstance(answers, Mapping):
            self._answer: Callable[[Request], Answer] = _by_key(answers, cycle=cycle)
        elif callable(answers):
            self._answer = answers
        else:
            self._answer = Script(answers, cycle=cycle)
        self._model = model
        self._enforcement = enforcement
        self._latency_s = latency_ms / 1000
        self._sleep = sleep
        self._keep = keep_requests
        self.requests: list[Request] = []
        self.calls = 0
        self.capabilities = Capabilities(enforcement=enforcement, logprobs=None, deterministic=True, revision=revision)

    def compile(self, constraint: Constraint) -> CompileReport:
        """Nothing is enforced by a script: the configured enforcement is reported."""
        return CompileReport(self._enforcement)

    async def complete(self, request: Request) -> Completion:
        """The scripted answer; `timeout` when its latency exceeds the request's limit."""
        self.calls += 1
        if self._keep:
            self.requests.append(request)
        answer = self._answer(request)
        while callable(answer) or inspect.isawaitable(answer):
            answer = await answer if inspect.isawaitable(answer) else answer(request)
        latency = self._latency_s
        if isinstance(answer, ScriptedReply) and answer.latency_ms is not None:
            latency = answer.latency_ms / 1000
        if latency > 0:
            await self._sleep(min(latency, request.timeout_s))
            if latency > request.timeout_s:
                raise BackendFailure(
                    JudgeErrorReason.TIMEOUT, f"No answer within {request.timeout_s:g} s.", retryable=True
                )
        return self._completion(answer)

    def _completion(self, answer: Answer) -> Completion:
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Completion):
            return answer
        if not isinstance(answer, ScriptedReply):
            return Completion(_raw(answer), "stop", self._model, self._enforcement)
        if answer.error is not None:
            raise BackendFailure(**dict(answer.error))
        if answer.text is not None:
            text = answer.text
        else:
            text = _raw(answer.value) if "value" in answer.model_fields_set else ""
        return Completion(
            text,
            answer.finish_reason,
            self._model,
            self._enforcement,
            usage=answer.usage,
            refusal=answer.refusal,
            tokens=_tokens(text, answer.probabilities),
        )

    async def count_tokens(self, request: Request) -> int | None:
        """A script counts no tokens."""
        return None

    async def probe(self) -> ProbeResult:
        """Always ready; asks nothing, so that no answer is used up."""
        return ProbeResult(True, None, None, self._model, "The script is loaded.")

    async def aclose(self) -> None:
        """Nothing to release."""


def _raw(answer: Answer) -> str:
    if isinstance(answer, str):
        return answer
    if isinstance(answer, BaseModel):
        return answer.model_dump_json()
    return json.dumps(answer, ensure_ascii=False)


def _tokens(text: str, probabilities: Mapping[str, float] | None) -> tuple[TokenLogprob, ...] | None:
    if not probabilities:
        return None
    top = tuple((label, math.log(value)) for label, value in probabilities.items())
    return (TokenLogprob(text, dict(top).get(text, -math.inf), top),)


def _by_key(answers: Mapping[Any, Answer], *, cycle: bool) -> Callable[[Request], Answer]:
    scripts = {
        key: Script(value, cycle=cycle) if isinstance(value, list | tuple) else (lambda _request, value=value: value)
        for key, value in answers.items()
    }

    def answer(request: Request) -> Answer:
        for key in ((request.subject.case_id, request.ask.step), request.ask.step):
            if key in scripts:
                return scripts[key](request)
        raise BackendFailure(
            JudgeErrorReason.PROVIDER_ERROR,
            f"The script has no answer for step `{request.ask.step}` of case `{request.subject.case_id}`.",
        )

    return answer


def read_script(path: Path) -> list[str | ScriptedReply]:
    """The entries of a JSONL script. Raises ConfigurationError naming the line."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"The script {path.name} cannot be read.", fields=[FieldProblem("options.file", type(error).__name__)]
        ) from error
    entries: list[str | ScriptedReply] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            entries.append(value if isinstance(value, str) else ScriptedReply.model_validate(value))
        except (ValueError, ValidationError) as error:
            detail = error.errors()[0]["msg"] if isinstance(error, ValidationError) else "not JSON"
            raise ConfigurationError(
                f"The script {path.name} is not readable at line {number}: {detail}.",
                fields=[FieldProblem(f"options.file:{number}", detail)],
            ) from error
    return entries


def open_backend(judge: Judge, settings: Settings) -> ScriptedBackend:
    """A backend for a configured judge. Raises ConfigurationError naming the wrong option."""
    try:
        options = ScriptedOptions.model_validate(judge.options)
    except ValidationError as error:
        raise ConfigurationError(
            f"Judge `{judge.name}`: the options of backend `scripted` are not valid.",
            fields=[
                FieldProblem(".".join(["options", *map(str, problem["loc"])]), problem["msg"])
                for problem in error.errors()
            ],
        ) from error
    return ScriptedBackend(
        options.replies if options.file is None else read_script(options.file),
        model=judge.model or "scripted",
        enforcement=options.enforcement,
        latency_ms=options.latency_ms,
        cycle=options.cycle,
        keep_requests=False,
        # The judge's hash names the file; what is in it can change.
        revision=None if options.file is None else hashlib.sha256(options.file.read_bytes()).hexdigest(),
    )
