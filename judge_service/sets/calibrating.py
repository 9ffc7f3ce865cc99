"""Calibrations on their way: judges that judge what is missing of a set, and are measured once their runs have ended.

Owns the tasks of this process that wait for the runs. A run goes on after a restart by itself; the measurement is
asked for again then, or in another process meanwhile: that asks no judge twice and stores nothing twice.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from judge_service.domain.calibration_set import SetVersion, Split
from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.domain.run import Run, RunStatus
from judge_service.errors import JudgeServiceError
from judge_service.judging.judging import Judging
from judge_service.reports.labelled_set import read_set, source_of
from judge_service.reports.measuring import calibration_id, keep
from judge_service.runs.background import BackgroundRuns
from judge_service.runs.naming import of_source, work_id
from judge_service.runs.tasks import Tasks
from judge_service.store import Store
from judge_service.store.store import utc_now
from rubrics.model import Rubric

log = logging.getLogger(__name__)
LOOK_AGAIN_S = 1.0
"""How often a run that another process works on is looked at."""


@dataclass(slots=True)
class Calibrating:
    """One measurement under way or ended. `judges` without a configuration here were run elsewhere.

    With `once` its id names one measurement for ever; without, it is made anew each time it is asked for.
    """

    id: str
    version: SetVersion
    rubric: Rubric[Any]
    split: Split
    method: str | None
    judges: dict[str, Judge | None]
    once: bool = False
    runs: dict[str, str] = field(default_factory=dict)
    status: str = "judging"
    message: str | None = None
    calibrations: list[str] = field(default_factory=list)


class Calibrators:
    """The measurements of one process, by id."""

    def __init__(self, store: Store, judging: Judging, background: BackgroundRuns) -> None:
        self._store = store
        self._judging = judging
        self._background = background
        self._known: dict[str, Calibrating] = {}
        self._tasks = Tasks()

    def get(self, identifier: str) -> Calibrating | None:
        """A measurement that this process began; None for another one."""
        return self._known.get(identifier)

    async def start(self, wanted: Calibrating, *, retry_errors: bool = False) -> Calibrating:
        """Start the runs of the judges and measure when they have ended; one that is under way is not begun again.

        One that is made `once` and was stored by any process is measured already. Raises InvalidInput for a case or an
        empty split, and what planning a run raises; nothing is measured then.
        """
        if wanted.id in self._tasks:
            return self._known[wanted.id]
        stored = await asyncio.to_thread(self._stored, wanted)
        for name, judge in wanted.judges.items():
            if judge is not None:
                cases, run_id = await asyncio.to_thread(self._work, wanted, judge)
                if not stored:
                    await self._run(wanted, judge, cases, run_id, retry_errors)
                wanted.runs[name] = run_id
        self._known[wanted.id] = wanted
        if stored:
            wanted.status, wanted.calibrations = "measured", stored
            return wanted
        self._tasks.begin(wanted.id, self._measure(wanted), name=f"calibrate {wanted.version.id}")
        return wanted

    async def wait(self, identifier: str) -> None:
        """Wait until a measurement of this process has ended."""
        await self._tasks.wait(identifier)

    async def aclose(self) -> None:
        """Stop waiting for runs; they go on after the next start."""
        await self._tasks.aclose()

    def _stored(self, wanted: Calibrating) -> list[str]:
        """The calibrations of a measurement that is made once, where all are stored; none otherwise."""
        found = [calibration_id(wanted.id, name) for name in wanted.judges] if wanted.once else []
        return found if all(self._store.calibrations.get(one) is not None for one in found) else []

    def _work(self, wanted: Calibrating, judge: Judge) -> tuple[list[Case], str]:
        """The cases that a judge is measured on, and the run that judges exactly these. Raises InvalidInput."""
        cases = [entry.case for entry in self._store.sets.cases(wanted.version.id, wanted.split)]
        work, _ = work_id(self._judging, cases, wanted.rubric, judge)
        return cases, of_source(work, source_of(wanted.version.id))

    async def _run(
        self, wanted: Calibrating, judge: Judge, cases: Sequence[Case], run_id: str, retry_errors: bool
    ) -> None:
        source = source_of(wanted.version.id)
        run = await self._background.submit(cases, wanted.rubric, judge, run_id=run_id, source=source)
        unfinished = run.status in (RunStatus.FAILED, RunStatus.CANCELLED)
        if unfinished or (retry_errors and run.status is RunStatus.FINISHED_WITH_ERRORS):
            await self._background.resume(run_id, retry_errors=retry_errors)

    async def _measure(self, wanted: Calibrating) -> None:
        try:
            for name, run_id in wanted.runs.items():
                run = await self._ended(run_id)
                if run.status in (RunStatus.FAILED, RunStatus.CANCELLED):
                    told = run.message or f"The run {run.id} was {run.status.value}."
                    wanted.status, wanted.message = "failed", f"{name} did not judge the set: {told}"
                    return
            wanted.status = "measuring"
            wanted.calibrations = await asyncio.to_thread(self._keep, wanted)
            wanted.status = "measured"
        except JudgeServiceError as error:
            wanted.status, wanted.message = "failed", error.message
        except Exception:
            wanted.status, wanted.message = "failed", "The measurement failed; the log says why."
            log.exception("the calibration %s failed", wanted.id)

    async def _ended(self, run_id: str) -> Run:
        run = await self._background.wait(run_id)
        while not run.status.ended:
            await asyncio.sleep(LOOK_AGAIN_S)
            run = await self._background.get(run_id)
        return run

    def _keep(self, wanted: Calibrating) -> list[str]:
        configured = {
            name: self._judging.judge_hash(judge) for name, judge in wanted.judges.items() if judge is not None
        }
        names: Sequence[str] = list(wanted.judges)
        labelled = read_set(
            self._store,
            wanted.version.id,
            rubric=wanted.rubric.id,
            judges=names,
            split=wanted.split,
            configured=configured,
        )
        measurement = wanted.id if wanted.once else None
        kept = keep(self._store, labelled, wanted.split, utc_now(), method=wanted.method, measurement=measurement)
        return [row["id"] for row in kept]
