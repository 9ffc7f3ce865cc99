import asyncio
import csv
import io
import json
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from judge_service.api.cases import cases_in
from judge_service.app import create_app
from judge_service.backends.scripted import ScriptedBackend
from judge_service.domain.calibration_set import SetCase, Split
from judge_service.domain.judge import Judge, Limits
from judge_service.domain.run import PlannedCase, Run, RunStatus
from judge_service.store.store import utc_now
from rubrics.registry import get_rubric
from tests.judge_service.api.requests import pair, paths

LINES = {"Content-Type": "application/x-ndjson"}


def cases(n: int) -> list[dict[str, Any]]:
    return [pair(f"c{number}")["case"] for number in range(n)]


def inline(n: int = 3, **changes: Any) -> dict[str, Any]:
    return {"rubric": "pairwise@1", "judge": "longer", "cases": cases(n)} | changes


def lines(n: int = 3) -> str:
    return "".join(json.dumps(case) + "\n" for case in cases(n))


async def ended(client, service, run_id: str) -> dict[str, Any]:
    await service.background.wait(run_id)
    response = await client.get(f"/v1/runs/{run_id}")
    assert response.status_code == 200
    body = response.json()
    assert RunStatus(body["status"]).ended, body
    return body


async def start(client, request: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    response = await client.post("/v1/runs", json=request or inline(), **options)
    assert response.status_code == 202, response.text
    assert response.headers["location"] == f"/v1/runs/{response.json()['id']}"
    return response.json()


async def test_a_run_of_own_cases_cannot_pass_for_a_run_over_a_calibration_set(client, service):
    inline_one = await client.post("/v1/runs", json=inline(1, source="set:pairs@1"))
    query = {"rubric": "pairwise@1", "judge": "longer", "source": "set:pairs@1"}
    as_lines = await client.post("/v1/runs", params=query, content=lines(1), headers=LINES)
    named = {"file": ("set:pairs@1", lines(1).encode(), "application/x-ndjson")}
    as_form = await client.post("/v1/runs", data={"rubric": "pairwise@1", "judge": "longer"}, files=named)
    for response in (inline_one, as_lines, as_form):
        assert response.status_code == 422, response.text
        assert paths(response) == ["source"]
    assert service.store.runs.of_source("set:pairs@1") == []


async def test_a_run_with_inline_cases_is_judged_and_counted(client, service):
    started = await start(client, inline(3, source="nightly"))
    assert started["progress"]["n_total"] == 3
    run = await ended(client, service, started["id"])
    assert (run["status"], run["source"], run["rubric"], run["judge"]) == (
        "finished",
        "nightly",
        "pairwise@1",
        "longer",
    )
    assert run["progress"]["n_done"] == 3
    numbers = run["aggregate"]
    assert (numbers["n_total"], numbers["n_scored"], numbers["coverage"]) == (3, 3, 1.0)
    assert numbers["labels"] == {"A": 3, "B": 0, "tie": 0}
    assert numbers["mean_score"]["value"] == 1.0
    assert numbers["pairs"]["win_rate_a"] == 1.0


async def test_a_jsonl_body_starts_the_same_run(client, service):
    query = {"rubric": "pairwise", "judge": "longer", "source": "f.jsonl"}
    response = await client.post("/v1/runs", params=query, content=lines(), headers=LINES)
    assert response.status_code == 202, response.text
    run = await ended(client, service, response.json()["id"])
    assert (run["status"], run["rubric"], run["source"]) == ("finished", "pairwise@1", "f.jsonl")
    assert run["aggregate"]["n_scored"] == 3


async def test_a_form_with_a_file_starts_the_same_run(client, service):
    form = {"rubric": "pairwise@1", "judge": "longer"}
    response = await client.post("/v1/runs", data=form, files={"file": ("pairs.jsonl", lines().encode())})
    assert response.status_code == 202, response.text
    run = await ended(client, service, response.json()["id"])
    assert (run["status"], run["source"], run["aggregate"]["n_scored"]) == ("finished", "pairs.jsonl", 3)


async def test_unknown_fields_of_a_file_are_refused_or_kept_as_asked(client, service):
    content = json.dumps(pair()["case"] | {"topic": "kitchen", "spans": [1]})
    query = {"rubric": "pairwise", "judge": "longer"}
    refused = await client.post("/v1/runs", params=query, content=content, headers=LINES)
    assert refused.status_code == 422
    assert "line 1: topic" in paths(refused)
    kept = await client.post("/v1/runs", params=query | {"unknown_fields": "keep"}, content=content, headers=LINES)
    assert kept.status_code == 202
    assert any("topic" in notice for notice in kept.json()["notices"])
    assert any("spans" in notice for notice in kept.json()["notices"])
    await ended(client, service, kept.json()["id"])
    results = (await client.get(f"/v1/runs/{kept.json()['id']}/results")).json()
    assert results["items"][0]["metadata"] == {"topic": "kitchen"}


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"cases": []}, "cases"),
        ({"cases": None}, "cases"),
        ({"cases": "all"}, "cases"),
        ({"cases": [1]}, "cases[0]"),
        ({"cases": [pair("a")["case"], {"id": "b", "prompt": "x"}]}, "cases[1].response_a"),
        ({"cases": [pair("a")["case"], pair("b")["case"], pair("a")["case"]]}, "cases[2].id"),
        ({"cases": [pair("a", extra=1)["case"]]}, "cases[0].extra"),
        ({"rubric": "nothing"}, "rubric"),
        ({"judge": "nobody"}, "judge"),
        ({"judge": 3}, "judge"),
        ({"source": "x" * 201}, "source"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_a_bad_field_refuses_the_run_and_nothing_is_stored(client, changes, path):
    response = await client.post("/v1/runs", json=inline() | changes)
    assert response.status_code == 422, response.text
    assert path in paths(response)
    assert (await client.get("/v1/runs")).json() == {"items": [], "next_cursor": None}


@pytest.mark.parametrize(
    ("content", "path"),
    [
        (b"", "file"),
        (b"\n \n", "file"),
        (b"{", "line 1"),
        (b"[]", "line 1"),
        (lines(1).encode() + b'{"id": "x", "prompt": NaN}', "line 2"),
        (lines(1).encode() + lines(1).encode(), "line 2: id"),
        (b'{"id": "a", "id": "b"}', "line 1: id"),
        (b"\xff\xfe", "line 1"),
        (b'{"id": "a", "prompt": "\\ud800", "response_a": "x", "response_b": "y"}', "line 1"),
        (b"[" * 5000, "line 1"),
    ],
)
async def test_a_bad_line_refuses_the_file(client, content, path):
    query = {"rubric": "pairwise", "judge": "longer"}
    response = await client.post("/v1/runs", params=query, content=content, headers=LINES)
    assert response.status_code == 422, response.text
    assert any(found.startswith(path) for found in paths(response)), response.text
    assert (await client.get("/v1/runs")).json()["items"] == []


@pytest.mark.parametrize(
    ("form", "files", "path"),
    [
        ({"judge": "longer"}, {"file": ("f", b"{}")}, "rubric"),
        ({"rubric": "pairwise", "judge": "longer"}, {"other": ("f", b"{}")}, "other"),
        ({"rubric": "pairwise", "judge": "longer", "file": "text"}, {"rubric2": ("f", b"")}, "rubric2"),
        ({"rubric": "pairwise", "judge": "longer", "extra": "1"}, {"file": ("f", b"{}")}, "extra"),
        ({"rubric": ["pairwise", "pairwise"], "judge": "longer"}, {"file": ("f", b"{}")}, "rubric"),
    ],
)
async def test_a_bad_form_is_422(client, form, files, path):
    response = await client.post("/v1/runs", data=form, files=files)
    assert response.status_code == 422, response.text
    assert path in paths(response)


@pytest.mark.parametrize(
    ("content_type", "content", "status"),
    [
        ("text/plain", b"a,b", 415),
        ("", b"{}", 415),
        ("multipart/form-data", b"no boundary", 400),
        ("multipart/form-data; boundary=x", b"--x\r\nbroken", 422),
        ("multipart/form-data; boundary=x", b"", 422),
        ("application/json", b"{", 400),
        ("application/json", b"", 400),
        ("application/json", b"[1]", 422),
        ("application/json", b'{"rubric": "a", "rubric": "b"}', 400),
        ("application/json", b"[" * 1000, 400),
    ],
)
async def test_other_bodies_are_4xx(client, content_type, content, status):
    response = await client.post("/v1/runs", content=content, headers={"Content-Type": content_type})
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"


async def test_require_calibrated_is_409_and_starts_nothing(client):
    response = await client.post("/v1/runs", json=inline(require="calibrated"))
    assert (response.status_code, response.json()["code"]) == (409, "not_calibrated")
    assert (await client.get("/v1/runs")).json()["items"] == []


async def test_results_come_in_pages_in_the_order_of_the_cases(client, service):
    run_id = (await start(client, inline(7)))["id"]
    await ended(client, service, run_id)
    seen: list[str] = []
    cursor: str | None = None
    for size in (3, 3, 1):
        query = {"limit": 3} | ({"cursor": cursor} if cursor else {})
        page = (await client.get(f"/v1/runs/{run_id}/results", params=query)).json()
        assert len(page["items"]) == size
        assert page["complete"] is True
        seen += [item["case_id"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert cursor is None
    assert seen == [f"c{number}" for number in range(7)]


async def test_results_come_as_json_lines_when_asked(client, service):
    run_id = (await start(client, inline(300)))["id"]
    await ended(client, service, run_id)
    headers = {"Accept": "application/x-ndjson"}
    response = await client.get(f"/v1/runs/{run_id}/results", headers=headers)
    assert response.headers["content-type"].startswith("application/x-ndjson")
    rows = [json.loads(line) for line in response.text.splitlines()]
    assert [row["case_id"] for row in rows] == [f"c{number}" for number in range(300)]
    first = (await client.get(f"/v1/judgments/{rows[0]['id']}")).json()
    assert rows[0] == first


async def test_results_of_one_outcome(client, service):
    run_id = (await start(client))["id"]
    await ended(client, service, run_id)
    assert len((await client.get(f"/v1/runs/{run_id}/results?outcome=scored")).json()["items"]) == 3
    assert (await client.get(f"/v1/runs/{run_id}/results?outcome=judge_error")).json()["items"] == []


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("limit=0", "query.limit"),
        ("limit=1001", "query.limit"),
        ("limit=x", "query.limit"),
        ("cursor=abc", "query.cursor"),
        ("cursor=-1", "query.cursor"),
        ("cursor=%D9%A3", "query.cursor"),
        ("cursor=99999999999999999999", "query.cursor"),
        ("outcome=good", "query.outcome"),
    ],
)
async def test_bad_queries_of_results_are_422(client, service, query, path):
    run_id = (await start(client))["id"]
    response = await client.get(f"/v1/runs/{run_id}/results?{query}")
    assert response.status_code == 422
    assert paths(response) == [path]
    await ended(client, service, run_id)


async def test_runs_are_listed_newest_first_in_pages(client, service):
    ids = []
    for number in range(3):
        ids.append((await start(client, inline(1, source=f"r{number}")))["id"])
        await ended(client, service, ids[-1])
    first = (await client.get("/v1/runs?limit=2")).json()
    assert [run["id"] for run in first["items"]] == [ids[2], ids[1]]
    second = (await client.get("/v1/runs", params={"limit": 2, "cursor": first["next_cursor"]})).json()
    assert [run["id"] for run in second["items"]] == [ids[0]]
    assert second["next_cursor"] is None
    assert len((await client.get("/v1/runs?status=finished")).json()["items"]) == 3
    assert (await client.get("/v1/runs?status=failed")).json()["items"] == []
    assert paths(await client.get("/v1/runs?cursor=nothing")) == ["query.cursor"]
    assert paths(await client.get("/v1/runs?status=odd")) == ["query.status"]


@pytest.mark.parametrize("suffix", ["", "/results"])
async def test_an_unknown_run_is_404(client, suffix):
    assert (await client.get(f"/v1/runs/run_x{suffix}")).status_code == 404


@pytest.mark.parametrize("suffix", ["cancel", "resume"])
async def test_an_unknown_run_cannot_be_ended_or_resumed(client, suffix):
    assert (await client.post(f"/v1/runs/run_x/{suffix}")).status_code == 404


async def test_an_idempotency_key_names_one_run(client, service):
    headers = {"Idempotency-Key": "night-1"}
    first = await client.post("/v1/runs", json=inline(), headers=headers)
    second = await client.post("/v1/runs", json=inline(), headers=headers)
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json()["id"] == second.json()["id"]
    assert second.headers["idempotent-replayed"] == "true"
    other = await client.post("/v1/runs", json=inline(2), headers=headers)
    assert (other.status_code, other.json()["code"]) == (409, "conflict")
    await ended(client, service, first.json()["id"])
    assert len((await client.get("/v1/runs")).json()["items"]) == 1


async def test_the_same_key_with_a_file_names_one_run_and_another_file_conflicts(client, service):
    query = {"rubric": "pairwise", "judge": "longer"}
    headers = LINES | {"Idempotency-Key": "night-1"}
    first = await client.post("/v1/runs", params=query, content=lines(), headers=headers)
    second = await client.post("/v1/runs", params=query, content=lines(), headers=headers)
    other = await client.post("/v1/runs", params=query, content=lines(4), headers=headers)
    assert first.json()["id"] == second.json()["id"]
    assert other.status_code == 409
    await ended(client, service, first.json()["id"])


async def test_twenty_posts_at_once_start_one_run(client, service):
    headers = {"Idempotency-Key": "night-1"}
    responses = await asyncio.gather(*(client.post("/v1/runs", json=inline(), headers=headers) for _ in range(20)))
    assert {response.status_code for response in responses} == {202}
    (run_id,) = {response.json()["id"] for response in responses}
    run = await ended(client, service, run_id)
    assert run["aggregate"]["n_scored"] == 3
    assert len((await client.get("/v1/runs")).json()["items"]) == 1


async def test_a_refused_run_leaves_its_idempotency_key_free(client, service):
    headers = {"Idempotency-Key": "night-1"}
    assert (await client.post("/v1/runs", json=inline() | {"cases": [{}]}, headers=headers)).status_code == 422
    response = await client.post("/v1/runs", json=inline(), headers=headers)
    assert response.status_code == 202
    await ended(client, service, response.json()["id"])


class Held:
    """A judge that answers when it is let go."""

    def __init__(self, service) -> None:
        self.gate = asyncio.Event()
        self.asked = asyncio.Event()
        self.backend = ScriptedBackend(self.answer)
        self.judge = Judge(name="held", backend="scripted", model="held", limits=Limits(concurrency=2))
        service.roster.add(self.judge)
        service.backends.put(self.judge, self.backend)

    async def answer(self, request) -> str:
        self.asked.set()
        await self.gate.wait()
        return json.dumps({"rationale": "x", "verdict": "tie"})


async def test_a_cancelled_run_starts_no_further_call_and_can_be_resumed(client, service):
    held = Held(service)
    run_id = (await start(client, inline(10, judge="held")))["id"]
    await held.asked.wait()
    cancelled = await client.post(f"/v1/runs/{run_id}/cancel")
    assert cancelled.status_code == 202
    assert cancelled.json()["status"] == "cancelling"
    assert (await client.post(f"/v1/runs/{run_id}/cancel")).status_code == 202
    held.gate.set()
    run = await ended(client, service, run_id)
    assert run["status"] == "cancelled"
    assert run["progress"]["n_done"] <= 2
    assert held.backend.calls <= 4
    assert (await client.post(f"/v1/runs/{run_id}/cancel")).json()["status"] == "cancelled"

    resumed = await client.post(f"/v1/runs/{run_id}/resume", json={"retry_errors": True})
    assert resumed.status_code == 202
    run = await ended(client, service, run_id)
    assert run["progress"]["n_done"] == 10


async def test_a_finished_run_cannot_be_cancelled(client, service):
    run_id = (await start(client))["id"]
    await ended(client, service, run_id)
    response = await client.post(f"/v1/runs/{run_id}/cancel")
    assert (response.status_code, response.json()["code"]) == (409, "conflict")
    assert (await client.get(f"/v1/runs/{run_id}")).json()["status"] == "finished"


async def test_a_running_run_cannot_be_resumed(client, service):
    held = Held(service)
    run_id = (await start(client, inline(2, judge="held")))["id"]
    await held.asked.wait()
    assert (await client.post(f"/v1/runs/{run_id}/resume")).status_code == 409
    held.gate.set()
    await ended(client, service, run_id)


async def test_health_answers_while_a_run_is_judged(client, service):
    held = Held(service)
    run_id = (await start(client, inline(2, judge="held")))["id"]
    await held.asked.wait()
    assert (await client.get("/healthz")).status_code == 200
    running = (await client.get(f"/v1/runs/{run_id}")).json()
    assert running["status"] == "running"
    assert running["aggregate"]["mean_score"]["value"] is None
    assert running["aggregate"]["mean_score"]["undefined_reason"]
    partial = (await client.get(f"/v1/runs/{run_id}/results")).json()
    assert partial == {"items": [], "next_cursor": None, "complete": False}
    held.gate.set()
    await ended(client, service, run_id)


async def test_a_run_whose_judge_fails_always_ends_as_failed_and_says_why(client, service):
    judge = Judge(name="broken", backend="scripted", model="broken", limits=Limits(attempts=1))
    service.roster.add(judge)
    service.backends.put(judge, ScriptedBackend(lambda request: "no json"))
    run_id = (await start(client, inline(3, judge="broken")))["id"]
    run = await ended(client, service, run_id)
    assert run["status"] == "failed"
    assert "No case was scored" in run["message"]
    assert run["aggregate"]["n_scored"] == 0
    assert run["aggregate"]["mean_score"]["value"] is None
    assert run["aggregate"]["reasons"]


async def test_an_interrupted_run_goes_on_at_the_next_start(settings):
    app = create_app(settings)
    run_id = "run_interrupted"
    async with app.router.lifespan_context(app):
        service = app.state.service
        rubric, judge = get_rubric("pairwise"), service.roster.get("longer")
        request = inline(5)
        stored = Run(
            id=run_id,
            rubric=rubric.id,
            rubric_hash=rubric.content_hash,
            judge=judge,
            created_at=utc_now(),
        )
        service.store.runs.create(stored)
        planned = [
            PlannedCase(position=position, identity=service.judging.identity(case, rubric, judge), case=case)
            for position, case in enumerate(cases_in(request["cases"], rubric))
        ]
        service.store.runs.plan(run_id, planned)
        service.store.runs.seal(run_id, len(planned))

    again = create_app(settings)
    async with again.router.lifespan_context(again):
        run = await again.state.service.background.wait(run_id)
        assert run.status is RunStatus.FINISHED
        counts = again.state.service.store.runs.counts(run_id)
        assert sum(count.n for count in counts) == 5


def table(kind: str, rows: list[dict[str, Any]]) -> bytes:
    if kind == "csv":
        buffer = io.StringIO(newline="")
        writer = csv.DictWriter(buffer, list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({name: json.dumps(one) if isinstance(one, list) else one for name, one in row.items()})
        return buffer.getvalue().encode()
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), sink)
    return sink.getvalue()


@pytest.mark.parametrize(
    ("kind", "media"), [("csv", "text/csv; charset=utf-8"), ("parquet", "application/vnd.apache.parquet")]
)
async def test_a_table_is_judged_as_body_and_as_form(client, service, kind, media):
    rows = [
        {
            "id": f"{kind}-{n}",
            "question": "When?",
            "contexts": ["Open at 10.", "Closed"],
            "answer": "At 10.",
            "lang": "en",
        }
        for n in range(3)
    ]
    content = table(kind, rows)
    query = {"rubric": "faithfulness@1", "judge": "overlap", "unknown_fields": "keep"}
    as_body = await client.post("/v1/runs", params=query, content=content, headers={"Content-Type": media})
    as_form = await client.post("/v1/runs", data=query, files={"file": (f"cases.{kind}", content)})
    for response in (as_body, as_form):
        assert response.status_code == 202, response.text
        assert response.json()["notices"] == [f"Kept as metadata: `lang` (3 {'records' if kind == 'csv' else 'rows'})."]
        run_id = (await ended(client, service, response.json()["id"]))["id"]
        planned = service.store.runs.pending(run_id, retry_errors=True) or []
        assert planned == []
        items = (await client.get(f"/v1/runs/{run_id}/results")).json()["items"]
        assert [(one["case_id"], one["metadata"]) for one in items] == [(row["id"], {"lang": "en"}) for row in rows]
    stored = service.store.runs.cases_of(run_id, [one["identity"] for one in items])
    assert {tuple(case.input["contexts"]) for case in stored.values()} == {("Open at 10.", "Closed")}


async def test_bad_rows_of_a_table_are_named_and_nothing_is_judged(client, service):
    content = b'id,question,contexts,answer\r\na,q,"[""x""]",a\r\nb,q,no list,a\r\nc,q\r\na,q,[],a\r\n'
    query = {"rubric": "faithfulness@1", "judge": "overlap"}
    response = await client.post("/v1/runs", params=query, content=content, headers={"Content-Type": "text/csv"})
    assert response.status_code == 422
    assert paths(response) == ["record 3: contexts", "record 4", "record 5: id"]
    assert service.store.runs.list() == []


async def test_a_set_is_judged_and_its_release_split_only_where_it_is_named(client, service):
    sets = service.store.sets
    sets.create("pairs", "pairwise@1")
    parts = [Split.CALIBRATION, Split.RELEASE, Split.CALIBRATION]
    shaped = cases_in([pair(f"s{n}")["case"] | {"prompt": f"p{n}"} for n in range(3)], get_rubric("pairwise@1"))
    sets.add_cases("pairs@1", [SetCase(case=case, split=part) for case, part in zip(shaped, parts, strict=True)])
    sets.freeze("pairs@1", sets.digest("pairs@1"))
    request = {"rubric": "pairwise@1", "judge": "longer", "set": "pairs"}
    started = await start(client, request)
    assert (started["source"], started["progress"]["n_total"]) == ("set:pairs@1", 2)
    assert started["notices"] == ["Left out: 1 cases of the release split, which is judged only where it is named."]
    await ended(client, service, started["id"])
    named = await start(client, request | {"split": "release"})
    assert named["progress"]["n_total"] == 1
    await ended(client, service, named["id"])
    judge_hash = service.judging.judge_hash(service.roster.get("longer"))
    sets.record_scores("pairs@1", {"longer": judge_hash}, "the product's own rules")
    again = await client.post("/v1/runs", json=request | {"split": "release"})
    assert again.status_code == 409
    both = await client.post("/v1/runs", json=request | {"cases": cases(1)})
    assert (both.status_code, paths(both)) == (422, ["cases"])
    empty = await client.post("/v1/runs", json=request | {"split": "monitoring"})
    assert (empty.status_code, paths(empty)) == (422, ["split"])
