"""A service with an empty database, and a client of it with a lead's key."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from judge_service.app import Service, create_app
from judge_service.domain.principal import Role
from judge_service.security.keys import issue
from judge_service.settings import Settings


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with Service.open(Settings(data_dir=tmp_path, requests_per_minute=1_000_000)) as opened:
        yield opened


@pytest.fixture
async def api(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    key, plain = issue("lead", Role.LEAD)
    service.store.keys.add(key)
    app = create_app(service=service)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app),
            base_url="http://judge.test",
            headers={"Authorization": f"Bearer {plain}"},
        ) as client,
    ):
        yield client
