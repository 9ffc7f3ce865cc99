"""Judges set over the API: kept, shared by processes, validated by opening, and never a way into the server."""

import socket
from typing import Any

import pytest
from pydantic import ValidationError

from judge_service.app import Service
from judge_service.domain.judge import Judge
from judge_service.domain.principal import Role
from judge_service.errors import InvalidInput
from judge_service.judging.submitted import refuse_unsafe
from judge_service.runs import in_step
from judge_service.settings import PROVIDER_KEYS, Settings
from tests.judge_service.api.requests import pair, paths
from tests.support.fake_provider import FakeProvider, Reply

MINE = {"name": "mine", "backend": "baseline", "model": "longer", "order_policy": "single_ab"}


def remote(url: str, **more: Any) -> dict[str, Any]:
    return {"name": "mine", "backend": "openai", "model": "m", "options": {"base_url": url, **more}}


async def test_a_judge_is_added_used_replaced_and_removed(connect, service):
    admin = connect(Role.ADMIN)
    made = await admin.post("/v1/judges", json=MINE)
    assert (made.status_code, made.headers["location"]) == (201, "/v1/judges/mine")
    assert (await admin.post("/v1/judges", json=MINE)).status_code == 200
    other = {**MINE, "order_policy": "both_orders"}
    assert (await admin.post("/v1/judges", json=other)).status_code == 409
    judged = await connect(Role.SCORE).post("/v1/judgments", json=pair() | {"judge": "mine"})
    assert (judged.status_code, len(judged.json()["calls"])) == (201, 1)
    replaced = await admin.put("/v1/judges/mine", json=other)
    assert replaced.status_code == 200
    assert replaced.json()["content_hash"] != made.json()["content_hash"]
    judged = await connect(Role.SCORE).post("/v1/judgments", json=pair() | {"judge": "mine"})
    assert (judged.status_code, len(judged.json()["calls"])) == (201, 2)
    assert (await admin.delete("/v1/judges/mine")).status_code == 200
    assert (await admin.delete("/v1/judges/mine")).status_code == 404
    assert (await admin.get("/v1/judges/mine")).status_code == 404


async def test_it_is_there_after_a_start_and_in_other_processes(connect, service, settings, monkeypatch):
    monkeypatch.setattr(in_step, "FRESH_S", 0.0)
    admin = connect(Role.ADMIN)
    await admin.put("/v1/judges/mine", json=MINE)
    async with Service.open(settings) as other:
        assert other.roster.get("mine").model == "longer"
        await admin.put("/v1/judges/mine", json={**MINE, "model": "constant"})
        await other.stored_judges.fresh()
        assert other.roster.get("mine").model == "constant"
        await admin.delete("/v1/judges/mine")
        await other.stored_judges.fresh()
        assert "mine" not in {judge.name for judge in other.roster.all()}


async def test_a_judge_that_another_process_was_given_a_moment_ago_can_be_named(client, service, settings):
    # The table was read just now, and is not due again.
    assert (await client.get("/v1/judges/mine")).status_code == 404
    service.store.judges.put(Judge(**MINE))
    answer = await client.post("/v1/judgments", json=pair() | {"judge": "mine"})
    assert (answer.status_code, answer.json()["judge"]) == (201, "mine")
    service.store.judges.put(Judge(**{**MINE, "name": "other"}))
    run = {"rubric": "pairwise@1", "judge": "other", "cases": [pair()["case"]]}
    assert (await client.post("/v1/runs", json=run)).status_code == 202
    service.store.judges.put(Judge(**{**MINE, "name": "third"}))
    assert (await client.get("/v1/judges/third")).status_code == 200


async def test_names_of_the_program_and_of_the_file_are_taken(connect, service):
    admin = connect(Role.ADMIN)
    service.roster.add(Judge(name="filed", backend="baseline", model="longer"))
    for name in ("longer", "filed"):
        assert (await admin.put(f"/v1/judges/{name}", json={**MINE, "name": name})).status_code == 409
        assert (await admin.delete(f"/v1/judges/{name}")).status_code == 409
    assert service.roster.get("filed").order_policy == "both_orders"


async def test_only_admins_set_judges(connect):
    for role in (Role.SCORE, Role.ANNOTATE, Role.LEAD):
        client = connect(role)
        assert (await client.put("/v1/judges/mine", json=MINE)).status_code == 403
        assert (await client.delete("/v1/judges/mine")).status_code == 403


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"name": "else"}, "name"),
        ({"repeats": 0}, "repeats"),
        ({"sampling": {"temperature": 9}}, "sampling.temperature"),
        ({"limits": {"max_cost_usd": -1}}, "limits.max_cost_usd"),
        ({"colour": "red"}, "colour"),
        ({"backend": "no-such"}, "backend"),
        ({"model": "no-such"}, "model"),
        ({"options": {"answer": ""}}, "options.answer"),
        ({"panel": ["nobody"]}, "panel[0]"),
        ({"panel": ["longer", "mine"]}, "panel[1]"),
        ({"panel": ["longer"], "quorum": 2}, "quorum"),
        ({"backend": "openai"}, "options.base_url"),
        ({"backend": "openai", "options": {"base_url": "https://llm.example.org", "api_key_env": "ANYSCALE_API_KEY"}},
         "options.api_key_env"),
        ({"backend": "classifier", "options": {"function": "os:system"}}, "options.function"),
        ({"backend": "recorded", "options": {"file": "/etc/passwd"}}, "options.file"),
        ({"backend": "scripted", "options": {"file": "/etc/passwd"}}, "options.file"),
        ({"backend": "embedded", "options": {"model_path": "/etc/passwd"}}, "options.model_path"),
        ({"backend": "embedded", "options": {"model_path": "../../etc/passwd"}}, "options.model_path"),
        ({"backend": "litellm", "model": "ollama/x"}, "options.base_url"),
        ({"backend": "openai", "options": {"base_url": "https://a.example", "api_key_env": "JUDGE_SERVICE_FENCE_KEY"}},
         "options.api_key_env"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_named_by_its_field(connect, service, change, path):
    response = await connect(Role.ADMIN).put("/v1/judges/mine", json=MINE | change)
    assert response.status_code == 422, response.text
    assert path in paths(response)
    assert service.store.judges.all() == []


async def test_a_judge_with_a_key_names_its_variable(connect, service, monkeypatch):
    monkeypatch.setenv("GROQ_API_KEY", "SECRET-12345")
    admin = connect(Role.ADMIN)
    response = await admin.put("/v1/judges/mine", json=remote("https://llm.example.org/v1", api_key_env="GROQ_API_KEY"))
    assert response.status_code == 201, response.text
    assert response.json()["options"]["api_key_env"] == "GROQ_API_KEY"
    assert "SECRET-12345" not in response.text
    assert [judge.options["api_key_env"] for judge in service.store.judges.all()] == ["GROQ_API_KEY"]
    for key in ("SECRET-12345", "two words", ""):
        refused = await admin.put("/v1/judges/mine", json=remote("https://llm.example.org/v1", api_key_env=key))
        assert refused.status_code == 422
        assert "options.api_key_env" in paths(refused)
        assert "SECRET-12345" not in refused.text


@pytest.mark.parametrize(
    "name", ["PATH", "DATABASE_URL", "AWS_SECRET_ACCESS_KEY", "openai_api_key", "judge_service_fence_key"]
)
async def test_a_variable_that_is_no_key_of_a_provider_is_never_sent(connect, service, monkeypatch, name):
    monkeypatch.setenv(name, "SECRET-12345")
    body = remote("https://llm.example.org/v1", api_key_env=name)
    refused = await connect(Role.ADMIN).put("/v1/judges/mine", json=body)
    assert refused.status_code == 422
    assert paths(refused) == ["options.api_key_env"]
    assert "SECRET-12345" not in refused.text
    assert service.store.judges.all() == []


def test_the_operator_says_which_variables_may_be_named(monkeypatch):
    def named(name):
        return Judge.model_validate(remote("https://llm.example.org/v1", api_key_env=name))

    monkeypatch.setenv("JUDGE_SERVICE_KEY_VARIABLES", "OPENAI_API_KEY, TEAM_*_KEY,,*_FENCE_*")
    settings = Settings()
    assert settings.key_variables == ("OPENAI_API_KEY", "TEAM_*_KEY", "*_FENCE_*")
    for allowed in ("OPENAI_API_KEY", "TEAM_A_KEY"):
        refuse_unsafe(named(allowed), settings)
    for other in ("GROQ_API_KEY", "TEAM_A_KEY_2", "JUDGE_SERVICE_FENCE_KEY"):
        with pytest.raises(InvalidInput) as refused:
            refuse_unsafe(named(other), settings)
        assert [problem.path for problem in refused.value.fields] == ["options.api_key_env"]
    refuse_unsafe(named("GROQ_API_KEY"), Settings(key_variables=PROVIDER_KEYS))
    with pytest.raises(ValidationError):
        Settings(key_variables=("TEAM KEY",))


async def test_a_secret_is_neither_stored_nor_echoed(connect, service):
    admin = connect(Role.ADMIN)
    for options in (
        {"api_key": "SECRET-12345"},
        {"extra_body": {"headers": {"X-Api-Key": "SECRET-12345"}}},
        {"extra_body": {"note": ["Bearer SECRET-12345"]}},
        {"extra_body": {"note": "sk-SECRET-12345"}},
        {"base_url": "https://user:SECRET-12345@llm.example.org/v1"},
    ):
        response = await admin.put("/v1/judges/mine", json=remote("https://llm.example.org/v1", **{
            name: value for name, value in options.items() if name != "base_url"
        }) | ({"options": options} if "base_url" in options else {}))  # fmt: skip
        assert response.status_code == 422
        assert "SECRET-12345" not in response.text
    assert service.store.judges.all() == []
    harmless = remote("https://llm.example.org/v1", extra_body={"min_tokens": 1, "chat_template_kwargs": {"x": True}})
    assert (await admin.put("/v1/judges/mine", json=harmless)).status_code == 201


INSIDE = [
    "http://localhost:8000/", "http://10.0.0.5/", "http://127.0.0.1/v1", "http://[::1]:9/", "http://192.168.1.2/",
    "http://172.16.0.1/", "http://[fd12::1]/", "http://[::ffff:10.0.0.5]/", "http://printer/", "http://db.internal/",
    "http://0.0.0.0/", "http://100.64.0.1/", "http://①②⑦.0.0.1/", "http://127。0。0。1/", "http://localhost./",
]  # fmt: skip
NEVER = [
    "http://169.254.169.254/latest/", "http://2852039166/", "http://[::ffff:169.254.169.254]/", "http://0x7f000001:8000/",
    "file:///x", "ftp://example.org/", "https://user:pw@example.org/", "http://metadata.google.internal/", "http://127.1/",
    "http://0251.0376.0251.0376/", "http://[fe80::1]/", "http://[64:ff9b::a9fe:a9fe]/", "http:///v1", "https://a.example/?k=1",
    "http://127%2e0%2e0%2e1/", "not a url", "http://100.100.100.200/",
]  # fmt: skip


@pytest.mark.parametrize("url", [*INSIDE, *NEVER])
async def test_addresses_inside_are_refused(connect, url):
    response = await connect(Role.ADMIN).put("/v1/judges/mine", json=remote(url))
    assert response.status_code == 422
    assert paths(response) == ["options.base_url"]


@pytest.mark.parametrize("url", ["http://localhost:8000/", "http://10.0.0.5/v1", "http://[::1]:9/"])
def test_the_operator_may_allow_a_host(url: str) -> None:
    refuse_unsafe(Judge.model_validate(remote(url)), Settings(allowed_hosts=("localhost", "10.0.0.5", "::1")))


@pytest.mark.parametrize("url", NEVER)
def test_no_list_allows_what_is_never_allowed(url: str) -> None:
    hosts = (
        "169.254.169.254",
        "2852039166",
        "0x7f000001",
        "127.1",
        "metadata.google.internal",
        "fe80::1",
        "example.org",
    )
    with pytest.raises(Exception, match=r"options\.base_url"):
        refuse_unsafe(Judge.model_validate(remote(url)), Settings(allowed_hosts=hosts))


def test_the_list_of_hosts_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_SERVICE_ALLOWED_HOSTS", "LocalHost, 10.0.0.5,[::1]")
    assert Settings().allowed_hosts == ("localhost", "10.0.0.5", "::1")


async def test_a_public_name_that_resolves_inside_gets_no_connection(connect, service, monkeypatch):
    admin = connect(Role.ADMIN)
    with FakeProvider() as server:
        made = await admin.put("/v1/judges/mine", json=remote(f"http://rebind.example.org:{server.port}/v1"))
        assert made.status_code == 201
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        response = await connect(Role.SCORE).post("/v1/judgments", json=pair() | {"judge": "mine"})
        assert response.status_code in (200, 201, 502)
        assert server.connections == 0


async def test_a_redirect_is_not_followed_and_no_body_is_echoed(connect, service):
    with FakeProvider() as inner:
        moved = Reply(status=302, headers={"Location": f"{inner.url}/chat/completions"}, body={"error": "INNER-BODY"})
        with FakeProvider(default=moved) as outer:
            judge = Judge.model_validate(remote(outer.url) | {"limits": {"attempts": 1}})
            service.roster.add(judge)
            response = await connect(Role.SCORE).post("/v1/judgments", json=pair() | {"judge": "mine"})
            assert response.json()["outcome"] == "judge_error"
            assert "a redirect, which is not followed" in response.json()["detail"]
            assert "INNER-BODY" not in response.json()["detail"]
        assert inner.connections == 0


async def test_a_judge_that_is_no_longer_allowed_is_left_out_at_start(service, settings):
    judge = Judge.model_validate(remote("http://10.0.0.5/v1"))
    service.store.judges.put(judge)
    async with Service.open(settings) as other:
        assert other.roster.origin("mine") is None
    allowed = settings.model_copy(update={"allowed_hosts": ("10.0.0.5",)})
    async with Service.open(allowed) as other:
        assert other.roster.get("mine") == judge


async def test_a_member_of_a_panel_stays_until_the_panel_goes(connect):
    admin = connect(Role.ADMIN)
    await admin.put("/v1/judges/mine", json=MINE)
    panel = {"name": "three", "backend": "panel", "panel": ["mine", "longer", "overlap"]}
    assert (await admin.put("/v1/judges/three", json=panel)).status_code == 201
    assert (await admin.delete("/v1/judges/mine")).status_code == 409
    assert (await admin.delete("/v1/judges/three")).status_code == 200
    assert (await admin.delete("/v1/judges/mine")).status_code == 200


async def test_a_backend_of_an_installed_package_is_for_the_judges_file(connect, monkeypatch):
    monkeypatch.setattr("judge_service.judging.submitted.backend_names", lambda: ("theirs",))
    response = await connect(Role.ADMIN).put("/v1/judges/mine", json=MINE | {"backend": "theirs"})
    assert response.status_code == 422
    assert paths(response) == ["backend"]
