import pytest

from judge_service.domain.calibration_set import Split, UsePurpose
from judge_service.sets.grouping import freeze_set
from judge_service.sets.importing import import_cases
from judge_service.sets.summary import summarise
from judge_service.sets.versions import difference, new_version, view_cases
from judge_service.store import Store

from .conftest import MakeFile, pair


def frozen(store: Store, file: MakeFile) -> None:
    store.sets.create("s", "pairwise@1")
    rows = [pair("a", split="development"), pair("b"), pair("c", split="release"), pair("d", annotators=["A", "B"])]
    import_cases(store, "s", file(rows))
    freeze_set(store, "s")


def test_a_new_version_holds_the_same_and_says_what_changed(store: Store, file: MakeFile) -> None:
    frozen(store, file)
    made = new_version(store, "s@1", note="more")
    assert (made.id, made.parent, made.status, made.n_cases, made.n_labels) == ("s@2", "s@1", "open", 4, 6)
    assert difference(store, "s@1", "s@2").same
    assert store.sets.digest("s@2") == store.sets.get("s@1").content_hash
    import_cases(store, "s@2", file([pair("e"), pair("b", "B", annotator="bob")]))
    store.sets.assign("s@2", splits={"a": Split.CALIBRATION}, groups={"b": "g"})
    found = difference(store, "s@1", "s@2")
    assert (found.n_added, found.n_removed, found.n_changed, found.n_labels_added) == (1, 0, 2, 2)
    assert found.added == ("e",)
    assert {change.case_id: change.fields for change in found.changed} == {
        "a": {"split": ("development", "calibration")},
        "b": {"group": (None, "g")},
    }
    assert found.moved == {"development -> calibration": 1}
    back = difference(store, "s@2", "s@1")
    assert (back.n_removed, back.n_labels_removed, back.removed) == (1, 2, ("e",))
    assert store.sets.get("s").id == "s@2"


def test_a_changed_label_is_named_with_its_annotator(lite: Store, file: MakeFile) -> None:
    for name, label in (("one", "A"), ("two", "B")):
        lite.sets.create(name, "pairwise@1")
        import_cases(lite, name, file([pair("a", label, annotator="ada", response_a=name)]))
    found = difference(lite, "one", "two")
    assert found.changed[0].fields == {"response_a": ("one", "two")}
    (change,) = found.labels_changed
    assert (change.case_id, change.annotator, change.fields["label"]) == ("a", "ada", ("A", "B"))


def test_looking_at_release_is_recorded_and_moves_it(store: Store, file: MakeFile) -> None:
    frozen(store, file)
    assert [entry.case.id for entry in view_cases(store, "s", None, who="ada")] == ["a", "b", "d"]
    assert store.sets.uses("s@1") == []
    assert [entry.case.id for entry in view_cases(store, "s", Split.RELEASE, who="ada")] == ["c"]
    (use,) = store.sets.uses("s@1")
    assert (use.purpose, use.split, use.note) == (UsePurpose.VIEWED, Split.RELEASE, "ada")
    found = summarise(store, "s")
    assert found.splits == {"development": 2, "calibration": 2, "release": 0, "monitoring": 0}
    assert found.version.release_demoted_at == use.at
    assert [entry.case.id for entry in view_cases(store, "s", None, who="ada")] == ["a", "b", "c", "d"]
    assert new_version(store, "s@1").n_cases == 4
    assert store.sets.split_counts("s@2")[Split.DEVELOPMENT] == 2


def test_a_summary_counts_each_label_once(lite: Store, file: MakeFile) -> None:
    frozen(lite, file)
    found = summarise(lite, "s")
    assert found.labels == {"blind": 5, "assisted": 0, "adjudicated": 1, "by_model": 0, "skipped": 0}
    assert found.annotators == {"gold": 3, "annotator-1": 1, "annotator-2": 1, "final": 1}
    assert (found.n_groups, found.leaks) == (4, None)


@pytest.mark.parametrize("purpose", [UsePurpose.SCORED, UsePurpose.EXPORTED])
def test_scoring_and_exporting_keep_the_release_split(lite: Store, file: MakeFile, purpose: UsePurpose) -> None:
    frozen(lite, file)
    lite.sets.record_use("s@1", Split.RELEASE, "h", purpose)
    assert lite.sets.split_counts("s@1")[Split.RELEASE] == 1
