"""A test case is known by its content: what is done with a copy of it is done with it."""

from typing import Any

import pytest

from judge_service.domain.calibration_set import SetCase, SpentBy, Split, UsePurpose
from judge_service.domain.case import Case
from judge_service.errors import Conflict
from judge_service.sets.grouping import freeze_set
from judge_service.sets.importing import import_cases
from judge_service.sets.summary import summarise
from judge_service.sets.versions import new_version, view_cases
from judge_service.store import Store
from judge_service.store.contents import content_key

from .conftest import MakeFile, pair

TESTS = [pair("a", split="release"), pair("b", split="release", group="doc"), pair("c", split="release", group="doc")]


def frozen(store: Store, file: MakeFile, name: str = "s", rows: object = None) -> str:
    store.sets.create(name, "pairwise@1")
    import_cases(store, name, file(rows or [*TESTS, pair("d")], f"{name}.jsonl"))
    return freeze_set(store, name).id


def release(store: Store, reference: str) -> list[str]:
    return [entry.case.id for entry in store.sets.cases(reference, Split.RELEASE)]


def test_what_a_copy_is_used_for_counts_in_every_version(store: Store, file: MakeFile) -> None:
    frozen(store, file)
    frozen(
        store, file, "other", [pair("renamed", **{k: v for k, v in pair("a").items() if k != "id"}, split="release")]
    )
    assert release(store, "other@1") == ["renamed"]
    store.sets.record_use("other@1", Split.RELEASE, "h", UsePurpose.TUNED)
    assert release(store, "s@1") == ["b", "c"]
    assert store.sets.split_counts("s@1") == {
        Split.DEVELOPMENT: 1,
        Split.CALIBRATION: 1,
        Split.RELEASE: 2,
        Split.MONITORING: 0,
    }
    assert store.sets.case("s@1", "a").split is Split.DEVELOPMENT  # type: ignore[union-attr]
    (case,) = store.sets.spent("s@1").cases
    assert (case.case_id, case.why, case.set_id, case.split) == ("a", SpentBy.TUNED, "other@1", Split.RELEASE)
    assert store.sets.get("s@1").release_demoted_at is None
    assert [use.purpose for use in summarise(store, "s").uses_elsewhere] == [UsePurpose.TUNED]
    # The hash covers the splits as they were frozen.
    assert store.sets.digest("s@1") == store.sets.get("s@1").content_hash
    made = new_version(store, "s@1")
    assert [one.case_id for one in made.spent.cases] == ["a"]
    assert store.sets.split_counts("s@2")[Split.RELEASE] == 2
    store.sets.create("third", "pairwise@1")
    told = import_cases(store, "third", file(TESTS, "third.jsonl"))
    assert (told.spent.n, told.spent.cases[0].case_id) == (1, "a")
    assert freeze_set(store, "third").spent.n == 1


def test_a_group_is_spent_together(store: Store, file: MakeFile) -> None:
    frozen(store, file)
    frozen(store, file, "other", [TESTS[1]])
    list(view_cases(store, "other", Split.RELEASE, who="ada"))
    assert release(store, "s@1") == ["a"]
    assert {case.case_id: case.why for case in store.sets.spent("s@1").cases} == {
        "b": SpentBy.VIEWED,
        "c": SpentBy.GROUP,
    }


def test_looking_at_an_open_copy_is_looking_at_the_test(store: Store, file: MakeFile) -> None:
    frozen(store, file)
    new_version(store, "s@1")
    store.sets.assign("s@2", splits={"a": Split.CALIBRATION})
    assert [entry.case.id for entry in view_cases(store, "s@2", None, who="ada")] == ["d"]
    assert store.sets.uses("s@2") == []
    assert [entry.case.id for entry in view_cases(store, "s@2", Split.CALIBRATION, who="ada")] == ["a", "d"]
    assert [(use.purpose, use.split) for use in store.sets.uses("s@2")] == [(UsePurpose.VIEWED, Split.CALIBRATION)]
    assert release(store, "s@1") == ["b", "c"]
    list(view_cases(store, "s@2", Split.CALIBRATION, who="ada"))
    assert len(store.sets.uses("s@2")) == 1


def test_a_test_is_not_spent_by_freezing_it_elsewhere_unawares(store: Store, file: MakeFile) -> None:
    frozen(store, file)
    new_version(store, "s@1")
    store.sets.assign("s@2", splits={"a": Split.DEVELOPMENT})
    with pytest.raises(Conflict, match="1 cases of s@2 stand in the release split of s@1: 'a'") as caught:
        freeze_set(store, "s@2")
    assert caught.value.extra["at_stake"] == [{"case_id": "a", "split": "development", "set_id": "s@1"}]
    assert store.sets.get("s@2").status == "open"
    assert freeze_set(store, "s@2", spend=True).status == "frozen"
    assert release(store, "s@1") == ["b", "c"]
    assert store.sets.spent("s@1").cases[0].why is SpentBy.OTHER_SPLIT


def test_what_stood_in_another_split_is_no_test_later(store: Store, file: MakeFile) -> None:
    frozen(store, file)
    new_version(store, "s@1")
    store.sets.assign("s@2", splits={"d": Split.RELEASE})
    assert freeze_set(store, "s@2").spent.cases[0].case_id == "d"
    assert release(store, "s@2") == ["a", "b", "c"]


def test_a_configuration_is_scored_once_on_shared_cases(store: Store, file: MakeFile) -> None:
    frozen(store, file)
    frozen(store, file, "other", [TESTS[0], pair("x", split="release")])
    (use,) = store.sets.record_scores("s@1", {"judge": "h"}, "usual")
    assert use.purpose is UsePurpose.SCORED
    assert store.sets.record_scores("s@1", {"judge": "h"}, "usual") == ()
    for reference, note in (("s@1", "failures tie"), ("other@1", "usual")):
        with pytest.raises(Conflict, match="scored there once"):
            store.sets.record_scores(reference, {"judge": "h"}, note)
    assert store.sets.record_scores("other@1", {"judge": "another"}, "usual")[0].purpose is UsePurpose.SCORED
    assert release(store, "other@1") == ["a", "x"]
    assert store.sets.record_scores("other@1", {"judge": "h"}, "usual", again=True)[0].purpose is UsePurpose.TUNED
    assert release(store, "other@1") == []
    assert release(store, "s@1") == ["b", "c"]


@pytest.mark.parametrize(
    ("rubric", "fields", "copy"),
    [
        (
            "faithfulness@1",
            {"contexts": ["One page."], "answer": "So."},
            {"question": None, "contexts": ["One page."], "answer": "So."},
        ),
        (
            "faithfulness@1",
            {"contexts": ["One page."], "answer": "So."},
            {"contexts": [{"text": "One page.", "id": None}], "answer": "So."},
        ),
        ("faithfulness@1", {"answer": "So."}, {"contexts": [], "question": "", "answer": "So."}),
        (
            "pairwise@1",
            {"prompt": "P?", "response_a": "a", "response_b": "b"},
            {"question": "P?", "answer_a": "a", "answer_b": "b"},
        ),
        (None, {"anything": {"deep": [1]}}, {"anything": {"deep": [1], "more": None}, "other": {}}),
    ],
)
def test_a_copy_that_says_no_more_is_the_same_case(
    store: Store, rubric: str | None, fields: dict[str, Any], copy: dict[str, Any]
) -> None:
    for name, held in (("s", fields), ("copy", copy)):
        store.sets.create(name, rubric)
        store.sets.add_cases(f"{name}@1", [SetCase(case=Case(id=name, input=held), split=Split.RELEASE)])
        freeze_set(store, name)
    assert release(store, "s@1") == ["s"]
    store.sets.record_use("copy@1", Split.RELEASE, "h", UsePurpose.TUNED)
    assert release(store, "s@1") == []
    # What is stored, and so the hash of the set, is what was given.
    assert store.sets.case("copy@1", "copy").case.input == copy  # type: ignore[union-attr]


def test_other_content_stays_another_case() -> None:
    base = {"contexts": ["One page.", "", "Two."], "answer": "So."}
    others = [
        base | {"answer": "So"},
        base | {"question": "Q?"},
        base | {"contexts": ["One page.", "Two."]},
        base | {"contexts": [{"text": "One page.", "title": "T"}, "", "Two."]},
        base | {"answerable": False},
    ]
    keys = [content_key(fields, None) for fields in (base, *others)]
    assert len(set(keys)) == len(keys)
    # Of a rubric that is not known here, or that cannot read the case, the content is what is written.
    assert content_key(base, "nobody@9") == content_key(base, "pairwise@1") == keys[0]


def test_a_rubric_that_is_settled_later_says_what_cases_are(store: Store) -> None:
    store.sets.create("s", "pairwise@1")
    test = SetCase(case=Case(id="s", input={"prompt": "P?", "response_a": "a", "response_b": "b"}), split=Split.RELEASE)
    store.sets.add_cases("s@1", [test])
    freeze_set(store, "s")
    store.sets.create("copy")
    copied = Case(id="c", input={"question": "P?", "answer_a": "a", "answer_b": "b"})
    store.sets.add_cases("copy@1", [SetCase(case=copied, split=Split.CALIBRATION)])
    store.sets.settle_rubric("copy@1", "pairwise@1")
    with pytest.raises(Conflict, match="stand in the release split of s@1"):
        freeze_set(store, "copy")
