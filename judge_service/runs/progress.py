"""How far a run is: counts, tokens, cost and rate, kept in memory while it runs. Knows no terminal and no HTTP."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from judge_service.domain.call import Usage
from judge_service.domain.judgment import Judgment
from judge_service.domain.outcome import Outcome
from judge_service.store import OutcomeCount


@dataclass(frozen=True, slots=True)
class Progress:
    """A snapshot. `n_done` of `n_total` cases have an outcome; `n_judged` of them were judged by this start.

    `rate` is cases a second since this start, `eta_s` the seconds left at that rate; None while nothing is judged.
    `reasons` is keyed `outcome:reason`. Tokens and cost are None where no call reported them.
    """

    run_id: str
    n_total: int
    n_done: int
    n_judged: int
    outcomes: dict[str, int]
    reasons: dict[str, int]
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    elapsed_s: float
    rate: float | None
    eta_s: float | None

    @property
    def n_scored(self) -> int:
        """Cases with a score."""
        return self.outcomes.get(Outcome.SCORED.value, 0)


def _plus(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else a + b


@dataclass(slots=True)
class Tally:
    """The counts behind the snapshots. `monotonic` gives seconds."""

    run_id: str
    n_total: int
    monotonic: Callable[[], float]
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    n_done: int = 0
    n_judged: int = 0
    started: float = field(init=False)

    def __post_init__(self) -> None:
        """Start the clock."""
        self.started = self.monotonic()

    @property
    def usage(self) -> Usage:
        """What all counted judgments used."""
        return Usage(prompt_tokens=self.prompt_tokens, completion_tokens=self.completion_tokens, cost_usd=self.cost_usd)

    def start_from(self, counts: Iterable[OutcomeCount]) -> None:
        """Count what was recorded before this start."""
        for count in counts:
            self._add(count.outcome, count.reason, count.n)
            self._spend(count.prompt_tokens, count.completion_tokens, count.cost_usd)

    def add(self, judgment: Judgment) -> None:
        """Count one recorded judgment."""
        self._add(judgment.outcome, None if judgment.reason is None else judgment.reason.value, 1)
        usage = judgment.usage
        self._spend(usage.prompt_tokens, usage.completion_tokens, usage.cost_usd)
        self.n_judged += 1

    def snapshot(self) -> Progress:
        """The state now."""
        elapsed = max(0.0, self.monotonic() - self.started)
        rate = self.n_judged / elapsed if elapsed > 0 and self.n_judged else None
        return Progress(
            run_id=self.run_id,
            n_total=self.n_total,
            n_done=self.n_done,
            n_judged=self.n_judged,
            outcomes=dict(self.outcomes),
            reasons=dict(self.reasons),
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            cost_usd=self.cost_usd,
            elapsed_s=elapsed,
            rate=rate,
            eta_s=None if rate is None else (self.n_total - self.n_done) / rate,
        )

    def _add(self, outcome: Outcome, reason: str | None, n: int) -> None:
        self.outcomes[outcome.value] += n
        if reason is not None:
            self.reasons[f"{outcome.value}:{reason}"] += n
        self.n_done += n

    def _spend(self, prompt: int | None, completion: int | None, cost: float | None) -> None:
        # Sums of integers stay integers.
        self.prompt_tokens = prompt if self.prompt_tokens is None else self.prompt_tokens + (prompt or 0)
        self.completion_tokens = (
            completion if self.completion_tokens is None else self.completion_tokens + (completion or 0)
        )
        self.cost_usd = _plus(self.cost_usd, cost)
