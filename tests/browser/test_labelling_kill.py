"""The server dies between two saves: what the page said was saved is there, and what it did not say waits."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
from playwright.sync_api import Browser, expect

from judge_service.annotation.projects import ProjectRequest, open_project
from judge_service.domain.annotation import State
from judge_service.domain.calibration_set import SetCase
from judge_service.domain.case import Case
from judge_service.domain.principal import Role
from judge_service.domain.user import User
from judge_service.security.sessions import PLAIN_COOKIE, new_id, new_session
from judge_service.settings import Settings
from judge_service.store import Store
from judge_service.store.store import utc_now
from tests.browser.desk import LEAD, READY_MS, pairs, position, ready

PROGRAM = "import sys; sys.argv[0] = 'judge-service'; from judge_service.cli.main import main; main()"


@contextlib.contextmanager
def served(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The service as a process of its own; it is killed at the end if it still lives."""
    command = [sys.executable, "-c", PROGRAM, "serve", "--port", str(port)]
    environment = os.environ | {"JUDGE_SERVICE_DATA_DIR": str(folder)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        transport = httpx.HTTPTransport(retries=20)
        with httpx.Client(transport=transport, timeout=60) as client:
            client.get(f"http://127.0.0.1:{port}/healthz").raise_for_status()
        yield process
    finally:
        process.kill()
        process.wait()


def test_killing_the_server_loses_nothing_that_was_said_to_be_saved(tmp_path: Path, browser: Browser) -> None:
    with Store.open(Settings(data_dir=tmp_path).database) as store:
        user = store.users.add(User(id=new_id(), name="Ann", role=Role.ANNOTATE, created_at=utc_now()))
        version = store.sets.create("kill", "pairwise@1")
        store.sets.add_cases(
            version.id, [SetCase(case=Case(id=str(i), input=fields)) for i, fields in enumerate(pairs(6))]
        )
        project = open_project(store, ProjectRequest(name="Kill", set=version.id, annotators=("Ann",)), LEAD)
        session, token = new_session(user_id=user.id, key_id=None, now=utc_now(), absolute=timedelta(hours=1))
        store.users.begin(session)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = browser.new_context(base_url=f"http://127.0.0.1:{port}")
    context.add_cookies([{"name": PLAIN_COOKIE, "value": token, "url": f"http://127.0.0.1:{port}"}])
    page = context.new_page()
    said: list[str] = []
    with served(tmp_path, port) as process:
        page.goto(f"/label/{project.id}")
        for number in range(1, 4):
            ready(page)
            said.append(page.get_attribute("#label-form", "data-case") or "")
            page.keyboard.press("1")
            page.keyboard.press("Enter")
            expect(page.locator("#live")).to_have_text(f"Saved. Case {number + 1} of 6.")
        process.send_signal(signal.SIGKILL)
        process.wait()
        page.wait_for_timeout(READY_MS)
        waiting = page.get_attribute("#label-form", "data-case")
        page.keyboard.press("2")
        page.keyboard.press("Enter")
        expect(page.locator("#message")).to_contain_text("1 label waits on this device.")
    with Store.open(Settings(data_dir=tmp_path).database) as store:
        found = {one.id: one for one in store.assignments.of(project.id) if one.state is State.SAVED}
        assert set(found) == set(said)
        assert len(list(store.labels.of(project.set_id))) == 3
    with served(tmp_path, port):
        expect(page.locator("#position")).to_have_text("Case 5 of 6")
        assert position(page) == "Case 5 of 6"
    with Store.open(Settings(data_dir=tmp_path).database) as store:
        found = {one.id: one for one in store.assignments.of(project.id) if one.state is State.SAVED}
        assert set(found) == {*said, waiting}
        answers = [found[one].answer for one in said]
        assert all(answer is not None and answer["answers"] == {"label": "first"} for answer in answers)
    context.close()
