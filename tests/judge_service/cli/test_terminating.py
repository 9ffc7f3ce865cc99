"""SIGTERM under commands that judge: what was answered is never asked again, even of cases that did not end."""

import asyncio
import os
import signal
import threading
from collections import Counter
from functools import partial

import pytest

from judge_service.cli import running
from judge_service.cli.console import Terminated
from judge_service.cli.terminating import terminable
from tests.judge_service.cli.conftest import CommandLine
from tests.judge_service.cli.test_processes import TIE, interrupted, with_server
from tests.support.fake_provider import FakeProvider, Recorded, Reply, asked
from tests.support.waiting import LONG_ENOUGH_S


def test_begun_cases_end_and_no_call_is_repeated(cli: CommandLine) -> None:
    with FakeProvider(default=TIE) as server:
        out, command = with_server(cli, server)
        code, said = interrupted(cli, server, command, signal.SIGTERM, 40)
        assert code == 143, said
        assert "run the same command again" in said
        assert "Traceback" not in said
        assert not out.exists()
        assert len(server.completions) < 120
        assert cli(*command).exit_code == 0
        assert len(cli.rows()) == 60
        assert set(asked(server.completions).values()) == {1}
        assert len(server.completions) == 120


@pytest.mark.parametrize("fresh", [False, True], ids=["run", "fresh"])
def test_answers_of_cases_that_did_not_end_are_kept(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, fresh: bool
) -> None:
    later = threading.Event()
    free = {"left": 7}

    def answer(_: Recorded) -> Reply:
        # Seven answers, which is at least one case of which one order was answered alone; every further call waits.
        free["left"] -= 1
        # Both slots are held by calls that wait, so that all before them were answered and kept.
        if free["left"] == -2:
            os.kill(os.getpid(), signal.SIGTERM)
        return Reply(TIE.content, hold=None if free["left"] >= 0 else later)

    monkeypatch.setattr(running, "terminable", partial(terminable, grace_s=0.0))
    monkeypatch.setattr("judge_service.app.GRACE_S", 0.0)
    with FakeProvider(default=answer) as server:
        out, command = with_server(cli, server)
        more = ["--fresh"] if fresh else []
        stopped = cli(*command, *more)
        assert stopped.exit_code == 143, stopped.output
        assert not out.exists()
        assert len(server.completions) == 9
        later.set()
        assert cli(*command).exit_code == 0
        assert len(cli.rows()) == 60
        assert Counter(asked(server.completions).values()) == {1: 118, 2: 2}


async def test_work_that_ends_in_time_is_not_cancelled() -> None:
    stop = asyncio.Event()
    async with terminable(stop.set, grace_s=LONG_ENOUGH_S):
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


async def test_work_that_does_not_end_is_cancelled_after_the_grace() -> None:
    async def work() -> None:
        async with terminable(lambda: None, grace_s=0.0):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()

    with pytest.raises(Terminated):
        await work()


async def test_a_timeout_of_the_work_itself_is_passed_on() -> None:
    async def work() -> None:
        async with terminable(lambda: None):
            raise TimeoutError

    with pytest.raises(TimeoutError):
        await work()
