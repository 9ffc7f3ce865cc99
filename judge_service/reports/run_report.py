"""The report of one run as one object: every form of it shows these numbers and no others.

Owns what belongs to a run report. Computes shares and means nowhere: that is `aggregates` and `comparison`.
"""

from collections.abc import Sequence
from typing import Any

from calibration.estimate import Estimate, Reason
from judge_service import __version__
from judge_service.domain.outcome import Outcome
from judge_service.domain.run import Run
from judge_service.reports.aggregates import (
    aggregate_rows,
    correction_of,
    lean,
    rubric_of_run,
    run_of,
    slices,
)
from judge_service.reports.comparison import comparison_or_reason
from judge_service.reports.fixes import fix_for
from judge_service.reports.hashes import judge_hashes
from judge_service.reports.trust import StoredTrust
from judge_service.store import ResultRow, Store

PERCENTILES = (50, 95, 99)


def run_report(
    store: Store, run_id: str, *, by: Sequence[str] = (), compare: str | None = None, mix: bool = False
) -> dict[str, Any]:
    """The report of a run, JSON-ready; with `compare` also the run minus that one.

    `by`: metadata keys (or `group`) to slice by. `mix`: average over different enforcement or rubrics all the same.
    Raises NotFound, and InvalidInput for a key that no case has or a rubric that this program does not know.
    """
    run = run_of(store, run_id)
    rubric = rubric_of_run(run)
    rows = [lean(row, by) for row in store.runs.rows(run.id)]
    correction = correction_of(store, run, rows)
    numbers = aggregate_rows(rubric, rows, mix=mix, correction=correction)
    first = by[0] if by else None
    return {
        "kind": "run_report",
        "program": __version__,
        "run": _facts(run, rows),
        "scale": {
            "labels": list(rubric.scale.names),
            "minimum": rubric.scale.minimum,
            "maximum": rubric.scale.maximum,
            "higher_is_better": rubric.scale.higher_is_better,
        },
        "mixed_allowed": mix,
        "numbers": numbers,
        "trust": _trust(store, run, rows),
        "failures": failures(numbers),
        "usage": _usage(store, run, rows),
        "slices": [slices(rubric, rows, key, mix=mix, correction=correction) for key in dict.fromkeys(by)],
        "comparison": None if compare is None else comparison_or_reason(store, compare, run.id, by=first, mix=mix),
    }


def _facts(run: Run, rows: Sequence[ResultRow]) -> dict[str, Any]:
    """`judge_hash` is null where there is not one: several, or a panel that judged nothing. `judge_hashes` has all."""
    hashes = judge_hashes(run, (row.judge_hash for row in rows))
    return {
        "id": run.id,
        "rubric": run.rubric,
        "rubric_hash": run.rubric_hash,
        "judge": run.judge.name,
        "judge_hash": hashes[0] if len(hashes) == 1 else None,
        "judge_hashes": list(hashes),
        "backend": run.judge.backend,
        "model": run.judge.model,
        "order_policy": run.judge.order_policy.value,
        "status": run.status.value,
        "message": run.message,
        "source": run.source,
        "created_at": run.created_at.isoformat(),
        "finished_at": None if run.finished_at is None else run.finished_at.isoformat(),
    }


def _trust(store: Store, run: Run, rows: Sequence[ResultRow]) -> list[dict[str, Any]]:
    """What is known about the judge today, for each model that answered; for the judge alone where none did."""
    answered = {(row.judge_hash, row.model) for row in rows if row.outcome is Outcome.SCORED}
    known = StoredTrust(store)
    found = []
    of_run = judge_hashes(run, ())
    for judge_hash, model in sorted(answered, key=str) or [(of_run[0] if of_run else None, None)]:
        trust = known.trust(run.rubric, run.rubric_hash, run.judge, judge_hash or "", model)
        found.append({"model": model, **trust.model_dump(mode="json")})
    return found


def failures(numbers: dict[str, Any]) -> list[dict[str, Any]]:
    """Everything that is not scored, most frequent first: outcome, reason, count, and what to do about it."""
    found = []
    for name, n in numbers["reasons"].items():
        outcome, _, reason = name.partition(":")
        found.append({"outcome": outcome, "reason": reason, "n": n, "fix": fix_for(outcome, reason)})
    for outcome in (Outcome.INCONSISTENT.value, "not_judged"):
        if numbers["outcomes"][outcome]:
            entry = {"outcome": outcome, "reason": None, "n": numbers["outcomes"][outcome]}
            found.append({**entry, "fix": fix_for(outcome, None)})
    return sorted(found, key=lambda entry: (-entry["n"], entry["outcome"], entry["reason"] or ""))


def _usage(store: Store, run: Run, rows: Sequence[ResultRow]) -> dict[str, Any]:
    """Calls, tokens, US dollars and latency of the current judgments. A figure that no call reported is null.

    `reused` counts judgments that were made for another run: their cost is in the totals, and was not paid again.
    """
    judged = [row for row in rows if row.outcome is not None]
    counts = store.runs.call_count(run.id)
    costs = [row.cost_usd for row in judged if row.cost_usd is not None]
    total = sum(costs) if costs else None
    latencies = sorted(row.latency_ms for row in judged if row.latency_ms is not None)
    return {
        "n_judged": len(judged),
        "reused": sum(row.judged_in != run.id for row in judged),
        "calls": counts.calls,
        "cached_calls": counts.cached,
        "failed_calls": counts.failed,
        "further_attempts": counts.further_attempts,
        "prompt_tokens": _sum([row.prompt_tokens for row in judged]),
        "completion_tokens": _sum([row.completion_tokens for row in judged]),
        "cost_usd": total,
        "cost_known_of": len(costs),
        "cost_per_case_usd": None if total is None else total / len(costs),
        "cost_per_1000_usd": None if total is None else 1000 * total / len(costs),
        "latency_ms": {f"p{part}": _percentile(latencies, part) for part in PERCENTILES},
    }


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _percentile(values: Sequence[float], part: int) -> dict[str, Any]:
    """Linear between the two nearest values."""
    if not values:
        return Estimate.undefined(Reason.EMPTY, 0, "percentile").to_dict()
    place = (len(values) - 1) * part / 100
    below = int(place)
    above = min(below + 1, len(values) - 1)
    value = values[below] + (values[above] - values[below]) * (place - below)
    return Estimate.point(value, len(values), "percentile").to_dict()
