"""The one-file report of a large set: six simulated judges with confidences over many cases that two people labelled.

Prints what each number of cases costs: seconds to build the report and its file, the file's size and the peak memory
of the process. Goal: the file stays under 2 MB however many cases there are. Each number is a process of its own.

    python -m benchmarks.large_report                  # 600, 5,000 and 20,000 cases
    python -m benchmarks.large_report --cases 100000   # takes long
"""

import argparse
import resource
import subprocess
import sys
import time

from judge_service.reports.render import to_html
from judge_service.reports.selection import build_report
from judge_service.reports.study import Choices
from tests.browser.simulated import agreeing, mixed
from tests.judge_service.reports.studies import study_of


def one(n: int, resamples: int) -> None:
    """Build once in this process and print the row."""
    judges = {f"judge-{place}": agreeing(0.9 - place / 50, cost=0.001, sure=True) for place in range(5)}
    study = study_of(judges | {"mixed": mixed}, n, people=2, choices=Choices(resamples=resamples))
    started = time.perf_counter()
    size = len(to_html(build_report(study)).encode())
    took = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{n:>8}{took:>10.0f}{size:>12}{peak:>10.0f}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, nargs="*", default=[600, 5_000, 20_000])
    parser.add_argument("--resamples", type=int, default=1_000)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(given.cases[0], given.resamples)
        return
    print(f"{'cases':>8}{'seconds':>10}{'bytes':>12}{'peak MB':>10}", flush=True)
    for n in given.cases:
        rest = ["--resamples", str(given.resamples)]
        subprocess.run([sys.executable, "-m", "benchmarks.large_report", "--one", "--cases", str(n), *rest], check=True)


if __name__ == "__main__":
    main()
