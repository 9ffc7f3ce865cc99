"""The counts that are kept with each step are what counting everything gives, whatever people do."""

import random
from datetime import datetime, timedelta

import pytest

from judge_service.domain.annotation import Project, State
from judge_service.errors import Conflict
from judge_service.store import Store
from judge_service.store.assignments import Save
from judge_service.store.places import FEW_OPEN
from judge_service.store.store import utc_now
from tests.judge_service.annotation.projects import a_person, a_project, a_set

NAMES = ("Ann", "Bob", "Cy")
KNOWN = [{"input": {"prompt": "Known", "response_a": "Teal.", "response_b": "Ochre."}, "label": "A"}]


def counted(store: Store, project: Project, person: str, now: datetime) -> tuple[int, ...]:
    """Progress by looking at every case and assignment."""
    done = skipped = left = others = known_done = known_left = 0
    made = store.assignments.of(project.id)
    for case in store.projects.cases(project.id):
        here = [one for one in made if one.case_id == case.case_id]
        held = sum(one.place is not None and (one.state is State.SAVED or one.leased_until > now) for one in here)
        free = held < case.wanted
        mine = next((one for one in here if one.person == person), None)
        waits = free if mine is None else mine.state is State.OPEN and mine.place is not None
        saved = mine is not None and mine.state is State.SAVED
        skipped += mine is not None and mine.state is State.SKIPPED
        if case.qualification:
            known_done, known_left = known_done + saved, known_left + waits
        else:
            done, left = done + saved, left + waits
            others += mine is not None and free
    return done, skipped, left, others, known_done, known_left


@pytest.mark.parametrize("seed", range(6))
def test_any_steps_keep_the_counts(store: Store, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    drawn = random.Random(seed)
    people = {name: a_person(store, name) for name in NAMES}
    more = {"overlap": 0.5, "labels_wanted": 2, "qualification": KNOWN, "lease_minutes": 10}
    project = a_project(store, a_set(store, 8), NAMES, **more)
    passed = timedelta()
    monkeypatch.setattr(store.assignments, "_clock", lambda: utc_now() + passed)
    steps = ("save", "save", "save", "skip", "undo", "wait", "change")
    for _ in range(60):
        name = drawn.choice(NAMES)
        person, step = people[name], drawn.choice(steps)
        try:
            if step == "undo":
                store.assignments.undo(project.id, person)
            elif step == "wait":
                passed += timedelta(minutes=drawn.choice((3, 11)))
            elif step == "change":
                mine = [one for one in store.assignments.of(project.id, person) if one.state is not State.OPEN]
                if mine:
                    one = drawn.choice(mine)
                    answer = {"answers": {"label": drawn.choice(("first", "second"))}}
                    store.assignments.save(one.id, person, Save(one.version, answer, None))
            elif (found := store.assignments.next(project.id, person, lambda: None)) is not None:
                if step == "save":
                    store.assignments.save(found.id, person, Save(found.version, {"answers": {}}, None))
                else:
                    store.assignments.skip(found.id, person, found.version, "unsure")
        except Conflict:
            pass
        now = utc_now() + passed
        for each in people.values():
            progress = store.assignments.progress(project.id, each)
            assert tuple(progress.model_dump().values()) == counted(store, project, each, now)


def test_both_ways_to_a_case_give_the_first_of_the_order(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    person = a_person(store, "Ann")
    project = a_project(store, a_set(store, 12), ("Ann",), labels_wanted=1)
    order = store.projects.order(project.id, person)
    offered = []
    for most in [0, FEW_OPEN] * 6:
        monkeypatch.setattr("judge_service.store.places.FEW_OPEN", most)
        found = store.assignments.next(project.id, person, lambda: None)
        assert found is not None
        offered.append(found.case_id)
        store.assignments.skip(found.id, person, found.version, "next")
    assert offered == order
    assert store.assignments.next(project.id, person, lambda: None) is None
