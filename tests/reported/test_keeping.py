"""Faults of other tools in keeping runs, sets and files, by their case ids, over the API and on real databases."""

import asyncio
import csv
import io
import json
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from judge_service.app import Service, create_app
from judge_service.domain.calibration_set import Label, LabelCondition, SetCase
from judge_service.domain.case import Case
from judge_service.domain.principal import Role
from judge_service.security.keys import issue
from judge_service.settings import Settings
from judge_service.store import Store, engine
from tests.judge_service.api.requests import paths
from tests.judge_service.store.examples import NOON, judgment
from tests.reported.judged import served
from tests.support.fake_provider import FakeProvider, Reply
from tests.support.waiting import LONG_ENOUGH_S

COMMAND = "from judge_service.cli.main import main; main()"
GOOD = Reply('{"rationale": "It is right.", "verdict": "A"}')
LINES = {"Content-Type": "application/x-ndjson"}


async def test_case_044_a_cancelled_run_stays_cancelled_and_starts_no_call(
    api: httpx.AsyncClient, service: Service
) -> None:
    hold = threading.Event()
    with FakeProvider([GOOD] * 10, default=replace(GOOD, hold=hold)) as server:
        limits = {"concurrency": 4, "attempts": 1, "timeout_s": 120}
        service.roster.add(served(server.url, limits=limits))
        cases = [
            {"id": f"c{number}", "prompt": f"{number}?", "response_a": "one", "response_b": "two"}
            for number in range(50)
        ]
        body = {"rubric": "pairwise@1", "judge": "served", "cases": cases}
        run_id = (await api.post("/v1/runs", json=body)).json()["id"]
        url = f"/v1/runs/{run_id}"
        # Ten answers are in and the next four calls are in the air.
        await asyncio.to_thread(server.wait_for, 14)
        first = await api.post(f"{url}/cancel")
        assert (first.status_code, first.json()["status"]) == (202, "cancelling")
        again = await api.post(f"{url}/cancel")
        assert (again.status_code, again.json()["status"]) == (202, "cancelling")
        hold.set()
        assert (await service.background.wait(run_id)).status == "cancelled"
        assert len(server.completions) == 14
        ended = (await api.get(url)).json()
        assert (ended["status"], ended["aggregate"]["n_judged"], ended["aggregate"]["n_pending"]) == (
            "cancelled",
            14,
            36,
        )
        late = await api.post(f"{url}/cancel")
        assert (late.status_code, late.json()["status"]) == (202, "cancelled")
    with FakeProvider(default=GOOD) as server:
        service.roster.add(served(server.url).model_copy(update={"name": "other"}))
        body = {"rubric": "pairwise@1", "judge": "other", "cases": cases[:2]}
        done = (await api.post("/v1/runs", json=body)).json()["id"]
        assert (await service.background.wait(done)).status == "finished"
        refused = await api.post(f"/v1/runs/{done}/cancel")
        assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
        assert (await api.get(f"/v1/runs/{done}")).json()["status"] == "finished"


def test_case_048_writers_readers_and_a_second_process_lose_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/judge-service.sqlite3"
    errors: list[BaseException] = []
    with Store.open(url) as store:
        version = store.sets.create("s", "pairwise@1")
        entries = [
            SetCase(case=Case(id=f"c{n}", input={"prompt": "p", "response_a": "a", "response_b": "b"}))
            for n in range(20)
        ]
        store.sets.add_cases(version.id, entries)

        def verdicts(writer: int) -> None:
            for number in range(20):
                store.judgments.record(judgment(f"w-{writer}-{number}"))

        def labels(annotator: int) -> None:
            for number in range(20):
                label = Label(
                    id=f"l-{annotator}-{number}",
                    set_id=version.id,
                    case_id=f"c{number}",
                    rubric="pairwise@1",
                    annotator=f"ann-{annotator}",
                    condition=LabelCondition.BLIND,
                    kind="human",
                    label="A",
                    created_at=NOON,
                )
                store.labels.add(version.id, [label])

        def reports(_: int) -> None:
            for _ in range(20):
                store.runs.list()
                list(store.labels.of(version.id))

        def guarded(work: Any, number: int) -> None:
            try:
                work(number)
            except BaseException as error:
                errors.append(error)

        jobs = [(verdicts, n) for n in range(16)] + [(labels, n) for n in range(10)] + [(reports, n) for n in range(2)]
        threads = [threading.Thread(target=guarded, args=job) for job in jobs]
        for thread in threads:
            thread.start()
        second = subprocess.run(
            [sys.executable, "-c", COMMAND, "keys", "create", "--role", "score", "--database", url],
            capture_output=True,
            text=True,
            timeout=LONG_ENOUGH_S,
            check=False,
        )
        for thread in threads:
            thread.join()
        assert errors == []
        assert second.returncode == 0, second.stderr
        found = [store.judgments.current(f"w-{w}-{n}") for w in range(16) for n in range(20)]
        assert sum(one is not None for one in found) == 320
        assert len(list(store.labels.of(version.id))) == 200
        assert len(store.keys.all()) == 1


async def test_case_048_a_write_beyond_the_limit_is_503_and_is_not_half_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BUSY_TIMEOUT_MS", 50)
    async with Service.open(Settings(data_dir=tmp_path, requests_per_minute=1_000_000)) as service:
        key, plain = issue("lead", Role.LEAD)
        service.store.keys.add(key)
        app = create_app(service=service)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://judge.test") as client,
        ):
            client.headers["Authorization"] = f"Bearer {plain}"
            holder = sqlite3.connect(tmp_path / "judge-service.sqlite3", isolation_level=None)
            holder.execute("BEGIN IMMEDIATE")
            try:
                refused = await client.post("/v1/sets", json={"name": "s"})
            finally:
                holder.execute("ROLLBACK")
                holder.close()
            assert refused.status_code == 503, refused.text
            assert int(refused.headers["retry-after"]) >= 1
            assert "locked" not in refused.text
            assert (await client.get("/v1/sets")).json()["items"] == []
            assert (await client.post("/v1/sets", json={"name": "s"})).status_code == 201


def lines(*rows: dict[str, Any]) -> bytes:
    filled = [{"prompt": "p", "response_a": "a", "response_b": "b", "human_label": "A", **row} for row in rows]
    return "".join(json.dumps(row) + "\n" for row in filled).encode()


async def test_case_050_ids_are_per_set_and_a_row_is_never_overwritten(api: httpx.AsyncClient) -> None:
    for name in ("d1", "d2", "d3"):
        assert (await api.post("/v1/sets", json={"name": name, "rubric": "pairwise@1"})).status_code == 201

    async def load(name: str, *rows: dict[str, Any]) -> httpx.Response:
        return await api.post(f"/v1/sets/{name}@1/cases", content=lines(*rows), headers=LINES)

    async def stored(name: str) -> list[dict[str, Any]]:
        read = await api.get(f"/v1/sets/{name}@1/cases")
        items: list[dict[str, Any]] = [json.loads(line)["case"] for line in read.text.split("\n") if line]
        return items

    first = await load("d1", {"id": "q1", "response_a": "x"}, {"id": "q2", "response_a": "y"})
    assert first.json()["cases"] == {"added": 2, "unchanged": 0, "unjoined": []}
    again = await load("d1", {"id": "q1", "response_a": "x"})
    assert again.json()["cases"] == {"added": 0, "unchanged": 1, "unjoined": []}
    changed = await load("d1", {"id": "q1", "response_a": "CHANGED"})
    assert changed.status_code == 409
    assert [(one["case_id"], one["field"]) for one in changed.json()["differences"]] == [("q1", "response_a")]
    assert len(await stored("d1")) == 2
    assert (await load("d2", {"id": "q1", "response_a": "z"})).json()["cases"]["added"] == 1
    nameless = await load("d1", {"response_a": "no id"}, {"response_a": "no id"})
    assert nameless.json()["cases"]["added"] == 2
    assert len({one["id"] for one in await stored("d1")}) == 4
    doubled = await load("d3", {"id": "k", "response_a": "1"}, {"id": "k", "response_a": "2"})
    assert doubled.status_code == 422
    assert paths(doubled) == ["line 2: id"]
    assert "line 1" in doubled.json()["errors"][0]["message"]
    assert await stored("d3") == []


CELLS = (
    *('=HYPERLINK("https://attacker.example.org","x")', "+1+1", "-7+1", "@SUM(A1)", "\t=1", "\r=1", " =1", "=) smile"),
)


async def test_case_069_a_safe_export_holds_no_formula_and_comes_back_as_it_was(api: httpx.AsyncClient) -> None:
    for name in ("one", "back", "plain"):
        await api.post("/v1/sets", json={"name": name, "rubric": "pairwise@1"})
    rows = [{"id": f"c{n}", "response_a": cell, "note": cell, "seconds": 0.25} for n, cell in enumerate(CELLS)]
    assert (await api.post("/v1/sets/one@1/cases", content=lines(*rows), headers=LINES)).status_code < 300
    safe = (await api.get("/v1/sets/one@1/export", params={"kind": "csv"})).text
    read = list(csv.DictReader(io.StringIO(safe, newline="")))
    assert [row["input.response_a"] for row in read] == [f"'{cell}" for cell in CELLS]
    for row in read:
        for name, cell in row.items():
            assert not (cell or "").lstrip().startswith(("=", "+", "@")), (name, cell)
    plain = (await api.get("/v1/sets/one@1/export", params={"kind": "csv", "lossless": True})).text
    assert [row["input.response_a"] for row in csv.DictReader(io.StringIO(plain, newline=""))] == list(CELLS)
    for name, text in (("back", safe), ("plain", plain)):
        made = await api.post(f"/v1/sets/{name}@1/cases", content=text.encode(), headers={"Content-Type": "text/csv"})
        assert made.status_code < 300, made.text
        lines_of = (await api.get(f"/v1/sets/{name}@1/cases")).text.split("\n")
        assert [json.loads(line)["case"]["input"]["response_a"] for line in lines_of if line] == list(CELLS)
