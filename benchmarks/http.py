"""Single judgments over HTTP: keys, validation and recorded judgments, a scripted judge at zero latency.

The service runs on loopback, in one process and in two. Every request is a new case, so that every answer is judged,
kept and recorded. Prints judgments a second and the latency's percentiles by number of connections.

    python -m benchmarks.http
    python -m benchmarks.http --processes 2 --connections 1 16 --seconds 5
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

FILL = "It depends on the contract and the date of delivery. " * 4
REPLY = '{"rationale":"Both say the same.","verdict":"tie"}'
JUDGES = f"""
[judges.instant]
backend = "scripted"
order_policy = "single_ab"
options = {{ replies = ['{REPLY}'], cycle = true }}
limits = {{ concurrency = 64 }}
"""


def request(number: int, key: str, port: int) -> bytes:
    """A POST of one new case, as it goes over the wire."""
    case = {"id": f"case-{number}", "prompt": f"Question {number}?", "response_a": FILL, "response_b": "B"}
    body = json.dumps({"rubric": "pairwise@1", "judge": "instant", "case": case}).encode()
    head = (
        f"POST /v1/judgments HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def client(port: int, key: str, first: int, until: float, took: list[float]) -> None:
    """One connection that asks again as soon as it was answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    number = first
    while time.perf_counter() < until:
        content = request(number, key, port)
        number += 1
        started = time.perf_counter()
        writer.write(content)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 201"), head
        length = next(
            int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
        )
        await reader.readexactly(length)
        took.append(time.perf_counter() - started)
    writer.close()


async def load(port: int, key: str, connections: int, seconds: float, first: int) -> list[float]:
    """Latencies in seconds of what `connections` clients got within `seconds`."""
    took: list[float] = []
    until = time.perf_counter() + seconds
    await asyncio.gather(
        *(client(port, key, first + number * 10_000_000, until, took) for number in range(connections))
    )
    return took


def measure(processes: int, numbers: list[int], seconds: float) -> None:
    """Print a line a number of connections, on a fresh database."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = [sys.executable, "-c", "from judge_service.cli.main import main; main()"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "judges.toml").write_text(JUDGES)
        settings = {
            "JUDGE_SERVICE_DATA_DIR": folder,
            "JUDGE_SERVICE_PROCESSES": str(processes),
            "JUDGE_SERVICE_REQUESTS_PER_MINUTE": "100000000",
            "JUDGE_SERVICE_LOG_LEVEL": "WARNING",
        }
        made = subprocess.run(
            [*program, "keys", "create", "--role", "score"],
            env=os.environ | settings,
            check=True,
            capture_output=True,
            text=True,
        )
        key = next(word for word in made.stdout.split() if word.startswith("jk_"))
        server = subprocess.Popen([*program, "serve", "--port", str(port)], env=os.environ | settings)
        try:
            # The client's own retries wait until the port takes connections.
            with httpx.Client(transport=httpx.HTTPTransport(retries=8)) as client:
                client.get(f"http://127.0.0.1:{port}/healthz", timeout=60).raise_for_status()
            # Warm, and as long as the other processes take to be there.
            asyncio.run(load(port, key, 16, 2.0, 1_000_000_000))
            for round_, connections in enumerate(numbers, start=2):
                took = sorted(asyncio.run(load(port, key, connections, seconds, round_ * 1_000_000_000)))
                p50, p99 = took[len(took) // 2] * 1000, took[int(len(took) * 0.99)] * 1000
                rate = len(took) / seconds
                print(
                    f"{processes:>10}{connections:>13}{rate:>12.0f}{p50:>9.2f}{p99:>9.2f}{took[-1] * 1000:>9.1f}",
                    flush=True,
                )
        finally:
            server.terminate()
            server.wait()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--connections", type=int, nargs="*", default=[1, 16, 64])
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    print(f"{'processes':>10}{'connections':>13}{'per second':>12}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}", flush=True)
    for processes in given.processes:
        measure(processes, given.connections, given.seconds)


if __name__ == "__main__":
    main()
