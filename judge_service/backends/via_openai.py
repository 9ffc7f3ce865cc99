"""Backend `openai`: an OpenAI-compatible server through the openai client alone.

Owns nothing but its options. For self-hosted servers: a call costs a fraction of the CPU that LiteLLM needs
(measured in `benchmarks/backends.py`); hosted models with prices and quirks go through `litellm`.
"""

from functools import partial
from typing import Literal

from judge_service.backends.clients import OpenAITransport
from judge_service.backends.provider import ProviderBackend
from judge_service.backends.schema_variants import Variant, by_grammar, by_response_format, unconstrained
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


class OpenAIOptions(ProviderOptions):
    """Options of a judge with backend `openai`, on top of `ProviderOptions`; `base_url` is needed.

    `constraint`: `json_schema` (strict `response_format`; `auto` is the same), `grammar` (LLGuidance text, for a
    llama.cpp server built with it) or `none`. `variant` is the schema's form for `json_schema`.
    """

    constraint: Literal["auto", "json_schema", "grammar", "none"] = "auto"
    variant: Variant = "gbnf"


def open_backend(judge: Judge, settings: Settings, *, clock: Clock = utc_now) -> ProviderBackend:
    """A backend for a configured judge. Raises ConfigurationError naming the wrong option."""
    options = read_options(judge, OpenAIOptions)
    if options.base_url is None:
        raise_unusable(judge, "options.base_url", "backend `openai` needs the server's base_url, ending in /v1")
    if not judge.model:
        raise_unusable(judge, "model", "backend `openai` needs the model's name as the server knows it")
    form, reached = partial(by_response_format, variant=options.variant), Enforcement.PROVIDER
    transport = OpenAITransport(options, read_key(judge, options))
    if options.constraint == "grammar":
        return ProviderBackend(judge, options, transport, by_grammar, enforcement=Enforcement.GRAMMAR, clock=clock)
    if options.constraint == "none":
        return ProviderBackend(judge, options, transport, unconstrained, enforcement=Enforcement.NONE, clock=clock)
    return ProviderBackend(judge, options, transport, form, enforcement=reached, clock=clock)
