"""A process is killed with SIGKILL in the middle of a run; the next one finishes it as if nothing had happened."""

import random
import signal
import subprocess
import sys
import textwrap

import pytest

from judge_service.domain.run import RunStatus
from judge_service.runs.background import BackgroundRuns
from judge_service.runs.exports import judgments_of
from judge_service.runs.local import LocalRunner
from judge_service.store import Store
from rubrics.registry import get_rubric

from .fake import JUDGE, PAIRWISE, FakeJudging, by_number, cases

N = 120
SCRIPT = textwrap.dedent("""
    import asyncio, sys
    from judge_service.runs.local import LocalRunner
    from judge_service.store import Store
    from tests.judge_service.runs.fake import JUDGE, PAIRWISE, FakeJudging, by_number, cases

    def answer(case):
        print(case.id, flush=True)  # one line a call, before its answer
        return "timeout" if case.id.endswith("9") else by_number(case)

    with Store.open(sys.argv[1]) as store:
        asyncio.run(LocalRunner(store, FakeJudging(answer)).run(cases(int(sys.argv[2])), PAIRWISE, JUDGE, run_id="r"))
""")


def expected() -> list[tuple[str, str | None]]:
    ends = {case.id: "timeout" if case.id.endswith("9") else by_number(case) for case in cases(N)}
    return [(case, end if end in ("A", "B", "tie") else None) for case, end in ends.items()]


@pytest.mark.parametrize("calls_before", [0, *random.Random(7).sample(range(1, N), 3), N])
async def test_a_killed_run_ends_with_the_table_of_an_undisturbed_one(
    store: Store, database_url: str, calls_before: int
) -> None:
    process = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", SCRIPT, database_url, str(N)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    asked = [process.stdout.readline().strip() for _ in range(calls_before)]
    if not calls_before:
        while store.runs.get("r") is None:
            continue
    process.send_signal(signal.SIGKILL)
    asked += process.communicate()[0].split()
    assert process.returncode in (-signal.SIGKILL, 0)
    recorded = {one.case_id for one in judgments_of(store, "r")}
    assert recorded <= set(asked)

    judging = FakeJudging(lambda case: "timeout" if case.id.endswith("9") else by_number(case))
    runs = BackgroundRuns(store, LocalRunner(store, judging), get_rubric)
    await runs.resume_interrupted()
    await runs.wait("r")
    if not (await runs.get("r")).planned:
        # It died while the cases were stored: nothing was asked, and giving them again is the same run.
        assert asked == []
        await LocalRunner(store, judging).run(cases(N), PAIRWISE, JUDGE, run_id="r")
    run = await runs.get("r")
    assert run.status is RunStatus.FINISHED_WITH_ERRORS
    assert [(one.case_id, one.label) for one in judgments_of(store, "r")] == expected()
    # Paid twice is at most what was asked and not yet recorded at the kill.
    assert set(judging.asked) == {case.id for case in cases(N)} - recorded
    assert len(set(asked) & set(judging.asked)) <= JUDGE.limits.concurrency * 3 + 64
    assert all(len(store.judgments.history(one.identity)) == 1 for one in judgments_of(store, "r"))

    idle = FakeJudging()
    await LocalRunner(store, idle).resume("r", PAIRWISE, retry_errors=False)
    assert idle.calls == 0
