"""How far a judge may be trusted under a rubric, and what its confidence is worth: attached to every judgment.

Owns the lookup's contract. Knows no statistics: those were measured when the calibration was made.
"""

from typing import Protocol

from judge_service.domain.judge import Judge
from judge_service.domain.judgment import Confidence, Trust


class TrustSource(Protocol):
    """Answers what was measured about a judge under a rubric version. Must be quick: it is asked for every judgment."""

    def trust(self, rubric_id: str, rubric_hash: str, judge: Judge, judge_hash: str, model: str | None) -> Trust:
        """The trust of one verdict, given the model that the provider reported for it; None before a call."""
        ...

    def calibrated(
        self, rubric_id: str, rubric_hash: str, judge: Judge, judge_hash: str, model: str | None, given: Confidence
    ) -> Confidence:
        """`given` with its calibrated value and the map's version, where a map is in force; else as it is."""
        ...


class Uncalibrated:
    """No calibration is stored: every verdict says so."""

    def trust(self, rubric_id: str, rubric_hash: str, judge: Judge, judge_hash: str, model: str | None) -> Trust:
        """Uncalibrated, with what to do about it."""
        return Trust(
            reason=f"No agreement with people has been measured for judge {judge.name!r} under {rubric_id} yet."
        )

    def calibrated(
        self, rubric_id: str, rubric_hash: str, judge: Judge, judge_hash: str, model: str | None, given: Confidence
    ) -> Confidence:
        """The confidence as it was given."""
        return given
