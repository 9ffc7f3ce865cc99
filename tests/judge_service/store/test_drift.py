"""Drift records on SQLite and PostgreSQL."""

from datetime import timedelta

from judge_service.domain.calibration_set import SetCase, Split
from judge_service.domain.case import Case
from judge_service.domain.drift import DriftRecord, DriftVerdict
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
