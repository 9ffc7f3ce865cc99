"""People and projects from the command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from judge_service.annotation.labelling import Labelling
from judge_service.annotation.projects import ProjectRequest
from judge_service.cli.main import app
from judge_service.domain.calibration_set import Split
from judge_service.store import Store
from tests.judge_service.annotation.projects import a_person, a_project, a_set, label_all, pair


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
    assert "--labels: " in run("projects", "open", "x", "--set", reference, "--labels", "0", fails=True)
    assert "There is no run" in run("projects", "sample", reference, "nothing", fails=True)


def test_a_project_is_opened_with_every_option_of_the_page(database: str, tmp_path: Path) -> None:
    run("users", "add", "Ann", stdin="four plain words here\n")
    key = json.loads(run("keys", "create", "--role", "annotate", "--name", "tool", "--json"))["id"]
    with Store.open(database) as store:
        version = store.sets.create("pairs")
        split = {"split": Split.CALIBRATION}
        cases = [pair(number).model_copy(update=split if number % 2 else {}) for number in range(20)]
        store.sets.add_cases(version.id, cases)
    guidelines, known = tmp_path / "guidelines.md", tmp_path / "known.jsonl"
    guidelines.write_text("Judge *help*.", encoding="utf-8")
    answer = {"input": {"prompt": "P", "response_a": "1", "response_b": "2"}, "label": "A"}
    known.write_text(json.dumps(answer) + "\n\n", encoding="utf-8")
    words = ["--set", "pairs@1", "--rubric", "pairwise@1", "--annotator", "Ann", "--annotator", key, "--labels", "3"]
    words += ["--overlap", "0.5", "--assisted", "--split", "calibration", "--guidelines", str(guidelines)]
    words += ["--qualification", str(known), "--draw", "4", "--uncertain", "--lease", "30", "--due", "2027-05-31"]
    shown = json.loads(run("projects", "open", "Pairs", *words, "--json"))
    assert set(ProjectRequest.model_fields) == {
        "set", "rubric", "annotators", "labels_wanted", "overlap", "condition", "splits", "guidelines", "qualification",
        "selection", "lease_minutes", "due_at", "name",
    }  # fmt: skip
    assert (
        shown
        | {
            "name": "Pairs",
            "set_id": "pairs@1",
            "rubric": "pairwise@1",
            "labels_wanted": 3,
            "overlap": 0.5,
            "condition": "assisted",
            "splits": ["calibration"],
            "lease_minutes": 30.0,
            "selection": "sampled",
            "drawn_from": 10,
            "due_at": "2027-05-31T23:59:00Z",
            "created_by": "command line",
        }
        == shown
    )
    with Store.open(database) as store:
        assert [one.name for one in store.projects.members(shown["id"])] == ["Ann", "tool"]
        first, *drawn = store.projects.cases(shown["id"])
        assert (first.qualification, first.input, first.answer) == (True, answer["input"], {"label": "A"})
        assert sorted(one.wanted for one in drawn) == [1, 1, 3, 3]
        assert all(int(one.case_id.removeprefix("model-x/")) % 2 for one in drawn)
        assert store.projects.guidelines(shown["id"])[0].text == "Judge *help*."


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--overlap", "1.5"), "--overlap: "),
        (("--lease", "0"), "--lease: "),
        (("--due", "soon"), "--due: The due date must be a date such as 2026-05-31."),
        (("--draw", "9"), "--draw.n: "),
        (("--uncertain",), "--uncertain needs --draw N: how many cases are drawn."),
        (("--annotator", "Zoe"), "--annotator[0]: "),
        (("--annotator", "Ann", "--annotator", "Zoe"), "--annotator[1]: "),
        (("--rubric", "nothing@1"), "--rubric: "),
        (("--split", "release"), "--set: "),
        (("--qualification", "broken.jsonl"), "--qualification: Line 2 of the known answers is not a JSON object."),
        (("--qualification", "other.jsonl"), "--qualification[0].label: "),
        (("--guidelines", "latin.md"), "--guidelines: latin.md is not UTF-8. Save it as UTF-8."),
    ],
)
def test_what_is_wrong_names_the_option_and_opens_nothing(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.jsonl").write_text("{}\n{", encoding="utf-8")
    case = {"prompt": "P", "response_a": "1", "response_b": "2"}
    Path("other.jsonl").write_text(json.dumps({"input": case, "label": "C"}), encoding="utf-8")
    Path("latin.md").write_bytes(b"Caf\xe9")
    with Store.open(database) as store:
        a_set(store, 3)
        a_person(store, "Ann")
    assert said in run("projects", "open", "Pairs", "--set", "pairs@1", *words, fails=True)
    with Store.open(database) as store:
        assert store.projects.all() == []
        assert store.audit.entries() == []


def test_a_person_is_invited_into_a_project(database: str) -> None:
    with Store.open(database) as store:
        project = a_project(store, a_set(store, 3), ())
    run("users", "invite", "--name", "Bob", "--project", project.id)
    with Store.open(database) as store:
        (invitation,) = store.users.invitations()
        assert (invitation.project, invitation.name, invitation.role) == (project.id, "Bob", "annotate")
        (entry,) = store.audit.entries()
        assert entry.object == f"{invitation.id} (Bob as annotate into project {project.id})"
    refused = run("users", "invite", "--project", "aaaaaaaaaaaa", fails=True)
    assert "There is no project 'aaaaaaaaaaaa'. See: judge-service projects list" in refused
    with Store.open(database) as store:
        assert len(store.users.invitations()) == 1
