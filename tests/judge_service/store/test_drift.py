"""Drift records, and the checks under way, on SQLite and PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from judge_service.domain.calibration_set import SetCase, Split
from judge_service.domain.case import Case
from judge_service.domain.drift import DriftRecord, DriftTask, DriftVerdict, TaskState
from judge_service.errors import Conflict, StoreError
from judge_service.store import Store

from .examples import NOON


def record(set_id: str, number: int, **changes: object) -> DriftRecord:
    fields: dict[str, object] = {
        "id": f"drift_{number}",
        "kind": "check" if number else "baseline",
        "set_id": set_id,
        "set_hash": "s" * 64,
        "split": Split.MONITORING,
        "rubric": "pairwise@1",
        "rubric_hash": "r" * 64,
        "judge": "jügde",
        "judge_hash": "j" * 64,
        "revisions": (None, "abc"),
        "models": ("m-1",),
        "program": "0.1.0",
        "baseline": "drift_0" if number else None,
        "look": number,
        "n": 12,
        "runs": ("run_1", "run_2"),
        "verdict": DriftVerdict.NO_CHANGE,
        "result": {"reasons": [], "noise": 0.25},
        "created_at": NOON + timedelta(days=number),
    }
    return DriftRecord.model_validate(fields | changes)


def test_records_are_read_back_as_they_were_newest_first(store: Store) -> None:
    version = store.sets.create("anchors", "pairwise@1")
    case = Case(id="c", input={"prompt": "p", "response_a": "a", "response_b": "b"})
    store.sets.add_cases(version.id, [SetCase(case=case)])
    made = [record(version.id, number) for number in range(3)]
    for one in made:
        assert store.drift.add(one) == one
    other = store.drift.add(record(version.id, 9, judge="other", split=None))
    assert store.drift.get("drift_1") == made[1]
    assert store.drift.get("none") is None
    assert store.drift.all(judge="jügde") == made[::-1]
    assert store.drift.all(limit=1) == [other]
    assert store.drift.all(set_id="none@1") == []
    assert store.drift.all(set_id=version.id, rubric="pairwise@1", limit=2) == [other, made[2]]
    # The same check recorded twice is one record.
    assert store.drift.add(record(version.id, 1, verdict=DriftVerdict.JUDGE_CHANGED)) == made[1]


def task(number: int, **changes: object) -> DriftTask:
    fields: dict[str, object] = {
        "id": f"task_{number}",
        "set_id": "anchors@1",
        "judge": "jügde",
        "asked": {"set": "anchors@1", "judge": "jügde", "planned": None},
        "worker": "host|1|2|t",
        "heartbeat_at": NOON,
        "created_at": NOON,
    }
    return DriftTask.model_validate(fields | changes)


def ended(one: DriftTask, state: TaskState = TaskState.DONE, minutes: int = 0, **changes: object) -> DriftTask:
    return one.model_copy(update={"state": state, "ended_at": NOON + timedelta(minutes=minutes)} | changes)


def test_a_judge_is_claimed_on_a_set_once_whoever_asks(store: Store, database_url: str) -> None:
    store.sets.create("anchors", "pairwise@1")
    with Store.open(database_url) as other, ThreadPoolExecutor(8) as pool:

        def claim(number: int) -> DriftTask:
            return (store, other)[number % 2].drift_tasks.claim(task(number), keep=9)

        claims = [pool.submit(claim, number) for number in range(16)]
        [first] = [one.result() for one in claims if one.exception() is None]
        refused = {str(one.exception()) for one in claims if isinstance(one.exception(), Conflict)}
        assert refused == {"jügde is being checked on anchors@1 already."}
        assert other.drift_tasks.running("anchors@1", "jügde") == other.drift_tasks.get(first.id) == first
        other.drift_tasks.claim(task(20, judge="another"), keep=9)
        done = ended(first, record_id=store.drift.add(record("anchors@1", 0)).id)
        assert other.drift_tasks.end(done)
        assert not store.drift_tasks.end(ended(first, TaskState.FAILED, message="late"))
        assert store.drift_tasks.get(first.id) == done
        assert store.drift_tasks.running("anchors@1", "jügde") is None
        store.drift_tasks.claim(task(21), keep=9)


def test_a_dead_check_ends_as_the_next_begins_unless_it_gave_a_sign(store: Store) -> None:
    store.sets.create("anchors", "pairwise@1")
    first = store.drift_tasks.claim(task(0), keep=9)
    dead = ended(first, TaskState.FAILED, message="The process ended.\x00")
    store.drift_tasks.beat(first.id, NOON + timedelta(seconds=1))
    with pytest.raises(Conflict):
        store.drift_tasks.claim(task(1), keep=9, instead_of=dead)
    assert store.drift_tasks.running("anchors@1", "jügde") == task(0, heartbeat_at=NOON + timedelta(seconds=1))
    dead = dead.model_copy(update={"heartbeat_at": NOON + timedelta(seconds=1)})
    store.drift_tasks.claim(task(1), keep=9, instead_of=dead)
    assert store.drift_tasks.get("task_0") == dead
    store.drift_tasks.beat("task_0", NOON + timedelta(minutes=9))
    assert store.drift_tasks.get("task_0") == dead


def test_old_ended_checks_are_forgotten_and_running_ones_are_not(store: Store) -> None:
    store.sets.create("anchors", "pairwise@1")
    store.drift_tasks.claim(task(9, judge="slow"), keep=2)
    for number in range(4):
        store.drift_tasks.claim(task(number), keep=2)
        store.drift_tasks.end(ended(task(number), minutes=number))
    store.drift_tasks.claim(task(4), keep=2)
    there = [number for number in range(10) if store.drift_tasks.get(f"task_{number}") is not None]
    assert there == [2, 3, 4, 9]


def test_a_check_of_no_set_is_refused_as_such(store: Store) -> None:
    with pytest.raises(StoreError, match="refused the row"):
        store.drift_tasks.claim(task(0), keep=9)
