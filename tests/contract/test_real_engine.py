"""A real engine behind every backend over HTTP: schema decoding goes through all of them."""

import json
from typing import Any

import pytest

from judge_service.backends.catalog import BackendPool
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import Enforcement
from judge_service.settings import Settings
from rubrics.model import JsonConstraint
from tests.support.asks import choice_ask, pair_ask, request
from tests.support.engine_server import engine_server

pytestmark = pytest.mark.model

JUDGES: dict[str, tuple[str, dict[str, Any], Enforcement]] = {
    "litellm response_format": ("litellm", {}, Enforcement.PROVIDER),
    "litellm grammar": ("litellm", {"constraint": "grammar"}, Enforcement.GRAMMAR),
    "openai response_format": ("openai", {}, Enforcement.PROVIDER),
    "openai grammar": ("openai", {"constraint": "grammar"}, Enforcement.GRAMMAR),
    "outlines": ("outlines", {"engine": "llamacpp"}, Enforcement.GRAMMAR),
    "outlines by litellm": ("outlines", {"engine": "llamacpp", "client": "litellm"}, Enforcement.GRAMMAR),
    "instructor": ("instructor", {"mode": "json"}, Enforcement.REASK),
}


async def test_one_real_engine_through_every_client(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine_server() as endpoint:
        monkeypatch.setenv("ENGINE_KEY", endpoint.api_key)
        pool = BackendPool(Settings())
        try:
            for name, (backend_name, options, enforcement) in JUDGES.items():
                judge = Judge(
                    name="j",
                    backend=backend_name,
                    model="openai/served" if backend_name in ("litellm", "instructor") else "served",
                    options={"base_url": endpoint.base_url, "api_key_env": "ENGINE_KEY", **options},
                )
                backend = pool.get(judge)
                asked = request(pair_ask(), max_tokens=220, timeout_s=120, want_probabilities=True)
                made = await backend.complete(asked)
                assert made.enforcement is enforcement, name
                assert made.usage.prompt_tokens, name
                if enforcement is not Enforcement.REASK:
                    assert isinstance(asked.ask.constraint, JsonConstraint)
                    asked.ask.constraint.model.model_validate_json(made.text)
                    assert made.tokens, name
                    found = await backend.probe()
                    assert (found.ready, found.constraint_honoured, found.logprobs) == (True, True, True), name
                if options.get("constraint") == "grammar" or backend_name == "outlines":
                    label = await backend.complete(request(choice_ask(), max_tokens=4, timeout_s=120))
                    assert label.text in ("A", "B"), name
                    assert "\n" not in json.dumps(label.text)
        finally:
            await pool.aclose()
