"""CPU and wall time of one call through each backend over HTTP, against a server that answers at once.

Run: `python benchmarks/backends.py [--cases 200] [--at-once 16]`. The server is a process of its own, so only the
client's CPU is counted. A case is a faithfulness case of two calls (extract, verify); scores are not computed here.
"""

import argparse
import asyncio
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from judge_service.backends.base import Backend, Request  # noqa: E402
from judge_service.backends.catalog import BackendPool  # noqa: E402
from judge_service.domain.judge import Judge  # noqa: E402
from judge_service.heap import settle_heap  # noqa: E402
from judge_service.settings import Settings  # noqa: E402
from tests.support.asks import extract_ask, request, verify_ask  # noqa: E402

JUDGES: dict[str, tuple[str, dict[str, Any]]] = {
    "openai": ("openai", {}),
    "litellm": ("litellm", {}),
    "outlines vllm (openai client)": ("outlines", {"engine": "vllm"}),
    "outlines vllm (litellm)": ("outlines", {"engine": "vllm", "client": "litellm"}),
    "instructor tools": ("instructor", {"mode": "tools"}),
}


def two_calls() -> tuple[Request, Request]:
    """An extract step over three sentences and a verify step over four claims and three passages."""
    sentences = {f"s{n}": f"Sentence {n} states a fact about the bridge." for n in range(1, 4)}
    claims = {f"c{n}": f"The bridge has property {n}." for n in range(1, 5)}
    passages = {f"p{n}": "The bridge is long and old. " * 20 for n in range(1, 4)}
    return request(extract_ask(sentences), timeout_s=30), request(verify_ask(claims, passages), timeout_s=30)


async def run(backend: Backend, cases: int, at_once: int) -> tuple[float, float]:
    """CPU and wall milliseconds a two-call case."""
    pair = two_calls()
    pending = iter(range(cases))

    async def worker() -> None:
        for _ in pending:
            for asked in pair:
                await backend.complete(asked)

    await worker_once(backend, pair)
    cpu, wall = cpu_s(), time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(at_once)))
    return (cpu_s() - cpu) / cases * 1000, (time.perf_counter() - wall) / cases * 1000


async def worker_once(backend: Backend, pair: tuple[Request, Request]) -> None:
    """Load SDKs and open connections before the clock starts, and settle the heap as `serve` does."""
    for _ in range(20):
        for asked in pair:
            await backend.complete(asked)
    settle_heap()


def cpu_s() -> float:
    """User and system time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def floor(url: str, cases: int, at_once: int) -> tuple[float, float]:
    """The same bodies posted by the HTTP library alone: what no client can go below."""
    import httpx2

    from judge_service.backends.schema_variants import by_response_format

    bodies = [
        {
            "model": "m",
            "messages": [{"role": message.role, "content": message.content} for message in asked.ask.messages],
            **by_response_format(asked.ask.constraint, "gbnf").parameters,
        }
        for asked in two_calls()
    ]
    async with httpx2.AsyncClient() as client:
        pending = iter(range(cases))

        async def worker() -> None:
            for _ in pending:
                for body in bodies:
                    (await client.post(f"{url}/chat/completions", json=body)).json()

        cpu, wall = cpu_s(), time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(at_once)))
        return (cpu_s() - cpu) / cases * 1000, (time.perf_counter() - wall) / cases * 1000


async def measure(url: str, cases: int, at_once: int) -> None:
    """Print a row a backend: medians of three rounds."""
    print(f"{'backend':32} {'CPU ms a call':>14} {'CPU ms a case':>14} {'wall ms a case':>15}")
    cpu, wall = (statistics.median(c) for c in zip(*[await floor(url, cases, at_once) for _ in range(3)], strict=True))
    print(f"{'(httpx2 alone)':32} {cpu / 2:14.2f} {cpu:14.2f} {wall:15.2f}")
    for name, (backend_name, options) in JUDGES.items():
        pool = BackendPool(Settings())
        judge = Judge(name="j", backend=backend_name, model="openai/m", options={"base_url": url, **options})
        rounds = [await run(pool.get(judge), cases, at_once) for _ in range(3)]
        cpu, wall = (statistics.median(column) for column in zip(*rounds, strict=True))
        await pool.aclose()
        print(f"{name:32} {cpu / 2:14.2f} {cpu:14.2f} {wall:15.2f}")


def main() -> None:
    """Start the server, measure, stop it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=16)
    chosen = parser.parse_args()
    command = [sys.executable, "-m", "tests.support.fake_provider"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        asyncio.run(measure(url, chosen.cases, chosen.at_once))
        assert server.stdin is not None
        server.stdin.close()


if __name__ == "__main__":
    main()
