"""Worked examples for the OpenAPI document. Made of the real records, so that they cannot drift from them."""

from datetime import UTC, datetime
from typing import Any

from judge_service.domain.call import Call, Usage
from judge_service.domain.judgment import Judgment
from judge_service.domain.outcome import Enforcement, Outcome
from judge_service.runs.aggregate import Aggregate, MeanConsistency, MeanScore, PairCounts, Totals

_AT = datetime(2026, 1, 15, 9, 30, tzinfo=UTC)

FAITHFULNESS_CASE: dict[str, Any] = {
    "id": "opening-hours-1",
    "group": "library-handbook",
    "question": "When is the library open on Saturday?",
    "contexts": ["On Saturdays the library opens at 10:00 and closes at 16:00."],
    "answer": "The library is open from 10:00 to 16:00 on Saturdays.",
    "metadata": {"language": "en"},
}
PAIRWISE_CASE: dict[str, Any] = {
    "id": "kettle-7",
    "prompt": "How do I descale a kettle?",
    "response_a": "Fill it with equal parts of water and vinegar, boil, wait 20 minutes, rinse twice.",
    "response_b": "Kettles get limescale from hard water.",
}
JUDGMENT_REQUESTS: dict[str, dict[str, Any]] = {
    "faithfulness": {
        "summary": "Is the answer supported by the contexts?",
        "value": {"rubric": "faithfulness@1", "judge": "overlap", "case": FAITHFULNESS_CASE},
    },
    "pairwise": {
        "summary": "Which of two answers is better?",
        "value": {"rubric": "pairwise@1", "judge": "longer", "case": PAIRWISE_CASE},
    },
    "only when calibrated": {
        "summary": "Refuse with 409 unless the judge's agreement with people is measured",
        "value": {"rubric": "pairwise@1", "judge": "longer", "case": PAIRWISE_CASE, "require": "calibrated"},
    },
}
JUDGMENT: dict[str, Any] = Judgment(
    id="7c1f6a2e9b0d4f53a1c2d3e4f5061728",
    identity="5f0c" * 16,
    rubric="pairwise@1",
    rubric_hash="9d2e" * 16,
    judge="longer",
    judge_hash="41b7" * 16,
    model="longer",
    case_id="kettle-7",
    case_hash="c0de" * 16,
    outcome=Outcome.SCORED,
    score=1.0,
    label="A",
    record={"verdict": "A", "policy": "both_orders"},
    enforcement=Enforcement.NONE,
    calls=(
        Call(
            step="compare",
            order="AB",
            judge="longer",
            model="longer",
            prompt_hash="ab12" * 16,
            raw='{"verdict": "first"}',
            finish_reason="stop",
            usage=Usage(prompt_tokens=0, completion_tokens=0, cost_usd=0.0),
            started_at=_AT,
        ),
    ),
    usage=Usage(prompt_tokens=0, completion_tokens=0, cost_usd=0.0),
    latency_ms=0.4,
    created_at=_AT,
).model_dump(mode="json")

PROBLEM: dict[str, Any] = {
    "type": "urn:judge-service:problem:invalid_input",
    "title": "Unprocessable Content",
    "status": 422,
    "detail": "case.answer is required.",
    "code": "invalid_input",
    "errors": [{"path": "case.answer", "message": "case.answer is required."}],
    "request_id": "4e8a0c9d7b1f4a1c8f2e6d5c4b3a2910",
}
RUN: dict[str, Any] = {
    "id": "run_0d9c8b7a6f5e4d3c2b1a0f9e8d7c6b5a",
    "rubric": "pairwise@1",
    "rubric_hash": "9d2e" * 16,
    "judge": "longer",
    "judge_hash": "41b7" * 16,
    "status": "finished",
    "message": None,
    "source": "nightly.jsonl",
    "created_at": "2026-01-15T09:30:00Z",
    "started_at": "2026-01-15T09:30:00Z",
    "finished_at": "2026-01-15T09:30:04Z",
    "progress": {"n_total": 1, "n_done": 1, "rate_per_s": None, "eta_s": None},
    "aggregate": Aggregate(
        rubric="pairwise@1",
        n_total=1,
        n_judged=1,
        n_scored=1,
        n_pending=0,
        coverage=1.0,
        outcomes={"scored": 1, "not_applicable": 0, "inconsistent": 0, "judge_error": 0},
        reasons={},
        labels={"A": 1, "B": 0, "tie": 0},
        mean_score=MeanScore(value=1.0, n=1, n_failed=0, low_bound=1.0, high_bound=1.0),
        pairs=PairCounts(wins_a=1, wins_b=0, ties=0, inconsistent=0, n=1, win_rate_a=1.0, win_rate_b=0.0),
        self_consistency=MeanConsistency(
            value=None, n=0, n_unstable=0, undefined_reason="no case was judged more than once"
        ),
        usage=Totals(prompt_tokens=None, completion_tokens=None, cost_usd=None),
    ).model_dump(mode="json"),
    "results_url": "/v1/runs/run_0d9c8b7a6f5e4d3c2b1a0f9e8d7c6b5a/results",
}
