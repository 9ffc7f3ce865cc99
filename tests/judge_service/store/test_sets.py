import threading
from collections.abc import Callable
from typing import Any

import pytest

from judge_service.domain.calibration_set import (
    ImportResult,
    Label,
    LabelCondition,
    SetCase,
    Split,
    UsePurpose,
    parse_reference,
)
from judge_service.domain.case import Case
from judge_service.errors import Conflict, InvalidInput, NotFound
from judge_service.store import Store

from .examples import NOON


def entry(case_id: str = "c1", answer: str = "x", split: Split = Split.DEVELOPMENT, **changes: Any) -> SetCase:
    case = Case.model_validate({"id": case_id, "input": {"answer": answer}, **changes})
    return SetCase(case=case, split=split, source_line=1)


def label(set_id: str, case_id: str = "c1", value: str | None = "A", annotator: str = "ann", **changes: Any) -> Label:
    fields: dict[str, Any] = {
        "set_id": set_id,
        "case_id": case_id,
        "rubric": "pairwise@1",
        "annotator": annotator,
        "label": value,
        "detail": {"label": value},
        "created_at": NOON,
        **changes,
    }
    return Label.model_validate(fields)


def test_names_and_versions(store: Store) -> None:
    first = store.sets.create("pairs", "pairwise@1", note="from the pilot")
    assert (first.id, first.version, first.status, first.content_hash) == ("pairs@1", 1, "open", None)
    with pytest.raises(Conflict, match="pairs@1 exists"):
        store.sets.create("pairs")
    second = store.sets.create("pairs", parent="pairs@1")
    assert (second.id, second.parent) == ("pairs@2", "pairs@1")
    assert store.sets.get("pairs") == second
    assert store.sets.get("pairs@1") == first
    assert [version.id for version in store.sets.all()] == ["pairs@1", "pairs@2"]
    with pytest.raises(NotFound, match="pairs@3"):
        store.sets.get("pairs@3")
    with pytest.raises(InvalidInput, match="names no set"):
        store.sets.create("two words")
    assert parse_reference("a.b-c_d@12") == ("a.b-c_d", 12)


def test_cases_come_back_as_they_were_in_their_order(store: Store) -> None:
    odd = [
        entry(
            "00123", 'He said "no".\nSecond line', group="doc/1", metadata={"n": 1, "x": 0.1, "b": True, "none": None}
        ),
        entry("2718281828459045235", "tab\there \U0001f642 \u05e9\u05dc\u05d5\u05dd\u200b", Split.RELEASE),
        entry("12e5", "\x00 nul, \x1b esc, \u2028", Split.CALIBRATION, group=""),
        entry("n4", "", Split.MONITORING),
    ]
    store.sets.create("odd")
    assert store.sets.add_cases("odd@1", odd) == ImportResult(added=4)
    assert list(store.sets.cases("odd@1")) == odd
    assert list(store.sets.cases("odd@1", Split.RELEASE)) == [odd[1]]
    assert store.sets.case("odd@1", "00123") == odd[0]
    assert store.sets.case("odd@1", "123") is None
    assert store.sets.get("odd@1").n_cases == 4
    assert store.sets.split_counts("odd@1") == dict.fromkeys(Split, 1)


def test_the_same_case_again_is_no_change_and_another_content_is_refused(store: Store) -> None:
    store.sets.create("d1")
    assert store.sets.add_cases("d1@1", [entry("q1", "x"), entry("q2", "y")]).added == 2
    store.labels.add("d1@1", [label("d1@1", "q1")])
    assert store.sets.add_cases("d1@1", [entry("q1", "x")]) == ImportResult(unchanged=1)
    with pytest.raises(Conflict, match="'q1'") as caught:
        store.sets.add_cases("d1@1", [entry("q3", "new"), entry("q1", "CHANGED")])
    assert caught.value.extra["differences"] == [
        {"case_id": "q1", "field": "answer", "stored": "x", "given": "CHANGED", "annotator": None}
    ]
    assert [found.case.id for found in store.sets.cases("d1@1")] == ["q1", "q2"]
    assert [found.label for found in store.labels.of("d1@1")] == ["A"]
    store.sets.create("d2")
    assert store.sets.add_cases("d2@1", [entry("q1", "z")]).added == 1


def test_a_check_writes_nothing(store: Store) -> None:
    store.sets.create("s")
    assert store.sets.add_cases("s@1", [entry("a"), entry("b")], check=True).added == 2
    assert store.sets.get("s").n_cases == 0
    store.sets.add_cases("s@1", [entry("a")])
    with pytest.raises(Conflict):
        store.sets.add_cases("s@1", [entry("a", "other")], check=True)
    assert store.labels.add("s@1", [label("s@1", "a")], check=True).added == 1
    assert store.sets.get("s").n_labels == 0


def test_a_proposed_group_does_not_make_the_file_differ(store: Store) -> None:
    store.sets.create("s")
    store.sets.add_cases("s@1", [entry("a"), entry("b", group="g")])
    store.sets.assign("s@1", groups={"a": "near-1"}, splits={"a": Split.CALIBRATION})
    stored = list(store.sets.cases("s@1"))
    assert [(found.case.group, found.split) for found in stored] == [
        ("near-1", Split.CALIBRATION),
        ("g", Split.DEVELOPMENT),
    ]
    assert store.sets.add_cases("s@1", [entry("a"), entry("b", group="g")]).unchanged == 2
    assert store.sets.add_cases("s@1", stored).unchanged == 2
    with pytest.raises(Conflict, match="'b'"):
        store.sets.add_cases("s@1", [entry("b", group="h")])


def test_labels_of_many_stay_beside_each_other(store: Store) -> None:
    store.sets.create("s")
    store.sets.add_cases("s@1", [entry("b"), entry("a")])
    labels = [
        label("s@1", "b", "A", "ann", seconds=4.25, order_shown="BA", note="close\x00"),
        label("s@1", "b", None, "bob"),
        label("s@1", "b", "B", "ann", condition=LabelCondition.ASSISTED),
        label("s@1", "b", "A", "lead", adjudicated=True),
        label("s@1", "a", "tie", "gpt", kind="model"),
    ]
    assert store.labels.add("s@1", labels) == ImportResult(added=5)
    found = list(store.labels.of("s@1"))
    assert sorted(found, key=lambda one: one.id) == sorted(labels, key=lambda one: one.id)
    assert [one.case_id for one in found] == ["b", "b", "b", "b", "a"]
    assert store.labels.of_case("s@1", "b") == found[:4]
    assert list(store.labels.of("s@1", "faithfulness@1")) == []
    assert store.labels.add("s@1", labels) == ImportResult(unchanged=5)
    assert store.sets.get("s").n_labels == 5
    with pytest.raises(Conflict, match="another content") as caught:
        store.labels.add("s@1", [label("s@1", "b", "B", "ann", seconds=4.25, order_shown="BA", note="close\x00")])
    assert [(one["field"], one["annotator"]) for one in caught.value.extra["differences"]] == [
        ("label", "ann"),
        ("detail", "ann"),
    ]
    assert list(store.labels.of("s@1")) == found


def test_labels_of_unknown_cases_are_listed(store: Store) -> None:
    store.sets.create("s")
    store.sets.add_cases("s@1", [entry("c1"), entry("c2")])
    result = store.labels.add("s@1", [label("s@1", "c1"), label("s@1", "c9"), label("s@1", "c9", annotator="bob")])
    assert result == ImportResult(added=1, unjoined=("c9",))
    assert len(list(store.labels.of("s@1"))) == 1


def test_a_frozen_version_does_not_change(store: Store) -> None:
    store.sets.create("s")
    store.sets.add_cases("s@1", [entry("a"), entry("b")])
    store.labels.add("s@1", [label("s@1", "a")])
    digest = store.sets.digest("s@1")
    with pytest.raises(Conflict, match="changed while"):
        store.sets.freeze("s@1", "0" * 64)
    frozen = store.sets.freeze("s@1", digest)
    assert (frozen.status, frozen.content_hash) == ("frozen", digest)
    assert store.sets.freeze("s@1", digest) == frozen
    changes: list[Callable[[], object]] = [
        lambda: store.sets.add_cases("s@1", [entry("c")]),
        lambda: store.labels.add("s@1", [label("s@1", "b")]),
        lambda: store.sets.assign("s@1", splits={"a": Split.RELEASE}),
    ]
    for change in changes:
        with pytest.raises(Conflict, match="frozen"):
            change()
    assert store.sets.digest("s@1") == digest


def test_the_hash_is_of_the_content_not_of_its_order(store: Store) -> None:
    cases, made = [entry("é"), entry("E", split=Split.RELEASE), entry("f", group="g")], []
    for name, order in (("one", cases), ("two", cases[::-1])):
        store.sets.create(name)
        store.sets.add_cases(f"{name}@1", order)
        store.labels.add(f"{name}@1", [label(f"{name}@1", found.case.id) for found in order])
        made.append(store.sets.digest(f"{name}@1"))
    assert made[0] == made[1]
    store.sets.assign("two@1", splits={"f": Split.RELEASE})
    assert store.sets.digest("two@1") != made[0]


def test_uses_are_recorded_and_tuning_demotes_release(store: Store) -> None:
    store.sets.create("s")
    store.sets.add_cases("s@1", [entry("a"), entry("b", split=Split.RELEASE)])
    frozen = store.sets.freeze("s@1", store.sets.digest("s@1"))
    store.sets.record_use("s@1", Split.RELEASE, "h" * 64, UsePurpose.SCORED, NOON, judge="small")
    store.sets.record_use("s@1", Split.DEVELOPMENT, "h" * 64, UsePurpose.TUNED)
    assert store.sets.get("s@1").release_demoted_at is None
    store.sets.record_use("s@1", Split.RELEASE, None, UsePurpose.VIEWED, note="by the lead")
    version = store.sets.get("s@1")
    assert version.release_demoted_at is not None
    assert version.content_hash == frozen.content_hash == store.sets.digest("s@1")
    assert [found.case.id for found in store.sets.cases("s@1", Split.RELEASE)] == []
    assert [found.case.id for found in store.sets.cases("s@1", Split.DEVELOPMENT)] == ["a", "b"]
    assert [found.split for found in store.sets.cases("s@1", as_frozen=True)] == [Split.DEVELOPMENT, Split.RELEASE]
    assert store.sets.split_counts("s@1")[Split.RELEASE] == 0
    assert {(use.purpose, use.judge) for use in store.sets.uses("s@1")} == {
        (UsePurpose.SCORED, "small"),
        (UsePurpose.TUNED, None),
        (UsePurpose.VIEWED, None),
    }


def test_parallel_imports_lose_nothing(store: Store) -> None:
    store.sets.create("s")
    results: list[ImportResult] = []

    def work(start: int) -> None:
        cases = [entry(f"c{number}") for number in range(start, start + 1500)]
        results.append(store.sets.add_cases("s@1", cases))
        results.append(store.labels.add("s@1", [label("s@1", one.case.id, annotator=f"a{start}") for one in cases]))

    threads = [threading.Thread(target=work, args=(start,)) for start in (0, 500, 1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    version = store.sets.get("s@1")
    assert (version.n_cases, version.n_labels) == (2500, 4500)
    assert {one.case.id for one in store.sets.cases("s@1")} == {f"c{number}" for number in range(2500)}
    assert sum(1 for _ in store.labels.of("s@1")) == 4500
    assert sum(result.added for result in results) == 7000
