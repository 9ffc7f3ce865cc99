"""The SDKs that send chat requests: LiteLLM for every provider, and the client of an OpenAI-compatible server.

Owns how both are set up: no hidden retry, no redirect, no telemetry, checked addresses. Imported SDKs stay inside.
"""

import asyncio
import logging
import os
from typing import Any

from judge_service.backends.base import BackendFailure
from judge_service.backends.transport import ChatAnswer, ChatRequest, ProviderOptions, check_base_url
from judge_service.domain.outcome import JudgeErrorReason
from judge_service.errors import MissingDependency

NO_KEY = "none"
"""Sent to servers that want no key: the client insists on one."""

OPENAI_URL = "https://api.openai.com/v1"


def open_client(options: ProviderOptions, key: str | None) -> Any:
    """An `openai.AsyncOpenAI` for `options.base_url`: no retry, no redirect, only checked addresses."""
    try:
        import httpx2
        import openai
    except ImportError as error:  # pragma: no cover - declared dependencies
        raise MissingDependency(f"The package {error.name} is missing: pip install openai") from error
    from judge_service.backends.connections import CheckedTransport

    # One for both: reading the trusted certificates takes a tenth of a second.
    certificates = httpx2.create_ssl_context()
    http = httpx2.AsyncClient(follow_redirects=False, timeout=None, verify=certificates)
    # Set here and not handed in, which would turn off the proxies of the environment. A test shows that a refused host
    # gets no connection.
    http._transport = CheckedTransport(certificates, allow_private=options.allow_private)
    return openai.AsyncOpenAI(
        api_key=key or NO_KEY, base_url=options.base_url, max_retries=0, timeout=None, http_client=http
    )


class LiteLLMTransport:
    """Sends through LiteLLM: with `base_url` over a client of our own, else to the provider that the model names."""

    def __init__(self, model: str, options: ProviderOptions, key: str | None) -> None:
        self._model = model
        self._options = options
        self._key = key
        self._litellm: Any = None
        self._client: Any = None
        self._taken: dict[tuple[str, str], bool] = {}

    async def load(self) -> None:
        """Import LiteLLM (about three seconds) in a thread: the event loop goes on."""
        if self._litellm is None:
            await asyncio.to_thread(self._sdk)
        if self._options.base_url is not None:
            self._client = open_client(self._options, self._key)
        elif self._provider()[1] == "openai":
            # Its key and address may come from the variables that OpenAI's own tools read.
            key = self._key or os.environ.get("OPENAI_API_KEY", "").strip()
            if not key:
                raise BackendFailure(
                    JudgeErrorReason.PROVIDER_ERROR, "There is no key for OpenAI: set `api_key_env`.", fatal=True
                )
            address = os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE") or OPENAI_URL
            self._client = open_client(self._options.model_copy(update={"base_url": check_base_url(address)}), key)

    def _provider(self) -> tuple[str, str]:
        """Model name and provider as LiteLLM reads them. Raises BackendFailure where it knows none."""
        try:
            name, provider, *_ = self._sdk().get_llm_provider(self._model)
        except Exception as error:
            # It says so with a bad request of its own, before any call.
            raise BackendFailure(
                JudgeErrorReason.PROVIDER_ERROR,
                f"LiteLLM knows no provider for the model `{self._model}`: write `provider/model`, or set base_url.",
                fatal=True,
            ) from error
        return str(name), str(provider)

    def _sdk(self) -> Any:
        if self._litellm is None:
            self._litellm = load_litellm()
        return self._litellm

    def takes(self, name: str, value: Any) -> bool:
        """What LiteLLM's own tables say of this model; True with a `base_url`, where the server decides."""
        if self._options.base_url is not None:
            return True
        key = (name, "schema" if name in ("response_format", "tools") else repr(value))
        if key not in self._taken:
            self._taken[key] = self._accepts(name, value)
        return self._taken[key]

    def _accepts(self, name: str, value: Any) -> bool:
        sdk = self._sdk()
        try:
            model, provider = self._provider()
            sdk.utils.get_optional_params(model=model, custom_llm_provider=provider, **{name: value})
        except sdk.UnsupportedParamsError:
            return False
        except BackendFailure:
            # The call itself says what is wrong.
            return True
        return True

    async def send(self, request: ChatRequest) -> ChatAnswer:
        """One call of `litellm.acompletion`, all of its own retries off."""
        arguments: dict[str, Any] = {
            "model": request.model,
            "messages": [dict(message) for message in request.messages],
            "timeout": request.timeout_s,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": False,
            **request.parameters,
        }
        if request.extra:
            arguments["extra_body"] = dict(request.extra)
        if self._key is not None:
            arguments["api_key"] = self._key
        if self._client is not None:
            arguments |= {"client": self._client, "api_key": self._client.api_key}
        if self._options.base_url is not None:
            arguments |= {
                "custom_llm_provider": "openai",
                "api_base": self._options.base_url,
                # The server decides what it takes, not LiteLLM's table of names.
                "allowed_openai_params": list(request.parameters),
            }
        answer = await self._sdk().acompletion(**arguments)
        hidden = getattr(answer, "_hidden_params", None) or {}
        cost = hidden.get("response_cost")
        reported = hidden.get("provider_response_model")
        return ChatAnswer(answer, cost if isinstance(cost, float | int) and cost else None, reported)

    async def aclose(self) -> None:
        """Close our own client."""
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()


def load_litellm() -> Any:
    """LiteLLM, set up to be quiet: no price map from the network, no banner, no callbacks, no telemetry."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ.setdefault("LITELLM_LOG", "CRITICAL")
    try:
        import litellm
    except ImportError as error:  # pragma: no cover - a declared dependency
        raise MissingDependency("The package litellm is missing: pip install litellm") from error
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.drop_params = False
    litellm.num_retries = 0
    for name in (
        "callbacks",
        "success_callback",
        "failure_callback",
        "_async_success_callback",
        "_async_failure_callback",
    ):
        setattr(litellm, name, [])
    # Their records can hold request bodies, headers and echoed keys; our own errors say what is needed.
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).disabled = True
    return litellm


class OpenAITransport:
    """Sends through the openai client alone: for OpenAI-compatible servers, at a fraction of LiteLLM's cost a call."""

    def __init__(self, options: ProviderOptions, key: str | None) -> None:
        self._options = options
        self._key = key
        self._client: Any = None
        self._raw: Any = None

    async def load(self) -> None:
        """Import the SDK in a thread and open the client."""
        self._client = await asyncio.to_thread(open_client, self._options, self._key)
        import httpx2

        self._raw = httpx2.Response

    def takes(self, name: str, value: Any) -> bool:
        """The server decides."""
        return True

    async def send(self, request: ChatRequest) -> ChatAnswer:
        """One POST of a chat completion, read as plain JSON.

        The typed method would walk through every node of the schema on the way out and build models on the way in:
        half of a call's CPU (measured), for nothing that is not checked again here.
        """
        body = {"model": request.model, "messages": list(request.messages), **request.parameters, **request.extra}
        response = await self._client.post(
            "/chat/completions", body=body, cast_to=self._raw, options={"timeout": request.timeout_s}
        )
        return ChatAnswer(response.json())

    async def aclose(self) -> None:
        """Close the client."""
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()
