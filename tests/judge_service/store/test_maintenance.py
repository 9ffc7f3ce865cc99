from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, text

from judge_service.domain.calibration_set import Label, SetCase, Split
from judge_service.domain.judge import Judge
from judge_service.domain.run import PlannedCase, Run, RunStatus
from judge_service.errors import Conflict, NotFound, StoreError
from judge_service.runs.retention import Swept, sweep
from judge_service.store import Only, Store
from judge_service.store.engine import new_engine, parse_url, writing
from judge_service.store.migrate import head
from judge_service.store.tables import ProjectCaseRow, ProjectRow, table
from tests.judge_service.runs.fake import cases

from .examples import NOON, call, failed, judgment

JUDGE = Judge(name="small", backend="baseline")


def planned(store: Store, run_id: str, n: int, *, prefix: str | None = None, source: str | None = None) -> Run:
    """A finished run whose judgments are recorded; every fifth is a judge error."""
    name = prefix or run_id
    store.runs.create(
        Run(id=run_id, rubric="pairwise@1", rubric_hash="a" * 64, judge=JUDGE, source=source, created_at=NOON)
    )
    work = [PlannedCase(position=i, identity=f"{name}-{i}", case=case) for i, case in enumerate(cases(n))]
    store.runs.plan(run_id, work)
    store.runs.seal(run_id, n)
    for one in work:
        make = failed if one.position % 5 == 4 else judgment
        fields = {} if make is failed else {"score": one.position / 10, "label": "A"}
        store.judgments.record(make(one.identity, case_id=one.case.id, **fields), run_id)
    store.runs.start(run_id, "w")
    return store.runs.finish(run_id, RunStatus.FINISHED_WITH_ERRORS)


@pytest.fixture
def filled(store: Store) -> Store:
    planned(store, "r", 10)
    store.judgments.record(judgment("lone"))
    store.sets.create("s", "pairwise@1")
    store.sets.add_cases("s@1", [SetCase(case=case, split=Split.CALIBRATION) for case in cases(2)])
    label = Label(
        id="l", set_id="s@1", case_id="case-0", rubric="pairwise@1", annotator="ada", label="A", created_at=NOON
    )
    store.labels.add("s@1", [label])
    project = {"id": "p" * 12, "name": "P", "set_id": "s@1", "rubric": "pairwise@1", "rubric_hash": "a" * 64}
    project |= {"labels_wanted": 1, "overlap": 1.0, "condition": "blind", "splits": [], "lease_minutes": 60.0}
    project |= {"selection": "random", "created_at": NOON, "created_by": "Lea"}
    place = {"project_id": "p" * 12, "wanted": 1, "qualification": False, "saved": 0}

    def work(connection: Connection) -> None:
        connection.execute(insert(table(ProjectRow)), project)
        connection.execute(insert(table(ProjectCaseRow)), [place | {"case_id": f"case-{n}"} for n in range(2)])

    store._database.write(work)
    return store


def test_a_sound_database_breaks_no_rule(filled: Store) -> None:
    findings = filled.verify()
    assert {one.rule for one in findings if one.n_broken} == set()
    checked = {one.rule: one.n_checked for one in findings}
    assert checked["each piece of work has at most one current judgment"] == 11
    assert checked["each case of a finished run has a judgment"] == 10
    assert checked["each row of calls has its row of judgments"] == 22


@pytest.mark.parametrize(
    ("damage", "rule", "n"),
    [
        ("DELETE FROM judgments WHERE identity = 'r-3'", "each case of a finished run has a judgment", 1),
        ("DELETE FROM run_cases WHERE position = 3", "each run holds as many cases as it counts", 1),
        ("UPDATE judgments SET score = NULL WHERE identity = 'lone'", "exactly the scored judgments have a score", 1),
        ("UPDATE judgments SET score = 0 WHERE identity = 'r-4'", "exactly the scored judgments have a score", 1),
        ("UPDATE runs SET n_planned = 9", "each run holds as many cases as it counts", 1),
        ("UPDATE sets SET n_cases = 3", "each set holds as many cases as it counts", 1),
        ("UPDATE sets SET n_labels = 0", "each set holds as many labels as it counts", 1),
        ("UPDATE project_cases SET saved = 1", "each case of a project counts the labels that were saved", 2),
    ],
)
def test_what_is_broken_is_counted(filled: Store, database_url: str, damage: str, rule: str, n: int) -> None:
    engine = new_engine(parse_url(database_url))
    with writing(engine) as connection:
        connection.execute(text(damage))
    engine.dispose()
    assert {one.rule: one.n_broken for one in filled.verify() if one.n_broken} == {rule: n}


def test_work_that_is_recorded_twice_is_found(filled: Store, database_url: str) -> None:
    engine = new_engine(parse_url(database_url))
    with writing(engine) as connection:
        # The database itself refuses it while it has its index.
        connection.execute(text("DROP INDEX uq_judgments_current_identity"))
        connection.execute(text("UPDATE judgments SET identity = 'lone' WHERE identity = 'r-2'"))
    engine.dispose()
    assert {one.rule: one.n_broken for one in filled.verify() if one.n_broken} == {
        "each piece of work has at most one current judgment": 1,
        "each case of a finished run has a judgment": 1,
    }


def test_rows_without_their_parent_are_found(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'judge.sqlite3'}"
    with Store.open(url) as store:
        planned(store, "r", 3)
        engine = new_engine(parse_url(url), migrating=True)  # as a tool without foreign keys would
        with writing(engine) as connection:
            connection.execute(text("DELETE FROM judgments WHERE identity = 'r-0'"))
            connection.execute(text("DELETE FROM runs"))
        engine.dispose()
        broken = {one.rule: one.n_broken for one in store.verify() if one.n_broken}
    assert broken == {
        "each row of calls has its row of judgments": 2,
        "each row of judgments has its row of runs": 2,
        "each row of run_cases has its row of runs": 3,
    }


def test_a_backup_of_either_database_is_an_sqlite_file_with_every_row(filled: Store, tmp_path: Path) -> None:
    target = tmp_path / "copy.sqlite3"
    filled.backup(target)
    assert [path.name for path in tmp_path.iterdir() if "copy" in path.name] == ["copy.sqlite3"]
    with Store.open(f"sqlite:///{target}") as copy:
        assert copy.runs.get("r") == filled.runs.get("r")
        assert copy.runs.results("r") == filled.runs.results("r")
        assert copy.judgments.current("lone") == judgment("lone")
        assert copy.facts.all() == filled.facts.all()
        assert [one.n_broken for one in copy.verify()] == [0] * len(copy.verify())


def test_a_backup_replaces_no_file_and_leaves_no_half_one(filled: Store, tmp_path: Path) -> None:
    target = tmp_path / "there"
    target.write_text("mine")
    with pytest.raises(StoreError, match="exists"):
        filled.backup(target)
    assert target.read_text() == "mine"
    with pytest.raises(StoreError):
        filled.backup(tmp_path / "no-such-folder" / "copy.sqlite3")


def test_revisions_are_told_without_a_change(no_tables_url: str) -> None:
    assert Store.revisions(no_tables_url) == (None, head())
    assert Store.revisions(no_tables_url) == (None, head())
    Store.open(no_tables_url).close()
    assert Store.revisions(no_tables_url) == (head(), head())


def test_results_are_chosen_by_slice_and_score(filled: Store) -> None:
    def places(**only: object) -> list[int]:
        return [position for position, _ in filled.runs.results("r", only=Only(**only))]  # type: ignore[arg-type]

    assert places() == list(range(10))
    assert places(slice=("language", "de")) == [1, 3, 5, 7, 9]
    assert places(slice=("group", "group-1")) == [2, 3]
    assert places(slice=("language", "fr")) == places(slice=("none", "null")) == []
    assert places(score_from=0.3, score_to=0.6) == [3, 5, 6]  # 4 is a judge error
    assert places(score_to=0.0) == [0]
    page = filled.runs.results("r", only=Only(slice=("language", "de")), after=1, limit=2)
    assert [position for position, _ in page] == [3, 5]


def test_a_deleted_run_takes_its_judgments_but_none_that_another_run_planned(filled: Store) -> None:
    planned(filled, "other", 4, prefix="r")
    assert filled.runs.delete("r") == 6
    assert filled.runs.get("r") is None
    assert [position for position, _ in filled.runs.results("other")] == [0, 1, 2, 3]
    assert filled.judgments.current("lone") is not None
    assert filled.judgments.history("r-5") == []
    assert {one.rule for one in filled.verify() if one.n_broken} == set()
    with pytest.raises(NotFound):
        filled.runs.delete("r")


def test_a_run_that_goes_on_is_not_deleted(store: Store) -> None:
    store.runs.create(Run(id="r", rubric="pairwise@1", rubric_hash="a" * 64, judge=JUDGE, created_at=NOON))
    with pytest.raises(Conflict, match="queued"):
        store.runs.delete("r")


async def test_a_sweep_deletes_what_is_old_and_spares_runs_over_sets(database_url: str) -> None:
    with Store.open(database_url, clock=lambda: NOON) as store:
        planned(store, "old", 5)
        planned(store, "measured", 5, source="set:pairs@1")
        store.judgments.record(judgment("lone"))
        kept = store.cache.put("k", call())
        if kept is not None:
            await kept
        store.cache.close()
        store.idempotency.claim("scope", "key", "hash", "object")
        assert sweep(store, NOON - timedelta(days=1)) == Swept(0, 0, 0)
        assert sweep(store, NOON + timedelta(days=1)) == Swept(1, 6, 1)
        assert [run.id for run in store.runs.list()] == ["measured"]
        assert len(store.runs.results("measured")) == 5
        assert store.idempotency.find("scope", "key", "hash") is None
