"""The service in the process, clients with a key of a role, and browsers of people who are signed in."""

import html
import re
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from judge_service.app import Service
from judge_service.domain.principal import Role
from judge_service.domain.user import User
from judge_service.security.sessions import PLAIN_COOKIE, csrf_token, new_id, new_session
from judge_service.store.store import utc_now
from tests.judge_service.api.conftest import app, connect, service, settings

__all__ = ["app", "connect", "service", "settings"]

SignedIn = Callable[..., "Person"]


class Person:
    """A browser in which somebody is signed in: reads pages and posts forms with their token."""

    def __init__(self, client: httpx.AsyncClient, user: User, token: str) -> None:
        self.client = client
        self.user = user
        self._token = token

    async def get(self, path: str) -> httpx.Response:
        return await self.client.get(path)

    async def post(self, path: str, data: dict[str, Any] | None = None, **more: Any) -> httpx.Response:
        return await self.client.post(path, data={"csrf": csrf_token(self._token), **(data or {})}, **more)


@pytest.fixture
async def signed_in(app: FastAPI, service: Service) -> AsyncIterator[SignedIn]:
    clients: list[httpx.AsyncClient] = []

    def make(name: str = "Lea Example", role: Role = Role.LEAD) -> Person:
        users = service.store.users
        user = users.named(name) or users.add(User(id=new_id(), name=name, role=role, created_at=utc_now()))
        session, token = new_session(user_id=user.id, key_id=None, now=utc_now(), absolute=timedelta(hours=1))
        users.begin(session)
        client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app),
            base_url="http://judge.test",
            headers={"Accept": "text/html", "Origin": "http://judge.test"},
            cookies={PLAIN_COOKIE: token},
        )
        clients.append(client)
        return Person(client, user, token)

    yield make
    for client in clients:
        await client.aclose()


def words(page: httpx.Response) -> str:
    """The text of a page without its tags, white space folded."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page.text)).split())
