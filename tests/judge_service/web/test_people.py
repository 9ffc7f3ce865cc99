"""Signing in, invitations, and what other sites cannot make a browser do."""

import re
from collections.abc import Callable
from datetime import timedelta

import httpx
import pytest
from fastapi import FastAPI

from judge_service.app import Service
from judge_service.domain.principal import Role
from judge_service.domain.user import User
from judge_service.gate.sessions import MEMORY_S
from judge_service.gate.signing_in import PER_NAME, SigningIn
from judge_service.security.keys import issue
from judge_service.security.passwords import hash_password
from judge_service.security.sessions import PLAIN_COOKIE, SECURE_COOKIE, new_id
from judge_service.store.store import utc_now

PASSWORD = "four plain words here"
OURS = {"Origin": "http://judge.test"}
HTML = {"Accept": "text/html"}
HASH = hash_password(PASSWORD)


@pytest.fixture
def browser(app: FastAPI) -> Callable[..., httpx.AsyncClient]:
    def make(base: str = "http://judge.test") -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=base, headers=HTML)

    return make


def add(service: Service, name: str = "Ann", role: Role = Role.LEAD) -> User:
    user = User(id=new_id(), name=name, role=role, password_hash=HASH, created_at=utc_now())
    return service.store.users.add(user)


async def sign_in(client: httpx.AsyncClient, name: str = "Ann", **fields: str) -> httpx.Response:
    return await client.post("/sign-in", data={"name": name, "password": PASSWORD} | fields, headers=OURS)


def token_on(page: httpx.Response) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', page.text)
    assert found, page.text
    return found[1]


async def test_a_person_signs_in_goes_on_and_signs_out(browser, service) -> None:
    add(service)
    client = browser()
    first = await client.get("/people?x=1")
    assert first.status_code == 303
    assert first.headers["location"] == "/sign-in?next=%2Fpeople%3Fx%3D1"
    done = await sign_in(client, next="/people?x=1")
    assert (done.status_code, done.headers["location"]) == (303, "/people?x=1")
    cookie = done.headers["set-cookie"]
    assert cookie.startswith(f"{PLAIN_COOKIE}=js_")
    assert {"HttpOnly", "Path=/", "SameSite=lax"} <= set(cookie.split("; "))
    page = await client.get("/people")
    assert page.status_code == 200
    assert "Ann" in page.text
    assert (await client.get("/v1/users")).status_code == 200
    used = client.cookies[PLAIN_COOKIE]
    out = await client.post("/sign-out", data={"csrf": token_on(page)}, headers=OURS)
    assert out.headers["location"] == "/sign-in"
    client.cookies.set(PLAIN_COOKIE, used)
    assert (await client.get("/v1/users")).status_code == 401


@pytest.mark.parametrize("fields", [{"password": "wrong wrong wrong"}, {"name": "nobody"}, {"name": ""}])
async def test_every_failed_sign_in_is_told_the_same(browser, service, fields) -> None:
    add(service)
    disabled = add(service, "Bob")
    service.store.users.disable(disabled.id)
    told = []
    for data in ({"name": "Ann", "password": PASSWORD} | fields, {"name": "Bob", "password": PASSWORD}):
        response = await browser().post("/sign-in", data=data, headers=OURS)
        assert response.status_code == 401
        assert "set-cookie" not in response.headers
        assert PASSWORD not in response.text
        told.append(re.sub(r'value="[^"]*"', "", response.text))
    assert told[0] == told[1]


async def test_attempts_are_limited(browser, service, app) -> None:
    user = add(service)
    # A slow machine refills the bucket while it hashes.
    service.signing_in = SigningIn(
        service.store.users, app.state.gate.authenticator, absolute=timedelta(hours=1), clock=lambda: 0.0
    )
    service.store.users.disable(user.id)
    client = browser()
    codes = [(await sign_in(client, password="wrong wrong wrong")).status_code for _ in range(PER_NAME + 1)]
    assert codes == [401] * PER_NAME + [429]
    refused = await sign_in(client)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1


async def test_a_key_signs_in_too_and_its_revocation_ends_the_session(browser, service, monkeypatch) -> None:
    key, plain = issue("nightly", Role.LEAD)
    service.store.keys.add(key)
    client = browser()
    done = await client.post("/sign-in", data={"key": plain}, headers=OURS)
    assert done.status_code == 303
    assert (await client.get("/v1/users")).status_code == 200
    service.store.keys.revoke(key.id)
    gate = client._transport.app.state.gate  # the short memory of sessions is over
    gate.sessions._known.clear()
    assert MEMORY_S <= 5
    assert (await client.get("/v1/users")).status_code == 401


async def test_a_browser_gets_a_new_session_at_every_sign_in(browser, service) -> None:
    add(service)
    client = browser()
    client.cookies.set(PLAIN_COOKIE, "js_" + "A" * 43)
    await sign_in(client)
    first = client.cookies.get(PLAIN_COOKIE, domain="judge.test") or client.cookies.get(
        PLAIN_COOKIE, domain="judge.test.local"
    )
    assert first != "js_" + "A" * 43
    planted = browser()
    planted.cookies.set(PLAIN_COOKIE, str(first))
    await sign_in(planted)
    other = browser()
    other.cookies.set(PLAIN_COOKIE, str(first))
    assert (await other.get("/v1/users")).status_code == 401


async def test_over_https_the_cookie_is_bound_to_the_host(browser, service) -> None:
    add(service)
    client = browser("https://judge.test")
    done = await client.post(
        "/sign-in", data={"name": "Ann", "password": PASSWORD}, headers={"Origin": "https://judge.test"}
    )
    cookie = done.headers["set-cookie"]
    assert cookie.startswith(f"{SECURE_COOKIE}=js_")
    assert "Secure" in cookie
    assert "Domain" not in cookie


ATTACKS = [
    pytest.param({"Origin": "https://evil.example"}, True, id="another origin"),
    pytest.param({"Origin": "null"}, True, id="a sandboxed frame"),
    pytest.param({}, True, id="no origin at all"),
    pytest.param({"Sec-Fetch-Site": "same-site", "Origin": "http://judge.test"}, True, id="a sister site"),
    pytest.param(OURS, False, id="our page without its token"),
]


@pytest.mark.parametrize(("headers", "with_token"), ATTACKS)
async def test_no_other_site_changes_anything(browser, service, headers, with_token) -> None:
    add(service)
    client = browser()
    await sign_in(client)
    token = token_on(await client.get("/people"))
    mine = {"X-CSRF-Token": token} if with_token else {"X-CSRF-Token": "0" * 64}
    for path, body in (("/v1/invitations", {"json": {}}), ("/people/invite", {"data": {"role": "lead"}})):
        response = await client.post(path, headers={**headers, **mine, "Accept": "*/*"}, **body)
        assert response.status_code == 403
        assert response.json()["code"] == "cross_site"
    assert service.store.users.invitations() == []
    right = await client.post("/v1/invitations", headers={**OURS, "X-CSRF-Token": token}, json={})
    assert right.status_code == 201


async def test_nobody_is_signed_in_from_another_site(browser, service) -> None:
    add(service)
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {}):
        response = await browser().post("/sign-in", data={"name": "Ann", "password": PASSWORD}, headers=headers)
        assert response.status_code == 403
        assert "set-cookie" not in response.headers


async def test_a_form_token_of_another_session_is_refused(browser, service) -> None:
    add(service)
    one, two = browser(), browser()
    await sign_in(one)
    await sign_in(two)
    token = token_on(await one.get("/people"))
    response = await two.post("/v1/invitations", headers={**OURS, "X-CSRF-Token": token}, json={})
    assert response.status_code == 403


async def test_an_invitation_makes_one_person(browser, service) -> None:
    add(service)
    lead = browser()
    await sign_in(lead)
    page = await lead.post(
        "/people/invite",
        data={"role": "annotate", "name": "Bob", "csrf": token_on(await lead.get("/people"))},
        headers=OURS,
    )
    link = re.search(r"http://judge\.test(/invitations/ji_[\w-]+)", page.text)
    assert link
    guest = browser()
    form = await guest.get(link[1])
    assert 'value="Bob"' in form.text
    refused = await guest.post(link[1], data={"name": "Bob", "password": "short"}, headers=OURS)
    assert refused.status_code == 422
    assert "at least 10 characters" in refused.text
    taken = await guest.post(link[1], data={"name": "ANN", "password": PASSWORD}, headers=OURS)
    assert taken.status_code == 409
    done = await guest.post(link[1], data={"name": "Bob", "password": PASSWORD}, headers=OURS)
    assert done.status_code == 303
    assert (await guest.get("/v1/rubrics")).status_code == 200
    assert (await guest.get("/v1/users", headers={"Accept": "*/*"})).status_code == 403
    assert (await browser().get(link[1])).status_code == 404
    bob = service.store.users.named("bob")
    assert bob is not None
    assert bob.role is Role.ANNOTATE


async def test_a_lead_gives_no_role_above_the_own(browser, service, connect) -> None:
    lead = connect(Role.LEAD)
    assert (await lead.post("/v1/invitations", json={"role": "admin"})).status_code == 403
    admin = add(service, "Root", Role.ADMIN)
    assert (await lead.post(f"/v1/users/{admin.id}/disable")).status_code == 403
    ann = add(service, "Ann", Role.ANNOTATE)
    shown = await lead.post(f"/v1/users/{ann.id}/disable")
    assert shown.status_code == 200
    assert "password_hash" not in shown.text
    assert (await sign_in(browser())).status_code == 401


async def test_disabling_ends_a_session_at_once(browser, service, connect) -> None:
    ann = add(service)
    client = browser()
    await sign_in(client)
    assert (await client.get("/v1/users")).status_code == 200
    await connect(Role.ADMIN).post(f"/v1/users/{ann.id}/disable")
    assert (await client.get("/v1/users")).status_code == 401


async def test_no_token_is_in_the_log(browser, service, caplog) -> None:
    caplog.set_level("WARNING", logger="httpx")
    caplog.set_level("INFO", logger="judge_service")
    client = browser()
    await client.get("/invitations/ji_" + "s" * 43)
    assert "ji_" + "s" * 43 not in caplog.text
    assert "/invitations/***" in caplog.text
