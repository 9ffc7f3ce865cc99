"""The embedded engine's own OpenAI-compatible server on loopback, for tests of clients that speak HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from judge_service.backends import weights
from judge_service.backends.embedded import Endpoint, open_backend
from judge_service.domain.judge import Judge
from judge_service.settings import Settings


def model_settings() -> Settings:
    """Settings whose embedded model is installed; the test fails with what to run when it is not."""
    settings = Settings(context_tokens=4096)
    if weights.installed(settings) is None:
        pytest.fail("The embedded model is not installed. Run `judge-service models pull`.")
    return settings


@asynccontextmanager
async def engine_server(judge: Judge | None = None, settings: Settings | None = None) -> AsyncIterator[Endpoint]:
    """Serve the embedded model while the block runs: base URL ending in `/v1`, API key and model name."""
    backend = open_backend(judge or Judge(name="served", backend="embedded"), settings or model_settings())
    try:
        yield await backend.endpoint()
    finally:
        await backend.aclose()
