import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from sqlalchemy import text

from judge_service.domain.annotation import case_token
from judge_service.domain.calibration_set import Label, SetCase, SetUse, SetVersion, SpentBy, Split, UsePurpose
from judge_service.domain.call import Call, Usage
from judge_service.domain.canonical import content_hash
from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.domain.judgment import Judgment
from judge_service.domain.principal import ApiKey
from judge_service.domain.run import PlannedCase, Run
from judge_service.errors import ConfigurationError, NewerDatabase, StoreError
from judge_service.store import Store, migrate
from judge_service.store.engine import Database, new_engine, parse_url, writing
from judge_service.store.migrate import head, upgrade
from judge_service.store.tables import CallRow, JudgmentRow, KeyRow, LabelRow, RunRow, SetRow, SetUseRow, table
from tests.support.waiting import LONG_ENOUGH_S

from .databases import differences
from .examples import NOON, judgment

JUDGE = Judge(name="small", backend="baseline")


def to_revision(url: str, monkeypatch: pytest.MonkeyPatch, revision: str) -> None:
    """Make the database as the program of that revision made it."""

    def run(connection: object) -> None:
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(migrate.FOLDER))
        config.attributes["connection"] = connection
        command.upgrade(config, revision)

    with monkeypatch.context() as patch:
        patch.setattr(migrate, "_run", run)
        upgrade(parse_url(url))


def test_the_migrations_make_exactly_the_tables(no_tables_url: str) -> None:
    upgrade(parse_url(no_tables_url))
    assert differences(no_tables_url) == []


def test_a_second_start_changes_nothing(no_tables_url: str) -> None:
    with Store.open(no_tables_url) as store:
        store.judgments.record(judgment())
        facts = store.facts.all()
    with Store.open(no_tables_url) as store:
        assert store.judgments.current("work-1") == judgment()
        assert store.facts.all() == facts
        assert store.schema_version == head() == "0016"
    assert set(facts) == {"installation", "created_at", "created_by"}


def test_a_database_of_the_first_release_keeps_every_row(no_tables_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    to_revision(no_tables_url, monkeypatch, "0001")
    engine = new_engine(parse_url(no_tables_url))
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM schema_version")).scalar_one() == "0001"
    old = Store(Database(parse_url(no_tables_url)), lambda: NOON)
    run = Run(id="run-1", rubric="pairwise@1", rubric_hash="a" * 64, judge=JUDGE, created_at=NOON)
    old.runs.create(run)
    recorded = [old.judgments.record(judgment(f"work-{number}"), "run-1") for number in range(3)]
    old.judges.put(JUDGE)
    old.facts.set("installation", "here")
    old.close()
    with Store.open(no_tables_url) as store:
        assert [store.judgments.current(f"work-{number}") for number in range(3)] == recorded
        assert store.runs.get("run-1") == run
        assert store.judges.all() == [JUDGE]
        assert store.facts.all()["installation"] == "here"
        assert store.sets.all() == []
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM schema_version")).scalar_one() == head()
    engine.dispose()
    assert differences(no_tables_url) == []


def test_a_newer_database_is_refused_untouched(no_tables_url: str) -> None:
    with Store.open(no_tables_url) as store:
        store.judgments.record(judgment())
    engine = new_engine(parse_url(no_tables_url))
    with writing(engine) as connection:
        connection.execute(text("UPDATE schema_version SET version_num = '9999'"))
    before = _content(no_tables_url)
    with pytest.raises(NewerDatabase, match="nothing was changed"):
        Store.open(no_tables_url)
    assert _content(no_tables_url) == before
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM judgments")).scalar_one() == 1
        assert connection.execute(text("SELECT version_num FROM schema_version")).scalar_one() == "9999"
    engine.dispose()


def _content(url: str) -> bytes | None:
    path = parse_url(url).database
    return Path(path).read_bytes() if url.startswith("sqlite") and path else None


def test_processes_that_start_together_do_not_clash(no_tables_url: str) -> None:
    script = textwrap.dedent("""
        import sys
        from judge_service.store import Store
        sys.stdin.readline()
        with Store.open(sys.argv[1]) as store:
            print(store.facts.all()["installation"])
    """)
    command = [sys.executable, "-W", "error", "-c", script, no_tables_url]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    results = [process.communicate(timeout=LONG_ENOUGH_S) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, results
    assert len({out for out, _ in results}) == 1
    assert differences(no_tables_url) == []


def test_a_file_of_something_else_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("this is no database, " * 100)
    with pytest.raises(StoreError, match="not an SQLite database"):
        Store.open(f"sqlite:///{path}")
    assert path.read_text() == "this is no database, " * 100


def test_a_database_of_another_program_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite3"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE runs (distance REAL)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        Store.open(f"sqlite:///{path}")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
        ("mysql://root:hunter22@db/x", "not supported"),
        ("no url at all", "cannot be read"),
    ],
)
def test_a_url_that_cannot_be_used_is_said_so(url: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        Store.open(url)
    assert "hunter22" not in str(caught.value)


def test_a_folder_that_cannot_be_made_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be made"):
        Store.open(f"sqlite:///{tmp_path}/file/judge.sqlite3")


def test_a_server_that_is_not_there_is_said_so() -> None:
    with pytest.raises(Exception, match="cannot be reached") as caught:
        Store.open("postgresql://judge:hunter22@127.0.0.1:1/judge")
    assert "hunter22" not in str(caught.value)


def test_the_settings_of_sqlite_are_in_force(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/judge.sqlite3") as store, store._database.read() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "foreign_keys", "synchronous", "busy_timeout")
        }
    assert pragmas == {"journal_mode": "wal", "foreign_keys": 1, "synchronous": 2, "busy_timeout": 30_000}


def test_every_field_of_a_record_has_its_column() -> None:
    usage = set(Usage.model_fields)
    judgments = set(Judgment.model_fields) - {"calls", "usage"} | usage | {"superseded_at", "run_id"}
    assert set(table(JudgmentRow).c.keys()) == judgments
    calls = set(Call.model_fields) - {"usage"} | usage | {"judgment_id", "position"}
    assert set(table(CallRow).c.keys()) == calls
    assert set(table(KeyRow).c.keys()) == set(ApiKey.model_fields)
    assert set(table(RunRow).c.keys()) == set(Run.model_fields)
    assert set(table(SetRow).c.keys()) == set(SetVersion.model_fields)
    assert set(table(LabelRow).c.keys()) == set(Label.model_fields)
    assert set(table(SetUseRow).c.keys()) == set(SetUse.model_fields)


def test_spent_cases_are_known_by_what_they_say_after_an_upgrade(
    no_tables_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_revision(no_tables_url, monkeypatch, "0010")
    old = Store(Database(parse_url(no_tables_url)), lambda: NOON)
    with monkeypatch.context() as patch:
        # As that release knew a case.
        patch.setattr("judge_service.store.sets.content_key", lambda fields, rubric: content_hash(fields))
        for name, more in (("s", {}), ("copy", {"question": None})):
            old.sets.create(name, "faithfulness@1")
            case = Case(id=name, input={"contexts": ["One page."], "answer": "So."} | more)
            old.sets.add_cases(f"{name}@1", [SetCase(case=case, split=Split.RELEASE)])
            old.sets.freeze(f"{name}@1", old.sets.digest(f"{name}@1"))
        old.sets.record_use("copy@1", Split.RELEASE, "h", UsePurpose.TUNED)
        assert old.sets.split_counts("s@1")[Split.RELEASE] == 1
    old.close()
    with Store.open(no_tables_url) as store:
        assert store.sets.split_counts("s@1")[Split.RELEASE] == 0
        (case,) = store.sets.spent("s@1").cases
        assert (case.case_id, case.why, case.set_id) == ("s", SpentBy.TUNED, "copy@1")
        assert store.sets.digest("s@1") == store.sets.get("s@1").content_hash


def test_counts_of_labelling_are_those_of_what_was_done_before(
    no_tables_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_revision(no_tables_url, monkeypatch, "0012")
    engine = new_engine(parse_url(no_tables_url))
    at = "2026-01-01 00:00:00.000000"
    with engine.begin() as connection:

        def add(table_: str, **row: object) -> None:
            columns = ", ".join(f'"{column}"' for column in row)
            values = ", ".join(f":{column}" for column in row)
            connection.execute(text(f"INSERT INTO {table_} ({columns}) VALUES ({values})"), row)  # noqa: S608

        add("sets", id="s@1", name="s", version=1, status="open", note="", n_cases=3, n_labels=2, created_at=at)
        project = {"id": "p" * 12, "name": "P", "set_id": "s@1", "rubric": "pairwise@1", "rubric_hash": "h"}
        rest = {"labels_wanted": 2, "overlap": 1.0, "condition": "blind", "splits": "[]", "lease_minutes": 60.0}
        add("projects", **project, **rest, selection="random", created_at=at, created_by="Lea")
        people = ("user:aaaaaaaaaaaa", "user:bbbbbbbbbbbb")
        for place, person in enumerate(people):
            add("project_members", project_id="p" * 12, person=person, name=f"N{place}", joined_at=at)
            for position, case in enumerate(("one", "two", "three")):
                add("project_orders", project_id="p" * 12, person=person, position=position, case_id=case)
        for case, wanted in (("one", 1), ("two", 2), ("three", 2)):
            add("project_cases", project_id="p" * 12, case_id=case, wanted=wanted, qualification=False)
        for number, (person, case, state, place) in enumerate(
            (
                (people[0], "one", "saved", 1),
                (people[0], "two", "saved", 1),
                (people[1], "two", "skipped", None),
                (people[1], "three", "open", 1),
            )
        ):
            step = {"offered_at": at, "leased_until": at, "changed_at": at, "version": 1, "draft_version": 0}
            row = {"id": f"a{number}", "person": person, "case_id": case, "state": state, "place": place}
            add("assignments", project_id="p" * 12, **row, **step)
    with Store.open(no_tables_url) as store:
        first, second = (store.assignments.progress("p" * 12, person) for person in people)
        # "one" is full; "two" and "three" want one more and, their leases over, two.
        assert (first.done, first.skipped, first.left, first.open_for_others) == (2, 0, 1, 1)
        assert (second.done, second.skipped, second.left, second.open_for_others) == (0, 1, 1, 2)
        assert store.projects.case_of("p" * 12, case_token("p" * 12, "two")) == "two"
        found = store.assignments.next("p" * 12, people[0], lambda: None)
        assert found is not None
        assert found.case_id == "three"
    engine.dispose()


def test_chunks_that_ask_errors_again_know_which_after_an_upgrade(
    no_tables_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_revision(no_tables_url, monkeypatch, "0013")
    old = Store(Database(parse_url(no_tables_url)), lambda: NOON)
    old.runs.create(Run(id="r", rubric="pairwise@1", rubric_hash="a" * 64, judge=JUDGE, created_at=NOON))
    planned = [PlannedCase(position=n, identity=f"work-{n}", case=Case(id=f"c{n}", input={})) for n in range(4)]
    old.runs.plan("r", planned)
    error = {"outcome": "judge_error", "reason": "timeout", "score": None, "label": None}
    failed = [old.judgments.record(judgment(f"work-{n}", **error), "r") for n in (0, 3)]
    old.judgments.record(judgment("work-1"), "r")
    engine = new_engine(parse_url(no_tables_url))
    with writing(engine) as connection:
        for number, retry, done in (
            (0, True, None),
            (1, True, None),
            (2, True, "2026-01-01 00:00:00"),
            (3, False, None),
        ):
            row = {
                "n": number,
                "retry": retry,
                "done": done,
                "first": (0, 2, 0, 0)[number],
                "last": (1, 3, 3, 3)[number],
            }
            connection.execute(
                text(
                    "INSERT INTO run_chunks (run_id, number, round, first, last, retry_errors, done_at)"
                    " VALUES ('r', :n, 'x', :first, :last, :retry, :done)"
                ),
                row,
            )
    old.close()
    with Store.open(no_tables_url) as store:
        found = [store.chunks.get("r", number, "x") for number in range(4)]
        assert [None if chunk is None else chunk.retry for chunk in found] == [[failed[0].id], [failed[1].id], None, []]
        assert [case.position for case in store.runs.pending("r", retry=[failed[0].id])] == [0, 2]
    engine.dispose()
    assert differences(no_tables_url) == []
