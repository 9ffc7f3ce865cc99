"""Random prompts of arbitrary Unicode, with replies of random shapes, to the embedded model: does every reply parse?

The prompts, shapes and sampling (temperature 0, 1 or 2) come from a seed; a share of the shapes are the steps of the
rubrics. Asking, limits and reading are the product's own, one attempt each. Exit code 1 when a reply did not parse.

    python -m benchmarks.random_prompts [--count 1000] [--seed 56]
"""

import argparse
import asyncio
import sys
import time
from collections import Counter

from judge_service.backends.embedded import open_backend
from judge_service.domain.judge import Judge
from judge_service.settings import Settings
from tests.support.random_asks import Drawn, ask_drawn


async def run(count: int, seed: int) -> list[Drawn]:
    """Ask everything, one after the other, with a line of progress every fifty prompts."""
    backend = open_backend(Judge(name="drawn", backend="embedded"), Settings(context_tokens=2048))
    found: list[Drawn] = []
    try:
        async for one in ask_drawn(backend, range(count), seed=seed):
            found.append(one)
            if one.problem is not None:
                print(f"prompt {one.number}: {one.problem}", flush=True)
            if len(found) % 50 == 0:
                print(f"{len(found)} of {count}", file=sys.stderr, flush=True)
    finally:
        await backend.aclose()
    return found


def main() -> None:
    """Print how many replies parsed, how they ended, and how near the longest came to its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=56)
    chosen = parser.parse_args()
    started = time.perf_counter()
    found = asyncio.run(run(chosen.count, chosen.seed))
    parsed = sum(one.problem is None for one in found)
    ends = Counter(one.finish_reason for one in found)
    fullest = max(one.completion_tokens / one.limit for one in found if one.limit)
    print(f"replies that parsed: {parsed} of {len(found)}")
    print(f"finish reasons: {dict(ends)}")
    print(f"reply tokens: {sum(one.completion_tokens for one in found)}; at most {fullest:.0%} of a reply's limit used")
    print(f"minutes: {(time.perf_counter() - started) / 60:.1f}")
    sys.exit(0 if parsed == len(found) else 1)


if __name__ == "__main__":
    main()
