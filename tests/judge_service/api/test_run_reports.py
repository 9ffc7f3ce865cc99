import csv
import io

import httpx
import pytest

from judge_service.app import Service
from judge_service.domain.case import Case
from judge_service.domain.principal import Role
from judge_service.runs.local import LocalRunner
from rubrics.registry import get_rubric
from tests.judge_service.api.test_statistics import pair

RUBRIC = get_rubric("pairwise@1")


async def two_runs(service: Service) -> tuple[str, str]:
    judge = service.roster.get("longer")
    runner = LocalRunner(service.store, service.judging)
    cases = [Case(id=f"n{i}", input=pair(2 * i), metadata={"part": i % 2}) for i in range(40)]
    other = [case.model_copy(update={"input": pair(2 * i + i % 4)}) for i, case in enumerate(cases)]
    return (await runner.run(cases, RUBRIC, judge)).id, (await runner.run(other, RUBRIC, judge)).id


async def test_a_report_in_every_form(client: httpx.AsyncClient, service: Service) -> None:
    before, after = await two_runs(service)
    query = {"by": ["part"], "compare": before}
    answer = await client.get(f"/v1/runs/{after}/report", params=query)
    assert answer.status_code == 200
    found = answer.json()
    # Every second case has its answers turned round, so the other one wins there.
    assert found["comparison"]["difference"]["mean"]["value"] == -0.5
    assert found["comparison"]["difference"]["losses"] == 20
    assert found["slices"][0]["values"]["1"]["mean_score"]["value"] == 0.0
    page = await client.get(f"/v1/runs/{after}/report", params={**query, "form": "html"})
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-disposition"] == f'attachment; filename="{after}.html"'
    assert "−0.500" in page.text
    summary = await client.get(f"/v1/runs/{after}/report", params={**query, "form": "md"})
    assert summary.text.startswith("### Lower score than")
    rows = csv.DictReader(io.StringIO((await client.get(f"/v1/runs/{after}/report?form=csv")).text))
    assert {row["figure"]: row["value"] for row in rows}["numbers / n_scored"] == "40"


async def test_a_comparison_by_its_run(client: httpx.AsyncClient, service: Service) -> None:
    before, after = await two_runs(service)
    found = (await client.get(f"/v1/runs/{after}/comparison", params={"with": before, "slice": "part"})).json()
    assert found["a"]["run"] == before
    assert found["verdict"] == "worse"
    assert found["slices"]["values"]["0"]["mean"]["value"] == 0.0
    assert len(found["examples"]["losses"]) == 5


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/runs/run_none/report", 404),
        ("/v1/runs/{run}/report?by=colour", 422),
        ("/v1/runs/{run}/report?form=pdf", 422),
        ("/v1/runs/{run}/report?compare=run_none", 404),
        ("/v1/runs/{run}/comparison", 422),
        ("/v1/runs/{run}/comparison?with=run_none", 404),
    ],
)
async def test_what_cannot_be_answered(client: httpx.AsyncClient, service: Service, path: str, status: int) -> None:
    _, run = await two_runs(service)
    answer = await client.get(path.format(run=run))
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("application/problem+json")


async def test_annotators_read_no_report(connect, service: Service) -> None:
    _, run = await two_runs(service)
    assert (await connect(Role.ANNOTATE).get(f"/v1/runs/{run}/report")).status_code == 403
