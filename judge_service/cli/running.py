"""Judging a file of cases from the command line: identify, judge what is missing, read back in case order.

Owns the run's id (the same work has the same id, so the same command goes on where it stopped). The run itself is
`runs.local`'s; nothing is printed here.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from judge_service.cli.console import Terminated
from judge_service.cli.terminating import terminable
from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.domain.judgment import Judgment
from judge_service.domain.run import RunStatus
from judge_service.errors import JudgeServiceError
from judge_service.judging.asking import FatalJudgeError
from judge_service.runs.local import LocalRunner
from judge_service.runs.naming import work_id
from judge_service.runs.progress import Progress, Tally
from rubrics.model import Rubric

if TYPE_CHECKING:
    from judge_service.app import Service

PAGE = 256
"""Judgments read back at once."""

Cases = Callable[[], Iterable[Case]]
"""Gives the cases from the start each time it is called, so that a large file is never held in memory."""


class Stopped(JudgeServiceError):
    """The run stopped before every case had an outcome."""

    code = "run_stopped"


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be judged: `run_id` names exactly these cases, this rubric content and this judge."""

    run_id: str
    n: int


def identify(service: "Service", cases: Cases, rubric: Rubric[Any], judge: Judge) -> Work:
    """Read all cases once and name the work. Raises InvalidInput for a bad case before anything is asked."""
    return Work(*work_id(service.judging, cases(), rubric, judge))


async def judge_all(
    service: "Service",
    cases: Cases,
    rubric: Rubric[Any],
    judge: Judge,
    work: Work,
    *,
    source: str,
    retry_errors: bool = False,
    fresh: bool = False,
    concurrency: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Progress | None:
    """Judge what is missing (with `fresh`: everything) and return the last progress.

    Raises Stopped when the judge's provider refused the key, Terminated when SIGTERM came before the end, and what
    judging raises.
    """
    last: list[Progress] = []

    def progressed(progress: Progress) -> None:
        last[:] = [progress]
        if on_progress is not None:
            on_progress(progress)

    if fresh:
        at_once = concurrency or judge.limits.concurrency
        # Begun judgments are the executor's, which ends and records them before the service is closed.
        async with terminable(lambda: None, grace_s=0.0):
            await _judge_again(service, cases, rubric, judge, work, at_once, progressed)
    else:
        runner = LocalRunner(service.store, service.judging)
        async with terminable(runner.stop):
            run = await runner.run(
                cases(),
                rubric,
                judge,
                run_id=work.run_id,
                on_progress=progressed,
                source=source,
                retry_errors=retry_errors,
                concurrency=concurrency,
            )
        if run.status is RunStatus.QUEUED:
            raise Terminated
        if run.status is RunStatus.FAILED and (not last or last[0].n_done < work.n):
            raise Stopped(run.message)
    return last[0] if last else None


async def _judge_again(
    service: "Service",
    cases: Cases,
    rubric: Rubric[Any],
    judge: Judge,
    work: Work,
    concurrency: int,
    on_progress: Callable[[Progress], None],
) -> None:
    tally = Tally(work.run_id, work.n, time.monotonic)
    waiting = iter(cases())

    async def one_after_another() -> None:
        while (case := next(waiting, None)) is not None:
            tally.add(await service.executor.execute(case, rubric, judge, fresh=True))
            on_progress(tally.snapshot())

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(one_after_another())
    except* FatalJudgeError as refused:
        raise Stopped(str(refused.exceptions[0])) from refused
    except* JudgeServiceError as failed:
        raise failed.exceptions[0] from None


def recorded(service: "Service", cases: Cases, rubric: Rubric[Any], judge: Judge) -> Iterator[Judgment | None]:
    """The current judgment of every case in case order; None where there is none.

    Group and metadata are the file's: they are no part of what was judged, and may have changed since.
    """
    waiting = iter(cases())
    while page := [(case, service.judging.identity(case, rubric, judge)) for case in islice(waiting, PAGE)]:
        found = service.store.judgments.currents([identity for _, identity in page])
        for case, identity in page:
            judgment = found.get(identity)
            if judgment is not None and (judgment.group, judgment.metadata) != (case.group, case.metadata):
                judgment = judgment.model_copy(update={"group": case.group, "metadata": dict(case.metadata)})
            yield judgment


@dataclass(slots=True)
class Summary:
    """Counts over the judgments of a file; add each once."""

    n: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    trust: Counter[str] = field(default_factory=Counter)
    score_sum: float = 0.0

    def add(self, judgment: Judgment) -> None:
        """Count one judgment."""
        self.n += 1
        self.outcomes[judgment.outcome.value] += 1
        self.trust[judgment.trust.level.value] += 1
        if judgment.reason is not None:
            self.reasons[f"{judgment.outcome.value}: {judgment.reason.value}"] += 1
        if judgment.label is not None and judgment.score is not None:
            self.labels[judgment.label] += 1
            self.score_sum += judgment.score

    @property
    def scored(self) -> int:
        """Judgments with a score."""
        return self.outcomes["scored"]

    def as_dict(self) -> dict[str, Any]:
        """The counts as JSON; the mean is null with a reason where nothing was scored."""
        return {
            "n": self.n,
            "n_scored": self.scored,
            "outcomes": dict(self.outcomes),
            "reasons": dict(self.reasons),
            "labels": dict(self.labels),
            "trust": dict(self.trust),
            "mean_score": self.score_sum / self.scored if self.scored else None,
            "mean_score_undefined_reason": None if self.scored else "no case was scored",
        }
