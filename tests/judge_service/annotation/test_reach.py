"""Cases that no draw could have taken are counted where statistics weigh the drawn ones."""

from judge_service.annotation.labelling import Labelling
from judge_service.domain.calibration_set import Split
from judge_service.reports.drawn import drawn_cases
from judge_service.reports.labelled_set import read_set
from judge_service.store import Store
from tests.judge_service.annotation.projects import a_person, a_project, label_all, pair


def test_cases_of_other_splits_and_later_ones_are_out_of_reach(store: Store) -> None:
    version = store.sets.create("pairs", "pairwise@1")
    splits = [Split.CALIBRATION] * 10 + [Split.DEVELOPMENT] * 4
    entries = [pair(n).model_copy(update={"split": split}) for n, split in enumerate(splits)]
    store.sets.add_cases(version.id, entries)
    person = a_person(store, "Ann")
    drawn = {"selection": {"n": 5}, "splits": ["calibration"], "labels_wanted": 1}
    project = a_project(store, version.id, ("Ann",), **drawn)
    assert project.drawn_from == 10
    label_all(Labelling(store), project, person, "Ann")
    assert read_set(store, version.id).unreachable == 4
    assert read_set(store, version.id, split=Split.CALIBRATION).unreachable == 0
    store.sets.add_cases(version.id, [pair(99).model_copy(update={"split": Split.CALIBRATION})])
    found = read_set(store, version.id, split=Split.CALIBRATION)
    assert found.unreachable == 1
    said = drawn_cases(found.dataset.items, unreachable=found.unreachable)
    assert said is not None
    assert (said["lowest"], said["uneven"], said["stands_for"]) == (0.5, False, 10)
    assert "1 case could not have been drawn" in said["text"]
    everything = a_project(store, version.id, ("Ann",), labels_wanted=1)
    assert everything.drawn_from is None
    assert read_set(store, version.id).unreachable == 0
