"""Results by part, as a file and as events, and the end of a run's data."""

import io
import json
from typing import Any

import pytest
from pyarrow import parquet

from judge_service.domain.principal import Role
from judge_service.domain.run import Run
from judge_service.store.store import utc_now
from tests.judge_service.api.requests import pair, paths
from tests.judge_service.api.test_runs import ended, inline, start


async def finished(client: Any, service: Any, n: int = 6) -> str:
    cases = [
        pair(f"c{number}")["case"] | {"metadata": {"language": "de" if number % 2 else "en"}} for number in range(n)
    ]
    run = await start(client, inline(cases=cases))
    await ended(client, service, run["id"])
    return str(run["id"])


async def test_results_by_slice_and_score(client, service):
    run_id = await finished(client, service)
    url = f"/v1/runs/{run_id}/results"
    german = (await client.get(url, params={"slice": "language=de", "limit": 2})).json()
    assert [item["case_id"] for item in german["items"]] == ["c1", "c3"]
    rest = (await client.get(url, params={"slice": "language=de", "cursor": german["next_cursor"]})).json()
    assert [item["case_id"] for item in rest["items"]] == ["c5"]
    assert (await client.get(url, params={"score_from": "2"})).json()["items"] == []
    assert len((await client.get(url, params={"score_from": "0", "score_to": "1"})).json()["items"]) == 6
    for params, path in (({"slice": "language"}, "query.slice"), ({"score_from": "nan"}, "query.score_from")):
        refused = await client.get(url, params=params)
        assert refused.status_code == 422
        assert paths(refused) == [path]


async def test_results_as_a_parquet_file(client, service):
    run_id = await finished(client, service)
    accept = {"Accept": "application/vnd.apache.parquet"}
    response = await client.get(f"/v1/runs/{run_id}/results", params={"slice": "language=en"}, headers=accept)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/vnd.apache.parquet"
    table = parquet.read_table(io.BytesIO(response.content))
    assert table["case_id"].to_pylist() == ["c0", "c2", "c4"]


async def test_events_end_with_the_end_state(client, service):
    run_id = await finished(client, service)
    response = await client.get(f"/v1/runs/{run_id}/events")
    assert response.headers["content-type"].startswith("text/event-stream")
    name, data = response.text.strip().split("\n")
    assert name == "event: end"
    told = json.loads(data.removeprefix("data: "))
    assert (told["status"], told["n_done"], told["n_total"]) == ("finished", 6, 6)


async def test_an_ended_run_is_deleted_once_and_by_a_lead_only(client, connect, service):
    run_id = await finished(client, service)
    lead = connect(Role.LEAD)
    assert (await client.delete(f"/v1/runs/{run_id}")).status_code == 403
    deleted = await lead.delete(f"/v1/runs/{run_id}")
    assert (deleted.status_code, deleted.json()) == (200, {"id": run_id, "n_judgments": 6})
    assert (await client.get(f"/v1/runs/{run_id}")).status_code == 404
    assert (await lead.delete(f"/v1/runs/{run_id}")).status_code == 404


async def test_a_run_that_goes_on_is_not_deleted(connect, service):
    judge = service.roster.get("longer")
    run = Run(id="run_open", rubric="pairwise@1", rubric_hash="a" * 64, judge=judge, created_at=utc_now())
    service.store.runs.create(run)
    refused = await connect(Role.LEAD).delete("/v1/runs/run_open")
    assert refused.status_code == 409
    assert "cancel it" in refused.json()["detail"]


@pytest.mark.parametrize("path", ["events", "results"])
async def test_an_unknown_run_is_404(client, path):
    assert (await client.get(f"/v1/runs/run_none/{path}")).status_code == 404
