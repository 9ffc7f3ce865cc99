import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_service.annotation.production import PROBABILITY, SampleRequest, sample_run
from judge_service.annotation.sampling import BASE, draw, feedback_of, probabilities, weight
from judge_service.domain.calibration_set import Split
from judge_service.domain.judge import Judge
from judge_service.domain.run import PlannedCase, Run
from judge_service.errors import InvalidInput, NotFound
from judge_service.store import Store
from tests.judge_service.annotation.projects import a_person, a_project, pair
from tests.judge_service.store.examples import NOON, judgment

WEIGHTS = st.lists(st.floats(0.1, 50), min_size=1, max_size=40)


@given(WEIGHTS, st.data())
def test_probabilities_are_proportional_and_sum_to_what_is_drawn(weights: list[float], data: st.DataObject) -> None:
    n = data.draw(st.integers(1, len(weights)))
    shares = probabilities(weights, n)
    assert sum(shares) == pytest.approx(n)
    assert all(0 < share <= 1 for share in shares)
    free = [(share, each) for share, each in zip(shares, weights, strict=True) if share < 1]
    for share, each in free:
        assert share / each == pytest.approx(free[0][0] / free[0][1])


@given(WEIGHTS, st.integers(0, 2**32), st.data())
def test_exactly_so_many_are_drawn_each_once(weights: list[float], seed: int, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, len(weights)))
    chosen = draw([(str(place), each) for place, each in enumerate(weights)], n, random.Random(seed))
    assert len(chosen) == n
    assert len({one.case_id for one in chosen}) == n


def test_the_stated_probability_is_the_true_one() -> None:
    weights = [1.0, 1.0, 3.0, 5.0, 2.0]
    shares = probabilities(weights, 2)
    drawn = random.Random(1)
    counts: Counter[str] = Counter()
    for _ in range(4000):
        counts.update(one.case_id for one in draw([(str(n), each) for n, each in enumerate(weights)], 2, drawn))
    for place, share in enumerate(shares):
        assert counts[str(place)] / 4000 == pytest.approx(share, abs=0.035)


def test_weights_by_probability_restore_the_mean() -> None:
    values = [float(number % 7) for number in range(200)]
    weights = [1.0 + number % 5 for number in range(200)]
    drawn = random.Random(3)
    totals = []
    for _ in range(400):
        chosen = draw([(str(place), each) for place, each in enumerate(weights)], 40, drawn)
        totals.append(sum(values[int(one.case_id)] / (one.probability or 1) for one in chosen) / 200)
    assert sum(totals) / 400 == pytest.approx(sum(values) / 200, abs=0.06)


def test_a_thumb_down_weighs() -> None:
    assert weight([]) == BASE
    assert weight([], "down") > weight([], "up") == BASE
    assert feedback_of({"feedback": "thumbs_down"}) == "thumbs_down"
    assert feedback_of({"other": 1}) is None


def test_a_project_keeps_the_probability_of_production(store: Store) -> None:
    version = store.sets.create("monitor", "pairwise@1")
    entries = [pair(number) for number in range(10)]
    marked = [
        entry.model_copy(
            update={"case": entry.case.model_copy(update={"metadata": {PROBABILITY: 0.25}}), "split": Split.MONITORING}
        )
        for entry in entries
    ]
    store.sets.add_cases(version.id, marked)
    a_person(store, "Ann")
    whole = a_project(store, version.id, ("Ann",))
    assert {case.probability for case in store.projects.cases(whole.id)} == {0.25}
    part = a_project(store, version.id, ("Ann",), selection={"n": 5})
    assert {case.probability for case in store.projects.cases(part.id)} == {0.125}
    assert len(store.projects.cases(part.id)) == 5


def test_a_run_that_is_not_there_is_not_found(store: Store) -> None:
    version = store.sets.create("monitor", "pairwise@1")
    with pytest.raises(NotFound):
        sample_run(store, version.id, SampleRequest(run="nothing", n=3))


def a_run(store: Store, n: int) -> str:
    """A run of `n` judged pairs; the last tenth has low confidence, the very last a thumb down."""
    judge = Judge(name="small", backend="scripted", model="tiny-1")
    run = Run(id="run-1", rubric="pairwise@1", rubric_hash="a" * 64, judge=judge, created_at=NOON)
    store.runs.create(run)
    planned = []
    for number in range(n):
        entry = pair(number).case
        case = entry.model_copy(update={"metadata": {"feedback": "down"}}) if number == n - 1 else entry
        planned.append(PlannedCase(position=number, identity=f"work-{number}", case=case))
    store.runs.plan(run.id, planned)
    for one in planned:
        sure = one.position < n * 0.9
        store.judgments.record(
            judgment(
                one.identity,
                case_id=one.case.id,
                case_hash=one.case.content_hash,
                metadata=one.case.metadata,
                confidence={"value": 0.99 if sure else 0.1, "source": "verbalised"},
            ),
            run.id,
        )
    return run.id


def test_a_run_is_drawn_into_the_monitoring_split_with_its_probabilities(store: Store) -> None:
    run = a_run(store, 60)
    version = store.sets.create("monitor", "pairwise@1")
    found = sample_run(store, version.id, SampleRequest(run=run, n=20, random_share=0.5), seed=5)
    assert (found.judged, found.random) == (60, 10)
    entries = list(store.sets.cases(version.id))
    assert len(entries) == found.drawn == found.cases.added
    assert 10 <= found.drawn <= 20
    assert {entry.split for entry in entries} == {Split.MONITORING}
    chances = {entry.case.id: entry.case.metadata[PROBABILITY] for entry in entries}
    # By hand: 54 weigh 1.02, 5 weigh 2.8 and one 5.8; ten are drawn by weight and ten blindly.
    total = 54 * 1.02 + 5 * 2.8 + 5.8
    expected = {1 - (1 - 1 / 6) * (1 - 10 * each / total) for each in (1.02, 2.8, 5.8)}
    for chance in chances.values():
        assert any(chance == pytest.approx(one) for one in expected)
    again = sample_run(store, version.id, SampleRequest(run=run, n=20, random_share=0.5), seed=5)
    assert again.cases.added == 0
    other = store.sets.create("other", "faithfulness@1").id
    with pytest.raises(InvalidInput):
        sample_run(store, other, SampleRequest(run=run, n=3))
