"""Backend `outlines`: self-hosted engines, the constraint compiled by Outlines' type adapters.

Owns the choice of engine. vLLM, SGLang, TGI, Ollama and llama.cpp's server each take a constraint in fields of their
own; the request goes out through the openai client or LiteLLM.
"""

from functools import partial
from typing import Literal

from judge_service.backends.clients import LiteLLMTransport, OpenAITransport
from judge_service.backends.provider import ProviderBackend
from judge_service.backends.schema_variants import Engine, by_engine
from judge_service.backends.transport import (
    Clock,
    ProviderOptions,
    raise_unusable,
    read_key,
    read_options,
    utc_now,
)
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import Enforcement
from judge_service.settings import Settings


class OutlinesOptions(ProviderOptions):
    """Options of a judge with backend `outlines`, on top of `ProviderOptions`; `base_url` is needed.

    `engine` is the server: `vllm` (0.12 or newer), `sglang`, `tgi`, `ollama` or `llamacpp`. `client` carries the
    request: `openai` (default; cheaper a call) or `litellm`.
    """

    engine: Engine
    client: Literal["openai", "litellm"] = "openai"


def open_backend(judge: Judge, settings: Settings, *, clock: Clock = utc_now) -> ProviderBackend:
    """A backend for a configured judge. Raises ConfigurationError naming the wrong option."""
    options = read_options(judge, OutlinesOptions)
    if options.base_url is None:
        raise_unusable(judge, "options.base_url", "backend `outlines` needs the server's base_url, ending in /v1")
    if not judge.model:
        raise_unusable(judge, "model", "backend `outlines` needs the model's name as the server knows it")
    key = read_key(judge, options)
    return ProviderBackend(
        judge,
        options,
        OpenAITransport(options, key) if options.client == "openai" else LiteLLMTransport(judge.model, options, key),
        partial(by_engine, engine=options.engine),
        enforcement=Enforcement.GRAMMAR,
        clock=clock,
    )
