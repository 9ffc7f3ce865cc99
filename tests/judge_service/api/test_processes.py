"""Two processes of the service on one database: what one began is known to the other, and made once."""

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from judge_service.domain.calibration_set import Label, SetCase, Split
from judge_service.domain.case import Case
from judge_service.domain.principal import Role
from judge_service.security.keys import issue
from judge_service.sets.watching import ENDED
from judge_service.store import Store
from tests.judge_service.api.test_lifecycle import process
from tests.judge_service.api.test_statistics import NOON, pair
from tests.support.waiting import LONG_ENOUGH_S, until

N = 30
BODY = {"set": "demo", "judge": "slow", "repeats": 2}


@pytest.fixture
def store(database_url: str, tmp_path: Path) -> Iterator[Store]:
    """A database with a frozen set, and a judge that takes its time."""
    verdict = json.dumps({"rationale": "so", "verdict": "tie"})
    (tmp_path / "judges.toml").write_text(
        '[judges.slow]\nbackend = "scripted"\nmodel = "slow"\n[judges.slow.limits]\nconcurrency = 4\n'
        f"[judges.slow.options]\ncycle = true\nlatency_ms = 100\nreplies = ['{verdict}']\n"
    )
    with Store.open(database_url) as store:
        version = store.sets.create("demo", "pairwise@1")
        cases = [Case(id=f"c{i}", input=pair(i)) for i in range(N)]
        store.sets.add_cases(version.id, [SetCase(case=case, split=Split.CALIBRATION) for case in cases])
        of_all = {"set_id": version.id, "rubric": "pairwise@1", "annotator": "ann", "created_at": NOON}
        labels = [Label(case_id=case.id, label="AB"[i % 2], **of_all) for i, case in enumerate(cases)]
        store.labels.add(version.id, labels)
        store.sets.freeze(version.id, store.sets.digest(version.id))
        yield store


@pytest.fixture
def client(store: Store) -> Iterator[httpx.Client]:
    key, plain = issue("lead", Role.LEAD)
    store.keys.add(key)
    with httpx.Client(headers={"Authorization": f"Bearer {plain}"}, timeout=LONG_ENOUGH_S) as client:
        yield client


def test_a_check_of_a_killed_process_has_failed_and_goes_on_in_another(
    store: Store, client: httpx.Client, database_url: str, tmp_path: Path
) -> None:
    with process(tmp_path, database_url) as (first, one), process(tmp_path, database_url) as (_, two):

        def task() -> dict[str, Any]:
            found = client.get(f"{two}{address}")
            assert found.status_code == 200, found.text
            return found.json()

        began = client.post(f"{one}/v1/drift", json=BODY)
        assert began.status_code == 202, began.text
        address = began.headers["location"]
        assert task() == client.get(f"{one}{address}").json() == began.json()
        refused = client.post(f"{two}/v1/drift", json=BODY)
        assert (refused.status_code, refused.json()["detail"]) == (409, "slow is being checked on demo@1 already.")
        until(lambda: any(store.runs.counts(run.id) for run in store.runs.list()), "the first judgment")
        first.send_signal(signal.SIGKILL)
        first.wait()
        failed = task()
        assert (failed["state"], failed["error"], failed["record"]) == ("failed", ENDED, None)
        again = client.post(f"{two}/v1/drift", json=failed["asked"])
        assert again.status_code == 202, again.text
        address = again.headers["location"]
        until(lambda: task()["state"] != "running", "the end of the check")
        assert (task()["state"], task()["record"]["n"]) == ("done", N)
    runs = store.runs.list()
    assert len(runs) == 2
    # What the first had judged was used: each anchor has one judgment a repeat.
    assert sum(count.n for run in runs for count in store.runs.counts(run.id)) == 2 * N


def test_the_same_calibration_asked_of_two_processes_is_made_once(
    store: Store, client: httpx.Client, database_url: str, tmp_path: Path
) -> None:
    body = {"set": "demo", "judges": ["slow"]}
    with ExitStack() as stack:
        urls = [stack.enter_context(process(tmp_path, database_url))[1] for _ in range(2)]
        pool = stack.enter_context(ThreadPoolExecutor(2))

        def ask(url: str) -> dict[str, Any]:
            answer = client.post(f"{url}/v1/calibrations", json=body, headers={"Idempotency-Key": "k"})
            assert answer.status_code == 202, answer.text
            return answer.json()

        first, second = pool.map(ask, urls)
        assert (first["id"], first["runs"]) == (second["id"], second["runs"])
        for url in urls:
            until(lambda url=url: ask(url)["status"] not in ("judging", "measuring"), "the end of the measurement")
        first, second = map(ask, urls)
    assert first == second
    assert (first["status"], first["message"]) == ("measured", None)
    [calibration] = store.calibrations.all()
    assert [one["id"] for one in first["calibrations"]] == [calibration.id]
    [run] = store.runs.list()
    calls = store.runs.call_count(run.id)
    assert (calls.calls, calls.cached) == (2 * N, 0)
    for case in store.runs.pending(run.id, retry_errors=True):
        pytest.fail(f"{case.case.id} was not judged")
    for _, judgment in store.runs.results(run.id):
        assert len(store.judgments.history(judgment.identity)) == 1
