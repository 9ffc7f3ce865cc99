import asyncio
import subprocess
import sys
import textwrap
import threading
import uuid
from datetime import timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judge_service.domain.call import Call
from judge_service.domain.judgment import Judgment
from judge_service.domain.outcome import JudgeErrorReason, Outcome
from judge_service.errors import StoreError
from judge_service.store import Store
from tests.support.waiting import LONG_ENOUGH_S

from .examples import NOON, call, failed, judgment


def test_a_judgment_reads_back_as_it_was(store: Store) -> None:
    rich = judgment(
        group="doc-7",
        metadata={"language": "de", "rank": 3, "share": 0.1, "seen": True, "none": None},
        confidence={"value": 0.75, "source": "order_average"},
        record={"verdict": "A", "nested": [{"a": 1.5, "b": [None, "ü \U0001f600"]}]},
        trust={"level": "calibrated", "reason": "measured", "n": 120, "agreement": 0.81},
        calls=[
            call(
                raw="cut \x00 here, escape \x1b[0m",
                raw_cut=True,
                parameters_sent={"temperature": 0.0, "stop": ["\x00"]},
                parameters_dropped=("seed",),
                engine={"build": "b1", "threads": 1},
                probabilities={"verdict": {"first": 0.7, "second": 0.3}},
                label_mass={"verdict": 0.99},
                cached=True,
            ),
            call(attempt=2, raw=None, error={"reason": "timeout", "message": "no answer within 2 s"}),
        ],
    )
    assert store.judgments.record(rich) == rich
    assert store.judgments.get(rich.id) == rich
    assert store.judgments.current(rich.identity) == rich
    assert store.judgments.currents([rich.identity, "nobody"]) == {rich.identity: rich}


def test_nothing_is_found_where_nothing_is(store: Store) -> None:
    assert store.judgments.get("none") is None
    assert store.judgments.current("none") is None
    assert store.judgments.currents([]) == {}
    assert store.judgments.history("none") == []


def test_a_time_of_another_zone_is_the_same_moment_in_utc(store: Store) -> None:
    local = judgment(created_at=NOON.astimezone(timezone(timedelta(hours=5, minutes=45))))
    store.judgments.record(local)
    stored = store.judgments.get(local.id)
    assert stored is not None
    assert stored.created_at == NOON
    assert stored.created_at.utcoffset() == timedelta(0)


def test_the_second_judgment_of_the_same_work_is_not_written(store: Store) -> None:
    first = store.judgments.record(judgment(id="first"))
    again = store.judgments.record(judgment(id="second", score=0.0, label="B"))
    assert again == first
    assert store.judgments.get("second") is None
    assert store.judgments.history("work-1") == [first]


@pytest.mark.parametrize(
    "kept",
    [
        judgment(id="kept"),
        judgment(id="kept", outcome="inconsistent", score=None, label=None),
        judgment(id="kept", outcome="not_applicable", reason="empty_answer", score=None, label=None),
    ],
    ids=lambda one: one.outcome,
)
def test_every_outcome_but_a_judge_error_stays(store: Store, kept: Judgment) -> None:
    store.judgments.record(kept)
    assert store.judgments.record(judgment(id="late")) == kept
    assert store.judgments.record(failed(id="later")) == kept


def test_judge_errors_give_way_and_stay_as_history(store: Store) -> None:
    first = store.judgments.record(failed(id="e1"))
    second = store.judgments.record(failed(id="e2", reason="rate_limited"))
    assert store.judgments.current("work-1") == second
    good = store.judgments.record(judgment(id="good"))
    assert store.judgments.current("work-1") == good
    assert store.judgments.history("work-1") == [first, second, good]
    assert store.judgments.get("e1") == first


def test_a_fresh_judgment_replaces_when_asked(store: Store) -> None:
    old = store.judgments.record(judgment(id="old"))
    new = store.judgments.record(judgment(id="new", score=0.5, label="tie"), replace=True)
    assert new.label == "tie"
    assert store.judgments.history("work-1") == [old, new]


def test_recording_the_same_object_twice_changes_nothing(store: Store) -> None:
    for one in (judgment("a"), failed("b")):
        assert store.judgments.record(one) == one
        assert store.judgments.record(one) == one
        assert store.judgments.history(one.identity) == [one]


def test_one_group_may_hold_the_same_work_many_times(store: Store) -> None:
    ones = [failed(id="e1"), failed(id="e2"), judgment(id="good"), judgment(id="late"), failed(id="e3")]
    futures = [store.judgments.submit(one) for one in ones]
    assert [future.result().id for future in futures] == ["e1", "e2", "good", "good", "good"]
    assert [one.id for one in store.judgments.history("work-1")] == ["e1", "e2", "good"]


def test_a_bad_row_does_not_take_its_group_with_it(store: Store) -> None:
    store.judgments.record(judgment("taken", id="same-id"))
    ones = [judgment("x"), judgment("other", id="same-id"), judgment("y"), judgment("z", record={"n": float("nan")})]
    futures = [store.judgments.submit(one) for one in ones]
    assert futures[0].result() == ones[0]
    assert isinstance(futures[1].exception(), StoreError)
    assert futures[2].result() == ones[2]
    assert futures[3].exception() is not None
    assert store.judgments.current("y") == ones[2]
    assert store.judgments.current("z") is None


def test_a_run_that_is_not_stored_is_refused(store: Store) -> None:
    with pytest.raises(StoreError):
        store.judgments.record(judgment(), "no-such-run")
    assert store.judgments.current("work-1") is None


async def test_async_callers_wait_for_the_commit(store: Store) -> None:
    ones = [judgment(f"w{number}") for number in range(50)]
    assert await asyncio.gather(*(store.judgments.record_async(one) for one in ones)) == ones
    assert len(store.judgments.currents(one.identity for one in ones)) == 50


async def test_a_cancelled_wait_does_not_undo_the_write(store: Store) -> None:
    task = asyncio.create_task(store.judgments.record_async(judgment()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # Writes of one loop are kept in their order: once this one is there, so is the judgment.
    await store.judgments.record_async(judgment("after"))
    assert store.judgments.current("work-1") == judgment()


def test_sixteen_writers_lose_nothing_and_meet_no_lock(store: Store) -> None:
    faults: list[BaseException] = []

    def write(writer: int) -> None:
        try:
            for number in range(25):
                store.judgments.record(judgment(f"{writer}-{number}"))
                store.judgments.record(judgment(f"shared-{number}", id=f"shared-{number}-{writer}"))
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    mine = [f"{writer}-{number}" for writer in range(16) for number in range(25)]
    shared = [f"shared-{number}" for number in range(25)]
    assert set(store.judgments.currents(mine + shared)) == set(mine + shared)
    assert all(len(store.judgments.history(identity)) == 1 for identity in shared)


def test_two_processes_record_each_work_once(store: Store, database_url: str) -> None:
    script = textwrap.dedent("""
        import sys
        from judge_service.store import Store
        from tests.judge_service.store.examples import judgment, failed
        with Store.open(sys.argv[1]) as store:
            who = sys.argv[2]
            futures = []
            for number in range(200):
                make = failed if (number % 3 == 0 and who == "p1") else judgment
                futures.append(store.judgments.submit(make(f"work-{number}", id=f"{who}-{number}")))
            for future in futures:
                future.result()
            print(sum(future.result().id.startswith(who) for future in futures))
    """)
    command = [sys.executable, "-W", "error", "-c", script, database_url]
    processes = [subprocess.Popen([*command, who], stdout=subprocess.PIPE, text=True) for who in ("p1", "p2")]
    outputs = [process.communicate(timeout=LONG_ENOUGH_S)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sum(map(int, outputs)) >= 200
    currents = store.judgments.currents(f"work-{number}" for number in range(200))
    assert len(currents) == 200
    # p1's errors gave way to p2's judgments, whoever came first.
    assert all(one.outcome is Outcome.SCORED for one in currents.values())


TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
RAW = st.text(st.characters(), max_size=60)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False) | RAW,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(RAW, inner, max_size=3),
    max_leaves=8,
)
OBJECT = st.dictionaries(RAW, JSON, max_size=4)
COUNT = st.none() | st.integers(0, 2**63 - 1)
MONEY = st.none() | st.floats(0, 1e9, allow_nan=False)
ZONES = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
TIMES = st.datetimes(timezones=ZONES).filter(lambda time: 1 < time.year < 9998)
USAGE = st.fixed_dictionaries(
    {"prompt_tokens": COUNT, "completion_tokens": COUNT, "cached_tokens": COUNT, "cost_usd": MONEY}
)
CALLS = st.builds(
    dict,
    step=TEXT,
    order=st.sampled_from([None, "AB", "BA"]),
    repeat=st.integers(0, 50),
    attempt=st.integers(1, 10),
    raw=st.none() | TEXT,
    raw_cut=st.booleans(),
    finish_reason=st.none() | TEXT,
    enforcement=st.sampled_from(["grammar", "provider", "reask", "none"]),
    usage=USAGE,
    latency_ms=st.floats(0, 1e9),
    started_at=TIMES,
    parameters_sent=OBJECT,
    parameters_dropped=st.lists(TEXT, max_size=3),
    engine=OBJECT,
    probabilities=st.none() | st.just({"v": {"a": 0.25, "b": 0.75}}),
    label_mass=st.none() | st.just({"v": 0.5}),
    cached=st.booleans(),
    error=st.none()
    | st.fixed_dictionaries(
        {"reason": st.sampled_from([reason.value for reason in JudgeErrorReason]), "message": TEXT}
    ),
)
ENDS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries(
        {
            "outcome": st.just("scored"),
            "score": st.floats(allow_nan=False, allow_infinity=False),
            "label": TEXT,
            "confidence": st.none() | st.just({"value": 0.5, "source": "vote_share"}),
        }
    ),
    st.builds(lambda reason: {"outcome": "judge_error", "reason": reason.value}, st.sampled_from(JudgeErrorReason)),
    st.just({"outcome": "inconsistent"}),
)


@st.composite
def judgments(draw: st.DrawFn) -> Judgment:
    fields: dict[str, Any] = {"score": None, "label": None} | draw(ENDS)
    return judgment(
        uuid.uuid4().hex,
        id=uuid.uuid4().hex,
        case_id=draw(TEXT.filter(bool)),
        group=draw(st.none() | TEXT),
        model=draw(TEXT),
        metadata=draw(st.dictionaries(TEXT, st.none() | st.booleans() | st.integers() | TEXT, max_size=3)),
        detail=draw(st.none() | TEXT),
        record=draw(st.none() | OBJECT),
        calls=[call(**one) for one in draw(st.lists(CALLS, max_size=3))],
        usage=draw(USAGE),
        latency_ms=draw(st.floats(0, 1e9)),
        created_at=draw(TIMES),
        **fields,
    )


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(one=judgments())
def test_any_judgment_round_trips_exactly(store: Store, one: Judgment) -> None:
    store.judgments.record(one)
    stored = store.judgments.get(one.id)
    assert stored == one
    assert stored is not None
    assert [type(made) for made in stored.calls] == [Call] * len(one.calls)
