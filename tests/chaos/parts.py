"""What a child of the zygote does: judge a run alone, or work in a fleet, with a judge that reports every call."""

import asyncio
import os
from collections.abc import Iterator
from typing import Any

from judge_service.backends.base import Request
from judge_service.backends.catalog import BackendPool
from judge_service.backends.scripted import ScriptedBackend
from judge_service.domain.case import Case
from judge_service.domain.judge import Judge, Limits
from judge_service.domain.run import Run, RunStatus
from judge_service.judging.judging import Judging
from judge_service.judging.roster import Roster
from judge_service.runs.fleet import Fleet
from judge_service.runs.local import LocalRunner
from judge_service.runs.shared_gate import SharedGates
from judge_service.runs.worker import this_worker
from judge_service.settings import Settings
from judge_service.store import Store
from rubrics.registry import get_rubric

N = 400
CONCURRENCY = 12
LATENCY_MS = 20.0
HEARTBEAT_S = 1.0
RUBRIC = get_rubric("pairwise@1")
JUDGE = Judge(name="chaos", backend="scripted", model="chaos-1", limits=Limits(concurrency=CONCURRENCY))


def cases(n: int = N) -> Iterator[Case]:
    """Pairs whose answers differ."""
    for number in range(n):
        yield Case(
            id=f"case-{number}", input={"prompt": f"question {number}", "response_a": "one", "response_b": "two"}
        )


def verdict(request: Request) -> str:
    """By the case's number A, B, a tie, or the first shown in both orders, which is inconsistent."""
    number = int(request.subject.case_id.rpartition("-")[2]) % 4
    first_is_a = request.subject.order == "AB"
    said = ("first" if first_is_a else "second", "second" if first_is_a else "first", "tie", "first")[number]
    words = {"first": "A", "second": "B", "tie": "tie"}
    return f'{{"rationale":"Because.","verdict":"{words[said]}"}}'


class Reporting(ScriptedBackend):
    """Answers after a while and writes when a call starts and when its answer leaves."""

    def __init__(self, events: int) -> None:
        super().__init__(verdict, latency_ms=LATENCY_MS, keep_requests=False)
        self._events = events

    async def complete(self, request: Request) -> Any:
        """Answer, reporting both ends of the call."""
        subject = request.subject
        what = f"{os.getpid()} {subject.case_id} {subject.order}\n"
        os.write(self._events, f"S {what}".encode())
        answer = await super().complete(request)
        os.write(self._events, f"E {what}".encode())
        return answer


def core(store: Store, events: int) -> Judging:
    """The real judging core with the reporting judge."""
    pool = BackendPool(Settings())
    pool.put(JUDGE, Reporting(events))
    judging = Judging(Roster([JUDGE]), pool, fence_key=b"chaos", cache=store.cache)
    if store.queue() is not None:
        judging.gates = SharedGates(store.shared_limits(expiry_s=HEARTBEAT_S), this_worker())
    return judging


def fleet(store: Store, events: int) -> Fleet:
    """A worker whose death is noticed soon."""
    queue = store.queue(heartbeat_s=HEARTBEAT_S)
    assert queue is not None
    return Fleet(store, queue, LocalRunner(store, core(store, events)), get_rubric, cases_at_once=CONCURRENCY)


def warm() -> None:
    """Import before the fork what a child would import after it."""
    import judge_service.backends.scripted
    import judge_service.store.migrate  # noqa: F401

    RUBRIC.content_hash  # noqa: B018


def run(part: str, url: str, events: int) -> None:
    """Do one part until it is done, or for ever."""
    with Store.open(url) as store:
        finish = store.runs.finish

        def reported(run_id: str, status: RunStatus, message: str | None = None) -> Run:
            ended = finish(run_id, status, message)
            os.write(events, f"F {os.getpid()} {ended.status}\n".encode())
            return ended

        store.runs.finish = reported  # type: ignore[method-assign]
        if part == "alone":
            asyncio.run(LocalRunner(store, core(store, events)).run(cases(), RUBRIC, JUDGE, run_id="r"))
        elif part == "worker":
            asyncio.run(fleet(store, events).work())
        else:
            raise ValueError(part)
