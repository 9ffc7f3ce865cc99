"""Faults of other tools in running judges, by their case ids."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvloop

from judge_service.app import create_app
from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.domain.judgment import Flag
from judge_service.domain.principal import Role
from judge_service.judging.cache import MemoryCache
from judge_service.judging.judging import FatalJudgeError
from judge_service.security.keys import issue
from judge_service.settings import Settings
from judge_service.store import Store
from rubrics.registry import get_rubric
from tests.judge_service.serving import serving
from tests.reported.judged import PAIR, REFUSAL, command, core, ended, invoke, judged, scripted, served, wrong
from tests.support.clock import VirtualTime
from tests.support.fake_provider import FORBIDDEN, UNAUTHORIZED, FakeProvider, Recorded, Reply, hanging, rate_limited
from tests.support.waiting import LONG_ENOUGH_S

GOOD = Reply('{"rationale": "It is right.", "verdict": "A"}')
PAIRWISE = get_rubric("pairwise@1")
LOOP = """
import asyncio
before = asyncio.get_event_loop_policy()
import judge_service, judge_service.app, judge_service.judging.judging, judge_service.backends.clients
from tests.reported.judged import PAIR, judged, scripted
assert asyncio.get_event_loop_policy() is before
print(asyncio.run(judged(scripted('{"rationale": "", "verdict": "A"}'))).label)
async def inside():
    return await asyncio.gather(*(judged(scripted('{"rationale": "", "verdict": "A"}')) for _ in range(10)))
print(len(asyncio.run(inside())))
"""


def test_case_038_importing_touches_no_event_loop_and_a_plain_script_may_judge() -> None:
    done = subprocess.run([sys.executable, "-c", LOOP], capture_output=True, text=True, timeout=LONG_ENOUGH_S)
    assert done.stdout.split() == ["A", "10"], done.stderr


NOTEBOOK = """
import asyncio
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
CELLS = (
    "from tests.reported.judged import judged, scripted",
    "say = lambda: judged(scripted(GOOD))",
    "label = (await say()).label",
    "import asyncio; asyncio.run(say())",
)
async def kernel():
    shell.user_ns["GOOD"] = '{"rationale": "", "verdict": "A"}'
    for cell in CELLS:
        ready = shell.transform_cell(cell)
        done = await shell.run_cell_async(cell, transformed_cell=ready, silent=True, store_history=False)
        print("CELL", repr(done.error_before_exec or done.error_in_exec or shell.user_ns.get("label")))
asyncio.run(kernel())
"""


def test_case_038_a_notebook_cell_awaits_a_verdict_and_a_nested_loop_is_one_clear_error(tmp_path: Path) -> None:
    environment = os.environ | {"IPYTHONDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK], capture_output=True, text=True, timeout=LONG_ENOUGH_S, env=environment
    )
    said = [line for line in done.stdout.splitlines() if line.startswith("CELL")]
    assert said[:3] == ["CELL None", "CELL None", "CELL 'A'"], done.stdout + done.stderr
    assert "asyncio.run() cannot be called from a running event loop" in said[3]
    assert "patch" not in done.stderr


def test_case_038_ten_parallel_judgments_under_uvloop_while_health_answers(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    key, plain = issue("test", Role.SCORE)
    with Store.open(settings.database) as store:
        store.keys.add(key)
    loops: list[str] = []

    async def seen(main: Any) -> None:
        loops.append(type(asyncio.get_running_loop()).__module__)
        await main

    hold = threading.Event()
    body = {"rubric": "pairwise@1", "judge": "served"}
    with FakeProvider(default=GOOD, hold=hold) as server:
        (tmp_path / "judges.toml").write_text(
            f'[judges.served]\nbackend = "openai"\nmodel = "m"\norder_policy = "single_ab"\n'
            f'options = {{ base_url = "{server.url}" }}\nlimits = {{ concurrency = 10 }}\n'
        )
        with (
            serving(create_app(settings), run=lambda main: uvloop.run(seen(main))) as port,
            ThreadPoolExecutor(10) as pool,
        ):
            url = f"http://127.0.0.1:{port}"
            headers = {"Authorization": f"Bearer {plain}"}

            def ask(number: int) -> httpx.Response:
                case = {"id": f"c{number}", **PAIR}
                return httpx.post(
                    f"{url}/v1/judgments", json=body | {"case": case}, headers=headers, timeout=LONG_ENOUGH_S
                )

            asked = [pool.submit(ask, number) for number in range(10)]
            try:
                while len(server.completions) < 10 and not any(one.done() for one in asked):
                    assert httpx.get(f"{url}/healthz", timeout=LONG_ENOUGH_S).status_code == 200
                # All ten wait for their provider now, and health does not wait for them.
                assert httpx.get(f"{url}/healthz", timeout=LONG_ENOUGH_S).status_code == 200
            finally:
                hold.set()
            answers = [one.result() for one in asked]
    assert loops == ["uvloop"]
    assert [answer.status_code for answer in answers] == [201] * 10
    assert {answer.json()["label"] for answer in answers} == {"A"}


@pytest.mark.parametrize("how", ["headers", "body", "drip"])
async def test_case_039_a_stalled_call_ends_in_time_and_frees_its_slot(how: str) -> None:
    def answer(request: Recorded) -> Reply:
        return hanging(how) if "STALL" in json.dumps(request.body) else GOOD

    with FakeProvider(default=answer) as server:
        judge = served(server.url, limits={"timeout_s": 0.4, "attempts": 1, "concurrency": 2})
        judging = core(judge)
        cases = [Case(id=str(n), input=PAIR | ({"prompt": f"STALL {n}"} if n < 4 else {})) for n in range(8)]
        await judging.judge(Case(id="warm", input=PAIR), PAIRWISE, judge)
        async with asyncio.timeout(LONG_ENOUGH_S):
            found = await asyncio.gather(*(judging.judge(case, PAIRWISE, judge) for case in cases))
        await judging.backends.aclose()
    assert [ended(judgment) for judgment in found[:4]] == [wrong("timeout")] * 4
    assert [judgment.label for judgment in found[4:]] == ["A"] * 4


def test_case_040_exactly_what_failed_is_asked_again(tmp_path: Path) -> None:
    cases = [{"id": f"c{n}", **PAIR} for n in range(20)]
    broken = {"c3", "c7", "c11"}
    healthy = False
    marked = [case | ({"prompt": "BREAK?"} if case["id"] in broken else {}) for case in cases]

    def answer(request: Recorded) -> Reply:
        bad = "BREAK?" in json.dumps(request.body) and not healthy
        return Reply(status=400, body={"error": {"message": "no"}}) if bad else GOOD

    with FakeProvider(default=answer) as server:
        judge = {"backend": "openai", "model": "m", "order_policy": "single_ab", "options": {"base_url": server.url}}
        _, _, rows = command(tmp_path, judge, "pairwise@1", marked)
        assert {row["case_id"] for row in rows if row["outcome"] == "judge_error"} == broken
        made = len(server.completions)
        healthy = True
        _, _, rows = command(tmp_path, judge, "pairwise@1", marked, "--retry-errors")
        assert [row["label"] for row in rows] == ["A"] * 20
        assert len(server.completions) == made + 3
        command(tmp_path, judge, "pairwise@1", marked, "--retry-errors")
        assert len(server.completions) == made + 3


async def test_case_042_the_cache_misses_for_anything_that_differs_and_hits_for_the_same() -> None:
    cache = MemoryCache()
    given = {"question": "q", "contexts": ["a b"], "answer": "x"}
    quote = {"quote": "", "rationale": "", "refusal": "compliance", "confidence": 90}
    answered = {"context": "none", "quote": "", "rationale": "", "answerable": "yes"}

    def answer(request: Recorded) -> Reply:
        return Reply(json.dumps(answered if "answerable" in json.dumps(request.body["response_format"]) else quote))

    changes: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {}),
        ({"model": "m2"}, {}),
        ({"sampling": {"temperature": 0.5}}, {}),
        ({}, {"contexts": ["a", "b"]}),
        ({}, {"contexts": ["a"], "question": "q b"}),
        ({}, {"answer": "x "}),
        ({}, {"contexts": [{"id": "", "text": "a b"}]}),
        ({"repeats": 2}, {}),
    ]
    with FakeProvider(default=answer) as server:
        for judge_change, case_change in changes:
            before = len(server.completions)
            first = await judged(served(server.url, **judge_change), given | case_change, "refusal@1", cache=cache)
            assert len(server.completions) > before
            assert not any(call.cached for call in first.calls)
            made = len(server.completions)
            again = await judged(served(server.url, **judge_change), given | case_change, "refusal@1", cache=cache)
            assert len(server.completions) == made
            assert all(call.cached for call in again.calls)
            assert (again.usage.cost_usd, again.usage.prompt_tokens) == (0.0, 0)
            assert (ended(again), again.record) == (ended(first), first.record)


async def test_case_042_errors_are_never_kept_and_a_bypass_asks_again() -> None:
    cache = MemoryCache()
    with FakeProvider([Reply("prose"), GOOD, GOOD]) as server:
        judge = served(server.url, limits={"attempts": 1})
        assert ended(await judged(judge, cache=cache)) == wrong("parse_error")
        assert (await judged(judge, cache=cache)).label == "A"
        judging = core(judge, cache=cache)
        case = Case(id="c", input=PAIR)
        assert (await judging.judge(case, PAIRWISE, judge)).calls[0].cached
        assert not (await judging.judge(case, PAIRWISE, judge, fresh=True)).calls[0].cached
        assert len(server.completions) == 3
        await judging.backends.aclose()


@pytest.mark.parametrize("after", ["1", "30", None])
async def test_case_046_limited_requests_wait_and_no_case_is_lost(after: str | None) -> None:
    time = VirtualTime()
    left = 7

    def answer(request: Recorded) -> Reply:
        nonlocal left
        left -= 1
        return rate_limited(after) if left >= 0 else GOOD

    with FakeProvider(default=answer) as server:
        judge = served(server.url, limits={"attempts": 1, "concurrency": 10})
        judging = core(judge, time=time)
        cases = [Case(id=str(n), input=PAIR | {"prompt": str(n)}) for n in range(20)]
        found = await asyncio.gather(*(judging.judge(case, PAIRWISE, judge) for case in cases))
        await judging.backends.aclose()
    assert [judgment.label for judgment in found] == ["A"] * 20
    assert sum(len(judgment.calls) for judgment in found) == 27
    if after is not None:
        assert max(time.waits) >= 0.9 * float(after)


async def test_case_046_a_limit_that_never_ends_is_an_outcome() -> None:
    with FakeProvider(default=rate_limited("3000")) as server:
        judgment = await judged(served(server.url, limits={"timeout_s": 60}))
    assert ended(judgment) == wrong("rate_limited")


@pytest.mark.parametrize("refused", [UNAUTHORIZED, FORBIDDEN])
async def test_case_046_a_refused_key_stops_at_once(refused: Reply, tmp_path: Path) -> None:
    with FakeProvider(default=refused) as server:
        with pytest.raises(FatalJudgeError):
            await judged(served(server.url))
        assert len(server.completions) == 1
        judge = {"backend": "openai", "model": "m", "options": {"base_url": server.url}, "limits": {"concurrency": 1}}
        cases = [{"id": str(n), **PAIR} for n in range(20)]
        code, _, _ = await asyncio.to_thread(command, tmp_path, judge, "pairwise@1", cases)
        assert code == 1
        assert len(server.completions) <= 1 + 2


async def test_case_047_repeats_show_their_share_whatever_the_confidence_and_mark_the_case() -> None:
    said = ["A", "A", "B", "A", "A"]
    replies = [{"repeat": n, "value": {"rationale": "", "verdict": label}} for n, label in enumerate(said)]
    for confidence in (None, "vote_share", "token_probability"):
        judgment = await judged(scripted(*replies, repeats=5, confidence=confidence))
        assert judgment.label == "A"
        assert judgment.votes is not None
        assert (judgment.votes.share, judgment.votes.counts) == (0.8, {"A": 4, "B": 1})
        assert Flag.UNSTABLE in judgment.flags
        value = None if judgment.confidence is None else (judgment.confidence.value, judgment.confidence.source.value)
        assert value == ((0.8, "vote_share") if confidence == "vote_share" else None)
    same = [{"repeat": n, "value": {"rationale": "", "verdict": "A"}} for n in range(5)]
    steady = await judged(scripted(*same, repeats=5))
    assert steady.votes is not None
    assert (steady.votes.share, steady.flags) == (1.0, ())


def test_case_047_a_run_reports_the_mean_over_its_cases(tmp_path: Path) -> None:
    said = ["AABAA", "AAAAA", "BABBB"]
    replies = [
        {"case": f"c{place}", "repeat": number, "value": {"rationale": "", "verdict": label}}
        for place, labels in enumerate(said)
        for number, label in enumerate(labels)
    ]
    judge = {"backend": "scripted", "order_policy": "single_ab", "repeats": 5, "options": {"replies": replies}}
    # Cases of one content would share their answers.
    cases = [{"id": f"c{place}", **PAIR, "prompt": f"Question {place}?"} for place in range(len(said))]
    code, _, rows = command(tmp_path, judge, "pairwise@1", cases)
    assert code == 0
    assert [row["votes"]["share"] for row in rows] == [0.8, 1.0, 0.8]
    assert ["unstable" in row["flags"] for row in rows] == [True, False, True]
    (run,) = json.loads(invoke(tmp_path, "runs", "list", "--json").stdout)
    numbers = json.loads(invoke(tmp_path, "runs", "show", run["id"], "--json").stdout)
    mean = numbers["self_consistency"]
    assert (mean["value"], mean["n"], mean["undefined_reason"]) == (pytest.approx(2.6 / 3), 3, None)
    assert 0 < mean["low"] < mean["value"] < mean["high"] <= 1
    assert (numbers["unstable"]["numerator"], numbers["unstable"]["n"]) == (2, 3)
    shown = invoke(tmp_path, "runs", "show", run["id"]).stdout
    assert "Mean vote share" in shown
    assert "0.87" in shown


async def test_case_047_what_was_sent_and_what_the_model_is_are_kept() -> None:
    with FakeProvider(default=Reply(GOOD.content, model="m-2026-01-01")) as server:
        judgment = await judged(served(server.url))
        sent = server.completions[0].body
    assert judgment.model == "m-2026-01-01"
    assert sent["temperature"] == 0.0
    call = judgment.calls[0]
    assert {"temperature", "seed", "max_tokens"} <= call.parameters_sent.keys()
    assert (call.parameters_sent["temperature"], call.parameters_sent["seed"]) == (0.0, 0)
    assert call.parameters_dropped == ()


async def test_case_047_a_setting_that_was_dropped_is_named() -> None:
    with FakeProvider(default=Reply(GOOD.content, logprobs=[])) as server:
        judge = served(server.url, confidence="token_probability", options={"logprobs": False})
        judgment = await judged(judge)
    assert Flag.SETTINGS_DROPPED in judgment.flags
    assert "logprobs" in judgment.calls[0].parameters_dropped


@pytest.mark.parametrize(
    ("limits", "calls"), [({"max_total_tokens": 400}, 3), ({"max_cost_usd": 0.0004}, 3), ({"max_total_tokens": 1}, 1)]
)
def test_a_budget_stops_new_calls_and_says_so(tmp_path: Path, limits: dict[str, Any], calls: int) -> None:
    with FakeProvider(default=GOOD) as server:
        judge = {
            "backend": "openai", "model": "m", "order_policy": "single_ab", "options": {"base_url": server.url},
            "limits": {"concurrency": 1, **limits}, "price": {"prompt": 1.0, "completion": 1.0},
        }  # fmt: skip
        cases = [{"id": str(n), **PAIR, "prompt": f"Question {n}?"} for n in range(8)]
        code, _, rows = command(tmp_path, judge, "pairwise@1", cases)
        assert len(server.completions) == calls
        assert [row["reason"] for row in rows] == [None] * calls + ["budget"] * (8 - calls)
        assert code == 0
        more = judge | {"limits": {"concurrency": 1}}
        _, _, rows = command(tmp_path, more, "pairwise@1", cases, "--retry-errors")
        assert [row["label"] for row in rows] == ["A"] * 8
        assert len(server.completions) == 8


async def test_a_money_limit_without_a_price_is_not_passed_over_in_silence() -> None:
    with FakeProvider(default=GOOD) as server:
        judge = served(server.url, order_policy="both_orders", limits={"max_cost_usd": 1.0, "concurrency": 1})
        judgment = await judged(judge)
    assert judgment.outcome == "judge_error"
    assert "Give the judge a price" in str(judgment.detail)


def test_the_hash_of_a_judge_does_not_depend_on_what_may_be_spent() -> None:
    plain = Judge(name="a", backend="scripted")
    assert plain.content_hash == Judge.model_validate(
        {"name": "b", "backend": "scripted", "limits": {"max_cost_usd": 1.0, "max_total_tokens": 5}}
    ).content_hash  # fmt: skip
    assert REFUSAL["answerable"]
