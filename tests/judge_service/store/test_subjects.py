import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from judge_service.domain.judge import Judge
from judge_service.domain.planted import ProbeCounts, ProbeResult
from judge_service.domain.principal import ApiKey, Role
from judge_service.errors import Conflict, InvalidInput, NotFound, StoreError
from judge_service.store import Store
from tests.support.waiting import LONG_ENOUGH_S

from .examples import NOON, call, judgment


def key(number: int = 1, **changes: object) -> ApiKey:
    fields = {
        "id": f"{number:012d}",
        "name": "ci",
        "role": Role.SCORE,
        "salt": "00",
        "digest": "11",
        "last_four": "abcd",
        "created_at": NOON + timedelta(seconds=number),
    }
    return ApiKey.model_validate(fields | changes)


def test_keys_are_kept_in_order_and_revoked_once(store: Store) -> None:
    one, two = key(1), key(2, role=Role.ADMIN, name="Ada ✓")
    assert [store.keys.add(two), store.keys.add(one)] == [two, one]
    assert store.keys.all() == [one, two]
    assert store.keys.get(one.id) == one
    assert store.keys.get("nobody") is None
    revoked = store.keys.revoke(one.id)
    assert not revoked.live
    assert store.keys.revoke(one.id) == revoked
    assert store.keys.get(one.id) == revoked
    with pytest.raises(NotFound):
        store.keys.revoke("nobody")
    with pytest.raises(StoreError):
        store.keys.add(two)


def test_a_use_of_a_key_is_noted(database_url: str) -> None:
    with Store.open(database_url, clock=lambda: NOON) as store:
        store.keys.add(key(1))
        store.keys.touch(key(1).id)
        store.facts.set("after", "1")
        stored = store.keys.get(key(1).id)
    assert stored is not None
    assert stored.last_used_at == NOON


def test_the_first_key_is_made_once_by_many(store: Store) -> None:
    made: list[bool] = []
    threads = [
        threading.Thread(target=lambda number=number: made.append(store.keys.add_first(key(number))))
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [False] * 7 + [True]
    assert len(store.keys.all()) == 1


def test_an_idempotency_key_names_one_object(store: Store) -> None:
    claim = store.idempotency.claim
    assert store.idempotency.find("runs by k1", "key", "h1") is None
    assert claim("runs by k1", "key", "h1", "run-1") == "run-1"
    assert claim("runs by k1", "key", "h1", "run-2") == "run-1"
    assert store.idempotency.find("runs by k1", "key", "h1") == "run-1"
    assert claim("runs by k2", "key", "h2", "run-3") == "run-3"
    with pytest.raises(Conflict, match="another request"):
        claim("runs by k1", "key", "h2", "run-4")
    with pytest.raises(Conflict, match="another request"):
        store.idempotency.find("runs by k1", "key", "h2")
    store.idempotency.release("runs by k1", "key")
    assert claim("runs by k1", "key", "h2", "run-4") == "run-4"


def test_simultaneous_claims_agree(store: Store) -> None:
    got: list[str] = []
    threads = [
        threading.Thread(target=lambda n=number: got.append(store.idempotency.claim("s", "k", "h", f"object-{n}")))
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8
    assert len(set(got)) == 1


def test_old_idempotency_keys_are_purged(database_url: str) -> None:
    times = iter([NOON, NOON + timedelta(days=2)])
    with Store.open(database_url) as store:
        store.idempotency._clock = lambda: next(times)
        store.idempotency.claim("s", "old", "h", "1")
        store.idempotency.claim("s", "new", "h", "2")
        assert store.idempotency.purge(NOON + timedelta(days=1)) == 1
        assert store.idempotency.find("s", "old", "h") is None
        assert store.idempotency.find("s", "new", "h") == "2"


def test_judges_are_replaced_by_name(store: Store) -> None:
    first = Judge(name="mine", backend="litellm", model="m1", options={"base_url": "http://localhost:1/v1"})
    second = first.model_copy(update={"model": "m2"})
    store.judges.put(first)
    store.judges.put(Judge(name="another", backend="baseline", model="longer"))
    assert store.judges.get("mine") == first
    store.judges.put(second)
    assert store.judges.get("mine") == second
    assert [judge.name for judge in store.judges.all()] == ["another", "mine"]
    assert store.judges.remove("mine")
    assert not store.judges.remove("mine")
    assert store.judges.get("mine") is None


async def test_the_first_cached_call_of_a_key_stays(store: Store) -> None:
    first, other = call(raw="one \x00"), call(raw="two")
    assert await store.cache.get("k") is None
    for key, one in (("k", first), ("k", other), ("l", other)):
        kept = store.cache.put(key, one)
        if kept is not None:
            await kept
    # A judgment's commit takes along what waits for company.
    await store.judgments.record_async(judgment())
    assert store.cache.find("k") == first
    assert await store.cache.get("k") == first
    assert await store.cache.get("l") == other
    assert store.cache.purge(datetime.now(UTC) + timedelta(minutes=1)) == 2
    assert await store.cache.get("k") is None


def test_a_closed_store_says_so(store: Store) -> None:
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.keys.add(key())


def test_accepted_writes_are_finished_by_close(database_url: str) -> None:
    with Store.open(database_url) as store:
        futures = [store.judgments.submit(judgment(f"w{number}")) for number in range(300)]
    assert all(future.done() for future in futures)
    with Store.open(database_url) as store:
        assert len(store.judgments.currents(f"w{number}" for number in range(300))) == 300


def test_another_process_that_holds_the_write_lock_is_waited_for(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "judge.sqlite3"
    with Store.open(f"sqlite:///{path}") as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        future = store._database.submit(lambda connection: connection.exec_driver_sql("SELECT 1").scalar_one())
        assert not future.done()
        assert store.keys.all() == []  # readers are not held up
        other.execute("ROLLBACK")
        other.close()
        assert future.result(timeout=LONG_ENOUGH_S) == 1


def probed(number: int, *rubrics: str, judge_hash: str = "b" * 64) -> ProbeResult:
    counts = {name: ProbeCounts(probes=4, moved=1, held=2, already=1) for name in rubrics}
    return ProbeResult(
        id=f"prb_{number}",
        judge="small",
        judge_hash=judge_hash,
        models=("tiny-1",),
        probe_set="d" * 64,
        total=ProbeCounts(probes=4 * len(rubrics), moved=len(rubrics), held=2 * len(rubrics), already=len(rubrics)),
        by_rubric=counts,
        by_kind={"order": counts[rubrics[0]]},
        by_place={"answer": counts[rubrics[0]]},
        by_language={"en": counts[rubrics[0]]},
        left_out={"refusal@1": "cannot"},
        moved=("one",),
        created_at=NOON + timedelta(seconds=number),
    )


def test_probe_results_are_read_back_newest_first_and_by_rubric(store: Store) -> None:
    old, new = probed(1, "pairwise@1", "refusal@1"), probed(2, "pairwise@1")
    other = probed(3, "pairwise@1", judge_hash="c" * 64)
    for result in (old, new, other):
        assert store.probes.add(result) == result
    assert store.probes.all(judge="small") == [other, new, old]
    assert store.probes.all(judge_hash="b" * 64) == [new, old]
    assert store.probes.all(judge="nobody") == []
    assert store.probes.latest("b" * 64) == new
    assert store.probes.latest("b" * 64, "refusal@1") == old
    assert store.probes.latest("b" * 64, "faithfulness@1") is None
    assert store.probes.latest("f" * 64) is None


def test_the_audit_log_is_read_newest_first_and_cuts_what_is_too_long(store: Store) -> None:
    for number in range(5):
        store.audit.add("user:aaaaaaaaaaaa", "Lea \u202e\x00", "froze a set", f"pairs@{number}" + "x" * 600)
    entries = store.audit.entries(limit=2)
    assert [one.object[:7] for one in entries] == ["pairs@4", "pairs@3"]
    assert {len(one.object) for one in entries} == {500}
    older = store.audit.entries(before=entries[-1].id)
    assert [one.object[:7] for one in older] == ["pairs@2", "pairs@1", "pairs@0"]
    assert older[0].at.tzinfo is not None


def test_an_audit_entry_is_kept_with_its_change_or_not_at_all(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    made = key()
    with store.audit.along("command line", "command line", "made a key", made.id):
        store.keys.add(made)
    with store.audit.along("command line", "command line", "revoked a key", lambda found: f"{found.id} {found.name}"):
        store.keys.revoke(made.id)
        # Of several changes the first is the one that is noted.
        store.keys.revoke(made.id)
    assert [(one.by, one.what, one.object) for one in store.audit.entries()] == [
        ("command line", "revoked a key", f"{made.id} ci"),
        ("command line", "made a key", made.id),
    ]
    with pytest.raises(NotFound), store.audit.along("a", "b", "revoked a key", "none"):
        store.keys.revoke("absent000000")
    other = key(2)
    monkeypatch.setattr(store.audit, "_fields", lambda *given: {"at": None})
    with (
        pytest.raises(Exception, match=r"audit_log|database|null"),
        store.audit.along("a", "b", "made a key", other.id),
    ):
        store.keys.add(other)
    assert store.keys.get(other.id) is None
    assert len(store.audit.entries()) == 2


def test_guidelines_that_are_too_long_name_their_field(store: Store) -> None:
    for text, note, field in (("x" * 200_001, "n", "text"), ("x", "n" * 2001, "note")):
        with pytest.raises(InvalidInput) as refused:
            store.projects.add_guidelines("p" * 12, text, note, "Lea")
        assert [one.path for one in refused.value.fields] == [field]
