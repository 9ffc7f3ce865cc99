"""A small application behind the gate: real middlewares and routes, keys in a dictionary."""

from typing import Any

import httpx
from fastapi import APIRouter, FastAPI, Request
from pydantic import BaseModel

from judge_service.domain.principal import ApiKey, Role
from judge_service.gate import problem
from judge_service.gate.authentication import Authenticator, Gate
from judge_service.gate.context import RequestContext
from judge_service.gate.limits import BodyLimit, RateLimiter
from judge_service.gate.route import GuardedRoute, needs, principal_of, public
from judge_service.security.keys import issue
from judge_service.security.roles import Permission


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Thing(BaseModel):
    value: Any


class Border:
    """The application, its keys, and a client."""

    def __init__(self, *, per_minute: int = 1000, limit: int = 1000, silence_s: float = 5.0) -> None:
        self.clock = Clock()
        self.keys: dict[str, ApiKey] = {}
        self.reads = 0
        self.touched: list[str] = []
        self.authenticator = Authenticator(self._find, self.touched.append, clock=self.clock)
        router = APIRouter(route_class=GuardedRoute)

        @router.post("/things")
        @needs(Permission.JUDGE)
        async def make(request: Request, body: Thing) -> dict[str, Any]:
            return {"value": body.value, "role": principal_of(request).role}

        @router.get("/secret")
        @needs(Permission.MANAGE_KEYS)
        async def secret() -> dict[str, bool]:
            return {"ok": True}

        @router.get("/open")
        @public
        async def open_() -> dict[str, bool]:
            return {"ok": True}

        @router.get("/broken")
        @public
        async def broken() -> None:
            raise RuntimeError("no route to https://llm.example.org/?key=sk-test-SECRET123 from /srv/private")

        self.app = FastAPI(docs_url=None, redoc_url=None)
        self.app.include_router(router)
        problem.install(self.app)
        self.app.add_middleware(BodyLimit, limit=limit, silence_s=silence_s)
        self.app.add_middleware(RequestContext)
        limiter = RateLimiter(per_minute, clock=self.clock)
        self.app.state.gate = Gate(self.authenticator, limiter, max_json_depth=8)

    def _find(self, key_id: str) -> ApiKey | None:
        self.reads += 1
        return self.keys.get(key_id)

    def key(self, role: Role = Role.SCORE) -> str:
        stored, plain = issue("test", role)
        self.keys[stored.id] = stored
        return plain

    def client(self, key: str | None = None) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        transport = httpx.ASGITransport(app=self.app)
        return httpx.AsyncClient(transport=transport, base_url="http://judge.test", headers=headers)
