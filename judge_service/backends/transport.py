"""What all backends over HTTP share: where a request may go, with which key, and what a failure means.

Owns the options of a provider, the address rules, Retry-After, the translation of failures, and the reading of an
answer in OpenAI's form. Knows no SDK: `ChatTransport` is how one sends.
"""

import asyncio
import ipaddress
import math
import os
import re
import socket
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn, Protocol, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator

from judge_service.backends.base import BackendFailure, Completion, TokenLogprob
from judge_service.domain.call import Usage
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import Enforcement, JudgeErrorReason
from judge_service.errors import ConfigurationError, FieldProblem

Clock = Callable[[], datetime]
Options = TypeVar("Options", bound=BaseModel)
Result = TypeVar("Result")

MAX_WAIT_S = 3600.0
"""Longest Retry-After that is passed on; a provider that says more is taken at one hour."""

_METADATA_NAMES = frozenset({"metadata.google.internal", "metadata.goog", "metadata", "instance-data"})
_METADATA_NETWORKS = tuple(
    ipaddress.ip_network(text)
    for text in ("169.254.0.0/16", "fe80::/10", "fd00:ec2::/32", "100.100.100.200/32", "192.0.0.192/32")
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_OVERFLOW = re.compile(
    r"context[ _-]?(?:length|size|window)|maximum context|exceed_context_size|context_length_exceeded|too many tokens|"
    r"prompt is too long|input (?:is )?too long|maximum (?:input|prompt) |token limit|reduce the length",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"content[ _-]?(?:filter|policy|management policy)|content_policy|safety (?:system|setting|filter)|moderation|"
    r"\bflagged\b|responsible ?ai|prompt was (?:blocked|filtered)|blocked by|prohibited[ _]content",
    re.IGNORECASE,
)
_QUOTA = re.compile(
    r"insufficient[_ ](?:quota|credit|balance|funds)|billing|exceeded your current quota", re.IGNORECASE
)
_LOGPROBS = re.compile(r"log[_ -]?prob", re.IGNORECASE)


class ProviderOptions(BaseModel):
    """Where a model is reached. `base_url` is set by admins only; unset, the provider's own public address is used.

    The key is read from the environment variable named by `api_key_env` when the backend is opened and is never
    stored. `extra_body` goes into every request unchanged. `logprobs` says whether token probabilities may be
    asked for; `auto` asks until the server refuses. `allow_private` lets a public-looking host name resolve to a
    private address; private addresses written out in `base_url`, and local names, need no such leave. Metadata
    addresses are refused always, and no redirect is followed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str | None = None
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    extra_body: dict[str, JsonValue] = Field(default_factory=dict)
    logprobs: bool | None = None
    allow_private: bool = False
    context_tokens: int | None = Field(default=None, ge=1)

    @field_validator("logprobs", mode="before")
    @classmethod
    def _auto(cls, value: Any) -> Any:
        return None if value == "auto" else value

    @field_validator("base_url")
    @classmethod
    def _allowed(cls, value: str | None) -> str | None:
        return None if value is None else check_base_url(value)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One chat request as it is to be sent. `parameters` are OpenAI's own, `extra` further body fields."""

    model: str
    messages: Sequence[Mapping[str, str]]
    parameters: Mapping[str, Any]
    extra: Mapping[str, Any]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """The provider's answer object in OpenAI's form (attributes or keys), and what the SDK knows of its price.

    `text` replaces the message's content (the arguments of a forced tool call). `earlier` are the answers to
    attempts before it in the same call.
    """

    body: Any
    cost_usd: float | None = None
    model: str | None = None
    text: str | None = None
    earlier: tuple["ChatAnswer", ...] = ()


class ChatTransport(Protocol):
    """Sends one chat request. Raises what its SDK raises; `failure_of` translates."""

    async def load(self) -> None:
        """Import and set up what sending needs, off the event loop. Called before the first request of each loop."""
        ...

    def takes(self, name: str, value: Any) -> bool:
        """Whether the provider takes this OpenAI parameter with this value; True where the server itself decides."""
        ...

    async def send(self, request: ChatRequest) -> ChatAnswer:
        """Send, without any retry."""
        ...

    async def aclose(self) -> None:
        """Close connections. Safe to call twice."""
        ...


def read_options(judge: Judge, model: type[Options]) -> Options:
    """The judge's options as `model`. Raises ConfigurationError that names every wrong field, never its value."""
    try:
        return model.model_validate(judge.options)
    except ValidationError as error:
        raise ConfigurationError(
            f"Judge `{judge.name}`: the options of backend `{judge.backend}` are not valid.",
            fields=[
                FieldProblem(".".join(["options", *map(str, problem["loc"])]), problem["msg"])
                for problem in error.errors(include_input=False)
            ],
        ) from None


def read_key(judge: Judge, options: ProviderOptions) -> str | None:
    """The key from the environment. Raises ConfigurationError when the named variable is not set."""
    if options.api_key_env is None:
        return None
    key = os.environ.get(options.api_key_env, "").strip()
    if not key:
        raise ConfigurationError(
            f"Judge `{judge.name}`: the environment variable {options.api_key_env} is not set.",
            fields=[FieldProblem("options.api_key_env", "that variable is not set")],
        )
    return key


def wire_model(model: str, options: ProviderOptions) -> str:
    """A LiteLLM model name as it is sent. With a `base_url`, LiteLLM's provider prefix is not part of it."""
    if options.base_url is not None:
        for prefix in ("openai/", "hosted_vllm/"):
            if model.startswith(prefix):
                return model.removeprefix(prefix)
    return model


# --- addresses ---------------------------------------------------------------------------------------------------


def check_base_url(url: str) -> str:
    """`url` if requests may go there. Raises ValueError that says why not.

    Refused: other schemes than http and https, user names or passwords, a query or fragment, spellings of an IP
    address other than the usual one, and metadata addresses.
    """
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError("that is not a URL") from None
    if parts.scheme not in ("http", "https"):
        raise ValueError("only http and https addresses can be used")
    if not host:
        raise ValueError("the address has no host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("no user name or password in the address: name the key's variable in `api_key_env`")
    if parts.query or parts.fragment:
        raise ValueError("no query or fragment in the address")
    plain = unicodedata.normalize("NFKC", host).replace("。", ".").rstrip(".").casefold()
    if plain in _METADATA_NAMES:
        raise ValueError("metadata addresses are refused")
    address = literal_address(plain)
    if address is not None:
        if is_metadata(address):
            raise ValueError("metadata addresses are refused")
        if not _is_usual(plain):
            raise ValueError("write the IP address in its usual form")
    return url.strip().rstrip("/")


def _is_usual(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def literal_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address that `host` spells in any form that a resolver accepts (decimal, hex, octal, short), or None."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        try:
            return ipaddress.IPv4Address(socket.inet_aton(host))
        except (OSError, UnicodeEncodeError):
            return None


def _unwrapped(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is not None:
            return inner
        compatible = 0xFFFF < int(address) <= 0xFFFFFFFF
        if compatible or address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def is_metadata(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether `address` is link-local or another address where clouds keep their credentials."""
    plain = _unwrapped(address)
    return any(plain.version == network.version and plain in network for network in _METADATA_NETWORKS)


def is_private(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether `address` is not a public one."""
    plain = _unwrapped(address)
    return not plain.is_global or plain.is_multicast


def may_be_private(host: str) -> bool:
    """Whether a host is openly a private one: an IP address written out, a bare name, or a local domain."""
    plain = host.rstrip(".").casefold()
    local = plain.endswith((".local", ".localhost", ".internal", ".lan", ".home.arpa"))
    return literal_address(plain) is not None or "." not in plain or local


class RefusedAddress(OSError):
    """The host resolves to an address that requests may not go to."""


def check_resolved(host: str, addresses: Iterable[str], *, allow_private: bool) -> list[str]:
    """The addresses that may be connected to, in order. Raises RefusedAddress when one of them is refused."""
    allowed = []
    for text in addresses:
        address = ipaddress.ip_address(text.partition("%")[0])
        if is_metadata(address):
            raise RefusedAddress("the host resolves to a metadata address")
        if is_private(address) and not (allow_private or may_be_private(host)):
            raise RefusedAddress("the host resolves to a private address; set allow_private if that is meant")
        allowed.append(text)
    return allowed


async def resolve(host: str, port: int, *, allow_private: bool) -> list[str]:
    """Resolve `host` and check every address. Connect to these only, so that a second answer cannot differ."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return check_resolved(host, dict.fromkeys(str(entry[4][0]) for entry in found), allow_private=allow_private)


# --- failures ----------------------------------------------------------------------------------------------------


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds to wait by a Retry-After header (seconds or an HTTP date), at least 0; None when there is none."""
    if value is None or not value.strip():
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            when = parsedate_to_datetime(value)
        except ValueError:
            return None
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        seconds = (when - now).total_seconds()
    if not math.isfinite(seconds):
        return None
    return min(max(seconds, 0.0), MAX_WAIT_S)


def _header(error: BaseException, name: str) -> str | None:
    sources = (
        getattr(error, "litellm_response_headers", None),
        getattr(getattr(error, "response", None), "headers", None),
        getattr(error, "headers", None),
    )
    for headers in sources:
        if headers and (value := headers.get(name)) is not None:
            return str(value)
    return None


def _chain(error: BaseException) -> list[BaseException]:
    seen: list[BaseException] = []
    step: BaseException | None = error
    while step is not None and step not in seen and len(seen) < 8:
        seen.append(step)
        step = step.__cause__ or step.__context__
    return seen


def failure_of(error: BaseException, *, host: str, now: datetime, timeout_s: float) -> BackendFailure:
    """What an SDK's exception means. The message names status and host only: bodies may echo keys and prompts."""
    chain = _chain(error)
    for step in chain:
        if isinstance(step, BackendFailure):
            return step
        if isinstance(step, RefusedAddress):
            return BackendFailure(
                JudgeErrorReason.PROVIDER_ERROR, f"No request was sent to {host}: {step}.", fatal=True
            )
    names = {kind.__name__ for step in chain[:1] for kind in type(step).__mro__}
    status = getattr(error, "status_code", None)
    status = status if isinstance(status, int) and 100 <= status <= 599 else None
    if isinstance(error, TimeoutError) or names & {"Timeout", "APITimeoutError"} or status == 408:
        return BackendFailure(
            JudgeErrorReason.TIMEOUT, f"No answer from {host} within {timeout_s:g} s.", retryable=True
        )
    text = f"{error} {getattr(error, 'body', None) or ''} {getattr(error, 'code', None) or ''}"
    wait = retry_after(_header(error, "retry-after"), now)
    said = f"{status} from {host}" if status is not None else f"No usable answer from {host}"
    return _by_status(status, text, names, said, wait)


def _by_status(status: int | None, text: str, names: set[str], said: str, wait: float | None) -> BackendFailure:
    reason = JudgeErrorReason.PROVIDER_ERROR
    if status in (400, 403, 413, 422):
        if "ContextWindowExceededError" in names or status == 413 or _OVERFLOW.search(text):
            return BackendFailure(JudgeErrorReason.CONTEXT_OVERFLOW, f"{said}: the prompt does not fit the model.")
        if "ContentPolicyViolationError" in names or _FILTERED.search(text):
            return BackendFailure(
                JudgeErrorReason.CONTENT_FILTERED, f"{said}: stopped by the provider's content filter."
            )
    if status in (401, 403):
        return BackendFailure(reason, f"{said}: the key is missing or was refused.", fatal=True)
    if status == 402 or (status == 429 and _QUOTA.search(text)):
        return BackendFailure(reason, f"{said}: the account's quota or credit is used up.", fatal=True)
    if status == 429:
        return BackendFailure(
            JudgeErrorReason.RATE_LIMITED, f"{said}: too many requests.", retryable=True, retry_after_s=wait
        )
    if status is not None and 300 <= status < 400:
        return BackendFailure(reason, f"{said}: a redirect, which is not followed.")
    if status == 404:
        return BackendFailure(reason, f"{said}: no such model or route.")
    if status is not None and 400 <= status < 500:
        return BackendFailure(reason, f"{said}: the request was refused.")
    return BackendFailure(reason, f"{said}.", retryable=True, retry_after_s=wait)


def refuses_logprobs(error: BaseException) -> bool:
    """Whether a refused request was refused for asking token probabilities."""
    status = getattr(error, "status_code", None)
    text = f"{error} {getattr(error, 'body', None) or ''}"
    return status in (400, 422) and _LOGPROBS.search(text) is not None


async def within(seconds: float, work: Awaitable[Result]) -> Result:
    """`work` within a hard limit of the wall clock, however slowly its bytes drip. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        return await work


# --- answers -----------------------------------------------------------------------------------------------------


def part(value: Any, name: str) -> Any:
    """A field of an answer that may be an object or a mapping; None when it is missing."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def usage_of(body: Any, cost_usd: float | None = None) -> Usage:
    """Tokens of an answer and what the SDK knows of its cost.

    Unknown is None: an SDK that fills in zeros for a missing usage is not believed.
    """
    usage = part(body, "usage")
    prompt, written = _count(part(usage, "prompt_tokens")), _count(part(usage, "completion_tokens"))
    if not prompt and not written:
        return Usage(cost_usd=cost_usd or None)
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=written,
        cached_tokens=_count(part(part(usage, "prompt_tokens_details"), "cached_tokens")),
        cost_usd=cost_usd,
    )


def _count(value: Any) -> int | None:
    plain = isinstance(value, int) and not isinstance(value, bool)
    return value if plain and 0 <= value < 2**53 else None


def listed(value: Any) -> Sequence[Any]:
    """A list of an answer; empty where it is missing or something else."""
    return value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else ()


def _logprob(value: Any) -> float | None:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    # Rounding may leave a certain token a hair above 0; engines write impossible ones as -inf or a large number.
    return float(max(-1e9, min(0.0, value))) if plain and value <= 1e-6 else None


def _tokens(choice: Any) -> tuple[TokenLogprob, ...] | None:
    tokens = []
    for position in listed(part(part(choice, "logprobs"), "content")):
        token, logprob = part(position, "token"), _logprob(part(position, "logprob"))
        if not isinstance(token, str) or logprob is None:
            return None
        others = ((part(other, "token"), _logprob(part(other, "logprob"))) for other in _alternatives(position))
        top = tuple((text, value) for text, value in others if isinstance(text, str) and value is not None)
        tokens.append(TokenLogprob(token, logprob, top))
    # A chosen token without its alternatives cannot be normalised over the labels: it would read as certainty.
    return tuple(tokens) if any(token.top for token in tokens) else None


def _alternatives(position: Any) -> Sequence[Any]:
    return listed(part(position, "top_logprobs"))


def completion_of(
    answer: ChatAnswer,
    *,
    host: str,
    model: str,
    enforcement: Enforcement,
    sent: Mapping[str, Any],
    dropped: tuple[str, ...],
) -> Completion:
    """A completion from an answer in OpenAI's form. Raises BackendFailure when it holds no message."""
    choices = listed(part(answer.body, "choices"))
    usage = usage_of(answer.body, answer.cost_usd)
    if not choices or part(choices[0], "message") is None:
        raise BackendFailure(
            JudgeErrorReason.PROVIDER_ERROR, f"The answer from {host} holds no message.", retryable=True, usage=usage
        )
    choice = choices[0]
    message = part(choice, "message")
    content = answer.text if answer.text is not None else part(message, "content")
    refusal = part(message, "refusal")
    native = part(part(choice, "provider_specific_fields"), "native_finish_reason")
    finish = part(choice, "finish_reason")
    reported = answer.model or part(answer.body, "model")
    return Completion(
        text=_text(content),
        finish_reason=str(finish) if finish is not None else None,
        model=reported if isinstance(reported, str) and reported else model,
        enforcement=enforcement,
        usage=usage,
        refusal=refusal if isinstance(refusal, str) and refusal else None,
        tokens=_tokens(choice),
        parameters_sent=sent,
        parameters_dropped=dropped,
        engine={"host": host, **({"native_finish_reason": str(native)} if native else {})},
        earlier_usage=tuple(usage_of(early.body, early.cost_usd) for early in answer.earlier),
    )


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    # Some servers answer in parts; parts of another type (reasoning) are not the reply.
    texts = [part(piece, "text") for piece in listed(content) if part(piece, "type") in ("text", "output_text")]
    return "".join(text for text in texts if isinstance(text, str))


def utc_now() -> datetime:
    """The current time; replaced in tests."""
    return datetime.now(UTC)


def raise_unusable(judge: Judge, field: str, message: str) -> NoReturn:
    """Raise ConfigurationError for one field of a judge."""
    raise ConfigurationError(f"Judge `{judge.name}`: {message}", fields=[FieldProblem(field, message)])
