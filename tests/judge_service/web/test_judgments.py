"""The page of a judgment: case, record, orders, calls with their prompts, downloads; and what is withheld."""

from typing import Any

import httpx
import pytest

from judge_service.app import Service
from judge_service.domain.calibration_set import SetCase, Split
from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.domain.judgment import Judgment
from judge_service.domain.principal import Role
from judge_service.domain.run import SET_SOURCE
from judge_service.runs.local import LocalRunner
from judge_service.sets.grouping import freeze_set
from judge_service.web.judgment_view import in_words, shown_record, texts_of
from rubrics.registry import get_rubric
from tests.judge_service.web.conftest import words

HOSTILE = "<script>alert(1)</script>"
PAIR = {"prompt": f"Which {HOSTILE}?", "response_a": "Lima.", "response_b": "Cusco.\u202e"}
CLAIMS = {
    "question": "What is sold?",
    "contexts": [{"id": "shop", "text": "Bread is sold here."}, "Eggs are brown."],
    "answer": "Bread is sold.",
}
BOTH_A = [
    {"order": order, "value": {"rationale": f"why {order}", "verdict": v}} for order, v in (("AB", "A"), ("BA", "B"))
]
EXTRACT = {"step": "extract", "value": {"s1": ["Bread is sold."]}}


def verified(quote: str) -> dict[str, Any]:
    said = {"context": "ctx1", "quote": quote, "rationale": "It says so.", "verdict": "supported", "confidence": 90}
    return {"step": "verify", "value": {"c1": said}}


def scripted(*replies: Any) -> Judge:
    return Judge(name="s", backend="scripted", options={"replies": list(replies), "enforcement": "grammar"})


async def judged(
    service: Service, rubric: str, fields: dict[str, Any], *replies: Any, source: str | None = None
) -> Judgment:
    runner = LocalRunner(service.store, service.judging)
    case = Case(id=f"c/{HOSTILE}", input=fields)
    found = await runner.run([case], get_rubric(rubric), scripted(*replies), source=source)
    [(_, judgment)] = service.store.runs.results(found.id)
    return judgment


async def page_of(connect: Any, judgment: Judgment) -> httpx.Response:
    page: httpx.Response = await connect(Role.SCORE).get(f"/judgments/{judgment.id}", headers={"Accept": "text/html"})
    assert page.status_code == 200
    return page


async def test_a_pair_shows_its_texts_its_orders_and_its_prompts(connect, service: Service) -> None:
    judgment = await judged(service, "pairwise@1", PAIR, *BOTH_A)
    page = await page_of(connect, judgment)
    said = words(page)
    assert "<script>alert" not in page.text
    assert "✓ Scored: A, score 1" in said
    assert "Response a Lima." in said
    assert "Response b Cusco.[U+202E]" in said
    assert "A first A why AB B first A why BA Result A ✓ Scored" in said
    assert page.text.count("<summary>1. compare, A first, attempt 1: stop") == 1
    assert page.text.count("Download the prompt") == page.text.count("Download the reply") == 2
    client = connect(Role.SCORE)
    prompt = await client.get(f"/judgments/{judgment.id}/calls/2/prompt")
    assert prompt.headers["content-type"] == "text/plain; charset=utf-8"
    assert prompt.headers["content-disposition"] == f'attachment; filename="{judgment.id}-call-2-prompt.txt"'
    assert prompt.text.startswith("[system]\n")
    assert prompt.text.index("Cusco.\u202e") < prompt.text.index("Lima.")
    reply = await client.get(f"/judgments/{judgment.id}/calls/1/reply")
    assert reply.text == judgment.calls[0].raw
    for path in ("calls/3/prompt", "calls/0/reply", "calls/1/else"):
        assert (await client.get(f"/judgments/{judgment.id}/{path}")).status_code in (404, 422)
    assert (await client.get("/judgments/jdg_none")).status_code == 404


@pytest.mark.parametrize(
    ("quote", "mark"),
    [("Bread is sold here.", "“Bread is sold here.” ✓ found in context 1"), ("Rye.", "“Rye.” ✕ not found")],
)
async def test_claims_show_evidence_and_whether_it_was_found(connect, service: Service, quote: str, mark: str) -> None:
    judgment = await judged(service, "faithfulness@1", CLAIMS, EXTRACT, verified(quote))
    said = words(await page_of(connect, judgment))
    assert "Context 1: shop Bread is sold here. Context 2 Eggs are brown." in said
    assert mark in said
    assert "1. extract, attempt 1: stop" in said
    # Both steps: the second prompt follows from the first reply.
    assert said.count("Download the prompt") == 2
    assert "How the orders folded" not in said


async def test_a_failed_order_says_why_and_a_call_without_reply_says_so(connect, service: Service) -> None:
    fault = {"order": "BA", "error": {"reason": "provider_error", "message": "The provider is down."}}
    judgment = await judged(service, "pairwise@1", PAIR, BOTH_A[0], fault)
    said = words(await page_of(connect, judgment))
    assert "! Judge error: incomplete pair. No score." in said
    assert "A first A why AB B first no verdict provider error Result no verdict ! Judge error" in said
    assert "The provider is down." in said
    assert "No reply." in said
    # The prompt of a call that failed is known too.
    assert said.count("Download the prompt") == 2


async def test_prompts_that_cannot_be_proven_are_not_shown(connect, service: Service) -> None:
    judgment = await judged(service, "pairwise@1", PAIR, *BOTH_A)
    service.judging.fence_key = b"another"
    said = words(await page_of(connect, judgment))
    assert said.count("The prompt is not kept, and cannot be rendered again") == 2
    assert "Response a Lima." in said


async def test_a_case_judged_alone_says_that_its_texts_were_not_kept(connect, service: Service) -> None:
    case = Case(id="alone", input=PAIR)
    judgment = await service.executor.execute(case, get_rubric("pairwise@1"), scripted(*BOTH_A))
    said = words(await page_of(connect, judgment))
    assert "Judged outside a run" in said
    assert said.count("its texts were not kept") == 3
    assert "Lima" not in said


async def test_the_texts_of_a_closed_release_split_are_withheld(connect, service: Service) -> None:
    store = service.store
    version = store.sets.create("closed", "pairwise@1")
    store.sets.add_cases(version.id, [SetCase(case=Case(id=f"c/{HOSTILE}", input=PAIR), split=Split.RELEASE)])
    freeze_set(store, version.id)
    judgment = await judged(service, "pairwise@1", PAIR, *BOTH_A, source=f"{SET_SOURCE}{version.id}")
    page = await page_of(connect, judgment)
    assert "a test in the release split of a frozen set" in words(page)
    assert "Lima" not in page.text
    assert (await connect(Role.SCORE).get(f"/judgments/{judgment.id}/calls/1/prompt")).status_code == 404


def test_texts_of_a_case_of_any_rubric() -> None:
    fields = {
        "question": "Q",
        "contexts": [{"text": "T", "id": "i", "title": "N", "year": 3}, "plain"],
        "weights": {"a": 1},
        "left": None,
        "none": [],
    }
    assert texts_of(fields) == [
        ("Question", "Q"),
        ("Context 1: i: N", 'T\n\n{\n "year": 3\n}'),
        ("Context 2", "plain"),
        ("Weights", '{\n "a": 1\n}'),
    ]


def test_a_record_of_any_rubric_leaves_no_cell_empty() -> None:
    shown = shown_record(
        {
            "outcome": "scored",
            "ab": {},
            "short": True,
            "note": "",
            "share": 0.123456,
            "names": ["x", ""],
            "empty": [],
            "parts": [{"a": 1}, {"b": {"quote": "", "found": False}}, {"b": {"n": None}}],
        }
    )
    assert shown.facts == (("Short", "yes"), ("Note", "not given"), ("Share", "0.123"), ("Empty", "none given"))
    assert shown.lists == (("Names", ("x", "not given")),)
    (table,) = shown.tables
    assert table.columns == ("A", "B")
    assert table.rows == (("1", "not given"), ("not given", "no quote given"), ("not given", "n: not given"))
    assert in_words([1, None]) == "1; not given"
