"""Pages of runs: what they show, how they page, and that hostile text stays text."""

import httpx

from judge_service.app import Service
from judge_service.domain.case import Case
from judge_service.domain.judge import Judge, Limits
from judge_service.domain.outcome import Outcome
from judge_service.domain.principal import Role
from judge_service.domain.run import Run, RunStatus
from judge_service.runs.local import LocalRunner
from judge_service.store import OutcomeCount
from judge_service.store.store import utc_now
from judge_service.web.run_view import in_words, state_of
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


async def test_spending_stands_beside_its_budget_and_time_left_is_said(connect, service: Service) -> None:
    found = await run(service, 4)
    page = await connect(Role.SCORE).get(f"/runs/{found}", headers=HTML)
    assert "Spent: US$ 1.0000, 88 tokens." in page.text
    assert "Time left" not in page.text
    state = state_of(
        Run(
            id="r",
            rubric="pairwise@1",
            rubric_hash="a" * 64,
            judge=Judge(name="j", backend="scripted", limits=Limits(max_cost_usd=5, max_total_tokens=9000)),
            status=RunStatus.RUNNING,
            n_planned=8,
            created_at=utc_now(),
        ),
        [OutcomeCount(Outcome.SCORED, None, "A", 3), OutcomeCount(Outcome.JUDGE_ERROR, "timeout", None, 2)],
        200.0,
    )
    assert (state.n_done, state.n_total, state.percent, state.left) == (5, 8, 62, "about 3 min")
    assert state.spent == "cost not reported of at most US$ 5, tokens not reported of at most 9,000"
    assert [(row["outcome"], row["reason"], row["n"]) for row in state.failures] == [("judge_error", "timeout", 2)]
    assert [in_words(seconds) for seconds in (0.2, 89, 90, 5399, 7200)] == ["1 s", "89 s", "2 min", "90 min", "2.0 h"]


async def test_a_run_is_cancelled_and_resumed_by_its_buttons(signed_in, service: Service) -> None:
    person = signed_in("Sco Example", Role.SCORE)
    store = service.store
    replies = [{"order": order, "value": {"rationale": "r", "verdict": "tie"}} for order in ("AB", "BA")]
    judge = Judge(name="s", backend="scripted", options={"replies": replies, "enforcement": "grammar"})
    cases = [Case(id=f"n{i}", input=pair(i)) for i in range(3)]
    made = await LocalRunner(store, service.judging).plan(cases, RUBRIC, judge)
    page = await person.get(f"/runs/{made.id}")
    assert "◷ Queued" in page.text
    assert "0 of 3 cases judged." in page.text
    assert "Time left: <span data-left>not known yet</span>" in page.text
    assert "/resume" not in page.text
    done = await person.post(f"/runs/{made.id}/cancel")
    assert (done.status_code, done.headers["location"]) == (303, f"/runs/{made.id}")
    page = await person.get(f"/runs/{made.id}")
    assert "■ Cancelled" in page.text
    assert "/cancel" not in page.text
    assert 'name="retry" value="yes" checked' in page.text
    assert (await person.post(f"/runs/{made.id}/resume", {"retry": "yes"})).status_code == 303
    await service.background.wait(made.id)
    page = await person.get(f"/runs/{made.id}")
    assert "✓ Finished</strong>, 3 of 3 cases judged." in page.text
    assert "/resume" not in page.text
    late = await person.post(f"/runs/{made.id}/cancel")
    assert late.status_code == 409
    assert "there is nothing to cancel" in late.text
    assert "<title>Error: " in late.text
    assert (await person.post("/runs/run_none/cancel")).status_code == 404


async def test_buttons_of_a_run_need_the_token_and_the_role(signed_in, service: Service) -> None:
    found = await run(service, 2)
    person = signed_in("Sco Example", Role.SCORE)
    assert (await person.post(f"/runs/{found}/resume", {"csrf": "0" * 64})).status_code == 403
    annotator = signed_in("Ann Example", Role.ANNOTATE)
    for path in (f"/runs/{found}/cancel", f"/runs/{found}/resume"):
        assert (await annotator.post(path)).status_code == 403
    assert (await annotator.get(f"/runs/{found}/state")).status_code == 403


async def test_annotators_see_no_run_and_no_judgment(connect, service: Service) -> None:
    found = await run(service, 2)
    annotator = connect(Role.ANNOTATE)
    for path in ("/runs", f"/runs/{found}", f"/runs/{found}/report", "/judgments/jdg_1"):
        assert (await annotator.get(path, headers=HTML)).status_code == 403
    assert "/runs" not in (await annotator.get("/", headers=HTML)).text
