"""Before a judge spends anything: can it judge by this rubric at all, and is it calibrated where that is demanded?

Owns the memory of pairs that were checked, so that schemas are compiled once and not with every request.
"""

import asyncio
from typing import Any

from judge_service.domain.judge import Judge
from judge_service.domain.judgment import Trust, TrustLevel
from judge_service.errors import ConfigurationError, JudgeUnavailable, NotCalibrated, NotFound
from judge_service.judging.judging import Judging
from rubrics.model import Rubric


class Preflight:
    """Checks pairs of rubric and judge. One instance a process."""

    def __init__(self, judging: Judging) -> None:
        self._judging = judging
        self._passed: set[tuple[str, str]] = set()
        self.lock = asyncio.Lock()
        """Held while a backend may be opened, so that none is opened twice."""

    async def check(self, rubric: Rubric[Any], judge: Judge) -> None:
        """Return if this judge can judge by this rubric.

        Raises InvalidInput where the two do not fit, MissingModel, or JudgeUnavailable for a judge that the
        operator has to mend. Opening a backend may take seconds: it happens on a thread, once.
        """
        pair = (rubric.content_hash, self._hash(judge))
        if pair in self._passed:
            return
        async with self.lock:
            if pair in self._passed:
                return
            try:
                await asyncio.to_thread(self._judging.check, rubric, judge)
            except ConfigurationError as error:
                raise unavailable(judge, error) from error
            self._passed.add(pair)

    def trust(self, rubric: Rubric[Any], judge: Judge) -> Trust:
        """What is known about this judge under this rubric before it answers."""
        judge_hash = self._hash(judge)
        return self._judging.trust.trust(rubric.id, rubric.content_hash, judge, judge_hash, None)

    def _hash(self, judge: Judge) -> str:
        try:
            return self._judging.judge_hash(judge)
        except NotFound as error:
            message = f"Judge {judge.name!r} cannot be used as it is configured: {error.message}"
            raise JudgeUnavailable(message, extra={"cause": error.code}) from error


def unavailable(judge: Judge, error: ConfigurationError) -> JudgeUnavailable:
    """A judge whose configuration is wrong, as the caller sees it."""
    return JudgeUnavailable(
        f"Judge {judge.name!r} cannot be used as it is configured: {error.message}", extra={"cause": error.code}
    )


def demand_calibrated(trust: Trust, judge: Judge, rubric: Rubric[Any]) -> None:
    """Raise NotCalibrated with the reason unless `trust` is `calibrated`."""
    if trust.level is not TrustLevel.CALIBRATED:
        raise NotCalibrated(
            f"Judge {judge.name!r} is {trust.level.value} under {rubric.id}: {trust.reason}",
            extra={"trust": trust.model_dump(mode="json")},
        )
