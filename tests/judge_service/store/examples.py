"""Judgments, calls and keys for tests."""

from datetime import UTC, datetime
from typing import Any

from judge_service.domain.call import Call
from judge_service.domain.judgment import Judgment

NOON = datetime(2026, 3, 29, 12, 0, 0, 123456, tzinfo=UTC)


def call(**changes: Any) -> Call:
    fields: dict[str, Any] = {
        "step": "compare",
        "order": "AB",
        "judge": "small",
        "model": "tiny-1",
        "prompt_hash": "f" * 64,
        "raw": '{"verdict": "first"}',
        "finish_reason": "stop",
        "enforcement": "grammar",
        "usage": {"prompt_tokens": 100, "completion_tokens": 7, "cost_usd": 0.25},
        "latency_ms": 12.5,
        "started_at": NOON,
    }
    return Call.model_validate(fields | changes)


def judgment(identity: str = "work-1", *, id: str | None = None, **changes: Any) -> Judgment:  # noqa: A002
    fields: dict[str, Any] = {
        "id": id or f"jdg-{identity}",
        "identity": identity,
        "rubric": "pairwise@1",
        "rubric_hash": "a" * 64,
        "judge": "small",
        "judge_hash": "b" * 64,
        "model": "tiny-1",
        "case_id": f"case-{identity}",
        "case_hash": "c" * 64,
        "outcome": "scored",
        "score": 1.0,
        "label": "A",
        "enforcement": "grammar",
        "calls": [call(), call(order="BA", raw='{"verdict": "second"}')],
        "usage": {"prompt_tokens": 200, "completion_tokens": 14, "cost_usd": 0.5},
        "latency_ms": 25.0,
        "created_at": NOON,
    }
    return Judgment.model_validate(fields | changes)


def failed(identity: str = "work-1", *, id: str | None = None, reason: str = "timeout", **changes: Any) -> Judgment:  # noqa: A002
    return judgment(
        identity, id=id, outcome="judge_error", reason=reason, detail="no answer", score=None, label=None, **changes
    )
