"""Groups and leaks of a large calibration set: time, memory, and that planted near-duplicates are found.

    python -m benchmarks.grouping [--cases 20000]

Cases of a question, three contexts and an answer; one in ten has a context that differs in a word from one of the case
before it. Prints one JSON object. Fails when a planted pair is missed, or when memory grows by more than 5 KB a case.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator

from benchmarks.import_set import peak_mb
from judge_service.domain.calibration_set import SetCase, Split
from judge_service.domain.case import Case
from judge_service.errors import Conflict
from judge_service.sets.grouping import freeze_set, propose_groups
from judge_service.store import Store

GROWTH_KB = 5.0
PLANTED = 10
CONTEXT_WORDS = 120


def cases(n: int, seed: int = 1) -> Iterator[SetCase]:
    """Texts of random words, so that nothing but the planted contexts is alike."""
    chance = random.Random(seed)
    words = [f"word{number}" for number in range(20_000)]

    def text(length: int) -> str:
        return " ".join(chance.choices(words, k=length))

    last = text(CONTEXT_WORDS)
    for number in range(n):
        contexts = [text(CONTEXT_WORDS) for _ in range(3)]
        if number % PLANTED == 1:
            changed = last.split()
            changed[CONTEXT_WORDS // 2] = "changed"
            contexts[1] = " ".join(changed)
        last = contexts[0]
        fields = {"question": text(15), "contexts": contexts, "answer": text(30)}
        split = Split.RELEASE if number % 2 else Split.CALIBRATION
        yield SetCase(case=Case(id=f"case-{number}", input=fields), split=split)


def main() -> int:
    """Run the benchmark; 1 when a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    options = parser.parse_args()
    planted = len(range(1, options.cases, PLANTED))
    with tempfile.TemporaryDirectory() as folder, Store.open(f"sqlite:///{folder}/sets.sqlite3") as store:
        store.sets.create("warm", "faithfulness@1")
        store.sets.add_cases("warm@1", cases(500, seed=2))
        propose_groups(store, "warm")
        store.sets.create("large", "faithfulness@1")
        store.sets.add_cases("large@1", cases(options.cases))
        before = peak_mb()
        started, worked = time.perf_counter(), time.process_time()
        found = propose_groups(store, "large")
        grouping = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - worked}
        after_groups = peak_mb()
        started, worked = time.perf_counter(), time.process_time()
        leaks = 0
        try:
            freeze_set(store, "large")
        except Conflict as refused:
            leaks = refused.extra["n_leaks"]
        freezing = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - worked}
        report: dict[str, object] = {
            "cases": options.cases,
            "planted": planted,
            "groups_found": found.n_cases - found.n_groups,
            "leaks_found": leaks,
            "grouping": {name: round(value, 1) for name, value in grouping.items()},
            "refused_freeze": {name: round(value, 1) for name, value in freezing.items()},
            "peak_mb_before": round(before, 1),
            "peak_mb_after_groups": round(after_groups, 1),
            "peak_mb_after_freeze": round(peak_mb(), 1),
        }
        growth = (peak_mb() - before) * 1024 / options.cases
        report["kb_a_case"] = round(growth, 2)
        report["ok"] = leaks == planted and found.n_cases - found.n_groups == planted and growth < GROWTH_KB
    print(json.dumps(report, indent=1))
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
