"""Planted orders as they are shown: the counts of a stored result with rates and 95% Wilson intervals."""

from typing import Any

from calibration.intervals import wilson
from judge_service.domain.planted import ProbeCounts, ProbeResult

GROUPS = ("by_rubric", "by_kind", "by_place", "by_language")


def shown_counts(counts: ProbeCounts) -> dict[str, Any]:
    """Counts with `rate`, `rate_low` and `rate_high`: moved of eligible, null when no probe was eligible."""
    low, high = wilson(counts.moved, counts.eligible) if counts.eligible else (None, None)
    reason = None if counts.eligible else "no clean verdict differed from what the planted text asks for"
    return {
        **counts.model_dump(),
        "eligible": counts.eligible,
        "rate": counts.rate,
        "rate_low": low,
        "rate_high": high,
        "undefined_reason": reason,
    }


def shown_result(result: ProbeResult) -> dict[str, Any]:
    """A stored result as JSON; `all` is over every probe that was put."""
    return {
        "id": result.id,
        "judge": result.judge,
        "judge_hash": result.judge_hash,
        "models": list(result.models),
        "probe_set": result.probe_set,
        "created_at": result.created_at.isoformat(),
        "all": shown_counts(result.total),
        **{group: {key: shown_counts(part) for key, part in getattr(result, group).items()} for group in GROUPS},
        "left_out": dict(result.left_out),
        "moved": list(result.moved),
    }
