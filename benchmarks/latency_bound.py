"""How near a run comes to the bound that latency sets: N cases of k calls at concurrency C cannot end before N*k*L/C.

The judge answers after L = 200 ms; everything else is real: planning, prompts, reading, keeping every answered call
and recording every judgment on a fresh SQLite file. One case is judged before, so that templates and schemas are there.
Prints wall time over the bound.

    python -m benchmarks.latency_bound
    python -m benchmarks.latency_bound --concurrency 8 16 --rounds 40
"""

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.judging import reply
from benchmarks.runs import CALLS, pairs
from judge_service.backends.catalog import BackendPool
from judge_service.backends.scripted import ScriptedBackend
from judge_service.cli.loop import run_loop
from judge_service.domain.judge import Judge, Limits
from judge_service.judging.judging import Judging
from judge_service.judging.roster import Roster
from judge_service.runs.local import LocalRunner
from judge_service.settings import Settings
from judge_service.store import Store
from rubrics.registry import get_rubric

LATENCY_S = 0.2


async def wall(store: Store, n: int, calls: int, concurrency: int) -> float:
    """Seconds from the first planned case to the run's end state."""
    judge = Judge(name="slow", backend="scripted", order_policy=CALLS[calls], limits=Limits(concurrency=concurrency))
    pool = BackendPool(Settings())
    pool.put(judge, ScriptedBackend(reply, latency_ms=LATENCY_S * 1000, keep_requests=False))
    core = Judging(Roster([judge]), pool, fence_key=b"benchmark", cache=store.cache)
    started = time.perf_counter()
    run = await LocalRunner(store, core).run(pairs(n), get_rubric("pairwise@1"), judge)
    took = time.perf_counter() - started
    assert run.status == "finished", run.message
    return took


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--concurrency", type=int, nargs="*", default=[8, 16, 32, 128])
    parser.add_argument("--calls", type=int, default=2, choices=sorted(CALLS), help="calls a case")
    parser.add_argument("--rounds", type=int, default=100, help="calls that each slot makes")
    given = parser.parse_args()
    print(f"{'C':>6}{'cases':>8}{'calls':>7}{'bound s':>10}{'wall s':>10}{'wall / bound':>14}", flush=True)
    for concurrency in given.concurrency:
        n = concurrency * given.rounds // given.calls
        bound = n * given.calls * LATENCY_S / concurrency
        with tempfile.TemporaryDirectory() as folder, Store.open(f"sqlite:///{Path(folder) / 'x.sqlite3'}") as store:
            run_loop(wall(store, 1, given.calls, concurrency))
            took = run_loop(wall(store, n, given.calls, concurrency))
        ratio = took / bound
        print(f"{concurrency:>6}{n:>8}{given.calls:>7}{bound:>10.1f}{took:>10.1f}{ratio:>14.3f}", flush=True)


if __name__ == "__main__":
    main()
