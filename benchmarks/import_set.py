"""Importing a large calibration set: time, memory, and that the second import changes nothing.

    python -m benchmarks.import_set [--cases 100000] [--labels 3] [--database URL]

Prints one JSON object. Fails when an import takes a minute or more, or when memory grows with the number of cases by
more than the eight bytes of hash an id is remembered by, the interpreter's own overhead for them included.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

from judge_service.files.rows import FileKind
from judge_service.files.source import Source
from judge_service.heap import settle_heap
from judge_service.sets.importing import import_cases
from judge_service.store import Store

LIMIT_S = 60.0
GROWTH_MB = 60.0


def write(path: Path, cases: int, labels: int) -> None:
    """A file of pairs, each with the labels of several annotators."""
    words = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "near", "the", "river", "bank")
    with path.open("w", encoding="utf-8") as file:
        for number in range(cases):
            text = " ".join(words[(number + place) % len(words)] for place in range(40))
            row = {
                "id": f"case-{number:07d}",
                "group": f"doc-{number // 5}",
                "prompt": f"Question {number}: {text}?",
                "response_a": f"{text} A",
                "response_b": f"{text} B",
                "language": "en",
                "annotators": {f"ann-{place}": "AB"[(number + place) % 2] for place in range(labels)},
            }
            file.write(json.dumps(row) + "\n")


def peak_mb() -> float:
    """Peak memory of this process so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


def main() -> int:
    """Run the benchmark; 1 when a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--labels", type=int, default=3)
    parser.add_argument("--database")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cases.jsonl"
        small = Path(folder) / "small.jsonl"
        write(path, options.cases, options.labels)
        write(small, max(options.cases // 10, 1), options.labels)

        def source(file: Path) -> Source:
            return Source(file.name, lambda: file.open("rb"), FileKind.JSONL)

        report: dict[str, object] = {"cases": options.cases, "labels": options.cases * options.labels}
        with Store.open(options.database or f"sqlite:///{folder}/sets.sqlite3") as store:
            settle_heap()
            store.sets.create("warm", "pairwise@1")
            import_cases(store, "warm", source(small))
            before = peak_mb()
            store.sets.create("large", "pairwise@1")
            times = []
            for _ in range(2):
                started, worked = time.perf_counter(), time.process_time()
                done = import_cases(store, "large", source(path))
                times.append(round(time.perf_counter() - started, 1))
                report[f"import_{len(times)}"] = {
                    "seconds": times[-1],
                    "cpu_seconds": round(time.process_time() - worked, 1),
                    "cases_added": done.cases.added,
                    "labels_added": done.labels.added,
                    "cases_unchanged": done.cases.unchanged,
                    "labels_unchanged": done.labels.unchanged,
                }
            growth = peak_mb() - before
            version = store.sets.get("large")
            started = time.perf_counter()
            digest = store.sets.digest(version.id)
            report |= {
                "n_cases": version.n_cases,
                "n_labels": version.n_labels,
                "hash_seconds": round(time.perf_counter() - started, 1),
                "sha256": digest,
                "peak_mb_after_a_tenth": round(before, 1),
                "peak_mb_after_imports": round(before + growth, 1),
                "peak_mb_after_hash": round(peak_mb(), 1),
            }
        whole = (version.n_cases, version.n_labels) == (options.cases, options.cases * options.labels)
        unchanged = done.cases.added == done.labels.added == 0
        report["ok"] = max(times) < LIMIT_S and growth < GROWTH_MB and whole and unchanged
    print(json.dumps(report, indent=1))
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
