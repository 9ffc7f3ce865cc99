"""Every curl command of the documentation works against the service as it stands."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.testclient import TestClient

from judge_service.app import Service, create_app
from judge_service.domain.principal import Role
from judge_service.security.keys import issue
from judge_service.settings import Settings
from tests.docs.blocks import Block, blocks, commands
from tests.judge_service.annotation.projects import a_person, pair

REQUESTS = [
    pytest.param(line, id=f"{block} {number}")
    for block in blocks("bash")
    for number, line in enumerate(commands(block))
    if line.lstrip().startswith("curl ")
]


@dataclass
class Curl:
    """What a curl command sends."""

    path: str
    headers: dict[str, str] = field(default_factory=dict)
    data: str | None = None
    form: dict[str, str] = field(default_factory=dict)
    stated: str | None = None

    @property
    def method(self) -> str:
        if self.stated is not None:
            return self.stated
        return "POST" if self.data is not None or self.form else "GET"


def read(line: str, key: str) -> Curl:
    """Read the options that the documentation uses; anything else fails."""
    words = shlex.split(line.replace("$JUDGE_KEY", key).replace("$JUDGE_URL", ""))
    assert words.pop(0) == "curl"
    curl = Curl("")
    while words:
        option = words.pop(0)
        if not option.startswith("-"):
            curl.path = option.replace("http://127.0.0.1:8000", "")
            continue
        value = words.pop(0)
        if option == "-X":
            curl.stated = value
            continue
        if option == "-H":
            name, _, text = value.partition(": ")
            curl.headers[name] = text
        elif option in ("-d", "--data-binary"):
            curl.data = value
        elif option == "-F":
            name, _, text = value.partition("=")
            curl.form[name] = text
        else:
            raise AssertionError(f"the test does not know {option}")
    return curl


@dataclass
class Server:
    client: TestClient
    key: str
    cases: bytes


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = Settings(data_dir=tmp_path_factory.mktemp("data"))
    service = Service.open(settings)
    key, secret = issue("docs", Role.ADMIN)
    service.store.keys.add(key)
    labelled = service.store.sets.create("helpdesk-pairs", "pairwise@1")
    service.store.sets.add_cases(labelled.id, [pair(1)])
    for name in ("Ann Example", "Bob Example"):
        a_person(service.store, name)
    line = {"id": "x", "prompt": "p", "response_a": "longer answer", "response_b": "b", "language": "en"}
    with TestClient(create_app(settings, service=service)) as client:
        yield Server(client, secret, json.dumps(line).encode() + b"\n")
        client.portal.call(service.aclose)  # type: ignore[union-attr]


@pytest.mark.parametrize("line", REQUESTS)
def test_the_request_is_answered(line: str, server: Server) -> None:
    curl = read(line, server.key)
    content: Any = curl.data
    files = None
    if curl.data is not None and curl.data.startswith("@"):
        content = server.cases
    if curl.form:
        assert curl.form.pop("file").startswith("@")
        files = {"file": ("cases.jsonl", server.cases, "application/x-ndjson")}
    response = server.client.request(
        curl.method, curl.path, headers=curl.headers, content=content, data=curl.form or None, files=files
    )
    assert response.status_code in (200, 201, 202), response.text
    document = response.json()
    if curl.path == "/v1/judgments":
        assert document["outcome"] == "scored", document
        assert document["trust"]["level"] == "uncalibrated"


def test_there_are_requests_to_check() -> None:
    assert len(REQUESTS) >= 10


def api_json() -> list[Block]:
    return [block for block in blocks("json") if block.page.name == "api.md"]


def test_the_judgment_and_the_problem_shown_have_fields_that_exist() -> None:
    from judge_service.domain.judgment import Judgment, Trust

    judgment, problem = (json.loads(block.text) for block in api_json())
    assert set(judgment) <= set(Judgment.model_fields)
    assert set(judgment["trust"]) <= set(Trust.model_fields)
    assert set(problem) == {"type", "title", "status", "detail", "code", "errors", "request_id"}
