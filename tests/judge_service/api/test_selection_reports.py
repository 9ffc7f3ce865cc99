"""Judge-selection reports over HTTP: the forms, the same numbers, who may read them, and what is refused."""

import csv
import io
import zipfile

import pytest

from judge_service.app import Service
from judge_service.domain.principal import Role
from tests.judge_service.api.test_statistics import calibrated

PATH = "/v1/sets/demo/report"
FAST = {"resamples": 100}


async def test_the_forms_of_a_report_hold_the_same_numbers(connect, service: Service) -> None:
    client = connect(Role.LEAD)
    await calibrated(service)
    answer = await client.get(PATH, params={**FAST, "floor": 0.7, "by": "language"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    found = answer.json()
    assert found["format"] == "judge-selection-report/2"
    decision = found["decision"]
    assert decision["pattern"] == "not_enough_evidence"
    assert decision["sentence"] == "Not enough evidence to choose. Missing: at least 40 more labelled cases."
    assert decision["floor"] == 0.7
    judges = next(part["data"] for part in found["sections"] if part["id"] == "judges")["judges"]
    assert [row["judge"] for row in judges] == ["longer", "constant", "overlap"]
    assert judges[0]["agreement"]["numerator"] == 50
    summary = await client.get(PATH, params={**FAST, "form": "md"})
    assert summary.headers["content-type"].startswith("text/markdown")
    assert "at least 40 more labelled cases" in summary.text
    page = await client.get(PATH, params={**FAST, "form": "html"})
    assert page.headers["content-disposition"] == 'attachment; filename="demo-report.html"'
    assert decision["sentence"] in page.text
    tables = await client.get(PATH, params={**FAST, "form": "csv"})
    with zipfile.ZipFile(io.BytesIO(tables.content)) as packed:
        rows = list(csv.DictReader(io.StringIO(packed.read("judges.csv").decode())))
    assert float(rows[0]["agreement"]) == judges[0]["agreement"]["value"]


@pytest.mark.parametrize(
    ("params", "status", "field"),
    [
        ({"floor": "1.5"}, 422, "floor"),
        ({"form": "pdf"}, 422, "form"),
        ({"by": "colour"}, 422, "by"),
        ({"family": "gpt"}, 422, "family"),
        ({"judge": "nobody"}, 404, None),
        ({"rubric": "pairwise@9"}, 422, "rubric"),
    ],
)
async def test_what_does_not_fit_is_refused_with_the_field(
    connect, service: Service, params: dict[str, str], status: int, field: str | None
) -> None:
    client = connect(Role.LEAD)
    await calibrated(service, 12)
    refused = await client.get(PATH, params={**FAST, **params})
    assert refused.status_code == status, refused.text
    if field is not None:
        assert field in refused.text


async def test_reports_are_for_leads(connect) -> None:
    assert (await connect(Role.LEAD).get("/v1/sets/nothing/report")).status_code == 404
    assert (await connect(Role.SCORE).get("/v1/sets/nothing/report")).status_code == 403
    assert (await connect(Role.ANNOTATE).get("/v1/sets/nothing/report")).status_code == 403
