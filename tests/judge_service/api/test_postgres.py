"""The same API on PostgreSQL: what differs is the database's opinion of texts and of simultaneous writers."""

import asyncio

import httpx
import pytest

from judge_service.app import create_app
from judge_service.domain.principal import Role
from judge_service.security.keys import issue
from judge_service.settings import Settings
from tests.judge_service.api.requests import claims, pair
from tests.judge_service.store.databases import postgres as postgres


@pytest.fixture
async def client(request, tmp_path):
    server = request.getfixturevalue("postgres")
    url = server.fresh()
    app = create_app(Settings(data_dir=tmp_path, database_url=url))
    async with app.router.lifespan_context(app):
        key, plain = issue("test", Role.ADMIN)
        app.state.service.store.keys.add(key)
        transport = httpx.ASGITransport(app=app)
        headers = {"Authorization": f"Bearer {plain}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://judge.test", headers=headers) as client:
            yield client
    server.drop(url)


@pytest.mark.parametrize(
    "body",
    [pair(), pair("nul\x00", response_a="a\x00b"), claims(group="g\x00", metadata={"k\x00": "v\x00"})],
    ids=["plain", "nul in a text", "nul in group and metadata"],
)
async def test_a_judgment_is_stored_as_it_was_answered(client, body):
    made = await client.post("/v1/judgments", json=body)
    assert made.status_code == 201, made.text
    assert (await client.get(made.headers["location"])).json() == made.json()


async def test_twenty_posts_at_once_give_one_judgment_and_one_run(client):
    headers = {"Idempotency-Key": "k"}
    body = pair() | {"fresh": True}
    made = await asyncio.gather(*(client.post("/v1/judgments", json=body, headers=headers) for _ in range(20)))
    assert {response.status_code for response in made} <= {200, 201}
    assert len({response.json()["id"] for response in made}) == 1
    run = {"rubric": "pairwise@1", "judge": "longer", "cases": [pair("a")["case"], pair("b")["case"]]}
    started = await asyncio.gather(*(client.post("/v1/runs", json=run, headers=headers) for _ in range(20)))
    assert {response.status_code for response in started} == {202}
    assert len({response.json()["id"] for response in started}) == 1
    assert len((await client.get("/v1/runs")).json()["items"]) == 1


async def test_odd_names_are_4xx(client):
    assert (await client.get("/v1/runs?cursor=%00")).status_code == 422
    assert (await client.get("/v1/judgments/%00")).status_code == 422
    assert (await client.get("/v1/judges/%00")).status_code == 404
    key = await client.post("/v1/keys", json={"name": "a\x00", "role": "score"})
    assert key.status_code == 422
