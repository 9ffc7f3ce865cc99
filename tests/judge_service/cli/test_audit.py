"""What is changed on the command line stands in the audit log."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from judge_service.cli.main import app
from judge_service.domain.calibration_set import SetCase
from judge_service.domain.case import Case
from judge_service.store import Store


def test_keys_people_and_freezes_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'judge.db'}"
    runner = CliRunner()

    def run(*words: str, typed: str | None = None) -> str:
        done = runner.invoke(app, [*words, "--database", url], input=typed)
        assert done.exit_code == 0, done.output
        return done.output

    run("keys", "create", "--role", "score", "--name", "ci")
    with Store.open(url) as store:
        (key,) = store.keys.all()
        store.sets.create("pairs", "pairwise@1")
        fields = {"prompt": "P", "response_a": "So.", "response_b": "No."}
        store.sets.add_cases("pairs@1", [SetCase(case=Case(id="one", input=fields))])
    run("keys", "revoke", key.id)
    password = "a long enough pass phrase"
    run("users", "add", "Ann Example", typed=f"{password}\n")
    run("users", "role", "Ann Example", "lead")
    run("users", "disable", "Ann Example")
    run("users", "enable", "Ann Example")
    run("users", "invite", "--name", "Bob")
    run("sets", "freeze", "pairs@1")
    run("sets", "freeze", "pairs@1")
    with Store.open(url) as store:
        entries = store.audit.entries()
    assert {(one.by, one.who) for one in entries} == {("command line", "command line")}
    assert [one.what for one in reversed(entries)] == [
        "made a key",
        "revoked a key",
        "added a person",
        "changed a role",
        "disabled a person",
        "enabled a person",
        "invited a person",
        "froze a set",
    ]
    assert entries[0].object == "pairs@1"
    assert key.id in entries[-1].object
