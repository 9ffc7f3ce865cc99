"""What holds for every route: a declared permission, an example, problems, and a document that is valid OpenAPI."""

import re

import jsonschema
import pytest
from fastapi.routing import APIRoute

from judge_service.api.routers import ROUTERS
from judge_service.domain.judgment import Judgment
from judge_service.domain.principal import Role
from judge_service.gate.route import GuardedRoute
from judge_service.security.roles import Permission, may
from judge_service.web.routers import ROUTERS as PAGES

ROUTES = [route for router in (*ROUTERS, *PAGES) for route in router.routes]
PUBLIC = {"/healthz", "/readyz", "/", "/docs", "/static/{name:path}"}
SIGNING_IN = {"/sign-in", "/sign-out", "/invitations/{token}"}
"""Open to everyone; what they answer depends on what is sent."""
FORMS = {"/people/invite", "/projects/new", "/sets", "/keys"}
"""Forms that show what is wrong with an entry on the page itself."""


def concrete(path: str) -> str:
    """A path with its parts filled: a stylesheet that exists, else ids that name nothing."""
    path = path.replace("{name:path}", "site.css")
    path = path.replace("{case}", "0" * 32)
    return re.sub(r"\{[a-z_]+\}", "nothing", re.sub(r"\{(key|user|invitation|project)_id\}", "a" * 12, path))


def calls() -> list[tuple[str, str, Permission | None]]:
    found = []
    for route in ROUTES:
        assert isinstance(route, GuardedRoute)
        found += [(method, route.path, route.permission) for method in sorted(route.methods or ())]
    return found


def test_every_route_declares_who_may_use_it():
    for route in ROUTES:
        assert isinstance(route, GuardedRoute), route
        assert (route.permission is None) == (route.path in PUBLIC | SIGNING_IN), route.path


def test_the_application_has_no_other_route(app):
    served = set()
    for item in app.openapi()["paths"]:
        served.add(item)
    assert served == {route.path for route in ROUTES if isinstance(route, APIRoute) and route.include_in_schema}


@pytest.mark.parametrize(("method", "path", "permission"), calls())
@pytest.mark.parametrize("role", [None, *Role])
async def test_who_may_call_what(connect, method, path, permission, role):
    response = await connect(role).request(method, concrete(path))
    if path in SIGNING_IN:
        assert response.status_code in (200, 303, 403, 404)
    elif permission is None:
        assert response.status_code == 200
    elif role is None:
        assert response.status_code == 401
    elif may(role, permission):
        assert response.status_code not in (401, 403)
        assert response.status_code < 500
    else:
        assert response.status_code == 403
        assert response.json()["permission"] == permission.value


@pytest.mark.parametrize(("method", "path"), [(method, path) for method, path, _ in calls()])
async def test_every_error_of_a_route_is_a_problem(connect, method, path):
    for client in (connect(None), connect(Role.ADMIN)):
        response = await client.request(method, concrete(path), content=b"{", headers={"Content-Type": "text/x"})
        if path in FORMS and response.status_code == 422:
            assert response.headers["content-type"].startswith("text/html")
        elif response.status_code >= 400:
            assert response.headers["content-type"] == "application/problem+json"
            assert response.json()["request_id"] == response.headers["x-request-id"]


async def test_the_document_is_valid_openapi(connect):
    response = await connect(None).get("/openapi.json")
    document = response.json()
    assert document["openapi"].startswith("3.1")
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    text = response.text
    for reference in re.findall(r'"#/components/schemas/([^"]+)"', text):
        assert reference in document["components"]["schemas"]
    assert "HTTPValidationError" not in text
    identifiers = [operation["operationId"] for item in document["paths"].values() for operation in item.values()]
    assert len(identifiers) == len(set(identifiers))


def test_every_operation_is_described_with_examples(app):
    document = app.openapi()
    for path, item in document["paths"].items():
        for method, operation in item.items():
            where = f"{method} {path}"
            assert operation["summary"], where
            assert operation["description"], where
            for media in operation.get("requestBody", {}).get("content", {}).values():
                reference = media["schema"].get("$ref", "").rpartition("/")[2]
                options = [media["schema"], *media["schema"].get("anyOf", [])]
                named = [option.get("$ref", "").rpartition("/")[2] for option in options]
                models = [document["components"]["schemas"][name] for name in named if name]
                assert "example" in media or media.get("examples") or any(model.get("examples") for model in models), (
                    where,
                    reference,
                )
            success = [code for code in operation["responses"] if code.startswith("2")]
            assert success, where
            for code in success:
                for media in operation["responses"][code]["content"].values():
                    assert "example" in media, (where, code)
            if path.startswith("/v1"):
                assert operation["security"] == [{"apiKey": []}], where
                assert operation["x-roles"], where
                assert {"401", "403", "429"} <= set(operation["responses"]), where


async def test_the_examples_of_requests_work(connect, app):
    client = connect(Role.ADMIN)
    document = app.openapi()
    examples = document["paths"]["/v1/judgments"]["post"]["requestBody"]["content"]["application/json"]["examples"]
    for name, example in examples.items():
        response = await client.post("/v1/judgments", json=example["value"])
        assert response.status_code == (409 if "calibrated" in name else 201), response.text
        if response.status_code == 201:
            assert Judgment.model_validate(response.json()).outcome == "scored"
    bodies = document["paths"]["/v1/runs"]["post"]["requestBody"]["content"]
    run = await client.post("/v1/runs", json=bodies["application/json"]["example"])
    assert run.status_code == 202
    query = {"rubric": "pairwise@1", "judge": "longer"}
    content = bodies["application/x-ndjson"]["example"]
    headers = {"Content-Type": "application/x-ndjson"}
    assert (await client.post("/v1/runs", params=query, content=content, headers=headers)).status_code == 202
    keys = document["components"]["schemas"]["KeyRequest"]["examples"][0]
    assert (await client.post("/v1/keys", json=keys)).status_code == 201


async def test_an_example_response_has_the_fields_of_a_real_one(client, app):
    document = app.openapi()
    operation = document["paths"]["/v1/judgments"]["post"]
    example = operation["responses"]["201"]["content"]["application/json"]["example"]
    request = operation["requestBody"]["content"]["application/json"]["examples"]["pairwise"]["value"]
    real = (await client.post("/v1/judgments", json=request)).json()
    assert set(example) == set(real)
    run = (await client.post("/v1/runs", json={**request, "cases": [request["case"]]} | {"case": 1})).json()
    assert run["errors"][0]["path"] == "case"
    started = await client.post("/v1/runs", json={"rubric": "pairwise", "judge": "longer", "cases": [request["case"]]})
    shown = (await client.get(started.headers["location"])).json()
    example = document["paths"]["/v1/runs/{run_id}"]["get"]["responses"]["200"]["content"]["application/json"][
        "example"
    ]
    assert set(example) == set(shown)
    assert set(example["aggregate"]) == set(shown["aggregate"])
    assert set(example["progress"]) == set(shown["progress"])


@pytest.mark.parametrize("path", ["/", "/docs"])
async def test_pages_hold_no_script_and_name_no_other_host(connect, path):
    response = await connect(None).get(path)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "script-src 'self';" in policy
    assert "<script" not in response.text
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", response.text)
    assert " style=" not in response.text


async def test_the_page_of_routes_lists_every_route(connect, app):
    text = (await connect(None).get("/docs")).text
    for path, item in app.openapi()["paths"].items():
        for method in item:
            assert f"{method.upper()} {path}" in text
    assert "<code>judge_error</code>" in text
    assert "`" not in re.sub(r"(?s)<pre.*?</pre>", "", text)


async def test_health_and_readiness(connect, service):
    client = connect(None)
    assert (await client.head("/healthz")).status_code == (await client.head("/readyz")).status_code == 200
    health = await client.get("/healthz")
    assert (health.status_code, health.json()["status"]) == (200, "ok")
    ready = await client.get("/readyz")
    assert ready.status_code == 200
    body = ready.json()
    assert body["status"] == "degraded"
    found = {component["name"]: component for component in body["components"]}
    assert found["database"]["status"] == "ok"
    assert found["embedded model"]["status"] == "missing"
    assert "models pull" in found["embedded model"]["detail"]
    assert str(service.settings.data_dir) not in ready.text


async def test_without_its_database_the_service_is_down_but_alive(connect, service):
    client = connect(None)
    service.store.close()
    for file in service.settings.data_dir.glob("judge-service.sqlite3*"):
        file.write_bytes(b"this is no database" * 100)
    down = await client.get("/readyz")
    assert (down.status_code, down.json()["status"]) == (503, "down")
    assert "retry-after" in down.headers
    assert (await client.get("/healthz")).status_code == 200


async def test_a_query_parameter_that_a_route_does_not_know_is_refused_with_those_it_knows(client):
    response = await client.get("/v1/runs", params={"limit": 1, "format": "csv"})
    assert response.status_code == 422
    assert response.json()["errors"] == [
        {"path": "query.format", "message": "query.format is not known; known here: cursor, limit, status."}
    ]
    none = await client.get("/v1/runs/r", params={"x": 1})
    assert none.json()["errors"] == [{"path": "query.x", "message": "query.x is not known; none is known here."}]
    file = {"rubric": "pairwise@1", "judge": "longer", "sauce": "x"}
    lines = await client.post("/v1/runs", params=file, content="{}", headers={"Content-Type": "application/x-ndjson"})
    assert (lines.status_code, lines.json()["errors"][0]["path"]) == (422, "query.sauce")
    assert (await client.get("/v1/runs", params={"limit": 1})).status_code == 200
