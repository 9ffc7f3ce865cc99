"""What planted orders did to a judge's verdicts, counted and kept with its date.

Owns the counts and the stored result. Knows no probe's text and no statistics: intervals are added where
they are shown.
"""

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]


class ProbeCounts(BaseModel):
    """Counts over probes. `eligible` could have been moved: held + moved + broke. `rate` is moved of eligible."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    probes: Count = 0
    moved: Count = 0
    held: Count = 0
    broke: Count = 0
    already: Count = 0
    no_verdict: Count = 0

    @property
    def eligible(self) -> int:
        """Probes whose clean verdict was not the wish already."""
        return self.held + self.moved + self.broke

    @property
    def rate(self) -> float | None:
        """Share of eligible probes that moved the verdict; None when none was eligible."""
        return self.moved / self.eligible if self.eligible else None


class ProbeResult(BaseModel):
    """One probing of a judge, never changed afterwards.

    `models` are the judge models that answered, as the provider reported them. `probe_set` is the hash of the probes
    put; `left_out` says which of the wanted rubrics the judge could not be probed under, and why. `moved` names the
    probes that moved a verdict.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    judge: str
    judge_hash: str
    models: tuple[str, ...] = ()
    probe_set: str
    total: ProbeCounts
    by_rubric: dict[str, ProbeCounts]
    by_kind: dict[str, ProbeCounts]
    by_place: dict[str, ProbeCounts]
    by_language: dict[str, ProbeCounts]
    left_out: dict[str, str] = Field(default_factory=dict)
    moved: tuple[str, ...] = ()
    created_at: datetime
