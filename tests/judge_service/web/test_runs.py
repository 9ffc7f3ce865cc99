"""Pages of runs: what they show, how they page, and that hostile text stays text."""

import httpx

from judge_service.app import Service
from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.domain.principal import Role
from judge_service.runs.local import LocalRunner
from rubrics.registry import get_rubric
from tests.judge_service.api.test_statistics import pair
from tests.judge_service.runs.fake import FakeJudging

RUBRIC = get_rubric("pairwise@1")
HTML = {"Accept": "text/html"}


async def run(service: Service, n: int, *, judge: str = "fake", text: str = "n") -> str:
    ends = ("A", "B", "timeout", "inconsistent", "empty")
    cases = [Case(id=f"{text}{i}", input=pair(i), metadata={"part": i % 2}) for i in range(n)]
    judging = FakeJudging(lambda case: ends[int(case.id[len(text) :]) % 5])
    who = Judge(name=judge, backend="scripted", model="m", options={"seed": judge})
    return (await LocalRunner(service.store, judging).run(cases, RUBRIC, who, source=f"<b>{text}</b>")).id


async def test_runs_are_listed_with_their_state(connect, service: Service) -> None:
    client: httpx.AsyncClient = connect(Role.SCORE)
    empty = await client.get("/runs", headers=HTML)
    assert "No run yet." in empty.text
    found = await run(service, 5)
    page = await client.get("/runs", headers=HTML)
    assert page.status_code == 200
    assert f'href="/runs/{found}"' in page.text
    assert "! Finished with errors" in page.text
    assert "&lt;b&gt;n&lt;/b&gt;" in page.text
    assert found not in (await client.get("/runs?state=finished", headers=HTML)).text
    assert (await client.get("/runs?state=lost", headers=HTML)).status_code == 422


async def test_a_run_says_what_to_do_and_pages_its_results(connect, service: Service) -> None:
    client = connect(Role.SCORE)
    found = await run(service, 120)
    page = await client.get(f"/runs/{found}", headers=HTML)
    assert "<strong>! Finished with errors</strong>, 120 of 120 cases judged." in page.text
    assert "! Judge error: timeout" in page.text
    assert "limits.timeout_s" in page.text
    assert page.text.count('href="/judgments/') == 50
    assert f'href="/runs/{found}?after=49"' in page.text
    last = await client.get(f"/runs/{found}?after=99", headers=HTML)
    assert last.text.count('href="/judgments/') == 20
    errors = await client.get(f"/runs/{found}?outcome=judge_error", headers=HTML)
    assert errors.text.count('href="/judgments/') == 24
    assert (await client.get("/runs/run_none", headers=HTML)).status_code == 404


async def test_a_report_compares_and_names_what_is_wrong(connect, service: Service) -> None:
    client = connect(Role.SCORE)
    before, after = await run(service, 60), await run(service, 60, judge="other")
    page = await client.get(f"/runs/{after}/report?compare={before}&by=part", headers=HTML)
    assert page.status_code == 200
    assert "Not enough evidence to tell from" in page.text
    assert f"/v1/runs/{after}/report?form=csv&amp;compare={before}&amp;by=part" in page.text
    assert 'style="' not in page.text
    assert "<script" not in page.text
    wrong = await client.get(f"/runs/{after}/report?by=colour", headers=HTML)
    assert wrong.status_code == 422
    assert "no case has metadata &#39;colour&#39;" in wrong.text
    assert "<title>Error: " in wrong.text


async def test_a_judgment_shows_its_calls_as_text(connect, service: Service) -> None:
    client = connect(Role.SCORE)
    hostile = "<script>alert(1)</script>"
    found = await run(service, 1, text=hostile)
    [(_, judgment)] = service.store.runs.results(found)
    page = await client.get(f"/judgments/{judgment.id}", headers=HTML)
    assert page.status_code == 200
    assert "<script" not in page.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.text
    assert "✓ Scored" in page.text
    assert page.text.count("<details>") == len(judgment.calls) == 2
    assert (await client.get("/judgments/jdg_none", headers=HTML)).status_code == 404


async def test_annotators_see_no_run_and_no_judgment(connect, service: Service) -> None:
    found = await run(service, 2)
    annotator = connect(Role.ANNOTATE)
    for path in ("/runs", f"/runs/{found}", f"/runs/{found}/report", "/judgments/jdg_1"):
        assert (await annotator.get(path, headers=HTML)).status_code == 403
    assert "/runs" not in (await annotator.get("/", headers=HTML)).text
