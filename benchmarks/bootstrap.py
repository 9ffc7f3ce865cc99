"""Time and memory of all headline statistics of one judge: 10,000 resamples of 10,000 cases.

Target: under 5 s on 2 cores and under 500 MB. Run: python benchmarks/bootstrap.py
Three inputs: verbalised confidences (few values), token probabilities (every case its own value), grouped cases.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import numpy as np

from calibration.agreement import PairedLabels
from calibration.headline import headline

KINDS = ("verbalised", "probabilities", "grouped")
SECONDS, MEGABYTES = 5.0, 500.0


def measure(kind: str, cases: int, resamples: int) -> tuple[float, float]:
    """Seconds of one call, and the peak memory of this process in MB."""
    chance = np.random.default_rng(1)
    names = np.array(["A", "B", "tie"])
    human = chance.choice(names, cases, p=[0.45, 0.45, 0.1])
    orders = []
    for _ in range(2):
        order = np.where(chance.random(cases) < 0.75, human, chance.choice(names, cases)).astype(object)
        order[chance.random(cases) < 0.01] = None
        orders.append(order.tolist())
    stated = chance.uniform(0.4, 1, cases)
    confidence = stated.round(1) if kind != "probabilities" else stated
    groups = (np.arange(cases) // 3).tolist() if kind == "grouped" else None
    judge = [ab if ab == ba else "tie" for ab, ba in zip(*orders, strict=True)]
    labels = PairedLabels.of(judge, human.tolist(), names.tolist(), groups=groups)
    started = time.perf_counter()
    headline(labels, confidence=confidence.tolist(), order_ab=orders[0], order_ba=orders[1], resamples=resamples)
    return time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    """Measure every kind in a process of its own; exit code 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--only", choices=KINDS)
    options = parser.parse_args()
    if options.only:
        seconds, megabytes = measure(options.only, options.cases, options.resamples)
        print(f"{options.only:14s} {seconds:6.2f} s {megabytes:6.0f} MB")
        return int(seconds > SECONDS or megabytes > MEGABYTES)
    sizes = ["--cases", str(options.cases), "--resamples", str(options.resamples)]
    codes = [
        subprocess.run([sys.executable, __file__, *sizes, "--only", kind], check=False).returncode for kind in KINDS
    ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
