import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from judge_service.cli.main import app
from judge_service.store import Store
from judge_service.store.migrate import head
from tests.judge_service.store.examples import judgment
from tests.judge_service.store.test_maintenance import planned


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("JUDGE_SERVICE_DATA_DIR", str(tmp_path / "data"))
    address = f"sqlite:///{tmp_path / 'judge.sqlite3'}"
    with Store.open(address) as store:
        planned(store, "r", 10)
        store.judgments.record(judgment("lone"))
    return address


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.output


def test_a_backup_is_a_database_of_its_own(url: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.sqlite3"
    assert "Written:" in run("db", "backup", str(copy), "--database", url)
    assert "exists" in run("db", "backup", str(copy), "--database", url, code=1)
    rows = json.loads(run("db", "verify", "--database", f"sqlite:///{copy}", "--json"))
    assert {row["n_broken"] for row in rows} == {0}


def test_verify_names_what_is_broken(url: str) -> None:
    with Store.open(url) as store:
        store._database.write(lambda connection: connection.exec_driver_sql("UPDATE runs SET n_planned = 11").rowcount)
    assert "Broken: each run holds as many cases as it counts." in run("db", "verify", "--database", url, code=1)


def test_migrate_tells_before_it_changes(tmp_path: Path, url: str) -> None:
    assert (
        run("db", "migrate", "--check", "--database", url)
        == f"The database has revision {head()}; this program has {head()}.\n"
    )
    new = f"sqlite:///{tmp_path / 'new.sqlite3'}"
    assert "revision none" in run("db", "migrate", "--check", "--database", new, code=1)
    assert not (tmp_path / "new.sqlite3").exists()
    assert f"Migrated to {head()}." in run("db", "migrate", "--database", new)


def test_a_newer_database_is_refused_in_words(url: str) -> None:
    with Store.open(url) as store:
        store._database.write(
            lambda connection: connection.exec_driver_sql("UPDATE schema_version SET version_num = '9999'").rowcount
        )
    for words in (("db", "migrate", "--check"), ("db", "verify"), ("runs", "list")):
        assert "newer" in run(*words, "--database", url, code=1)


def test_runs_are_exported_and_deleted(url: str, tmp_path: Path) -> None:
    lines = tmp_path / "r.jsonl"
    said = run(
        "runs", "export", "r", "-o", str(lines), "--slice", "language=de", "--score-from", "0.5", "--database", url
    )
    assert "(2 judgments)" in said
    assert [json.loads(line)["case_id"] for line in lines.read_text().splitlines()] == ["case-5", "case-7"]
    assert "(10 judgments)" in run("runs", "export", "r", "-o", str(tmp_path / "r.parquet"), "--database", url)
    assert "--output" in run("runs", "export", "r", "-o", str(tmp_path / "r.txt"), "--database", url, code=1)
    assert "no run" in run("runs", "export", "x", "-o", str(lines), "--database", url, code=1)
    run("runs", "delete", "r", "--database", url, code=1)
    assert "with 10 judgments" in run("runs", "delete", "r", "--yes", "--database", url)
    assert "no run" in run("runs", "delete", "r", "--yes", "--database", url, code=1)
