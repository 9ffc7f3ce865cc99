from concurrent.futures import ThreadPoolExecutor

import pytest

from judge_service.annotation.adjudication import adjudicate, to_adjudicate, waiting
from judge_service.annotation.labelling import Labelling
from judge_service.annotation.quality import quality
from judge_service.domain.annotation import Project
from judge_service.errors import InvalidInput, NotFound
from judge_service.reports.labelled_set import final_label
from judge_service.store import Store
from tests.judge_service.annotation.projects import LEAD, a_person, a_project, a_set, label_all, say

ANN, BOB = "Ann", "Bob"


def by_content(labelling: Labelling, project, person: str, name: str, wanted) -> None:
    """Label each case with what `wanted` says of its number: A, B or tie."""
    while (shown := labelling.next(project.id, person)) is not None:
        texts = {text.id: text.text for text in shown.form.texts}
        label = wanted(int(texts["prompt"].split()[1]))
        teal = "first" if texts["first"].startswith("Teal") else "second"
        other = "second" if teal == "first" else "first"
        value = {"A": teal, "B": other, "tie": "tie", None: "cannot_say"}[label]
        say(labelling, shown, person, name, value, seconds=2.0, note=f"note of {name}")


def test_under_thirty_pairs_there_are_counts_only(store: Store) -> None:
    reference = a_set(store, 10)
    ann, bob = a_person(store, ANN), a_person(store, BOB)
    project = a_project(store, reference, (ANN, BOB))
    labelling = Labelling(store)
    by_content(labelling, project, ann, ANN, lambda number: "A")
    by_content(labelling, project, bob, BOB, lambda number: "A" if number else "B")
    found = quality(store, project.id)
    assert (found.n_cases, found.n_with_enough_labels, found.n_labels, found.n_pairs) == (10, 10, 20, 10)
    assert (found.reason, found.alpha, found.pairs) == ("few_pairs", None, ())
    assert found.n_disagreements == 1
    assert found.people[0].agreement["value"] == pytest.approx(0.9)
    assert found.people[0].agreement["n"] == 10
    assert found.people[0].drift["reason"] == "few_labels"


def test_agreement_among_people_is_that_of_their_labels(store: Store) -> None:
    reference = a_set(store, 40)
    ann, bob = a_person(store, ANN), a_person(store, BOB)
    project = a_project(store, reference, (ANN, BOB))
    labelling = Labelling(store)
    by_content(labelling, project, ann, ANN, lambda number: "A" if number % 2 else "B")
    by_content(labelling, project, bob, BOB, lambda number: "A" if number % 2 or number == 0 else "B")
    found = quality(store, project.id)
    assert found.reason is None
    assert found.alpha is not None
    # 39 of 40 the same; 20 A and 20 B of Ann, 21 and 19 of Bob.
    observed, n = 2 / 80, 80
    expected = 2 * 41 * 39 / (n * (n - 1))
    assert found.alpha["value"] == pytest.approx(1 - observed / expected)
    assert found.alpha["low"] <= found.alpha["value"] <= found.alpha["high"]
    (pair,) = found.pairs
    assert (pair["n"], pair["same"]) == (40, 39)
    chance = 0.5 * 21 / 40 + 0.5 * 19 / 40
    assert pair["kappa"]["value"] == pytest.approx((39 / 40 - chance) / (1 - chance))
    person = found.people[0]
    assert (person.done, person.skipped, person.n_seconds) == (40, 0, 40)
    assert person.first_side["n"] == 40
    assert person.drift["difference"]["value"] is not None


def test_qualification_results_count_skips_as_not_given(store: Store) -> None:
    reference = a_set(store, 1)
    ann = a_person(store, ANN)
    known = [
        {"input": {"prompt": f"Known {n}", "response_a": "Teal x.", "response_b": "Ochre x."}, "label": "A"}
        for n in range(3)
    ]
    project = a_project(store, reference, (ANN,), qualification=known)
    labelling = Labelling(store)
    first = labelling.next(project.id, ann)
    assert first is not None
    labelling.skip(first.case, ann, first.version, "No idea.")
    by_content(labelling, project, ann, ANN, lambda number: "A" if number != 2 else "B")
    found = quality(store, project.id).people[0].qualification
    assert found["n"] == 3
    assert found["of"] == 3
    assert found["numerator"] in (1.0, 2.0)
    assert quality(store, project.id).n_labels == 1


def test_only_disagreements_wait_and_names_stay_hidden(store: Store) -> None:
    reference = a_set(store, 3)
    ann, bob = a_person(store, ANN), a_person(store, BOB)
    project = a_project(store, reference, (ANN, BOB))
    labelling = Labelling(store)
    by_content(labelling, project, ann, ANN, lambda number: {0: "A", 1: "A", 2: None}[number])
    by_content(labelling, project, bob, BOB, lambda number: {0: "A", 1: "B", 2: "A"}[number])
    (case,) = waiting(store, project.id)
    assert (case.case_id, case.spread) == ("model-x/1", (1, 1))
    shown = to_adjudicate(store, project.id, case.case_id, LEAD)
    assert shown == to_adjudicate(store, project.id, case.case_id, LEAD)
    assert [one.person for one in shown.opinions] == ["Person 1", "Person 2"]
    assert {one.value for one in shown.opinions} == {"first", "second"}
    text = shown.form.model_dump_json() + "".join(one.value or "" for one in shown.opinions)
    assert ANN not in text
    assert BOB not in text
    with pytest.raises(InvalidInput):
        adjudicate(store, project.id, case.case_id, LEAD, {"answers": {"label": "first"}}, "  ")
    with pytest.raises(InvalidInput):
        adjudicate(store, project.id, case.case_id, LEAD, {"answers": {}}, "Because.")
    decided = adjudicate(store, project.id, case.case_id, LEAD, {"answers": {"label": "first"}}, "Teal answers.")
    assert decided.waiting == 0
    assert {one["annotator"] for one in decided.adjudication.seen} == {ANN, BOB}
    labels = store.labels.of_case(reference, case.case_id)
    assert len(labels) == 3
    final = final_label(labels)
    assert final.how == "adjudicated"
    texts = {one.id: one.text for one in shown.form.texts}
    assert final.label == ("A" if texts["first"].startswith("Teal") else "B")
    assert store.sets.get(reference).n_labels == 7


def a_disagreement(store: Store) -> tuple[str, Project]:
    """A set of one case on which two people differ, and its project."""
    reference = a_set(store, 1)
    ann, bob = a_person(store, ANN), a_person(store, BOB)
    project = a_project(store, reference, (ANN, BOB))
    labelling = Labelling(store)
    by_content(labelling, project, ann, ANN, lambda number: "A")
    by_content(labelling, project, bob, BOB, lambda number: "B")
    return reference, project


def test_a_later_final_word_replaces_the_label_and_keeps_the_record(store: Store) -> None:
    reference, project = a_disagreement(store)
    case_id = "model-x/0"
    adjudicate(store, project.id, case_id, LEAD, {"answers": {"label": "tie"}}, "Equal.")
    other = LEAD.model_copy(update={"user_id": "m" * 12, "name": "Max"})
    adjudicate(store, project.id, case_id, other, {"answers": {"label": "cannot_say"}}, "Nobody can tell.")
    finals = [label for label in store.labels.of_case(reference, case_id) if label.adjudicated]
    assert [(label.annotator, label.label) for label in finals] == [("Max", None)]
    assert [one.label for one in store.projects.adjudications(project.id)] == ["tie", None]
    assert store.sets.get(reference).n_labels == 3


def test_a_final_word_that_is_sent_twice_is_kept_once(store: Store) -> None:
    reference, project = a_disagreement(store)
    word = (store, project.id, "model-x/0", LEAD, {"answers": {"label": "tie"}})
    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(lambda _: adjudicate(*word, "Equal."), range(2))
    assert one == other
    assert [kept.id for kept in store.projects.adjudications(project.id)] == [one.adjudication.id]
    again = adjudicate(*word, "Equal, on a second look.")
    assert [kept.id for kept in store.projects.adjudications(project.id)] == [
        one.adjudication.id,
        again.adjudication.id,
    ]
    assert store.sets.get(reference).n_labels == 3


def test_a_case_without_labels_is_not_adjudicated(store: Store) -> None:
    reference = a_set(store, 1)
    a_person(store, ANN)
    project = a_project(store, reference, (ANN,))
    with pytest.raises(NotFound):
        to_adjudicate(store, project.id, "model-x/0", LEAD)
    with pytest.raises(NotFound):
        adjudicate(store, project.id, "model-x/0", LEAD, {"answers": {"label": "tie"}}, "Because.")
    assert label_all(Labelling(store), project, store.projects.members(project.id)[0].person, ANN) == 1
    assert waiting(store, project.id) == []
