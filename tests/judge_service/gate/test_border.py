import logging
from datetime import UTC, datetime

import pytest
from fastapi import APIRouter

from judge_service.domain.principal import Role
from judge_service.gate.context import SECURITY_HEADERS
from judge_service.gate.route import GuardedRoute
from tests.judge_service.gate.border import Border


def assert_problem(response, status, code):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    assert body["code"] == code
    assert body["type"] == f"urn:judge-service:problem:{code}"
    assert body["title"]
    assert body["detail"]
    assert isinstance(body["errors"], list)
    assert body["request_id"] == response.headers["x-request-id"]
    return body


async def test_a_valid_key_passes():
    border = Border()
    async with border.client(border.key()) as client:
        response = await client.post("/things", json={"value": [1, {"a": None}]})
    assert response.status_code == 200
    assert response.json() == {"value": [1, {"a": None}], "role": "score"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic jk_aaaaaaaaaaaa_" + "A" * 40},
        {"Authorization": "Bearer jk_live_WRONGKEY456"},
        {"Authorization": "Bearer jk_aaaaaaaaaaaa_" + "A" * 40},
        {"Authorization": "Bearer jk_aaaaaaaaaaaa_" + "é" * 40},
    ],
)
async def test_without_a_valid_key_nothing_passes_and_no_key_is_echoed(headers):
    border = Border()
    async with border.client() as client:
        raw = [(name.encode(), value.encode("utf-8")) for name, value in headers.items()]
        response = await client.post("/things", json={"value": 1}, headers=raw)
    assert_problem(response, 401, "unauthenticated")
    assert "Bearer" in response.headers["www-authenticate"]
    assert "***" not in response.json()["detail"]
    assert "WRONGKEY456" not in response.text
    assert "A" * 40 not in response.text


async def test_two_authorization_headers_are_none():
    border = Border()
    key = border.key()
    async with border.client() as client:
        headers = [("Authorization", f"Bearer {key}"), ("Authorization", f"Bearer {key}")]
        response = await client.post("/things", json={"value": 1}, headers=headers)
    assert_problem(response, 401, "unauthenticated")


async def test_a_role_without_the_permission_is_told_which_role_has_it():
    border = Border()
    async with border.client(border.key(Role.SCORE)) as client:
        body = assert_problem(await client.get("/secret"), 403, "forbidden")
    assert "`score`" in body["detail"]
    assert "`admin`" in body["detail"]
    async with border.client(border.key(Role.ADMIN)) as client:
        assert (await client.get("/secret")).status_code == 200


async def test_a_revoked_key_stops_within_seconds_and_at_once_where_it_was_revoked():
    border = Border()
    key = border.key()
    async with border.client(key) as client:
        assert (await client.post("/things", json={"value": 1})).status_code == 200
        (identifier,) = border.keys
        border.keys[identifier] = border.keys[identifier].model_copy(update={"revoked_at": datetime.now(UTC)})
        assert (await client.post("/things", json={"value": 1})).status_code == 200
        border.clock.now += 2.1
        assert_problem(await client.post("/things", json={"value": 1}), 401, "unauthenticated")

        other = border.key()
        client.headers["Authorization"] = f"Bearer {other}"
        assert (await client.post("/things", json={"value": 1})).status_code == 200
        identifier = other.split("_")[1]
        border.keys[identifier] = border.keys[identifier].model_copy(update={"revoked_at": datetime.now(UTC)})
        border.authenticator.forget(identifier)
        assert_problem(await client.post("/things", json={"value": 1}), 401, "unauthenticated")


async def test_a_verified_key_is_read_and_noted_rarely():
    border = Border()
    async with border.client(border.key()) as client:
        for _ in range(10):
            await client.post("/things", json={"value": 1})
        assert border.reads == 1
        for _ in range(40):
            border.clock.now += 2
            await client.post("/things", json={"value": 1})
    assert border.reads == 41
    assert len(border.touched) == 2


async def test_a_key_may_ask_so_often_and_is_told_when_again():
    border = Border(per_minute=3)
    async with border.client(border.key()) as client, border.client(border.key()) as other:
        for _ in range(3):
            assert (await client.post("/things", json={"value": 1})).status_code == 200
        response = await client.post("/things", json={"value": 1})
        assert_problem(response, 429, "rate_limited")
        assert response.headers["retry-after"] == "20"
        assert (await other.post("/things", json={"value": 1})).status_code == 200
        border.clock.now += 20
        assert (await client.post("/things", json={"value": 1})).status_code == 200


async def test_guessing_keys_is_limited_too():
    border = Border(per_minute=3)
    async with border.client("jk_wrong") as client:
        codes = [(await client.get("/secret")).status_code for _ in range(5)]
        assert codes == [401, 401, 401, 429, 429]
        assert (await client.get("/open")).status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"value": ' + b"[" * 9 + b"]" * 9 + b"}", 400, "malformed_request"),
        (b'{"value": 1, "value": 2}', 400, "malformed_request"),
        (b'{"value": NaN}', 400, "malformed_request"),
        (b'{"value": 1e999}', 422, "invalid_input"),
        (b'{"value": "\\ud800"}', 422, "invalid_input"),
        (b'{"value"', 400, "malformed_request"),
        (b"\xff", 400, "malformed_request"),
        (b"[]", 422, "invalid_input"),
        (b"null", 422, "invalid_input"),
        (b"", 422, "invalid_input"),
        (b"{}", 422, "invalid_input"),
    ],
)
async def test_bad_bodies(body, status, code):
    border = Border()
    async with border.client(border.key()) as client:
        response = await client.post("/things", content=body, headers={"Content-Type": "application/json"})
        assert_problem(response, status, code)
    async with border.client() as client:
        response = await client.post("/things", content=body, headers={"Content-Type": "application/json"})
        assert_problem(response, 401, "unauthenticated")


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", None])
async def test_another_content_type_is_415(content_type):
    border = Border()
    headers = {"Content-Type": content_type} if content_type else {}
    async with border.client(border.key()) as client:
        response = await client.post("/things", content=b'{"value": 1}', headers=headers)
    assert "application/json" in assert_problem(response, 415, "unsupported_media_type")["detail"]


async def test_a_declared_length_above_the_limit_is_413_with_or_without_a_key():
    border = Border(limit=100)
    for key in (border.key(), None):
        async with border.client(key) as client:
            body = assert_problem(await client.post("/things", json={"value": "x" * 200}), 413, "too_large")
            assert body["limit_bytes"] == 100


async def test_a_body_of_pieces_is_cut_off_at_the_limit():
    border = Border(limit=100)
    sent = 0

    async def pieces():
        nonlocal sent
        for _ in range(1000):
            sent += 50
            yield b" " * 50

    async with border.client(border.key()) as client:
        response = await client.post("/things", content=pieces(), headers={"Content-Type": "application/json"})
    assert_problem(response, 413, "too_large")
    assert sent <= 200


async def test_unknown_paths_and_methods_are_problems():
    border = Border()
    async with border.client() as client:
        assert_problem(await client.get("/nothing"), 404, "not_found")
        response = await client.delete("/open")
        assert_problem(response, 405, "method_not_allowed")
        assert response.headers["allow"] == "GET"


async def test_what_nobody_foresaw_is_a_500_that_tells_nothing_and_a_redacted_log_line(caplog):
    border = Border()
    with caplog.at_level(logging.DEBUG):
        async with border.client() as client:
            response = await client.get("/broken")
    body = assert_problem(response, 500, "internal_error")
    assert "SECRET123" not in response.text
    assert "private" not in response.text
    assert "RuntimeError" not in response.text
    assert body["request_id"] in caplog.text
    assert "RuntimeError" in caplog.text
    assert "SECRET123" not in caplog.text


async def test_every_response_has_the_security_headers():
    border = Border(limit=100)
    async with border.client() as client:
        for response in (
            await client.get("/open"),
            await client.get("/nothing"),
            await client.get("/broken"),
            await client.get("/secret"),
            await client.post("/things", content=b"x" * 200),
        ):
            for name, value in SECURITY_HEADERS.items():
                assert response.headers[name] == value


async def test_request_ids_are_kept_when_plain_and_made_when_not(caplog):
    border = Border()
    async with border.client() as client:
        response = await client.get("/open", headers={"X-Request-Id": "build-17.a"})
        assert response.headers["x-request-id"] == "build-17.a"
        for bad in ("two words", "x" * 65, "<script>", "jk_aaaaaaaaaaaa_" + "A" * 40, ""):
            with caplog.at_level(logging.DEBUG):
                response = await client.get("/open", headers={"X-Request-Id": bad})
            assert response.headers["x-request-id"] != bad
            assert len(response.headers["x-request-id"]) == 32
    assert "A" * 40 not in caplog.text


async def test_no_key_reaches_any_log_line(caplog):
    border = Border()
    key = border.key()
    secret = key.split("_")[2]
    with caplog.at_level(logging.DEBUG):
        async with border.client(key) as client:
            await client.post(f"/things?api_key={key}", json={"value": key})
            await client.get(f"/{key}")
            await client.post("/things", json={"nothing": key})
            await client.post("/things", content=f"{{{key}".encode(), headers={"Content-Type": "application/json"})
        async with border.client(key[:-1] + "!") as client:
            await client.post("/things", json={"value": 1})
    ours = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("http"))
    assert f"by={key.split('_')[1]} request=" in ours
    assert secret[:-1] not in ours


def test_a_route_that_declares_nothing_cannot_be_made():
    router = APIRouter(route_class=GuardedRoute)

    async def endpoint() -> None:
        return None

    with pytest.raises(TypeError, match="declares neither"):
        router.get("/x")(endpoint)
