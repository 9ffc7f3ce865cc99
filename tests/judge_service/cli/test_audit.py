"""What is changed on the command line stands in the audit log, on both databases: with its change, or not at all."""

import json

from sqlalchemy import create_engine, text
from typer.testing import CliRunner

from judge_service.cli.main import app
from judge_service.domain.calibration_set import Split
from judge_service.store import Store
from tests.judge_service.annotation.projects import pair
from tests.judge_service.store.databases import database_url, postgres

__all__ = ["database_url", "postgres"]

PASSWORD = "a long enough pass phrase\n"


def test_each_change_has_its_entry_and_none_is_kept_without(database_url: str) -> None:
    with Store.open(database_url) as store:
        version = store.sets.create("pairs", "pairwise@1")
        store.sets.add_cases(version.id, [pair(1).model_copy(update={"split": Split.RELEASE})])
    engine = create_engine(database_url.replace("postgresql:", "postgresql+psycopg:", 1))

    def rename(old: str, new: str) -> None:
        with engine.begin() as connection:
            connection.execute(text(f"ALTER TABLE {old} RENAME TO {new}"))

    def run(*words: str, typed: str | None = None, fails: bool = False) -> str:
        done = CliRunner().invoke(app, [*words, "--database", database_url], input=typed)
        assert (done.exit_code != 0) is fails, done.output
        return done.output

    def change(*words: str, typed: str | None = None) -> str:
        """Refused while the log cannot be written, which leaves what there was: the same words are good afterwards."""
        rename("audit_log", "gone")
        assert "audit_log" in run(*words, typed=typed, fails=True)
        rename("gone", "audit_log")
        return run(*words, typed=typed)

    key = json.loads(change("keys", "create", "--role", "score", "--name", "ci", "--json"))["id"]
    change("keys", "revoke", key)
    change("users", "add", "Ann Example", typed=PASSWORD)
    change("users", "password", "Ann Example", typed=PASSWORD)
    change("users", "role", "Ann Example", "lead")
    change("users", "disable", "Ann Example")
    change("users", "enable", "Ann Example")
    change("users", "invite", "--name", "Bob")
    project = change("projects", "open", "P", "--set", "pairs@1", "--annotator", "Ann Example").strip()
    change("projects", "close", project)
    change("sets", "freeze", "pairs@1")
    # Neither a second freeze nor a look at what is no test changes anything.
    run("sets", "freeze", "pairs@1")
    run("sets", "show", "pairs@1", "--cases")
    assert "Teal 1." in change("sets", "show", "pairs@1", "--cases", "--split", "release")
    engine.dispose()

    with Store.open(database_url) as store:
        entries = store.audit.entries()[::-1]
        (ann,) = store.users.all()
        (invitation,) = store.users.invitations()
        assert len(store.keys.all()) == 1
        assert len(store.projects.all()) == 1
    assert {(one.by, one.who) for one in entries} == {("command line", "command line")}
    told = f"{ann.id} (Ann Example)"
    assert [(one.what, one.object) for one in entries] == [
        ("made a key", f"{key} (ci, score)"),
        ("revoked a key", f"{key} (ci, score)"),
        ("added a person", f"{told} as annotate"),
        ("set a password", told),
        ("changed a role", f"{told} to lead"),
        ("disabled a person", told),
        ("enabled a person", told),
        ("invited a person", f"{invitation.id} (Bob as annotate)"),
        ("opened a project", f"{project} (P)"),
        ("closed a project", f"{project} (P)"),
        ("froze a set", "pairs@1"),
        ("looked at a split", "pairs@1 (release)"),
    ]
