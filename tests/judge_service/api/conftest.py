from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from judge_service.app import Service, create_app
from judge_service.domain.principal import Role
from judge_service.security.keys import issue
from judge_service.settings import Settings
from tests.judge_service.store.databases import database_url, postgres

__all__ = ["database_url", "postgres"]

Connect = Callable[..., httpx.AsyncClient]
Start = Callable[[], Awaitable[tuple[Service, httpx.AsyncClient]]]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, requests_per_minute=1_000_000)


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[FastAPI]:
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        yield app


@pytest.fixture
def service(app: FastAPI) -> Service:
    found = app.state.service
    assert isinstance(found, Service)
    return found


@pytest.fixture
async def connect(app: FastAPI, service: Service) -> AsyncIterator[Connect]:
    clients: list[httpx.AsyncClient] = []

    def make(role: Role | None = Role.SCORE, **options: Any) -> httpx.AsyncClient:
        headers = {}
        if role is not None:
            key, plain = issue(f"test {role}", role)
            service.store.keys.add(key)
            headers["Authorization"] = f"Bearer {plain}"
        client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), base_url="http://judge.test", headers=headers, **options
        )
        clients.append(client)
        return client

    yield make
    for client in clients:
        await client.aclose()


@pytest.fixture
def client(connect: Connect) -> httpx.AsyncClient:
    return connect()


@pytest.fixture
async def start(database_url: str, tmp_path: Path) -> AsyncIterator[Start]:
    """Starts one more service on one database, on each kind of it, with a client that is a lead."""
    key, plain = issue("lead", Role.LEAD)
    async with AsyncExitStack() as stack:

        async def make() -> tuple[Service, httpx.AsyncClient]:
            app = create_app(Settings(data_dir=tmp_path, database_url=database_url))
            await stack.enter_async_context(app.router.lifespan_context(app))
            service: Service = app.state.service
            if service.store.keys.get(key.id) is None:
                service.store.keys.add(key)
            transport = httpx.ASGITransport(app=app)
            headers = {"Authorization": f"Bearer {plain}"}
            client = httpx.AsyncClient(transport=transport, base_url="http://judge.test", headers=headers)
            return service, await stack.enter_async_context(client)

        yield make
