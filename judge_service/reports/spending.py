"""What judging cost: calls, tokens, US dollars, seconds. Null where the provider said nothing."""

from collections.abc import Sequence
from typing import Any

from judge_service.reports.dataset import JudgeColumn


def spending(column: JudgeColumn) -> dict[str, Any]:
    """Sums over the judged cases, cost a case, and the times that half, 95% and 99% of the cases needed at most.

    Costs are over the cases whose cost is known (`cost_known_for`), all orders, repeats and retries included.
    """
    made = [judgment for judgment in column.judgments if judgment is not None]
    # A verdict that was recorded elsewhere took no time here.
    seconds = sorted(judgment.latency_ms / 1000 for judgment in made if judgment.latency_ms > 0)
    known = [judgment.usage.cost_usd for judgment in made if judgment.usage.cost_usd is not None]
    each = sum(known) / len(known) if known else None
    return {
        "judged": len(made),
        "calls": column.n_calls,
        "prompt_tokens": _total([judgment.usage.prompt_tokens for judgment in made]),
        "completion_tokens": _total([judgment.usage.completion_tokens for judgment in made]),
        "cost_usd": sum(known) if known else None,
        "cost_known_for": len(known),
        "cost_per_case": each,
        "cost_per_1000": None if each is None else each * 1000,
        "seconds_known_for": len(seconds),
        "seconds_median": at_share(seconds, 0.5),
        "seconds_p95": at_share(seconds, 0.95),
        "seconds_p99": at_share(seconds, 0.99),
        "seconds_slowest": seconds[-1] if seconds else None,
    }


def at_share(ordered: Sequence[float], share: float) -> float | None:
    """The linear quantile of values in ascending order; None without any."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
