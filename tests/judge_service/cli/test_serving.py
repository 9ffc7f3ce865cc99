"""`serve` as several processes on one port: what they share, and what is left when one of them dies."""

import json
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.config import STARTUP_FAILURE

from judge_service.cli.console import FAILED
from judge_service.cli.serving import started_again
from judge_service.domain.outcome import Outcome
from judge_service.domain.run import RunStatus
from judge_service.settings import Settings
from judge_service.store import Store
from tests.judge_service.cli.conftest import CommandLine
from tests.judge_service.cli.test_processes import TIE, start
from tests.support.fake_provider import FakeProvider, Recorded, Reply, asked, held_after
from tests.support.ports import free_port
from tests.support.waiting import LONG_ENOUGH_S, until


def serving(parent: int) -> list[int]:
    """The processes that answer for `parent`."""
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in found if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]


def there(pid: int) -> bool:
    """False for a process that has ended, also where nobody waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@dataclass
class Group:
    """Two processes, the one that started them, and an admin's key."""

    started: "subprocess.Popen[str]"
    url: str
    key: str

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def client(self) -> httpx.Client:
        """A client with the key that makes a connection for each request."""
        return httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {self.key}", "Connection": "close"},
            timeout=LONG_ENOUGH_S,
        )


@contextmanager
def two_processes(cli: CommandLine, *, before: Callable[[str], None] | None = None) -> Iterator[Group]:
    """Both started and one of them answers; `before` is told what they log until then, at times."""
    port, log = free_port(), cli.folder / "log"
    url = f"http://127.0.0.1:{port}"
    with log.open("w") as file:
        started = start(cli, "serve", "--port", port, "--processes", 2, stderr=file)

    def answers() -> bool:
        assert started.poll() is None, log.read_text()
        if before is not None:
            before(log.read_text())
        try:
            return httpx.get(f"{url}/healthz").is_success
        except httpx.TransportError:
            return False

    try:
        until(answers, "the service")
        until(lambda: "jk_" in log.read_text(), "the first key")
        keys = re.findall(r"jk_\w+", log.read_text())
        assert len(keys) == 1
        yield Group(started, url, keys[0])
    finally:
        pids = serving(started.pid) if started.poll() is None else []
        started.send_signal(signal.SIGTERM)
        assert started.wait(timeout=LONG_ENOUGH_S) in (0, -signal.SIGKILL), log.read_text()
        assert not any(there(pid) for pid in pids)


def behind(cli: CommandLine, server: FakeProvider, limits: str) -> None:
    cli.judges(
        f'[judges.server]\nbackend = "openai"\nmodel = "m"\norder_policy = "single_ab"\n'
        f'options = {{ base_url = "{server.url}" }}\nlimits = {{ {limits} }}\n'
    )


def store(cli: CommandLine) -> Store:
    return Store.open(Settings(data_dir=cli.folder / "data").database)


def case(number: int) -> dict[str, Any]:
    return {"id": f"p{number}", "prompt": f"Question {number}?", "response_a": "Yes, it is.", "response_b": "No."}


def sockets(pid: int) -> int:
    """How many sockets a process has open."""
    links = [entry.readlink() for entry in Path(f"/proc/{pid}/fd").iterdir()]
    return sum(str(link).startswith("socket:") for link in links)


def listening(port: int) -> int:
    """How many sockets listen on a port of 127.0.0.1."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)


def test_connections_that_come_together_are_shared_out(cli: CommandLine) -> None:
    with two_processes(cli) as group:
        address = ("127.0.0.1", group.port)
        until(lambda: listening(address[1]) == 2, "both listen")
        pids = serving(group.started.pid)
        before = {pid: sockets(pid) for pid in pids}
        with ExitStack() as held:
            for _ in range(64):
                held.enter_context(socket.create_connection(address))
            until(lambda: sum(sockets(pid) - before[pid] for pid in pids) == 64, "64 connections")
            # Fewer than ten of 64 by chance: once in a hundred million.
            assert min(sockets(pid) - before[pid] for pid in pids) >= 10


def ended(client: httpx.Client, run_id: str) -> bool:
    """Whether a run has ended; not, where the process that was asked dies meanwhile."""
    try:
        answer = client.get(f"/v1/runs/{run_id}")
    except httpx.TransportError:
        return False
    return RunStatus(answer.json()["status"]).ended


def test_a_killed_process_is_replaced_and_its_run_goes_on(cli: CommandLine) -> None:
    later = threading.Event()
    with FakeProvider(default=held_after(20, later, TIE)) as server:
        behind(cli, server, "concurrency = 2")
        with two_processes(cli) as group, group.client as client, store(cli) as opened:
            wanted = {"rubric": "pairwise@1", "judge": "server", "cases": [case(number) for number in range(60)]}
            answer = client.post("/v1/runs", json=wanted)
            assert answer.status_code == 202, answer.text
            run_id = answer.json()["id"]
            server.wait_for(22)
            run = opened.runs.get(run_id)
            assert run is not None
            assert run.worker is not None
            worker = int(run.worker.split("|")[1])
            before = serving(group.started.pid)
            assert worker in before
            os.kill(worker, signal.SIGKILL)
            later.set()

            until(lambda: ended(client, run_id), "the end of the run")
            after = serving(group.started.pid)
            assert len(after) == 2
            assert worker not in after
            assert [(count.outcome, count.n) for count in opened.runs.counts(run_id)] == [(Outcome.SCORED, 60)]
            assert {one.rule for one in opened.verify() if one.n_broken} == set()
        assert len(server.completions) <= 60 + 2
        assert set(asked(server.completions).values()) <= {1, 2}


def test_replaced_one_by_one_they_leave_no_run_behind(cli: CommandLine) -> None:
    later = threading.Event()
    with FakeProvider(default=held_after(20, later, TIE)) as server:
        behind(cli, server, "concurrency = 4")
        with two_processes(cli) as group, group.client as client, store(cli) as opened:
            runs = []
            # Until both work on one.
            while len({run.worker for run in map(opened.runs.get, runs) if run is not None}) < 2:
                numbers = range(20 * len(runs), 20 * len(runs) + 20)
                cases = [case(number) for number in numbers]
                answer = client.post("/v1/runs", json={"rubric": "pairwise@1", "judge": "server", "cases": cases})
                assert answer.status_code == 202, answer.text
                runs.append(answer.json()["id"])
                assert len(runs) < 40
            server.wait_for(21)
            before = serving(group.started.pid)
            group.started.send_signal(signal.SIGHUP)
            later.set()
            until(lambda: not set(before) & set(serving(group.started.pid)), "the replacement of both")
            until(lambda: all(ended(client, run_id) for run_id in runs), "the end of the runs")
            for run_id in runs:
                assert [(count.outcome, count.n) for count in opened.runs.counts(run_id)] == [(Outcome.SCORED, 20)]


def test_one_that_cannot_start_again_does_not_stop_the_other(cli: CommandLine) -> None:
    with FakeProvider(default=TIE) as server:
        behind(cli, server, "concurrency = 4")
        judges = cli.folder / "data" / "judges.toml"
        good = judges.read_text()
        with two_processes(cli) as group, group.client as client:
            # One that still starts would be another that cannot.
            until(lambda: listening(group.port) == 2, "both listen")
            judges.write_text(good + "[judges.broken\n")
            stays, dies = serving(group.started.pid)
            os.kill(dies, signal.SIGKILL)
            log = cli.folder / "log"
            until(lambda: "cannot start, and is tried again" in log.read_text(), "the attempt")
            assert stays in serving(group.started.pid)
            assert client.get("/healthz").is_success
            judges.write_text(good)
            until(lambda: listening(group.port) == 2, "both listen again")
            assert client.get("/healthz").is_success


def test_those_that_cannot_start_at_first_are_started_until_they_can(cli: CommandLine) -> None:
    with FakeProvider(default=TIE) as server:
        behind(cli, server, "concurrency = 4")
        judges = cli.folder / "data" / "judges.toml"
        good = judges.read_text()

        def broken_between(logged: str) -> None:
            """After the command saw that all can start, and before its processes do."""
            if logged.count("cannot start, and is tried again") > 2:
                judges.write_text(good)
            elif "Started parent process" in logged:
                judges.write_text(good + "[judges.broken\n")

        with two_processes(cli, before=broken_between) as group, group.client as client:
            until(lambda: listening(group.port) == 2, "both listen")
            assert client.get("/healthz").is_success
        logged = (cli.folder / "log").read_text()
        assert "Expected ']'" in logged
        assert "Traceback" not in logged


def serve_what_cannot_start() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "told"})
        raise RuntimeError("of no known kind")

    uvicorn.run(started_again(app), port=0, log_config=None)


def test_what_fails_in_no_known_way_is_started_again_too(capfd: pytest.CaptureFixture[str]) -> None:
    process = multiprocessing.get_context("spawn").Process(target=serve_what_cannot_start)
    process.start()
    process.join(LONG_ENOUGH_S)
    assert process.exitcode == FAILED
    assert FAILED != STARTUP_FAILURE
    said = capfd.readouterr().err
    assert "cannot start, and is tried again" in said
    assert "of no known kind" in said


def test_killed_with_its_parent_gone_nobody_keeps_the_port(cli: CommandLine) -> None:
    with two_processes(cli) as group:
        pids = serving(group.started.pid)
        assert len(pids) == 2
        group.started.kill()
        group.started.wait(timeout=LONG_ENOUGH_S)
        until(lambda: not any(there(pid) for pid in pids), "the end of its processes")
        with socket.create_server(("127.0.0.1", group.port)):
            pass


def test_an_address_in_use_ends_it_with_a_sentence(cli: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = start(cli, "serve", "--port", taken.getsockname()[1], "--processes", 2, stderr=subprocess.PIPE)
        _, said = process.communicate(timeout=LONG_ENOUGH_S)
    assert process.returncode == 1
    assert "address already in use" in said.lower()
    assert "Traceback" not in said


def test_a_port_that_others_answer_on_is_in_use(cli: CommandLine) -> None:
    with two_processes(cli) as group:
        command = ["serve", "--port", group.port, "--processes", 2]
        second = start(cli, *command, stderr=subprocess.PIPE)
        _, said = second.communicate(timeout=LONG_ENOUGH_S)
    assert second.returncode == 1
    assert "address already in use" in said.lower()


@pytest.mark.parametrize("processes", ["0", "65", "two"])
def test_a_number_that_cannot_be_is_refused(cli: CommandLine, processes: str) -> None:
    assert cli("serve", "--processes", processes).exit_code == 2


def ask_by_threads(group: Group, judge: str, numbers: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """Have a thread a sequence judge its cases, each over a connection of its own; the judgments."""

    def ask(cases: Sequence[int]) -> list[dict[str, Any]]:
        with group.client as client:
            wanted = [{"rubric": "pairwise@1", "judge": judge, "case": case(number)} for number in cases]
            answers = [client.post("/v1/judgments", json=one) for one in wanted]
        assert {answer.status_code for answer in answers} <= {200, 201}
        return [answer.json() for answer in answers]

    with ThreadPoolExecutor(len(numbers)) as pool:
        return [judgment for judgments in pool.map(ask, numbers) for judgment in judgments]


def test_the_same_work_is_one_judgment_whichever_of_them_is_asked(cli: CommandLine) -> None:
    reply = json.dumps({"rationale": "The same.", "verdict": "tie"})
    cli.judges(
        '[judges.instant]\nbackend = "scripted"\norder_policy = "single_ab"\n'
        f"options = {{ replies = ['{reply}'], cycle = true }}\n"
    )
    with two_processes(cli) as group, store(cli) as opened:
        # Each case is asked for by two threads at about the same time.
        judgments = ask_by_threads(group, "instant", [range(first, first + 40) for first in (0, 20, 40, 60, 80, 0)])
        assert len({judgment["case_id"] for judgment in judgments}) == 120
        assert len({judgment["id"] for judgment in judgments}) == 120
        assert {one.rule for one in opened.verify() if one.n_broken} == set()


@pytest.mark.parametrize("concurrency", [1, 3])
def test_calls_of_both_stay_within_the_judges_limit_and_nobody_starves(cli: CommandLine, concurrency: int) -> None:
    at_once: list[int] = []

    def answer(_: Recorded) -> Reply:
        at_once.append(server.open_requests + 1)
        return TIE

    with FakeProvider(default=answer) as server:
        behind(cli, server, f"concurrency = {concurrency}")
        with two_processes(cli) as group:
            judgments = ask_by_threads(group, "server", [range(first, first + 10) for first in range(0, 80, 10)])
        assert {judgment["outcome"] for judgment in judgments} == {"scored"}
        assert len(server.completions) == 80
        assert max(at_once) <= concurrency
