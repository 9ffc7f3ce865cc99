import json
from collections.abc import AsyncIterator

from judge_service.domain.run import RunStatus
from judge_service.runs.local import LocalRunner
from judge_service.runs.watching import EVERY_S, watch
from judge_service.store import Store

from .fake import JUDGE, PAIRWISE, FakeJudging, cases


async def events(stream: AsyncIterator[str]) -> list[tuple[str, dict[str, object]]]:
    found = []
    async for text in stream:
        name, data = text.rstrip("\n").split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


async def test_changes_are_told_and_the_end_is_the_last_event(store: Store) -> None:
    runner = LocalRunner(store, FakeJudging(lambda case: "timeout" if case.id == "case-3" else "A"))
    run = await runner.plan(cases(4), PAIRWISE, JUDGE, run_id="r")
    waits: list[float] = []
    clock = iter(range(0, 1000, 2))

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            await runner.resume("r", PAIRWISE, retry_errors=False)

    told = await events(watch(store, run, sleep=sleep, monotonic=lambda: float(next(clock))))
    # Nothing changed at the second look.
    assert [(name, data["status"], data["n_done"]) for name, data in told] == [
        ("progress", "queued", 0),
        ("end", "finished_with_errors", 4),
    ]
    assert waits == [EVERY_S, EVERY_S]
    assert told[0][1]["rate_per_s"] is None
    assert told[0][1]["cost_usd"] is None
    assert told[1][1]["outcomes"] == {"scored": 3, "not_applicable": 0, "inconsistent": 0, "judge_error": 1}
    assert told[1][1]["cost_usd"] == 1.0
    assert told[1][1]["rate_per_s"] == 1.0


async def test_a_run_that_ended_before_has_one_event_and_a_deleted_one_says_so(store: Store) -> None:
    run = await LocalRunner(store, FakeJudging()).run(cases(4), PAIRWISE, JUDGE, run_id="r")
    assert [name for name, _ in await events(watch(store, run))] == ["end"]
    assert run.status is RunStatus.FINISHED
    store.runs.delete("r")
    assert await events(watch(store, run)) == [("end", {"id": "r", "status": "deleted"})]


async def test_a_long_silence_is_broken_by_comments(store: Store) -> None:
    run = await LocalRunner(store, FakeJudging()).plan(cases(4), PAIRWISE, JUDGE, run_id="r")
    looks = 0

    async def sleep(_: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 20:
            store.runs.cancel("r")

    told = [text async for text in watch(store, run, sleep=sleep)]
    assert [text.split("\n")[0] for text in told] == [
        "event: progress",
        ": still there",
        ": still there",
        "event: end",
    ]
