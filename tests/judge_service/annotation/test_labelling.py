from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from judge_service.annotation.labelling import Labelling
from judge_service.domain.annotation import Action, State
from judge_service.errors import Conflict, Forbidden, InvalidInput, NotFound
from judge_service.store import Store
from judge_service.store.assignments import EnoughLabels, NothingToUndo, ProjectClosed, StaleSave
from tests.judge_service.annotation.projects import a_person, a_project, a_set, label_all, say

ANN, BOB, CY = "Ann", "Bob", "Cy"


def test_a_case_goes_to_as_many_people_as_labels_are_wanted(store: Store) -> None:
    reference = a_set(store, 5)
    people = {name: a_person(store, name) for name in (ANN, BOB, CY)}
    project = a_project(store, reference, (ANN, BOB, CY))
    labelling = Labelling(store)
    assert label_all(labelling, project, people[ANN], ANN) == 5
    assert label_all(labelling, project, people[BOB], BOB, "second") == 5
    assert labelling.next(project.id, people[CY]) is None
    assert labelling.progress(project.id, people[CY]).open_for_others == 0
    labels = list(store.labels.of(reference))
    assert Counter(label.annotator for label in labels) == {ANN: 5, BOB: 5}
    assert store.sets.get(reference).n_labels == 10


@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_twenty_at_once_never_break_the_number_of_labels(store: Store, database_url: str, wanted: int) -> None:
    reference = a_set(store, 12)
    names = tuple(f"Person {number:02}" for number in range(20))
    people = {name: a_person(store, name) for name in names}
    project = a_project(store, reference, names, labels_wanted=wanted)
    # Two processes on one database: each has a writer of its own.
    with Store.open(database_url) as other, ThreadPoolExecutor(20) as pool:

        def work(number: int) -> int:
            labelling = Labelling(store if number % 2 else other)
            return label_all(labelling, project, people[names[number]], names[number])

        done = sum(pool.map(work, range(20)))
    assert done == 12 * wanted
    labels = Counter(label.case_id for label in store.labels.of(reference))
    assert set(labels.values()) == {wanted}
    assert len(labels) == 12
    taken = Counter((one.case_id, one.person) for one in store.assignments.of(project.id))
    assert set(taken.values()) == {1}
    assert store.sets.get(reference).n_labels == 12 * wanted


def test_a_skip_is_no_label_and_gives_the_place_back(store: Store) -> None:
    reference = a_set(store, 1)
    ann, bob, cy = (a_person(store, name) for name in (ANN, BOB, CY))
    project = a_project(store, reference, (ANN, BOB, CY))
    labelling = Labelling(store)
    assert label_all(labelling, project, ann, ANN) == 1
    shown = labelling.next(project.id, bob)
    assert shown is not None
    labelling.skip(shown.case, bob, shown.version, "Not my field.")
    assert labelling.next(project.id, bob) is None
    assert labelling.progress(project.id, bob).open_for_others == 1
    assert label_all(labelling, project, cy, CY) == 1
    assert labelling.next(project.id, bob) is None
    assert labelling.progress(project.id, bob).open_for_others == 0
    skipped = store.assignments.get(shown.case)
    assert (skipped.state, skipped.skip_reason, skipped.place) == (State.SKIPPED, "Not my field.", None)
    assert [label.annotator for label in store.labels.of(reference)] == [ANN, CY]


def test_sides_are_drawn_once_and_the_label_is_in_the_callers_frame(store: Store) -> None:
    reference = a_set(store, 30)
    ann = a_person(store, ANN)
    project = a_project(store, reference, (ANN,), labels_wanted=1)
    labelling = Labelling(store)
    orders = Counter()
    while (shown := labelling.next(project.id, ann)) is not None:
        again = labelling.next(project.id, ann)
        assert again is not None
        assert again.form == shown.form
        texts = {text.id: text.text for text in shown.form.texts}
        orders[texts["first"].split()[0]] += 1
        say(labelling, shown, ann, ANN, "first" if texts["first"].startswith("Teal") else "second")
    assert min(orders["Teal"], orders["Ochre"]) >= 5
    labels = list(store.labels.of(reference))
    assert {label.label for label in labels} == {"A"}
    assert {label.order_shown for label in labels} == {"AB", "BA"}


def test_each_person_has_an_own_order_that_stays(store: Store) -> None:
    reference = a_set(store, 20)
    ann, bob = a_person(store, ANN), a_person(store, BOB)
    project = a_project(store, reference, (ANN, BOB))
    first, second = store.projects.order(project.id, ann), store.projects.order(project.id, bob)
    assert first != second
    assert sorted(first) == sorted(second)
    store.projects.leave(project.id, ann)
    with pytest.raises(Forbidden):
        Labelling(store).next(project.id, ann)
    from judge_service.annotation.projects import add_annotators

    add_annotators(store, project.id, [ANN])
    assert store.projects.order(project.id, ann) == first


def test_what_is_shown_holds_nothing_that_unblinds(store: Store) -> None:
    reference = a_set(store, 1)
    ann, bob = a_person(store, ANN), a_person(store, BOB)
    project = a_project(store, reference, (ANN, BOB))
    labelling = Labelling(store)
    shown = labelling.next(project.id, ann)
    assert shown is not None
    say(labelling, shown, ann, ANN, note="A secret of Ann's.")
    other = labelling.next(project.id, bob)
    assert other is not None
    text = other.model_dump_json()
    assert "model-x" not in text
    assert "secret" not in text
    assert ANN not in text
    assert other.suggestions == ()
    for call in (
        lambda: labelling.show(shown.case, bob),
        lambda: labelling.save(shown.case, bob, BOB, {"answers": {"label": "first"}}, 1),
        lambda: labelling.keep_draft(shown.case, bob, {}, 0),
        lambda: labelling.skip(shown.case, bob, 1, "x"),
        lambda: labelling.flag(shown.case, bob, "x"),
    ):
        with pytest.raises(Forbidden):
            call()


def test_a_stale_save_shows_both_and_one_sent_twice_is_one(store: Store) -> None:
    reference = a_set(store, 1)
    ann = a_person(store, ANN)
    project = a_project(store, reference, (ANN,))
    labelling = Labelling(store)
    shown = labelling.next(project.id, ann)
    assert shown is not None
    saved = say(labelling, shown, ann, ANN, "first")
    assert say(labelling, shown, ann, ANN, "first") == saved
    with pytest.raises(StaleSave) as caught:
        say(labelling, shown, ann, ANN, "second")
    assert caught.value.status == 409
    assert caught.value.extra["yours"] == {"answers": {"label": "second"}}
    assert caught.value.extra["saved"]["answers"] == {"label": "first"}
    kept = say(labelling, shown, ann, ANN, "second", version=caught.value.extra["version"])
    assert kept.version == 2
    assert len(list(store.labels.of(reference))) == 1
    assert [event.action for event in store.assignments.history(shown.case)] == [Action.SAVED, Action.CHANGED]


def test_undo_is_one_step_and_the_history_stays(store: Store) -> None:
    reference = a_set(store, 3)
    ann = a_person(store, ANN)
    project = a_project(store, reference, (ANN,))
    labelling = Labelling(store)
    with pytest.raises(NothingToUndo):
        labelling.undo(project.id, ann)
    first = labelling.next(project.id, ann)
    assert first is not None
    say(labelling, first, ann, ANN, "tie", note="Close.")
    second = labelling.next(project.id, ann)
    assert second is not None
    assert second.case != first.case
    back = labelling.undo(project.id, ann)
    assert back.case == first.case
    assert back.draft == {"answers": {"label": "tie"}}
    assert back.note == "Close."
    assert store.sets.get(reference).n_labels == 0
    current = labelling.next(project.id, ann)
    assert current is not None
    assert current.case == first.case
    say(labelling, current, ann, ANN, "first")
    following = labelling.next(project.id, ann)
    assert following is not None
    assert following.case == second.case
    actions = [event.action for event in store.assignments.history(first.case)]
    assert actions == [Action.SAVED, Action.UNDONE, Action.SAVED]
    assert store.assignments.history(first.case)[1].document["answer"] == {"answers": {"label": "tie"}}
    assert store.sets.get(reference).n_labels == 1


def test_a_skip_can_be_undone(store: Store) -> None:
    reference = a_set(store, 1)
    ann, bob = a_person(store, ANN), a_person(store, BOB)
    project = a_project(store, reference, (ANN, BOB), labels_wanted=1)
    labelling = Labelling(store)
    shown = labelling.next(project.id, ann)
    assert shown is not None
    labelling.skip(shown.case, ann, shown.version, "Unsure.")
    assert labelling.undo(project.id, ann).state is State.OPEN
    again = labelling.next(project.id, ann)
    assert again is not None
    labelling.skip(again.case, ann, again.version, "Unsure.")
    assert label_all(labelling, project, bob, BOB) == 1
    with pytest.raises(EnoughLabels):
        labelling.undo(project.id, ann)


def test_drafts_are_kept_and_a_newer_one_is_not_overwritten(store: Store) -> None:
    reference = a_set(store, 1)
    ann = a_person(store, ANN)
    project = a_project(store, reference, (ANN,))
    labelling = Labelling(store)
    shown = labelling.next(project.id, ann)
    assert shown is not None
    draft = {"answers": {"label": "tie"}, "items": []}
    kept = labelling.keep_draft(shown.case, ann, draft, 0, 3.0)
    assert kept.draft_version == 1
    reloaded = labelling.next(project.id, ann)
    assert reloaded is not None
    assert reloaded.draft == draft
    with pytest.raises(StaleSave) as caught:
        labelling.keep_draft(shown.case, ann, {"answers": {"label": "first"}, "items": []}, 0)
    assert caught.value.extra["saved"] == draft
    with pytest.raises(InvalidInput):
        labelling.keep_draft(shown.case, ann, {"answers": "tie"}, 1)


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def test_a_lease_that_ran_out_goes_to_others_and_the_draft_stays(database_url: str) -> None:
    clock = Clock()
    with Store.open(database_url, clock=clock) as store:
        reference = a_set(store, 1)
        ann, bob, cy = (a_person(store, name) for name in (ANN, BOB, CY))
        project = a_project(store, reference, (ANN, BOB, CY), labels_wanted=1, lease_minutes=10)
        labelling = Labelling(store)
        shown = labelling.next(project.id, ann)
        assert shown is not None
        labelling.keep_draft(shown.case, ann, {"answers": {"label": "tie"}, "items": []}, 0)
        assert labelling.next(project.id, bob) is None
        clock.now += timedelta(minutes=11)
        taken = labelling.next(project.id, bob)
        assert taken is not None
        with pytest.raises(EnoughLabels):
            say(labelling, shown, ann, ANN, "second")
        assert labelling.show(shown.case, ann).draft == {"answers": {"label": "second"}}
        assert labelling.next(project.id, ann) is None
        assert labelling.progress(project.id, ann).left == 0
        clock.now += timedelta(minutes=11)
        # Bob's lease ran out too: the first who comes has the place.
        assert say(labelling, shown, ann, ANN, "second").state is State.SAVED
        with pytest.raises(EnoughLabels):
            say(labelling, taken, bob, BOB)
        assert labelling.next(project.id, cy) is None
        assert [label.annotator for label in store.labels.of(reference)] == [ANN]


def test_active_seconds_are_never_more_than_passed(database_url: str) -> None:
    clock = Clock()
    with Store.open(database_url, clock=clock) as store:
        reference = a_set(store, 1)
        ann = a_person(store, ANN)
        project = a_project(store, reference, (ANN,))
        labelling = Labelling(store)
        shown = labelling.next(project.id, ann)
        assert shown is not None
        clock.now += timedelta(seconds=20)
        labelling.keep_draft(shown.case, ann, {"answers": {}, "items": []}, 0, 5.0)
        say(labelling, shown, ann, ANN, seconds=9000.0)
        (label,) = store.labels.of(reference)
        assert label.seconds == 25.0


def test_closed_projects_and_frozen_sets_take_nothing_and_lose_nothing(store: Store) -> None:
    reference = a_set(store, 2)
    ann = a_person(store, ANN)
    project = a_project(store, reference, (ANN,))
    labelling = Labelling(store)
    shown = labelling.next(project.id, ann)
    assert shown is not None
    store.projects.close(project.id, closed=True)
    with pytest.raises(ProjectClosed):
        say(labelling, shown, ann, ANN)
    with pytest.raises(ProjectClosed):
        labelling.next(project.id, ann)
    assert labelling.show(shown.case, ann).draft == {"answers": {"label": "first"}}
    store.projects.close(project.id, closed=False)
    store.sets.freeze(reference, store.sets.digest(reference))
    with pytest.raises(Conflict, match="frozen"):
        say(labelling, shown, ann, ANN)
    assert labelling.show(shown.case, ann).draft == {"answers": {"label": "first"}}


def test_qualification_comes_first_and_makes_no_label_of_the_set(store: Store) -> None:
    reference = a_set(store, 2)
    ann, bob = a_person(store, ANN), a_person(store, BOB)
    known = {"input": {"prompt": "Known", "response_a": "Right.", "response_b": "Wrong."}, "label": "A"}
    project = a_project(store, reference, (ANN, BOB), qualification=[known], labels_wanted=1)
    labelling = Labelling(store)
    for person, name in ((ann, ANN), (bob, BOB)):
        shown = labelling.next(project.id, person)
        assert shown is not None
        assert shown.form.texts[0].text == "Known"
        say(labelling, shown, person, name)
    assert list(store.labels.of(reference)) == []
    assert labelling.progress(project.id, ann).qualification_done == 1
    assert label_all(labelling, project, ann, ANN) == 2


def test_overlap_says_how_many_cases_want_several_labels(store: Store) -> None:
    reference = a_set(store, 20)
    a_person(store, ANN)
    project = a_project(store, reference, (ANN,), overlap=0.25, labels_wanted=3)
    assert Counter(case.wanted for case in store.projects.cases(project.id)) == {1: 15, 3: 5}


def test_an_imported_label_of_the_same_name_is_kept(store: Store) -> None:
    from judge_service.sets.labelling import Labeller

    reference = a_set(store, 1)
    ann = a_person(store, ANN)
    maker = Labeller(reference, datetime.now(UTC), rubric="pairwise@1")
    store.labels.add(reference, [maker.label("model-x/0", {"annotator": ANN, "label": "B"})])
    project = a_project(store, reference, (ANN,))
    labelling = Labelling(store)
    shown = labelling.next(project.id, ann)
    assert shown is not None
    with pytest.raises(Conflict, match="imported"):
        say(labelling, shown, ann, ANN, "tie")
    assert [label.label for label in store.labels.of(reference)] == ["B"]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"annotators": ["Nobody"]}, "annotators[0]"),
        ({"rubric": "faithfulness@1"}, "rubric"),
        ({"splits": ["release"]}, "set"),
        ({"qualification": [{"input": {"prompt": "x"}, "label": "A"}]}, "qualification[0].case.response_a"),
        ({"qualification": [{"input": {}, "label": "C"}]}, "qualification[0].label"),
        ({"selection": {"n": 9}}, "selection.n"),
        ({"due_at": "2026-01-01T00:00:00"}, "due_at"),
    ],
)
def test_a_project_that_cannot_be_is_refused_with_the_field(store: Store, fields: dict, path: str) -> None:
    reference = a_set(store, 2)
    with pytest.raises(InvalidInput) as caught:
        a_project(store, reference, (), **fields)
    assert path in {problem.path for problem in caught.value.fields}
    assert store.projects.all() == []


def test_a_case_that_is_not_there_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        Labelling(store).show("0" * 32, "user:" + "a" * 12)
    with pytest.raises(NotFound):
        Labelling(store).next("a" * 12, "user:" + "a" * 12)
