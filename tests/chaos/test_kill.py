"""SIGKILL at twenty random moments of a run of 400 cases: nothing lost, nothing doubled, hardly anything paid twice."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from judge_service.domain.run import RunStatus
from judge_service.runs.exports import judgments_of
from judge_service.runs.local import LocalRunner
from judge_service.store import Store
from tests.judge_service.store.databases import Postgres

from . import parts

KILLS = 20
ENDS = {0: ("scored", "A"), 1: ("scored", "B"), 2: ("scored", "tie"), 3: ("inconsistent", None)}
UNDISTURBED = [(f"case-{number}", *ENDS[number % 4]) for number in range(parts.N)]


class Children:
    """Zygotes that share one stream of events, and what the stream said so far."""

    def __init__(self, url: str, n: int) -> None:
        self._reader, writer = os.pipe()
        command = [sys.executable, "-m", "tests.chaos.zygote", url, str(writer)]
        self._zygotes = [subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[writer]) for _ in range(n)]
        os.close(writer)
        self._lines = os.fdopen(self._reader, "r")
        self.starts: Counter[tuple[str, str]] = Counter()
        self.flying: dict[int, set[tuple[str, str]]] = {}
        self.running: dict[int, int] = {}
        self.dead: dict[int, int] = {}
        self.ended: list[str] = []

    def start(self, zygote: int, part: str) -> int:
        """Start a child of a zygote and return its process id."""
        stdin = self._zygotes[zygote].stdin
        assert stdin is not None
        stdin.write(f"{part}\n".encode())
        stdin.flush()
        known = set(self.flying)
        while not (new := set(self.flying) - known):
            self.read()
        pid = new.pop()
        self.running[zygote] = pid
        return pid

    def kill(self, zygote: int) -> int:
        """Kill a zygote's child with SIGKILL; how many of its calls were in flight."""
        pid = self.running[zygote]
        os.kill(pid, signal.SIGKILL)
        while pid not in self.dead:
            self.read()
        return len(self.flying[pid])

    def read(self) -> None:
        """Take one event."""
        kind, pid, *rest = self._lines.readline().split()
        process = int(pid)
        if kind == "P":
            self.flying[process] = set()
        elif kind == "S":
            self.starts[rest[0], rest[1]] += 1
            self.flying[process].add((rest[0], rest[1]))
        elif kind == "E":
            self.flying[process].remove((rest[0], rest[1]))
        elif kind == "F":
            self.ended.append(rest[0])
        else:
            self.dead[process] = int(rest[0])

    @property
    def calls(self) -> int:
        return self.starts.total()

    def close(self) -> None:
        for zygote, process in enumerate(self._zygotes):
            pid = self.running.get(zygote)
            if pid is not None and pid not in self.dead:
                os.kill(pid, signal.SIGKILL)
            assert process.stdin is not None
            process.stdin.close()
            process.wait()
        self._lines.close()


@contextmanager
def children(url: str, n: int) -> Iterator[Children]:
    made = Children(url, n)
    try:
        yield made
    finally:
        made.close()


def moments(seed: int) -> list[int]:
    """Numbers of started calls at which to kill, over the whole run."""
    return sorted(random.Random(seed).sample(range(2 * parts.N), KILLS))


def table(store: Store) -> list[tuple[str, str, str | None]]:
    return [(one.case_id, one.outcome.value, one.label) for one in judgments_of(store, "r")]


def recorded_once(store: Store) -> bool:
    return all(len(store.judgments.history(one.identity)) == 1 for one in judgments_of(store, "r"))


@pytest.mark.parametrize("seed", [20261130])
def test_one_process_killed_twenty_times(database_url: str, seed: int) -> None:
    with children(database_url, 1) as events:
        for moment in moments(seed):
            before = events.calls - len(events.starts)
            pid = events.start(0, "alone")
            while events.calls < moment + before and pid not in events.dead:
                events.read()
            events.kill(0)
            # Paid twice is at most what held a slot at some kill.
            assert events.calls - len(events.starts) <= before + parts.CONCURRENCY
        pid = events.start(0, "alone")
        while pid not in events.dead:
            events.read()
        assert events.dead[pid] == 0
        repeated, calls = events.calls - len(events.starts), events.calls
        assert len(events.starts) == 2 * parts.N
        assert repeated <= KILLS * parts.CONCURRENCY
        again = events.start(0, "alone")
        while again not in events.dead:
            events.read()
        assert events.calls == calls
    with Store.open(database_url) as store:
        assert table(store) == UNDISTURBED
        assert recorded_once(store)
        run = store.runs.get("r")
        assert run is not None
        assert run.status is RunStatus.FINISHED


@pytest.mark.parametrize("seed", [42])
async def test_three_workers_of_which_one_is_killed_twenty_times(postgres: Postgres, seed: int) -> None:
    url = postgres.fresh()
    draw = random.Random(seed)
    with Store.open(url) as store, children(url, 3) as events:
        for zygote in range(3):
            events.start(zygote, "worker")
        runner = LocalRunner(store, parts.core(store, 1))
        run = await runner.plan(parts.cases(), parts.RUBRIC, parts.JUDGE, run_id="r")
        await parts.fleet(store, 1).offer(run)
        for moment in moments(seed):
            while len(events.starts) < moment and not events.ended:
                events.read()
            before = events.calls - len(events.starts)
            zygote = draw.randrange(3)
            events.kill(zygote)
            events.start(zygote, "worker")
            assert events.calls - len(events.starts) <= before + parts.CONCURRENCY
        while not events.ended:
            events.read()
        assert set(events.ended) == {"finished"}
        assert len(events.starts) == 2 * parts.N
        assert events.calls - len(events.starts) <= KILLS * parts.CONCURRENCY
        assert table(store) == UNDISTURBED
        assert recorded_once(store)
        calls = events.calls
        resumed = await LocalRunner(store, parts.core(store, 1)).resume("r", parts.RUBRIC, retry_errors=False)
        assert resumed.status is RunStatus.FINISHED
        assert events.calls == calls
    postgres.drop(url)
