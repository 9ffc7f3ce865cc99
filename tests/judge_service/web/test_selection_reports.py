"""Pages of reports over HTTP: who may see them, that they say what JSON says, and when they are made anew."""

import json
import zipfile
from datetime import UTC, datetime
from io import BytesIO

import pytest

from judge_service.domain.calibration_set import Label, SetCase, Split
from judge_service.domain.case import Case
from judge_service.domain.principal import Role
from judge_service.web.pages import POLICY

BROWSER = {"Accept": "text/html"}
HOSTILE = "<script>alert(1)</script>"


def label(set_id: str, case_id: str, said: str) -> Label:
    return Label(
        id=f"lab_{set_id}_{case_id}",
        set_id=set_id,
        case_id=case_id,
        rubric="pairwise@1",
        annotator="ada",
        label=said,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


@pytest.fixture
def made_set(service):
    """Forty labelled pairs; nobody judged them but the baselines."""
    store = service.store
    version = store.sets.create("pairs", "pairwise@1")
    cases = [
        SetCase(
            case=Case(id=f"c{i}", input={"prompt": HOSTILE, "response_a": "x" * (i + 1), "response_b": "y" * 20}),
            split=Split.CALIBRATION,
        )
        for i in range(40)
    ]
    store.sets.add_cases(version.id, cases)
    store.labels.add(
        version.id,
        [label(version.id, f"c{i}", "AB"[i % 3 == 0]) for i in range(40)],
    )
    return version.id


async def opened(client, address):
    response = await client.get(address, headers=BROWSER)
    while response.status_code == 202:
        response = await client.get(f"{address}{'&' if '?' in address else '?'}wait=true", headers=BROWSER)
    return response


async def test_the_list_leads_to_sets_with_labels(connect, service, made_set):
    service.store.sets.create("empty")
    text = (await connect(Role.LEAD).get("/reports", headers=BROWSER)).text
    assert f'href="/reports/{made_set.replace("@", "%40")}"' in text
    assert "empty@1" in text
    assert "needs labels" in text


async def test_without_a_set_the_list_says_how_to_make_one(connect):
    text = (await connect(Role.LEAD).get("/reports", headers=BROWSER)).text
    assert "There is none yet." in text
    assert "judge-service sets create" in text


@pytest.mark.parametrize("path", ["/reports", "/reports/pairs@1", "/reports/pairs@1/report.json"])
async def test_only_who_may_read_statistics_sees_reports(connect, made_set, path):
    assert (await connect(Role.ANNOTATE).get(path)).status_code == 403
    assert (await connect(Role.SCORE).get(path)).status_code == 403
    stranger = await connect(None).get(path, headers=BROWSER)
    assert (stranger.status_code, stranger.headers["location"][:13]) == (303, "/sign-in?next")


async def test_the_page_says_what_the_json_says(connect, made_set):
    client = connect(Role.LEAD)
    page = await opened(client, f"/reports/{made_set}")
    assert page.status_code == 200
    assert page.headers["content-security-policy"] == POLICY
    report = (await client.get(f"/reports/{made_set}/report.json")).json()
    assert report["decision"]["sentence"] in page.text
    assert "<script>alert" not in page.text
    assert page.text.count("<h1") == 1
    packed = await client.get(f"/reports/{made_set}/report.csv")
    assert packed.headers["content-disposition"] == 'attachment; filename="pairs-1-report.zip"'
    names = zipfile.ZipFile(BytesIO(packed.content)).namelist()
    assert "decision.csv" in names
    assert report["decision"]["sentence"] in (await client.get(f"/reports/{made_set}/report.html")).text
    assert (await client.get(f"/reports/{made_set}/report.md")).headers["content-type"].startswith("text/markdown")


async def test_a_report_is_made_once_and_anew_after_another_label(connect, service, made_set):
    client = connect(Role.LEAD)
    first = (await opened(client, f"/reports/{made_set}")).text
    assert (await client.get(f"/reports/{made_set}", headers=BROWSER)).text == first
    case = Case(id="more", input={"prompt": "p", "response_a": "a", "response_b": "b"})
    service.store.sets.add_cases(made_set, [SetCase(case=case, split=Split.CALIBRATION)])
    service.store.labels.add(made_set, [label(made_set, "more", "A")])
    report = json.loads((await client.get(f"/reports/{made_set}/report.json")).text)
    assert report["facts"]["labelled"] == 41


@pytest.mark.parametrize(
    ("address", "status"),
    [("/reports/nothing", 404), ("/reports/pairs@1?split=release", 422), ("/reports/pairs@1/report.exe", 422)],
)
async def test_what_is_not_there_is_said(connect, made_set, address, status):
    response = await connect(Role.LEAD).get(address, headers=BROWSER)
    assert response.status_code == status
    assert "<title>Error: " in response.text


async def test_an_unknown_rubric_is_an_error_of_the_one_who_asked(connect, made_set):
    response = await connect(Role.LEAD).get(f"/reports/{made_set}?rubric=nothing@1&wait=true", headers=BROWSER)
    assert response.status_code == 422
    assert "nothing@1" in response.text
