"""Calibrations and the rows of runs, on SQLite and PostgreSQL."""

from datetime import timedelta

import pytest

from judge_service.domain.calibration import Calibration, FittedMap
from judge_service.domain.calibration_set import SetCase, Split
from judge_service.domain.case import Case
from judge_service.domain.judge import ConfidenceSource, Judge
from judge_service.domain.outcome import Outcome
from judge_service.domain.run import PlannedCase, Run
from judge_service.store import ResultRow, Store

from .examples import NOON, failed, judgment

JUDGE = Judge(name="small", backend="scripted", model="tiny")


def test_a_calibration_is_read_back_as_it_was_and_changes_the_mark(store: Store) -> None:
    before = store.calibrations.mark()
    version = store.sets.create("set", "pairwise@1")
    case = Case(id="c", input={"prompt": "p", "response_a": "a", "response_b": "b"})
    store.sets.add_cases(version.id, [SetCase(case=case)])
    frozen = store.sets.freeze(version.id, store.sets.digest(version.id))
    assert store.calibrations.mark() != before
    made = Calibration(
        id="cal_1",
        rubric="pairwise@1",
        rubric_hash="r" * 64,
        judge="small",
        judge_hash="j" * 64,
        models=("tiny-1",),
        set_id=version.id,
        set_hash=frozen.content_hash or "",
        split=Split.CALIBRATION,
        runs=("run_1",),
        n=40,
        groups=38,
        agreement=0.75,
        created_at=NOON,
    )
    fitted = FittedMap(
        id="map_1",
        calibration_id="cal_1",
        source=ConfidenceSource.CLASSIFIER,
        wanted="logistic",
        method="identity",
        n=40,
        refused="40 labelled cases with a confidence; logistic needs 100.",
        created_at=NOON,
    )
    between = store.calibrations.mark()
    assert store.calibrations.add(made, {"judge": {"n": 40}}, fitted) == made
    # The same measurement stored again, by whichever process, is the one that is there.
    assert store.calibrations.add(made.model_copy(update={"n": 1}), {"judge": {"n": 1}}, fitted) == made
    later = made.model_copy(update={"id": "cal_2", "created_at": NOON + timedelta(seconds=1)})
    store.calibrations.add(later, {})
    assert store.calibrations.mark() != between
    assert store.calibrations.all() == [later, made]
    assert store.calibrations.all(set_id=version.id, judge="small", rubric="pairwise@1") == [later, made]
    assert store.calibrations.all(set_id="set@2") == []
    assert store.calibrations.get("cal_1") == made
    assert store.calibrations.statistics("cal_1") == {"judge": {"n": 40}}
    assert store.calibrations.maps() == [fitted]
    assert store.calibrations.maps("cal_2") == []


def test_rows_of_a_run_have_its_own_metadata_and_what_is_not_judged(store: Store) -> None:
    run = Run(id="run_1", rubric="pairwise@1", rubric_hash="r" * 64, judge=JUDGE, source="set:demo@1", created_at=NOON)
    store.runs.create(run)
    cases = [Case(id=f"c{i}", input={"i": i}, group="g", metadata={"part": i}) for i in range(3)]
    store.runs.plan("run_1", [PlannedCase(position=i, identity=f"work-{i}", case=case) for i, case in enumerate(cases)])
    store.judgments.record(judgment("work-0", metadata={"part": "another run's"}), "run_1")
    store.judgments.record(failed("work-1"), "run_1")
    rows = list(store.runs.rows("run_1"))
    assert rows[0] == ResultRow(
        *("c0", "work-0", "g", {"part": 0}, Outcome.SCORED, None, "A", 1.0, "grammar", "b" * 64, "tiny-1"),
        judgment_id="jdg-work-0",
        judged_in="run_1",
        latency_ms=rows[0].latency_ms,
        prompt_tokens=rows[0].prompt_tokens,
        completion_tokens=rows[0].completion_tokens,
        cost_usd=0.5,
    )
    assert (rows[1].outcome, rows[1].reason, rows[1].score) == (Outcome.JUDGE_ERROR, "timeout", None)
    assert (rows[2].outcome, rows[2].metadata) == (None, {"part": 2})
    assert store.runs.identities(["run_1"]) == {"work-0", "work-1", "work-2"}
    assert store.runs.identities([]) == set()
    assert [found.id for found in store.runs.of_source("set:demo@1")] == ["run_1"]
    assert store.runs.of_source("set:demo@2") == []


def test_votes_of_repeats_are_summed_and_those_of_a_panel_are_no_repeats(store: Store) -> None:
    panel = Judge(name="three", backend="panel", panel=("a", "b"))
    votes = [
        {"counts": {"A": 4, "B": 1}, "cast": 5, "asked": 5, "share": 0.8},
        {"counts": {"A": 5}, "cast": 5, "asked": 5, "share": 1.0},
        {"counts": {"A": 1}, "cast": 1, "asked": 5, "share": 1.0},
        None,
    ]
    cases = [Case(id=f"c{i}", input={"i": i}) for i in range(4)]
    for run_id, judge in (("run_1", JUDGE), ("run_2", panel)):
        run = Run(id=run_id, rubric="pairwise@1", rubric_hash="r" * 64, judge=judge, created_at=NOON)
        store.runs.create(run)
        store.runs.plan(
            run_id, [PlannedCase(position=i, identity=f"w-{run_id}-{i}", case=case) for i, case in enumerate(cases)]
        )
        for place, cast in enumerate(votes):
            store.judgments.record(judgment(f"w-{run_id}-{place}", votes=cast), run_id)
        (count,) = store.runs.counts(run_id)
        assert (count.n, count.n_repeated, count.n_unstable) == (4, 2, 1)
        assert count.vote_share_sum == pytest.approx(1.8)
    rows = list(store.runs.rows("run_1"))
    assert [(row.votes_asked, row.votes_cast, row.vote_share) for row in rows] == [
        (5, 5, 0.8),
        (5, 5, 1.0),
        (5, 1, 1.0),
        (None, None, None),
    ]
    assert {row.vote_share for row in store.runs.rows("run_2")} == {None}
