"""Backend `litellm`: hosted models, and any OpenAI-compatible server, through LiteLLM.

Owns the choice of constraint form for a provider. Sending, failures and answers are shared with its siblings.
"""

from functools import partial
from typing import Literal

from judge_service.backends.clients import LiteLLMTransport
from judge_service.backends.provider import ConstraintForm, ProviderBackend
from judge_service.backends.schema_variants import (
    Engine,
    Variant,
    by_engine,
    by_grammar,
    by_response_format,
    unconstrained,
)
from judge_service.backends.transport import (
    Clock,
    ProviderOptions,
    raise_unusable,
    read_key,
    read_options,
    utc_now,
    wire_model,
)
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import Enforcement
from judge_service.settings import Settings

ConstraintMode = Literal["auto", "json_schema", "grammar", "vllm", "sglang", "tgi", "ollama", "none"]


class LiteLLMOptions(ProviderOptions):
    """Options of a judge with backend `litellm`, on top of `ProviderOptions`.

    `constraint`: `json_schema` (strict `response_format`), `grammar` (LLGuidance text, for a llama.cpp server built
    with it), `vllm`, `sglang`, `tgi`, `ollama` (that engine's own fields) or `none`; `auto` is `json_schema`.
    `variant` is the schema's form for `json_schema`; unset, it follows from the model's provider.
    """

    constraint: ConstraintMode = "auto"
    variant: Variant | None = None


def variant_for(model: str, options: ProviderOptions) -> Variant:
    """The schema's form for a model's provider; a server of one's own gets the whole schema."""
    if options.base_url is not None:
        return "gbnf"
    name = model.casefold()
    if "claude" in name or name.startswith("anthropic/"):
        return "anthropic"
    if "gemini" in name:
        return "gemini"
    return "openai_strict"


def constraint_form(model: str, options: LiteLLMOptions) -> ConstraintForm:
    """How constraints are sent to this model."""
    engines: dict[str, Engine] = {"vllm": "vllm", "sglang": "sglang", "tgi": "tgi", "ollama": "ollama"}
    if options.constraint in engines:
        return partial(by_engine, engine=engines[options.constraint])
    if options.constraint == "grammar":
        return by_grammar
    if options.constraint == "none":
        return unconstrained
    return partial(by_response_format, variant=options.variant or variant_for(model, options))


def open_backend(judge: Judge, settings: Settings, *, clock: Clock = utc_now) -> ProviderBackend:
    """A backend for a configured judge. Raises ConfigurationError naming the wrong option."""
    options = read_options(judge, LiteLLMOptions)
    if not judge.model:
        raise_unusable(judge, "model", "backend `litellm` needs a model, such as `openai/gpt-4o-mini`")
    if options.constraint in ("grammar", "vllm", "sglang", "tgi", "ollama") and options.base_url is None:
        raise_unusable(judge, "options.base_url", f"constraint `{options.constraint}` needs the server's base_url")
    reached = Enforcement.PROVIDER
    if options.constraint in ("grammar", "vllm", "sglang", "tgi", "ollama"):
        reached = Enforcement.GRAMMAR
    elif options.constraint == "none":
        reached = Enforcement.NONE
    return ProviderBackend(
        judge,
        options,
        LiteLLMTransport(judge.model, options, read_key(judge, options)),
        constraint_form(judge.model, options),
        model=wire_model(judge.model, options),
        enforcement=reached,
        clock=clock,
    )
