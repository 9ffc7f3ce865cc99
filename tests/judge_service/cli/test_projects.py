"""People and projects from the command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from judge_service.annotation.labelling import Labelling
from judge_service.cli.main import app
from judge_service.store import Store
from tests.judge_service.annotation.projects import a_set, label_all


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("JUDGE_SERVICE_DATA_DIR", str(tmp_path))
    return f"sqlite:///{tmp_path / 'judge-service.sqlite3'}"


def run(*words: str, stdin: str | None = None, fails: bool = False) -> str:
    done = CliRunner().invoke(app, list(words), input=stdin)
    assert (done.exit_code != 0) is fails, done.output
    return done.output


def test_people_are_added_invited_and_disabled(database: str) -> None:
    assert "Added Ann" in run("users", "add", "Ann", "--role", "annotate", stdin="four plain words here\n")
    assert "at least 10" in run("users", "add", "Bob", stdin="short\n", fails=True)
    assert "is taken" in run("users", "add", "ANN", stdin="four plain words here\n", fails=True)
    link = run("users", "invite", "--role", "lead", "--name", "Lea")
    assert "/invitations/ji_" in link
    run("users", "role", "ann", "lead")
    run("users", "disable", "ann")
    (ann,) = json.loads(run("users", "list", "--json"))
    assert ann["role"] == "lead"
    assert ann["disabled_at"] is not None
    assert "password_hash" not in ann
    run("users", "enable", "ann")
    run("users", "password", "ann", stdin="other plain words here\n")
    assert "no user named" in run("users", "disable", "Zoe", fails=True)


def test_a_project_is_opened_labelled_shown_and_closed(database: str) -> None:
    run("users", "add", "Ann", stdin="four plain words here\n")
    with Store.open(database) as store:
        reference = a_set(store, 3)
    made = run("projects", "open", "Pairs", "--set", reference, "--annotator", "Ann", "--labels", "1").strip()
    with Store.open(database) as store:
        (member,) = store.projects.members(made)
        assert label_all(Labelling(store), store.projects.get(made), member.person, "Ann") == 3
    shown = run("projects", "show", made)
    assert "3 of 3 cases have enough labels" in shown
    assert "not measured yet (0 pairs" in shown
    assert json.loads(run("projects", "show", made, "--json"))["reason"] == "few_pairs"
    run("projects", "close", made)
    (listed,) = json.loads(run("projects", "list", "--json"))
    assert listed["closed_at"] is not None
    assert "labels_wanted" in run("projects", "open", "x", "--set", reference, "--labels", "0", fails=True)
    assert "There is no run" in run("projects", "sample", reference, "nothing", fails=True)
