"""What a run may still spend: money and tokens, counted call by call.

Owns when no new call may start. Calls in flight finish, so a budget can be passed by at most what they cost.
"""

from dataclasses import dataclass
from typing import Self

from judge_service.domain.call import Usage
from judge_service.domain.judge import Limits


class CallsEnded(Exception):
    """The run was cancelled: no further call is made, and what was asked in part has no judgment."""


@dataclass(slots=True)
class Budget:
    """Money (US dollars) and tokens, with what is spent. A limit of None never ends."""

    max_cost_usd: float | None = None
    max_tokens: int | None = None
    cost_usd: float = 0.0
    tokens: int = 0
    unpriced: bool = False
    """A call used tokens and nobody knows its price: the money limit can no longer be kept."""

    @classmethod
    def of(cls, limits: Limits) -> Self | None:
        """The budget that a judge's limits set; None where they set none."""
        if limits.max_cost_usd is None and limits.max_total_tokens is None:
            return None
        return cls(limits.max_cost_usd, limits.max_total_tokens)

    def spend(self, usage: Usage) -> None:
        """Count what calls used."""
        used = (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)
        self.tokens += used
        self.cost_usd += usage.cost_usd or 0.0
        self.unpriced = self.unpriced or (used > 0 and usage.cost_usd is None)

    def reach(self, usage: Usage) -> None:
        """Count at least `usage` as spent: what others are known to have spent from the same budget."""
        self.tokens = max(self.tokens, (usage.prompt_tokens or 0) + (usage.completion_tokens or 0))
        self.cost_usd = max(self.cost_usd, usage.cost_usd or 0.0)

    def exhausted(self) -> str | None:
        """Why no new call may start; None while one may."""
        if self.max_tokens is not None and self.tokens >= self.max_tokens:
            return f"the budget of {self.max_tokens} tokens is used up: {self.tokens} were used"
        if self.max_cost_usd is not None:
            if self.cost_usd >= self.max_cost_usd:
                return f"the budget of US$ {self.max_cost_usd:g} is used up: {self.cost_usd:.6g} were spent"
            if self.unpriced:
                return "the money limit cannot be kept: a call came without a cost. Give the judge a price."
        return None


@dataclass(slots=True)
class EndableBudget(Budget):
    """The budget of one start of a run, which ends when the run is cancelled. `inner`: what the whole run may spend."""

    inner: Budget | None = None
    ended: bool = False

    def spend(self, usage: Usage) -> None:
        """Count what calls used."""
        if self.inner is not None:
            self.inner.spend(usage)

    def exhausted(self) -> str | None:
        """Why no new call may start; None while one may. Raises CallsEnded once ended."""
        if self.ended:
            raise CallsEnded
        return None if self.inner is None else self.inner.exhausted()
