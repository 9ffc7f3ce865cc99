"""Starts, stops and deaths of the whole service."""

import contextlib
import json
import logging
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from judge_service.app import Service, create_app
from judge_service.domain.principal import Role
from judge_service.errors import NewerDatabase
from judge_service.security.keys import issue
from judge_service.settings import Settings
from judge_service.store import Store
from tests.judge_service.api.requests import pair
from tests.support.ports import free_port
from tests.support.waiting import LONG_ENOUGH_S, until

KEY = re.compile(r"jk_[a-z0-9]{12}_[A-Za-z0-9]{40}")
SERVER = """
import sys, uvicorn
from pathlib import Path
from judge_service.app import create_app
from judge_service.settings import Settings
from judge_service.telemetry import configure_logging
configure_logging("DEBUG")
settings = Settings(data_dir=Path(sys.argv[1]), database_url=sys.argv[3] or None)
uvicorn.run(create_app(settings), port=int(sys.argv[2]), log_config=None)
"""


async def test_the_first_start_shows_an_admin_key_once(tmp_path, capsys, caplog):
    settings = Settings(data_dir=tmp_path / "new" / "folder")
    with caplog.at_level(logging.DEBUG):
        app = create_app(settings)
        async with app.router.lifespan_context(app):
            shown = KEY.findall(capsys.readouterr().err)
            assert len(shown) == 1
            transport = httpx.ASGITransport(app=app)
            headers = {"Authorization": f"Bearer {shown[0]}"}
            async with httpx.AsyncClient(transport=transport, base_url="http://t", headers=headers) as client:
                assert (await client.get("/v1/keys")).status_code == 200
        again = create_app(settings)
        async with again.router.lifespan_context(again):
            captured = capsys.readouterr()
    assert KEY.findall(captured.err + captured.out) == []
    assert shown[0].split("_")[2] not in caplog.text
    database = (tmp_path / "new" / "folder" / "judge-service.sqlite3").read_bytes()
    assert shown[0].split("_")[2].encode() not in database


async def test_a_service_of_ones_own_is_used_and_left_open(tmp_path):
    async with Service.open(Settings(data_dir=tmp_path)) as service:
        app = create_app(service=service)
        async with app.router.lifespan_context(app):
            assert app.state.service is service
        assert service.store.keys.all()
    await service.aclose()


async def test_no_key_reaches_a_log_line_of_the_whole_service(connect, caplog, service):
    with caplog.at_level(logging.DEBUG):
        admin = connect(Role.ADMIN)
        made = (await admin.post("/v1/keys", json={"name": "n", "role": "score"})).json()
        user = connect(None)
        user.headers["Authorization"] = f"Bearer {made['key']}"
        await user.post("/v1/judgments", json=pair())
        await user.post("/v1/judgments", json={"key": made["key"]})
        await user.get(f"/v1/judgments/{made['key']}", params={"key": made["key"]})
        await admin.post(f"/v1/keys/{made['id']}/revoke")
        await user.get("/v1/rubrics")
    text = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("httpx"))
    assert made["key"].split("_")[2] not in text
    assert "/v1/judgments" in text


async def test_a_newer_database_is_refused_at_the_start(tmp_path):
    settings = Settings(data_dir=tmp_path)
    Store.open(settings.database).close()
    with contextlib.closing(sqlite3.connect(tmp_path / "judge-service.sqlite3")) as connection:
        (table,) = connection.execute("SELECT name FROM sqlite_master WHERE sql LIKE '%version_num%'").fetchone()
        connection.execute(f"UPDATE {table} SET version_num = 'r9999'")  # noqa: S608 - the database's own table
        connection.commit()
    app = create_app(settings)
    with pytest.raises(NewerDatabase):
        async with app.router.lifespan_context(app):
            pytest.fail("it started")


@contextlib.contextmanager
def process(folder: Path, database_url: str = "") -> Iterator[tuple[subprocess.Popen[str], str]]:
    port = free_port()
    command = [sys.executable, "-c", SERVER, str(folder), str(port), database_url]
    with (folder / "log").open("a") as log, subprocess.Popen(command, stderr=log, text=True) as running:
        try:
            url = f"http://127.0.0.1:{port}"
            until(lambda: up(url), "the service")
            yield running, url
        finally:
            with contextlib.suppress(ProcessLookupError):
                running.kill()


def up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz").status_code == 200
    except httpx.TransportError:
        return False


def test_a_run_survives_a_kill_and_a_stop(tmp_path):
    verdict = json.dumps({"rationale": "so", "verdict": "tie"})
    (tmp_path / "judges.toml").write_text(
        '[judges.slow]\nbackend = "scripted"\nmodel = "slow"\n[judges.slow.limits]\nconcurrency = 4\n'
        f"[judges.slow.options]\ncycle = true\nlatency_ms = 40\nreplies = ['{verdict}']\n"
    )
    key, plain = issue("test", Role.SCORE)
    with Store.open(Settings(data_dir=tmp_path).database) as store:
        store.keys.add(key)
    cases = [pair(f"c{number}")["case"] for number in range(60)]
    with httpx.Client(headers={"Authorization": f"Bearer {plain}"}, timeout=LONG_ENOUGH_S) as client:

        def run(url: str) -> dict:
            return client.get(f"{url}/v1/runs/{run_id}").json()

        with process(tmp_path) as (running, url):
            request = {"rubric": "pairwise@1", "judge": "slow", "cases": cases}
            response = client.post(f"{url}/v1/runs", json=request, headers={"Idempotency-Key": "night"})
            assert response.status_code == 202, response.text
            run_id = response.json()["id"]
            until(lambda: run(url)["progress"]["n_done"] >= 10, "the tenth judgment")
            running.send_signal(signal.SIGKILL)
            running.wait()
        with process(tmp_path) as (running, url):
            until(lambda: run(url)["progress"]["n_done"] >= 25, "the 25th judgment")
            again = client.post(f"{url}/v1/runs", json=request, headers={"Idempotency-Key": "night"})
            assert again.json()["id"] == run_id
            running.send_signal(signal.SIGTERM)
            running.wait(LONG_ENOUGH_S)
        with process(tmp_path) as (_, url):
            until(lambda: run(url)["status"] in ("finished", "failed"), "the end of the run")
            last = run(url)
            rows = client.get(f"{url}/v1/runs/{run_id}/results", headers={"Accept": "application/x-ndjson"})
            assert len(client.get(f"{url}/v1/runs").json()["items"]) == 1
    assert last["status"] == "finished", last
    assert last["progress"]["n_done"] == 60
    found = [json.loads(line) for line in rows.text.splitlines()]
    assert [row["case_id"] for row in found] == [case["id"] for case in cases]
    assert {row["outcome"] for row in found} == {"scored"}
    log = (tmp_path / "log").read_text()
    assert plain.split("_")[2] not in log
