"""What a service elsewhere may answer, and what is said about it; without a network."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from judge_service.cli.remote import KEY_VARIABLE, Remote
from judge_service.errors import ConfigurationError, InvalidInput, JudgeServiceError, Unavailable

KEY = "jk_0123456789_secretsecret"


def remote(monkeypatch: pytest.MonkeyPatch, answer: Callable[[httpx.Request], Any], **options: Any) -> Remote:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    return Remote("http://judge.test/", transport=httpx.MockTransport(answer), **options)


def test_a_run_is_started_with_the_key_in_its_header(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(202, json={"id": "run_1"})

    with remote(monkeypatch, answer) as service:
        assert service.start(b"{}\n", "pairwise@1", "longer", "cases.jsonl") == "run_1"
    assert seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert seen[0].headers["content-type"] == "application/x-ndjson"
    assert dict(seen[0].url.params) == {
        "rubric": "pairwise@1",
        "judge": "longer",
        "source": "cases.jsonl",
        "unknown_fields": "keep",
    }
    assert KEY not in str(seen[0].url)


def test_waiting_ends_with_the_run_or_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    states = iter(["queued", "running", "running", "finished"])
    slept: list[float] = []
    clock = iter(float(second) for second in range(100))

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"status": next(states)})

    with remote(monkeypatch, answer, sleep=slept.append, monotonic=lambda: next(clock)) as service:
        service.wait("run_1", 60)
    assert slept == [0.2, 0.4, 0.8]
    forever = httpx.Response(200, json={"status": "running"})
    with (
        remote(monkeypatch, lambda _: forever, sleep=slept.append, monotonic=lambda: next(clock)) as service,
        pytest.raises(Unavailable, match="had not ended after 5 s"),
    ):
        service.wait("run_1", 5)


@pytest.mark.parametrize(
    ("response", "error", "said"),
    [
        (httpx.Response(404, json={"detail": "There is no run."}), JudgeServiceError, "answered 404: There is no run."),
        (httpx.Response(502, text="<html>"), Unavailable, "gave no JSON"),
        (httpx.Response(200, json=[1]), Unavailable, "gave no JSON object"),
        (httpx.ConnectError("refused"), Unavailable, "does not answer: ConnectError"),
    ],
)
def test_what_goes_wrong_is_said(
    monkeypatch: pytest.MonkeyPatch, response: Any, error: type[Exception], said: str
) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        if isinstance(response, Exception):
            raise response
        return response

    with remote(monkeypatch, answer) as service, pytest.raises(error, match=said) as raised:
        service.report("run_1", compare=None, mix=False)
    assert KEY not in str(raised.value)


def test_fields_to_blame_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"detail": "Bad.", "errors": [{"path": "rubric", "message": "there is no rubric 'x'"}]}
    answer = httpx.Response(422, json=body)
    with remote(monkeypatch, lambda _: answer) as service, pytest.raises(JudgeServiceError) as raised:
        service.start(b"", "x", "y", "z")
    assert [(field.path, field.message) for field in raised.value.fields] == [("rubric", "there is no rubric 'x'")]


def test_no_address_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    with pytest.raises(ConfigurationError, match="JUDGE_KEY"):
        Remote("http://judge.test")
    for url in ("judge.test", "ftp://judge.test", "http://", "https://a:b@judge.test"):
        with pytest.raises(InvalidInput):
            Remote(url)
