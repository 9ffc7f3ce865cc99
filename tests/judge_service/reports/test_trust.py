from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from judge_service.domain.calibration import Calibration, FittedMap
from judge_service.domain.calibration_set import SetCase, Split
from judge_service.domain.case import Case
from judge_service.domain.judge import ConfidenceSource, Judge
from judge_service.domain.judgment import Confidence, TrustLevel
from judge_service.reports.trust import StoredTrust
from judge_service.sets.versions import new_version
from judge_service.store import Store

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
JUDGE = Judge(name="small", backend="scripted", model="tiny")
HASH = JUDGE.content_hash
RAW = Confidence(value=0.9, source=ConfidenceSource.VERBALISED)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path}/trust.sqlite3") as opened:
        yield opened


def frozen(store: Store, name: str = "set", parent: str | None = None) -> str:
    version = store.sets.create(name, "pairwise@1", parent=parent)
    case = Case(id="c", input={"prompt": version.id, "response_a": "a", "response_b": "b"})
    store.sets.add_cases(version.id, [SetCase(case=case)])
    store.sets.freeze(version.id, store.sets.digest(version.id))
    return version.id


def calibration(set_id: str, **changes: Any) -> Calibration:
    fields: dict[str, Any] = {
        "id": "cal_1",
        "rubric": "pairwise@1",
        "rubric_hash": "r" * 64,
        "judge": "small",
        "judge_hash": HASH,
        "models": ("tiny-1",),
        "set_id": set_id,
        "set_hash": "s" * 64,
        "split": Split.CALIBRATION,
        "runs": ("run_1",),
        "n": 120,
        "groups": 100,
        "agreement": 0.8,
        "agreement_low": 0.7,
        "agreement_high": 0.9,
        "kappa": 0.6,
        "position_consistency": 0.95,
        "ece": 0.04,
        "created_at": NOON,
    }
    return Calibration.model_validate(fields | changes)


def asked(trust: StoredTrust, **changes: Any) -> Any:
    fields = {"rubric_id": "pairwise@1", "rubric_hash": "r" * 64, "judge": JUDGE, "judge_hash": HASH, "model": "tiny-1"}
    return trust.trust(**(fields | changes))


def test_nothing_measured_is_uncalibrated(store: Store) -> None:
    found = asked(StoredTrust(store))
    assert found.level is TrustLevel.UNCALIBRATED
    assert "small" in found.reason
    assert found.agreement is None


def test_a_measurement_over_uneven_draws_says_how_sure_it_is(store: Store) -> None:
    store.calibrations.add(calibration(frozen(store), effective_n=61.7), {})
    found = asked(StoredTrust(store))
    assert (found.n, found.effective_n, found.ece) == (120, 61.7, 0.04)
    assert "drawn with unequal probabilities and are weighed by them: as sure as 62 evenly drawn cases" in found.reason


def test_a_measurement_carries_its_figures(store: Store) -> None:
    store.calibrations.add(calibration(frozen(store)), {})
    found = asked(StoredTrust(store))
    assert found.level is TrustLevel.CALIBRATED
    assert found.model_dump(exclude={"level", "reason"}) == {
        "calibration_set": "set@1",
        "n": 120,
        "effective_n": None,
        "agreement": 0.8,
        "agreement_low": 0.7,
        "agreement_high": 0.9,
        "kappa": 0.6,
        "position_consistency": 0.95,
        "ece": 0.04,
        "report": "/v1/calibrations/cal_1",
    }


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rubric_hash": "x" * 64}, "another content"),
        ({"rubric_id": "pairwise@2", "rubric_hash": "x" * 64}, "Measured under pairwise@1"),
        ({"judge_hash": "x" * 64}, "configuration changed"),
        ({"model": "tiny-2"}, "tiny-2 answered now"),
    ],
)
def test_what_changed_since_makes_it_stale(store: Store, changes: dict[str, str], said: str) -> None:
    store.calibrations.add(calibration(frozen(store)), {})
    found = asked(StoredTrust(store), **changes)
    assert found.level is TrustLevel.STALE
    assert said in found.reason
    assert found.n == 120


def test_a_newer_frozen_version_of_the_set_makes_it_stale(store: Store) -> None:
    first = frozen(store)
    store.calibrations.add(calibration(first), {})
    trust = StoredTrust(store)
    store.sets.create("set", parent=first)
    trust.refresh()
    assert asked(trust).level is TrustLevel.CALIBRATED
    second = frozen(store, parent=first)
    trust.refresh()
    found = asked(trust)
    assert found.level is TrustLevel.STALE
    assert second in found.reason
    store.calibrations.add(calibration(second, id="cal_2", created_at=NOON + timedelta(hours=1)), {})
    assert asked(trust).level is TrustLevel.CALIBRATED


def test_a_newer_version_with_the_same_content_changes_nothing(store: Store) -> None:
    first = store.sets.get(frozen(store))
    store.calibrations.add(calibration(first.id, set_hash=first.content_hash), {})
    copy = new_version(store, first.id)
    assert store.sets.freeze(copy.id, store.sets.digest(copy.id)).content_hash == first.content_hash
    assert asked(StoredTrust(store)).level is TrustLevel.CALIBRATED


def test_before_a_call_the_model_is_not_known(store: Store) -> None:
    store.calibrations.add(calibration(frozen(store)), {})
    assert asked(StoredTrust(store), model=None).level is TrustLevel.CALIBRATED


def test_another_rubric_and_another_judge_are_not_related(store: Store) -> None:
    store.calibrations.add(calibration(frozen(store)), {})
    trust = StoredTrust(store)
    assert asked(trust, rubric_id="faithfulness@1").level is TrustLevel.UNCALIBRATED
    other = Judge(name="other", backend="scripted", model="big")
    assert asked(trust, judge=other, judge_hash=other.content_hash).level is TrustLevel.UNCALIBRATED
    renamed = JUDGE.model_copy(update={"name": "renamed"})
    assert asked(trust, judge=renamed).level is TrustLevel.CALIBRATED


def test_a_shortcoming_is_insufficient_and_the_best_measurement_counts(store: Store) -> None:
    set_id = frozen(store)
    few = calibration(set_id, id="cal_few", n=12, shortcoming="12 labelled cases; at least 30 are needed.")
    store.calibrations.add(few, {})
    trust = StoredTrust(store)
    found = asked(trust)
    assert found.level is TrustLevel.INSUFFICIENT
    assert found.reason == few.shortcoming
    store.calibrations.add(calibration(set_id, id="cal_all", created_at=NOON - timedelta(days=1)), {})
    assert asked(trust).level is TrustLevel.CALIBRATED


def fitted(**changes: Any) -> FittedMap:
    fields: dict[str, Any] = {
        "id": "map_1",
        "calibration_id": "cal_1",
        "source": ConfidenceSource.VERBALISED,
        "wanted": "logistic",
        "method": "logistic",
        "parameters": {"intercept": 0.0, "slope": 0.5},
        "n": 120,
        "created_at": NOON,
    }
    return FittedMap.model_validate(fields | changes)


def mapped(trust: StoredTrust, given: Confidence = RAW, **changes: Any) -> Confidence:
    fields = {"rubric_id": "pairwise@1", "rubric_hash": "r" * 64, "judge": JUDGE, "judge_hash": HASH, "model": "tiny-1"}
    return trust.calibrated(**(fields | changes), given=given)


def test_a_map_gives_the_calibrated_value_and_its_version(store: Store) -> None:
    store.calibrations.add(calibration(frozen(store)), {}, fitted())
    trust = StoredTrust(store)
    found = mapped(trust)
    assert found.value == 0.9
    assert found.calibrated == pytest.approx(0.75)
    assert found.map_version == "map_1"
    assert mapped(trust, model="tiny-2") == RAW
    other = Confidence(value=0.9, source=ConfidenceSource.TOKEN_PROBABILITY)
    assert mapped(trust, other) == other
    assert store.calibrations.maps("cal_1") == [fitted()]


def test_a_refused_map_leaves_the_confidence_raw(store: Store) -> None:
    refused = fitted(method="identity", parameters={}, refused="No improvement.")
    store.calibrations.add(calibration(frozen(store)), {}, refused)
    assert mapped(StoredTrust(store)) == RAW


def test_what_another_process_measured_is_seen_soon(store: Store, tmp_path: Path) -> None:
    now = [0.0]
    trust = StoredTrust(store, monotonic=lambda: now[0], every_s=5)
    assert asked(trust).level is TrustLevel.UNCALIBRATED
    with Store.open(f"sqlite:///{tmp_path}/trust.sqlite3") as other:
        other.calibrations.add(calibration(frozen(other)), {})
    assert asked(trust).level is TrustLevel.UNCALIBRATED
    now[0] = 6.0
    asked(trust)
    with trust._lock:
        # Free again once the look in the background has ended.
        pass
    assert asked(trust).level is TrustLevel.CALIBRATED


def test_the_first_judgment_after_a_pause_sees_what_was_frozen_meanwhile(store: Store, tmp_path: Path) -> None:
    first = frozen(store)
    store.calibrations.add(calibration(first), {})
    now = [0.0]
    trust = StoredTrust(store, monotonic=lambda: now[0], every_s=5)
    assert asked(trust).level is TrustLevel.CALIBRATED
    with Store.open(f"sqlite:///{tmp_path}/trust.sqlite3") as other:
        frozen(other, parent=first)
    now[0] = 3600.0
    assert asked(trust).level is TrustLevel.STALE


def test_a_freeze_by_this_process_is_seen_at_once(store: Store) -> None:
    first = frozen(store)
    store.calibrations.add(calibration(first), {})
    trust = StoredTrust(store, monotonic=lambda: 0.0)
    assert asked(trust).level is TrustLevel.CALIBRATED
    newer = frozen(store, parent=first)
    assert asked(trust).level is TrustLevel.STALE
    assert newer in asked(trust).reason


def test_a_freeze_by_another_process_is_seen_within_a_second(store: Store, tmp_path: Path) -> None:
    first = frozen(store)
    store.calibrations.add(calibration(first), {})
    now = [0.0]
    trust = StoredTrust(store, monotonic=lambda: now[0])
    assert asked(trust).level is TrustLevel.CALIBRATED
    with Store.open(f"sqlite:///{tmp_path}/trust.sqlite3") as other:
        frozen(other, parent=first)
    now[0] = 1.0
    assert asked(trust).level is TrustLevel.STALE


def test_calibrations_are_listed_newest_first(store: Store) -> None:
    set_id = frozen(store)
    old, new = calibration(set_id), calibration(set_id, id="cal_2", created_at=NOON + timedelta(hours=1))
    store.calibrations.add(old, {"judge": {"n": 120}})
    store.calibrations.add(new, {})
    assert store.calibrations.all(judge="small") == [new, old]
    assert store.calibrations.all(rubric="faithfulness@1") == []
    assert store.calibrations.get("cal_1") == old
    assert store.calibrations.get("nothing") is None
    assert store.calibrations.statistics("cal_1") == {"judge": {"n": 120}}
    assert store.calibrations.statistics("nothing") is None
