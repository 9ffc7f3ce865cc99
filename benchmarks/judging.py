"""One judgment without the model: prompt to record through the scripted backend at zero latency.

Prints the median and the 95th percentile in milliseconds for a pair in both orders and for faithfulness with ten
claims, and each as a ratio to canonicalising and hashing the same case once, so that runs on different machines
can be compared.

    python -m benchmarks.judging
"""

import asyncio
import json
import statistics
import time
from collections.abc import Callable

from judge_service.backends.base import Request
from judge_service.backends.catalog import BackendPool
from judge_service.backends.scripted import ScriptedBackend
from judge_service.domain.canonical import content_hash
from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.judging.judging import Judging
from judge_service.judging.roster import Roster
from judge_service.settings import Settings
from rubrics.registry import get_rubric

ROUNDS = 1_000
JUDGE = Judge(name="scripted", backend="scripted")
CLAIM = {"context": "ctx1", "quote": "fact", "rationale": "It is stated.", "verdict": "supported", "confidence": 90}


def pair(number: int) -> Case:
    """A pair with answers of about 600 characters."""
    fill = "It depends on the contract and the date of delivery. " * 12
    return Case(id=str(number), input={"prompt": f"Question {number}?", "response_a": fill, "response_b": fill[::-1]})


def answer(number: int) -> Case:
    """Ten sentences over two contexts of about 600 characters."""
    contexts = [" ".join(f"This is fact {k} of part {part}." for k in range(20)) for part in range(2)]
    sentences = " ".join(f"The document number {number} states fact {k} plainly." for k in range(10))
    return Case(id=str(number), input={"question": "What is stated?", "contexts": contexts, "answer": sentences})


def reply(request: Request) -> str:
    """A legal reply to any step."""
    ask = request.ask
    if ask.step == "compare":
        return '{"rationale":"Both say the same.","verdict":"tie"}'
    if ask.step == "extract":
        return json.dumps({name: [text] for name, text in ask.items.items()})
    return json.dumps(dict.fromkeys(ask.items, CLAIM))


async def measure(rubric: str, make: Callable[[int], Case]) -> list[float]:
    """Milliseconds of each of `ROUNDS` judgments of different cases."""
    pool = BackendPool(Settings())
    pool.put(JUDGE, ScriptedBackend(reply, keep_requests=False))
    core = Judging(Roster([JUDGE]), pool, fence_key=b"benchmark")
    version, took = get_rubric(rubric), []
    for number in range(ROUNDS):
        case = make(number)
        started = time.perf_counter()
        judgment = await core.judge(case, version, JUDGE)
        took.append((time.perf_counter() - started) * 1000)
        assert judgment.score is not None, judgment.detail
    return took


def main() -> None:
    """Print the table."""
    print(f"{'rubric':<16}{'median ms':>10}{'p95 ms':>10}{'x one hash':>12}")
    for rubric, make in (("pairwise@1", pair), ("faithfulness@1", answer)):
        took = sorted(asyncio.run(measure(rubric, make)))
        hashes = []
        for number in range(ROUNDS):
            case = make(number)
            started = time.perf_counter()
            content_hash(case.input)
            hashes.append((time.perf_counter() - started) * 1000)
        median = statistics.median(took)
        print(
            f"{rubric:<16}{median:>10.3f}{took[int(ROUNDS * 0.95)]:>10.3f}{median / statistics.median(hashes):>12.1f}"
        )


if __name__ == "__main__":
    main()
