import ipaddress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from judge_service.backends.base import BackendFailure, Completion
from judge_service.backends.transport import (
    MAX_WAIT_S,
    ChatAnswer,
    RefusedAddress,
    check_base_url,
    check_resolved,
    completion_of,
    failure_of,
    is_metadata,
    is_private,
    retry_after,
)
from judge_service.domain.outcome import Enforcement

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
near_answers = st.fixed_dictionaries(
    {},
    optional={
        "model": json_values,
        "usage": json_values
        | st.fixed_dictionaries({}, optional={"prompt_tokens": json_values, "completion_tokens": json_values}),
        "choices": json_values
        | st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "message": json_values
                    | st.fixed_dictionaries({}, optional={"content": json_values, "refusal": json_values}),
                    "finish_reason": json_values,
                    "logprobs": json_values
                    | st.fixed_dictionaries(
                        {
                            "content": json_values
                            | st.lists(
                                st.fixed_dictionaries(
                                    {"token": json_values, "logprob": json_values, "top_logprobs": json_values}
                                ),
                                max_size=2,
                            )
                        }
                    ),
                },
            ),
            max_size=2,
        ),
    },
)


def _read(body: Any) -> Completion:
    return completion_of(
        ChatAnswer(body),
        host="h",
        model="m",
        enforcement=Enforcement.PROVIDER,
        sent={},
        dropped=(),
    )


@given(near_answers | json_values)
@example(
    {
        "choices": [
            {"message": {"content": 5}, "logprobs": {"content": [{"token": "a", "logprob": -1, "top_logprobs": 3}]}}
        ]
    }
)
@example({"choices": {"0": {"message": {}}}})
def test_any_answer_is_a_completion_or_a_failure(body: Any) -> None:
    try:
        made = _read(body)
    except BackendFailure:
        return
    assert isinstance(made.text, str)
    assert made.model
    assert made.usage.prompt_tokens is None or made.usage.prompt_tokens >= 0


def test_a_reply_in_parts_is_joined_without_the_reasoning() -> None:
    parts = [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": '{"a"'}, {"type": "text", "text": ":1}"}]
    assert _read({"choices": [{"message": {"content": parts}}]}).text == '{"a":1}'


@given(st.integers(min_value=-(10**6), max_value=10**6))
def test_retry_after_is_the_same_in_both_forms(seconds: int) -> None:
    wanted = min(max(float(seconds), 0.0), MAX_WAIT_S)
    assert retry_after(str(seconds), NOW) == wanted
    assert retry_after(format_datetime(NOW + timedelta(seconds=seconds), usegmt=True), NOW) == wanted


@given(st.text(max_size=40))
@example("nan")
@example("inf")
@example("1e400")
@example("Wed, 99 Foo 2026 00:00:00 GMT")
def test_any_header_is_a_wait_or_nothing(value: str) -> None:
    wait = retry_after(value, NOW)
    assert wait is None or 0 <= wait <= MAX_WAIT_S


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:8000/v1",
        "http://127.0.0.1:8000/v1",
        "http://[::1]:8000/v1",
        "http://10.0.0.5:8000/v1",
        "https://api.example.org/v1",
        "http://vllm:8000/v1",
    ],
)
def test_addresses_that_an_admin_may_set(url: str) -> None:
    assert check_base_url(url + "/") == url


@pytest.mark.parametrize(
    ("text", "metadata", "private"),
    [
        ("169.254.169.254", True, True),
        ("::ffff:169.254.169.254", True, True),
        ("::a9fe:a9fe", True, True),
        ("64:ff9b::a9fe:a9fe", True, True),
        ("2002:a9fe:a9fe::", True, True),
        ("fd00:ec2::254", True, True),
        ("100.100.100.200", True, True),
        ("127.0.0.1", False, True),
        ("::1", False, True),
        ("10.1.2.3", False, True),
        ("fc00::1", False, True),
        ("8.8.8.8", False, False),
        ("2606:4700::1111", False, False),
    ],
)
def test_kinds_of_addresses(text: str, metadata: bool, private: bool) -> None:
    address = ipaddress.ip_address(text)
    assert is_metadata(address) is metadata
    assert is_private(address) is private


def test_one_refused_address_among_several_refuses_the_name() -> None:
    assert check_resolved("api.example.org", ["8.8.8.8"], allow_private=False) == ["8.8.8.8"]
    for found in (["8.8.8.8", "10.0.0.1"], ["fe80::1%eth0"]):
        with pytest.raises(RefusedAddress):
            check_resolved("api.example.org", found, allow_private=False)
    with pytest.raises(RefusedAddress):
        check_resolved("box", ["169.254.169.254"], allow_private=True)
    assert check_resolved("box", ["10.0.0.1"], allow_private=False) == ["10.0.0.1"]


class _Status(Exception):
    def __init__(self, status: int, message: str = "") -> None:
        super().__init__(message)
        self.status_code = status


@given(st.integers(min_value=0, max_value=700), st.text(max_size=200))
def test_no_failure_repeats_what_the_provider_said(status: int, message: str) -> None:
    secret = "sk-test-SECRET123"
    failure = failure_of(_Status(status, f"{message} {secret}"), host="h", now=NOW, timeout_s=1)
    assert secret not in failure.message
    assert not (failure.fatal and failure.retryable)
    assert failure.retry_after_s is None
