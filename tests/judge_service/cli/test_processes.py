"""The installed command as a process: killed in the middle, stopped by hand, and serving."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.judge_service.cli.conftest import CommandLine
from tests.support.fake_provider import FakeProvider, Reply, held_after
from tests.support.ports import free_port
from tests.support.waiting import LONG_ENOUGH_S, until

TIE = Reply(json.dumps({"rationale": "The same.", "verdict": "tie"}), delay_s=0.02)
COMMAND = [sys.executable, "-c", "from judge_service.cli.main import main; main()"]


def start(cli: CommandLine, *arguments: object, **options: Any) -> "subprocess.Popen[str]":
    environment = {**os.environ, **{k: v for k, v in cli.environment.items() if v is not None}}
    return subprocess.Popen([*COMMAND, *map(str, arguments)], env=environment, text=True, **options)


def interrupted(
    cli: CommandLine, server: FakeProvider, command: list[object], number: signal.Signals, after: int
) -> tuple[int, str]:
    """Start the command and send it a signal after so many calls; its exit code and what it said.

    Further calls are answered when the signal was sent.
    """
    later = threading.Event()
    server.default = held_after(after, later, TIE)
    process = start(cli, *command, stderr=subprocess.PIPE)
    server.wait_for(after + 2)
    process.send_signal(number)
    later.set()
    _, said = process.communicate(timeout=LONG_ENOUGH_S)
    return process.returncode, said


def with_server(cli: CommandLine, server: FakeProvider) -> tuple[Path, list[object]]:
    cli.judges(
        f'[judges.server]\nbackend = "openai"\nmodel = "m"\noptions = {{ base_url = "{server.url}" }}\n'
        "limits = { concurrency = 2 }\n"
    )
    out = cli.folder / "out.jsonl"
    return out, ["judge", "pairwise", cli.pairs(60), "--judge", "server", "-o", out]


def test_killed_in_the_middle_the_same_command_goes_on(cli: CommandLine) -> None:
    with FakeProvider(default=TIE) as server:
        out, command = with_server(cli, server)
        interrupted(cli, server, command, signal.SIGKILL, 40)
        assert not out.exists()
        asked = len(server.completions)
        assert asked < 120
        done = cli(*command)
        assert done.exit_code == 0, done.output
        rows = cli.rows()
        assert [row["case_id"] for row in rows] == [f"p{i}" for i in range(60)]
        assert {row["label"] for row in rows} == {"tie"}
        # What flew when the process died may be asked once more; nothing else.
        assert len(server.completions) <= 120 + 2
        again = len(server.completions)
        assert cli(*command).exit_code == 0
        assert len(server.completions) == again


@pytest.fixture
def from_a_terminal() -> Iterator[None]:
    """Processes meet SIGINT as from a terminal, also where the tests run in the background and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("from_a_terminal")
def test_stopped_by_hand_it_says_so_and_keeps_what_it_has(cli: CommandLine) -> None:
    with FakeProvider(default=TIE) as server:
        out, command = with_server(cli, server)
        code, said = interrupted(cli, server, command, signal.SIGINT, 10)
        assert code == 130, said
        assert "run the same command again" in said
        assert "Traceback" not in said
        assert not out.exists()
        assert cli(*command).exit_code == 0
        assert len(cli.rows()) == 60


def get(url: str, key: str | None = None) -> tuple[int, Any]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=LONG_ENOUGH_S) as response:  # noqa: S310
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
    except OSError:
        return 0, None


def test_serve_makes_a_first_key_and_answers_without_a_model(cli: CommandLine) -> None:
    port = free_port()
    log = cli.folder / "log"
    with log.open("w") as file:
        process = start(cli, "serve", "--port", port, stderr=file)
    try:
        until(lambda: get(f"http://127.0.0.1:{port}/healthz")[0] == 200, "the service")
        key = re.search(r"jk_\w+", log.read_text())
        assert key is not None
        assert get(f"http://127.0.0.1:{port}/v1/judges")[0] == 401
        status, listed = get(f"http://127.0.0.1:{port}/v1/judges", key[0])
        assert status == 200
        assert "overlap" in {judge["name"] for judge in listed["items"]}
        assert get(f"http://127.0.0.1:{port}/readyz")[1]["status"] == "degraded"
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=LONG_ENOUGH_S) in (0, -signal.SIGTERM, 143)


@pytest.mark.parametrize("command", [["judges", "list"], ["rubrics", "list", "--json"]], ids=" ".join)
def test_the_installed_command_works(cli: CommandLine, command: list[str]) -> None:
    process = start(cli, *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=LONG_ENOUGH_S)
    assert process.returncode == 0, err
    assert out
    assert err == ""
