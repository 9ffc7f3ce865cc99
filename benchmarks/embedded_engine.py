"""The embedded engine by itself: how fast it is and what repeats.

Asks a fixed set of requests with a shared beginning, in order, in reverse and all at once, under each setting. Prints
the time, the prompt tokens really computed, and how many replies differ in text or in any log-probability from the
first pass: the figures of docs/decisions/0003-embedded-determinism.md.

    python -m benchmarks.embedded_engine [--requests N] [--threads N]
"""

import argparse
import asyncio
import random
import time
from collections.abc import Sequence

from judge_service.backends.base import Completion, Request, Subject
from judge_service.backends.embedded import open_backend
from judge_service.domain.judge import Judge, Sampling
from judge_service.settings import Settings
from rubrics.model import Ask, ChoiceConstraint, Constraint, Message
from rubrics.registry import get_rubric

SHARED = "You are a careful judge. " + "Follow the rubric: the answer must be faithful to its context. " * 18
WORDS = ("The mayor", "of Oslo", "signed", "treaty seven", "about fish", "on 3 May 2021", "while", "42 boats", "waited")


def requests(count: int) -> list[Request]:
    """Half bare choices, half JSON with a rationale; the same for every pass."""
    reasoned = get_rubric("pairwise@1").sample_constraints()["compare"]
    made = []
    for n in range(count):
        drawn = random.Random(n)
        text = " ".join(drawn.choice(WORDS) for _ in range(12 + (n * 37) % 90))
        constraint: Constraint = reasoned if n % 2 else ChoiceConstraint(("A", "B"))
        messages = (Message("system", SHARED), Message("user", f"Context: {text}\nWhich is better, A or B?"))
        made.append(
            Request(
                ask=Ask("compare", messages, constraint, {}),
                subject=Subject("benchmark", str(n), {}),
                sampling=Sampling(),
                max_tokens=400,
                timeout_s=3600,
                want_probabilities=True,
            )
        )
    return made


async def measure(settings: Settings, reuse: bool, asked: Sequence[Request]) -> None:
    """One block: one setting, three passes in one engine."""
    backend = open_backend(Judge(name="engine", backend="embedded", options={"reuse_prefix": reuse}), settings)
    started = time.monotonic()
    probe = await backend.probe()
    assert probe.ready, probe.message
    print(
        f"{settings.threads} threads, {settings.parallel} slots, {'reused' if reuse else 'cold'} prompts: "
        f"loaded in {time.monotonic() - started:.1f} s"
    )
    first: list[Completion] = []
    order = list(range(len(asked)))
    for name, sequence, together in (
        ("in order", order, False),
        ("reversed", order[::-1], False),
        ("at once", order, True),
    ):
        started = time.monotonic()
        if together:
            replies = await asyncio.gather(*(backend.complete(asked[n]) for n in sequence))
        else:
            replies = [await backend.complete(asked[n]) for n in sequence]
        took = time.monotonic() - started
        by_number = [reply for _, reply in sorted(zip(sequence, replies, strict=True), key=lambda pair: pair[0])]
        first = first or by_number
        texts = sum(a.text != b.text for a, b in zip(first, by_number, strict=True))
        values = sum(a.tokens != b.tokens for a, b in zip(first, by_number, strict=True))
        computed = sum((r.usage.prompt_tokens or 0) - (r.usage.cached_tokens or 0) for r in by_number)
        written = sum(r.usage.completion_tokens or 0 for r in by_number)
        print(
            f"  {name:9} {took:6.1f} s  {computed:6} prompt tokens computed, {written:5} written; "
            f"other text {texts}, other log-probabilities {values} of {len(asked)}",
            flush=True,
        )
    await backend.aclose()


def main() -> None:
    """Print the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--requests", type=int, default=16)
    options.add_argument("--threads", type=int, default=Settings().threads)
    given = options.parse_args()
    asked = requests(given.requests)
    for slots in (1, 2):
        for reuse in (False, True):
            settings = Settings(threads=given.threads, parallel=slots, context_tokens=4096)
            asyncio.run(measure(settings, reuse, asked))


if __name__ == "__main__":
    main()
