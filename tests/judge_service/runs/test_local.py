import asyncio
import json
from collections.abc import Iterator

import pytest

from judge_service.domain.case import Case
from judge_service.domain.judgment import Judgment
from judge_service.domain.run import Run, RunStatus
from judge_service.errors import Conflict, InvalidInput, NotFound, StoreError
from judge_service.judging.asking import FatalJudgeError
from judge_service.runs.aggregate import aggregate
from judge_service.runs.execute import Executor
from judge_service.runs.exports import jsonl, judgments_of
from judge_service.runs.local import PAGE, LocalRunner
from judge_service.runs.progress import Progress
from judge_service.store import Store

from .fake import JUDGE, PAIRWISE, FakeJudging, by_number, cases


class Clock:
    """Seconds that pass by one at each look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def table(store: Store, run_id: str) -> list[tuple[str, str, str | None, float | None]]:
    return [(one.case_id, one.outcome.value, one.label, one.score) for one in judgments_of(store, run_id)]


async def test_a_run_judges_every_case_once_in_planned_order(store: Store) -> None:
    judging = FakeJudging()
    seen: list[Progress] = []
    run = await LocalRunner(store, judging, monotonic=Clock()).run(
        cases(10), PAIRWISE, JUDGE, run_id="r", on_progress=seen.append, source="ten.jsonl"
    )
    assert (run.status, run.n_planned, run.planned, run.source) == (RunStatus.FINISHED, 10, True, "ten.jsonl")
    assert run.started_at is not None
    assert run.finished_at is not None
    assert [row[0] for row in table(store, "r")] == [f"case-{number}" for number in range(10)]
    assert set(judging.asked.values()) == {1}
    assert judging.most_flying <= JUDGE.limits.concurrency
    assert [progress.n_done for progress in seen] == list(range(11))
    last = seen[-1]
    assert last.outcomes == {"scored": 8, "inconsistent": 2}
    assert (last.n_total, last.n_judged, last.n_scored) == (10, 10, 8)
    assert (last.prompt_tokens, last.completion_tokens, last.cost_usd) == (200, 20, 2.5)
    assert last.rate == pytest.approx(10 / last.elapsed_s)
    assert last.eta_s == 0
    assert seen[0].rate is None


async def test_the_numbers_of_a_run_leave_failures_out_and_show_them(store: Store) -> None:
    ends = ["A", "A", "B", "tie", "inconsistent", "empty", "timeout", "timeout"]
    judging = FakeJudging(lambda case: ends[int(case.id.rpartition("-")[2])])
    run = await LocalRunner(store, judging).run(cases(8), PAIRWISE, JUDGE)
    assert run.status is RunStatus.FINISHED_WITH_ERRORS
    numbers = aggregate(PAIRWISE, store.runs.counts(run.id), run.n_planned)
    assert numbers.outcomes == {"scored": 4, "not_applicable": 1, "inconsistent": 1, "judge_error": 2}
    assert numbers.reasons == {"judge_error:timeout": 2, "not_applicable:empty_answer": 1}
    assert (numbers.n_total, numbers.n_judged, numbers.n_scored, numbers.n_pending) == (8, 8, 4, 0)
    assert numbers.coverage == 0.5
    assert numbers.mean_score.value == 0.625
    assert numbers.mean_score.n_failed == 3
    assert numbers.mean_score.low_bound == pytest.approx(2.5 / 7)
    assert numbers.mean_score.high_bound == pytest.approx(5.5 / 7)
    assert numbers.pairs is not None
    assert numbers.pairs.model_dump() == {
        "wins_a": 2,
        "wins_b": 1,
        "ties": 1,
        "inconsistent": 1,
        "n": 4,
        "win_rate_a": 0.625,
        "win_rate_b": 0.375,
        "undefined_reason": None,
    }
    assert numbers.usage.model_dump() == {"prompt_tokens": 160, "completion_tokens": 16, "cost_usd": 2.0}


@pytest.mark.parametrize(("end", "counted"), [("timeout", "judge_error 3"), ("empty", "not_applicable 3")])
async def test_a_run_without_a_scored_case_has_not_succeeded(store: Store, end: str, counted: str) -> None:
    run = await LocalRunner(store, FakeJudging(lambda _: end)).run(cases(3), PAIRWISE, JUDGE)
    assert (run.status, run.message) == (RunStatus.FAILED, f"No case was scored ({counted}).")
    numbers = aggregate(PAIRWISE, store.runs.counts(run.id), 3)
    assert numbers.mean_score.value is None
    assert numbers.mean_score.undefined_reason == "no case was scored"
    assert numbers.pairs is not None
    assert (numbers.pairs.win_rate_a, numbers.pairs.undefined_reason) == (None, "no pair has a consistent verdict")


async def test_a_run_without_cases_has_not_succeeded(store: Store) -> None:
    run = await LocalRunner(store, FakeJudging()).run([], PAIRWISE, JUDGE)
    assert (run.status, run.message, run.n_planned) == (RunStatus.FAILED, "The run has no cases.", 0)
    numbers = aggregate(PAIRWISE, store.runs.counts(run.id), 0)
    assert (numbers.coverage, numbers.mean_score.low_bound) == (None, None)


async def test_resume_judges_exactly_what_failed_and_then_nothing(store: Store) -> None:
    broken = {"case-7", "case-50", "case-99"}
    judging = FakeJudging(lambda case: "timeout" if case.id in broken else by_number(case))
    runner = LocalRunner(store, judging)
    first = await runner.run(cases(100), PAIRWISE, JUDGE, run_id="r")
    assert first.status is RunStatus.FINISHED_WITH_ERRORS
    assert judging.calls == 100
    healthy = FakeJudging()
    seen: list[Progress] = []
    second = await LocalRunner(store, healthy).resume("r", PAIRWISE, on_progress=seen.append)
    assert second.status is RunStatus.FINISHED
    assert set(healthy.asked) == broken
    assert (seen[0].n_done, seen[0].outcomes.get("judge_error", 0)) == (97, 0)
    assert (seen[-1].n_done, seen[-1].n_judged) == (100, 3)
    idle = FakeJudging()
    third = await LocalRunner(store, idle).resume("r", PAIRWISE)
    assert (third.status, idle.calls) == (RunStatus.FINISHED, 0)
    await LocalRunner(store, FakeJudging()).run(cases(100), PAIRWISE, JUDGE, run_id="clean")
    assert table(store, "r") == table(store, "clean")
    identity = healthy.identity(next(cases(1, start=7)), PAIRWISE, JUDGE)
    assert [one.outcome.value for one in store.judgments.history(identity)] == ["judge_error", "inconsistent"]


async def test_the_same_command_again_asks_nothing_and_keeps_its_errors_unless_told(store: Store) -> None:
    judging = FakeJudging(lambda case: "timeout" if case.id == "case-1" else "A")
    runner = LocalRunner(store, judging)
    await runner.run(cases(4), PAIRWISE, JUDGE, run_id="r")
    again = await runner.run(cases(4), PAIRWISE, JUDGE, run_id="r")
    assert (again.status, judging.calls) == (RunStatus.FINISHED_WITH_ERRORS, 4)
    await runner.run(cases(4), PAIRWISE, JUDGE, run_id="r", retry_errors=True)
    assert judging.asked == {"case-0": 1, "case-1": 2, "case-2": 1, "case-3": 1}


async def test_another_run_uses_what_is_recorded_and_asks_errors_again(store: Store) -> None:
    judging = FakeJudging(lambda case: "timeout" if case.id == "case-1" else "A")
    await LocalRunner(store, judging).run(cases(4), PAIRWISE, JUDGE, run_id="one")
    healthy = FakeJudging(lambda _: "B")
    run = await LocalRunner(store, healthy).run(cases(6), PAIRWISE, JUDGE, run_id="two")
    assert set(healthy.asked) == {"case-1", "case-4", "case-5"}
    assert run.status is RunStatus.FINISHED
    assert [row[2] for row in table(store, "two")] == ["A", "B", "A", "A", "B", "B"]


async def test_other_cases_under_the_same_run_are_a_conflict(store: Store) -> None:
    judging = FakeJudging()
    runner = LocalRunner(store, judging)
    await runner.run(cases(4), PAIRWISE, JUDGE, run_id="r")
    changed = [Case(id=case.id, input=case.input | {"prompt": "changed"}) for case in cases(4)]
    for other in (changed, list(cases(3)), list(cases(5)), list(reversed(list(cases(4))))):
        with pytest.raises(Conflict):
            await runner.run(other, PAIRWISE, JUDGE, run_id="r")
    with pytest.raises(Conflict):
        await runner.run(cases(4), PAIRWISE, JUDGE.model_copy(update={"model": "other"}), run_id="r")
    run = store.runs.get("r")
    assert run is not None
    assert (run.status, run.n_planned, judging.calls) == (RunStatus.FINISHED, 4, 4)


async def test_a_bad_case_late_in_a_stream_stops_the_run_before_the_first_call(store: Store) -> None:
    def stream() -> Iterator[Case]:
        yield from cases(PAGE + 10)
        raise InvalidInput("The case file is not usable: see line 267.")

    judging = FakeJudging()
    with pytest.raises(InvalidInput, match="line 267"):
        await LocalRunner(store, judging).run(stream(), PAIRWISE, JUDGE, run_id="r")
    run = store.runs.get("r")
    assert run is not None
    assert (run.status, run.planned, judging.calls) == (RunStatus.FAILED, False, 0)
    assert run.message == "The case file is not usable: see line 267."
    with pytest.raises(Conflict, match="give them again"):
        await LocalRunner(store, judging).resume("r", PAIRWISE)
    repaired = await LocalRunner(store, judging).run(cases(PAGE + 20), PAIRWISE, JUDGE, run_id="r")
    assert (repaired.status, judging.calls) == (RunStatus.FINISHED, PAGE + 20)


async def test_a_case_twice_in_one_run_is_a_conflict(store: Store) -> None:
    with pytest.raises(Conflict, match="twice"):
        await LocalRunner(store, FakeJudging()).run([*cases(2), *cases(1)], PAIRWISE, JUDGE)


async def test_a_refused_key_stops_at_once_with_one_message(store: Store) -> None:
    def refuse(case: Case) -> str:
        if int(case.id.rpartition("-")[2]) >= 20:
            raise FatalJudgeError("The provider refused the key (401).")
        return "A"

    judging = FakeJudging(refuse)
    run = await LocalRunner(store, judging).run(cases(500), PAIRWISE, JUDGE, concurrency=4)
    assert (run.status, run.message) == (RunStatus.FAILED, "The provider refused the key (401).")
    assert judging.calls <= 24
    assert len(table(store, run.id)) >= 16
    recorded = len(table(store, run.id))
    healthy = FakeJudging()
    assert (await LocalRunner(store, healthy).resume(run.id, PAIRWISE)).status is RunStatus.FINISHED
    assert healthy.calls == 500 - recorded


async def test_an_unexpected_error_ends_the_run_as_failed_and_is_raised(store: Store) -> None:
    def crash(case: Case) -> str:
        raise ZeroDivisionError(case.id)

    with pytest.raises(ZeroDivisionError):
        await LocalRunner(store, FakeJudging(crash)).run(cases(5), PAIRWISE, JUDGE, run_id="r")
    run = store.runs.get("r")
    assert run is not None
    assert (run.status, run.message) == (RunStatus.FAILED, "An internal error stopped the run: ZeroDivisionError.")


async def test_cancel_starts_no_new_case_and_the_state_never_goes_back(store: Store) -> None:
    gate = asyncio.Event()
    judging = FakeJudging(gate=gate)
    runner = LocalRunner(store, judging)
    task = asyncio.create_task(runner.run(cases(50), PAIRWISE, JUDGE, run_id="r", concurrency=4))
    await judging.reached(4)
    assert (await runner.cancel("r")).status is RunStatus.CANCELLING
    assert (await runner.cancel("r")).status is RunStatus.CANCELLING
    gate.set()
    assert (await task).status is RunStatus.CANCELLED
    assert judging.calls == 4
    assert len(table(store, "r")) == 4
    assert (await runner.cancel("r")).status is RunStatus.CANCELLED
    again = await LocalRunner(store, judging).resume("r", PAIRWISE)
    assert (again.status, judging.calls) == (RunStatus.FINISHED, 50)
    with pytest.raises(Conflict, match="nothing to cancel"):
        await runner.cancel("r")
    with pytest.raises(NotFound):
        await runner.cancel("nobody")


async def test_a_cancellation_by_another_process_is_seen(store: Store) -> None:
    judging = FakeJudging(gate=asyncio.Event())
    assert judging.gate is not None
    beats = 0

    async def sleep(_: float) -> None:
        nonlocal beats
        beats += 1
        if beats == 2:
            await asyncio.to_thread(store.runs.cancel, "r")
        if beats == 3:
            # The beat before this one has seen the cancellation.
            judging.gate.set()
            await asyncio.Event().wait()

    run = await LocalRunner(store, judging, sleep=sleep).run(cases(50), PAIRWISE, JUDGE, run_id="r")
    assert run.status is RunStatus.CANCELLED
    assert judging.calls <= JUDGE.limits.concurrency


async def test_stop_finishes_what_was_begun_and_leaves_the_run_to_be_continued(store: Store) -> None:
    gate = asyncio.Event()
    judging = FakeJudging(gate=gate)
    runner = LocalRunner(store, judging)
    task = asyncio.create_task(runner.run(cases(50), PAIRWISE, JUDGE, run_id="r", concurrency=4))
    await judging.reached(4)
    runner.stop()
    gate.set()
    run = await task
    assert (run.status, run.worker) == (RunStatus.QUEUED, None)
    assert len(table(store, "r")) == judging.calls == 4
    assert (await LocalRunner(store, judging).resume("r", PAIRWISE, retry_errors=False)).status is RunStatus.FINISHED
    assert set(judging.asked.values()) == {1}


async def test_a_cancelled_task_leaves_the_run_to_be_continued(store: Store) -> None:
    judging = FakeJudging(gate=asyncio.Event())
    task = asyncio.create_task(LocalRunner(store, judging).run(cases(50), PAIRWISE, JUDGE, run_id="r"))
    await judging.reached(JUDGE.limits.concurrency)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    run = store.runs.get("r")
    assert run is not None
    assert run.status is RunStatus.QUEUED
    assert judging.flying == 0


async def test_a_run_in_work_is_not_started_a_second_time(store: Store) -> None:
    gate = asyncio.Event()
    judging = FakeJudging(gate=gate)
    runner = LocalRunner(store, judging)
    task = asyncio.create_task(runner.run(cases(5), PAIRWISE, JUDGE, run_id="r"))
    await judging.reached(1)
    with pytest.raises(Conflict, match="worked on already"):
        await runner.resume("r", PAIRWISE)
    gate.set()
    assert (await task).status is RunStatus.FINISHED


async def test_a_store_that_fails_ends_the_run_with_its_message(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> list[Judgment]:
        raise StoreError("The disk that holds the database is full.")

    monkeypatch.setattr(store.judgments, "_record", refuse)
    with pytest.raises(StoreError, match="full"):
        await LocalRunner(store, FakeJudging()).run(cases(20), PAIRWISE, JUDGE, run_id="r")
    run = store.runs.get("r")
    assert run is not None
    assert (run.status, run.message) == (RunStatus.FAILED, "The disk that holds the database is full.")


async def test_concurrency_is_reached_and_never_passed(store: Store) -> None:
    judging = FakeJudging()
    await LocalRunner(store, judging).run(cases(600), PAIRWISE, JUDGE, concurrency=16)
    assert judging.most_flying == 16
    assert judging.calls == 600


async def test_the_export_is_one_json_object_a_line_in_planned_order(store: Store) -> None:
    run = await LocalRunner(store, FakeJudging()).run(cases(300), PAIRWISE, JUDGE)
    lines = list(jsonl(store, run.id))
    assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines)
    read = [Judgment.model_validate_json(line) for line in lines]
    assert read == list(judgments_of(store, run.id))
    assert [json.loads(line)["case_id"] for line in lines] == [f"case-{number}" for number in range(300)]
    inconsistent = [one.case_id for one in judgments_of(store, run.id, outcome=read[3].outcome)]
    assert inconsistent == [f"case-{number}" for number in range(3, 300, 4)]


async def test_single_cases_and_runs_share_their_judgments(store: Store) -> None:
    judging = FakeJudging()
    await Executor(store, judging).execute(next(cases(1)), PAIRWISE, JUDGE)
    run = await LocalRunner(store, judging).run(cases(3), PAIRWISE, JUDGE)
    assert judging.asked == {"case-0": 1, "case-1": 1, "case-2": 1}
    assert len(table(store, run.id)) == 3


def test_runs_are_listed_newest_first_by_page(store: Store) -> None:
    from tests.judge_service.store.examples import NOON

    for number in range(5):
        store.runs.create(Run(id=f"r{number}", rubric="x@1", rubric_hash="h", judge=JUDGE, created_at=NOON))
    first = store.runs.list(limit=2)
    second = store.runs.list(limit=10, before=first[-1])
    assert [run.id for run in (*first, *second)] == ["r4", "r3", "r2", "r1", "r0"]
    assert [run.id for run in store.runs.list(status=RunStatus.FAILED)] == []
