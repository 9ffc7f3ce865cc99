"""Whatever a client sends, over a real socket: an answer below 500, and every error a problem."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judge_service.app import create_app
from judge_service.domain.principal import Role
from judge_service.security.keys import issue
from judge_service.settings import Settings
from judge_service.store import Store
from tests.judge_service.api.requests import claims, pair
from tests.judge_service.serving import serving
from tests.support.waiting import LONG_ENOUGH_S

FUZZ = settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
"""Enough to reach every branch; the wire makes each example a few milliseconds."""

AWKWARD = st.sampled_from(
    ["", " ", "\u0000", "\u202e", "\ud800", "null", "../../etc/passwd", "{{7*7}}", "'; DROP TABLE runs; --", "é" * 600]
) | st.text(max_size=20)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | AWKWARD
    | st.sampled_from(["pairwise@1", "faithfulness@1", "longer", "overlap", "constant", "calibrated", "embedded"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(AWKWARD, inner, max_size=3),
    max_leaves=8,
)
SEEDS: list[Any] = [
    pair(),
    claims(),
    {"rubric": "citation_support", "judge": "overlap", "case": {"question": "?", "answer": "a [1]", "contexts": ["a"]}},
    {"rubric": "pairwise@1", "judge": "longer", "cases": [pair("a")["case"], pair("b")["case"]]},
    {"name": "x", "role": "score"},
    {"retry_errors": True},
]
POSTS = ["/v1/judgments", "/v1/runs", "/v1/keys", "/v1/runs/nothing/resume", "/v1/runs/nothing/cancel"]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict):
        for key, item in value.items():
            found += places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += places(item, (*path, index))
    return found


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A valid request with up to three places replaced, removed or added."""
    value = copy.deepcopy(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(value)))
        if not path:
            if draw(st.booleans()) and isinstance(value, dict):
                value[draw(AWKWARD)] = draw(JSON)
                continue
            return draw(JSON)
        parent = value
        for part in path[:-1]:
            parent = parent[part]
        if draw(st.integers(0, 3)) == 0:
            del parent[path[-1]]
        else:
            parent[path[-1]] = draw(JSON)
    return value


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder: Path = tmp_path_factory.mktemp("fuzz")
    chosen = Settings(data_dir=folder, requests_per_minute=10_000_000, max_body_bytes=1_000_000)
    key, plain = issue("fuzz", Role.ADMIN)
    with Store.open(chosen.database) as store:
        store.keys.add(key)
    with serving(create_app(chosen)) as port:
        headers = {"Authorization": f"Bearer {plain}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=LONG_ENOUGH_S) as client:
            yield client


def check(response: httpx.Response) -> None:
    assert response.status_code < 500 or response.status_code == 503, (response.status_code, response.text)
    if response.status_code >= 400:
        assert response.headers["content-type"] == "application/problem+json"
        body = response.json()
        assert body["status"] == response.status_code
        assert body["code"] not in ("internal_error", "unavailable")
        assert all(error["path"] and error["message"] for error in body["errors"])
    if "json" in response.headers.get("content-type", ""):
        json.loads(response.content.decode("utf-8"), parse_constant=lambda token: pytest.fail(f"{token} in a body"))


@given(st.sampled_from(POSTS), mutated())
@FUZZ
def test_mutated_requests(client: httpx.Client, path: str, value: Any) -> None:
    check(client.post(path, content=json.dumps(value), headers={"Content-Type": "application/json"}))


@given(st.sampled_from(POSTS), JSON)
@FUZZ
def test_any_json(client: httpx.Client, path: str, value: Any) -> None:
    check(client.post(path, content=json.dumps(value), headers={"Content-Type": "application/json"}))


@given(
    st.sampled_from(POSTS),
    st.binary(max_size=300),
    st.sampled_from(
        [
            "application/json",
            "application/json; charset=utf-16",
            "application/x-ndjson",
            "multipart/form-data; boundary=b",
            "multipart/form-data; boundary=" + "b" * 200,
            "multipart/form-data; boundary=\xff",
            "application/x-www-form-urlencoded",
            "text/plain",
            "/",
            ";",
        ]
    ),
)
@FUZZ
def test_any_bytes_of_any_kind(client: httpx.Client, path: str, body: bytes, kind: str) -> None:
    headers = [(b"Content-Type", kind.encode("latin-1"))]
    check(client.post(path, params={"rubric": "pairwise", "judge": "longer"}, content=body, headers=headers))


@given(st.lists(mutated() | JSON, max_size=4), st.sampled_from(["\n", "\r\n", "\u2028", ""]))
@FUZZ
def test_any_lines(client: httpx.Client, rows: list[Any], end: str) -> None:
    content = end.join(json.dumps(row) for row in rows).encode("utf-8", "surrogatepass")
    query = {"rubric": "pairwise", "judge": "longer", "unknown_fields": "keep"}
    check(client.post("/v1/runs", params=query, content=content, headers={"Content-Type": "application/x-ndjson"}))


@given(
    st.sampled_from(["/v1/runs", "/v1/runs/nothing", "/v1/runs/nothing/results", "/v1/judgments/nothing", "/v1/keys"]),
    st.dictionaries(
        st.sampled_from(["limit", "cursor", "status", "outcome", "rubric"]) | st.text(max_size=5),
        st.integers().map(str) | st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
        max_size=4,
    ),
)
@FUZZ
def test_any_query(client: httpx.Client, path: str, query: dict[str, str]) -> None:
    check(client.get(path, params={key.encode("utf-8", "replace").decode(): value for key, value in query.items()}))


@given(
    st.sampled_from(["judgments", "runs", "rubrics", "judges", "keys"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
)
@FUZZ
def test_any_path(client: httpx.Client, noun: str, tail: str) -> None:
    quoted = "".join(f"%{byte:02x}" for byte in tail.encode())
    check(client.get(f"/v1/{noun}/{quoted}"))
    check(client.post(f"/v1/{noun}/{quoted}", content=b"{}", headers={"Content-Type": "application/json"}))


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=60))
@FUZZ
def test_any_idempotency_key_request_id_and_accept(client: httpx.Client, value: str) -> None:
    raw = value.encode("latin-1").strip(b" \t")
    headers = [
        (b"Idempotency-Key", raw),
        (b"X-Request-Id", raw),
        (b"Accept", raw),
        (b"Content-Type", b"application/json"),
    ]
    check(client.post("/v1/judgments", content=json.dumps(pair()), headers=headers))
    check(client.get("/v1/runs/nothing/results", headers=headers))
