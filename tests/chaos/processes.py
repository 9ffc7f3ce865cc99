"""The command as processes on one PostgreSQL, with a judge behind a server that counts what it is asked.

The processes are forked from one that has imported everything, so that each starts in a moment.
"""

import asyncio
import json
import multiprocessing
import os
import sys
from collections.abc import Mapping
from functools import partialmethod
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from judge_service.domain.judge import Judge
from judge_service.judging.roster import Roster
from judge_service.settings import Settings
from tests.support.fake_provider import FakeProvider, Reply
from tests.support.waiting import LONG_ENOUGH_S

TIE = json.dumps({"rationale": "The same.", "verdict": "tie"})
FOR_EVER_S = 3600.0
"""A heartbeat that nobody waits for: what is taken over then was given back."""
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(
    ["pytest", "openai", "pgqueuer.qm", "judge_service.app", "judge_service.cli.main", "judge_service.store.migrate"]
)


def command(arguments: list[str], environment: Mapping[str, str], heartbeat_s: float, log: Path) -> None:
    """Be the command, with standard error in a file."""
    os.environ.update(environment)
    with log.open("w") as file:
        os.dup2(file.fileno(), 2)
    from judge_service.cli.main import main
    from judge_service.store import Store

    Store.queue = partialmethod(Store.queue, heartbeat_s=heartbeat_s)  # type: ignore[method-assign,assignment]
    sys.argv = ["judge-service", *arguments]
    main()


class Installation:
    """One database, one judges file and the processes on them; they are killed with it."""

    def __init__(
        self, folder: Path, url: str, server: FakeProvider, *, concurrency: int = 4, limits: str = "", **more: str
    ) -> None:
        self.folder = folder
        judges = folder / "judges.toml"
        judges.write_text(
            f'[judges.server]\nbackend = "openai"\nmodel = "m"\noptions = {{ base_url = "{server.url}" }}\n'
            f"limits = {{ concurrency = {concurrency}{limits} }}\n"
        )
        self._environment = {
            "JUDGE_SERVICE_DATABASE_URL": url,
            "JUDGE_SERVICE_DATA_DIR": str(folder / "data"),
            "JUDGE_SERVICE_JUDGES_FILE": str(judges),
            "JUDGE_SERVICE_FENCE_KEY": "chaos",
            **more,
        }
        self._processes: list[BaseProcess] = []

    def settings(self, **more: Any) -> Settings:
        """The same installation in this process."""
        named = {name.removeprefix("JUDGE_SERVICE_").lower(): value for name, value in self._environment.items()}
        return Settings.model_validate({**named, **more})

    def judge(self) -> Judge:
        """The judge behind the server."""
        return Roster.load(self.settings()).get("server")

    def start(self, *arguments: object, heartbeat_s: float = FOR_EVER_S) -> BaseProcess:
        """Start the command as a process."""
        log = self.folder / f"log-{len(self._processes)}"
        process = _forks.Process(
            target=command, args=([*map(str, arguments)], self._environment, heartbeat_s, log), name=log.name
        )
        process.start()
        self._processes.append(process)
        return process

    def said(self, process: BaseProcess) -> str:
        """What a process has written to standard error."""
        return (self.folder / process.name).read_text()

    def close(self) -> None:
        """Kill what still runs."""
        for process in self._processes:
            process.kill()
            process.join()
            process.close()


async def ended(process: BaseProcess) -> int | None:
    """Wait for a process to end; its exit code."""
    await asyncio.to_thread(process.join, LONG_ENOUGH_S)
    return process.exitcode


def tie(delay_s: float = 0.02) -> Reply:
    """An answer after a while."""
    return Reply(TIE, delay_s=delay_s)
