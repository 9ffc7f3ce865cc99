"""A whole run without the model: cases planned, judged by the scripted backend at zero latency, and recorded durably.

Prints, for each number of cases, judgments a second from the first planned case to the run's end state, CPU
milliseconds a case, the peak memory of the process and the size of the database. Each number of cases is a process
of its own, so that the peaks can be compared.

    python -m benchmarks.runs                      # 10,000 and 100,000 cases on SQLite
    python -m benchmarks.runs --cases 20000 --database postgresql://...
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.judging import reply
from judge_service.backends.catalog import BackendPool
from judge_service.backends.scripted import ScriptedBackend
from judge_service.cli.loop import run_loop
from judge_service.domain.case import Case
from judge_service.domain.judge import Judge, Limits, OrderPolicy
from judge_service.judging.judging import Judging
from judge_service.judging.roster import Roster
from judge_service.runs.local import LocalRunner
from judge_service.settings import Settings
from judge_service.store import Store
from rubrics.registry import get_rubric

CALLS = {1: OrderPolicy.SINGLE_AB, 2: OrderPolicy.BOTH_ORDERS}
FILL = "It depends on the contract and the date of delivery. " * 4


def pairs(n: int) -> Iterator[Case]:
    """`n` pairs with answers of about 200 characters."""
    for number in range(n):
        yield Case(id=f"case-{number}", input={"prompt": f"Question {number}?", "response_a": FILL, "response_b": "B"})


async def judge_all(store: Store, n: int, calls: int, concurrency: int) -> tuple[float, float]:
    """Seconds of wall time and of CPU for a run of `n` cases."""
    limits = Limits(concurrency=concurrency)
    judge = Judge(name="scripted", backend="scripted", order_policy=CALLS[calls], limits=limits)
    pool = BackendPool(Settings())
    pool.put(judge, ScriptedBackend(reply, keep_requests=False))
    core = Judging(Roster([judge]), pool, fence_key=b"benchmark", cache=store.cache)
    started, cpu = time.perf_counter(), time.process_time()
    run = await LocalRunner(store, core).run(pairs(n), get_rubric("pairwise@1"), judge)
    took = time.perf_counter() - started, time.process_time() - cpu
    assert run.status == "finished", run.message
    assert sum(count.n for count in store.runs.counts(run.id)) == n
    return took


def one(n: int, calls: int, concurrency: int, database: str | None) -> None:
    """Run once in this process and print the row."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "judge.sqlite3"
        with Store.open(database or f"sqlite:///{file}") as store:
            wall, cpu = run_loop(judge_all(store, n, calls, concurrency))
        size = file.stat().st_size / 1e6 if database is None else float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{n:>8}{calls:>7}{n / wall:>12.0f}{1000 * cpu / n:>10.3f}{peak:>10.0f}{size:>10.0f}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--calls", type=int, default=2, choices=sorted(CALLS), help="calls a case")
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--database", help="URL of an empty PostgreSQL database; default: a fresh SQLite file")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(given.cases[0], given.calls, given.concurrency, given.database)
        return
    print(f"{'cases':>8}{'calls':>7}{'per second':>12}{'CPU ms':>10}{'peak MB':>10}{'file MB':>10}", flush=True)
    for n in given.cases:
        rest = ["--calls", str(given.calls), "--concurrency", str(given.concurrency)]
        rest += ["--database", given.database] if given.database else []
        subprocess.run([sys.executable, "-m", "benchmarks.runs", "--one", "--cases", str(n), *rest], check=True)


if __name__ == "__main__":
    main()
