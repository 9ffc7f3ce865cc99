"""What the page of a run says of its state: how far it is, what it cost, how its cases ended and what to do about that.

Made from the counts of the store alone, so that a page of a run of a million cases costs no more than a small one's.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from judge_service.domain.outcome import Outcome
from judge_service.domain.run import Run
from judge_service.store import OutcomeCount


@dataclass(frozen=True, slots=True)
class RunState:
    """A run now. `left_s`: seconds left where that is known. `cost_usd` and `tokens` are null where no call said.

    `bar` are the parts of the outcome bar, `failures` what has no score, each with a count and what to do.
    """

    run: Run
    n_done: int
    n_total: int
    left_s: float | None
    cost_usd: float | None
    tokens: int | None
    bar: list[dict[str, Any]]
    failures: list[dict[str, Any]]

    @property
    def percent(self) -> int:
        """How far, as whole percent rounded down: 100 only when all is done."""
        return 100 * self.n_done // self.n_total if self.n_total else 0

    @property
    def left(self) -> str:
        """The time left in words."""
        return "not known yet" if self.left_s is None else f"about {in_words(self.left_s)}"

    @property
    def spent(self) -> str:
        """Money and tokens so far, each beside its budget where the judge has one."""
        limits = self.run.judge.limits
        cost = "cost not reported" if self.cost_usd is None else f"US$ {self.cost_usd:.4f}"
        if limits.max_cost_usd is not None:
            cost += f" of at most US$ {limits.max_cost_usd:g}"
        tokens = "tokens not reported" if self.tokens is None else f"{self.tokens:,} tokens"
        if limits.max_total_tokens is not None:
            tokens += f" of at most {limits.max_total_tokens:,}"
        return f"{cost}, {tokens}"


def in_words(seconds: float) -> str:
    """A time that is left, in the unit that people would choose."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def state_of(run: Run, counts: Sequence[OutcomeCount], left_s: float | None) -> RunState:
    """The state of a run from its counts; `left_s` counts only while it runs."""
    from judge_service.reports.run_forms import bar
    from judge_service.reports.run_report import failures

    outcomes: Counter[str] = Counter({outcome.value: 0 for outcome in Outcome})
    reasons: Counter[str] = Counter()
    for count in counts:
        outcomes[count.outcome.value] += count.n
        if count.reason is not None:
            reasons[f"{count.outcome.value}:{count.reason}"] += count.n
    done = outcomes.total()
    total = max(run.n_planned, done)
    numbers = {"n_total": total, "outcomes": {**outcomes, "not_judged": total - done}, "reasons": dict(reasons)}
    costs = [count.cost_usd for count in counts if count.cost_usd is not None]
    tokens = [part for count in counts for part in (count.prompt_tokens, count.completion_tokens) if part is not None]
    return RunState(
        run=run,
        n_done=done,
        n_total=total,
        left_s=None if run.status.ended else left_s,
        cost_usd=sum(costs) if costs else None,
        tokens=sum(tokens) if tokens else None,
        bar=bar({"numbers": numbers}),
        # What a run that goes on has not judged yet is no failure.
        failures=[row for row in failures(numbers) if run.status.ended or row["outcome"] != "not_judged"],
    )
