"""`gate` over the command line: every way it may end, and that nothing else has those exit codes."""

import json
from typing import Any

import pytest

from judge_service.cli.main import app
from tests.judge_service.cli.conftest import CommandLine
from tests.judge_service.cli.test_calibrate import CLASSIFIER, ok, pairs


def judged(cli: CommandLine, n: int = 60, name: str = "cases.jsonl", **more: Any) -> str:
    cases = cli.pairs(n, name, **more)
    ok(cli, "judge", "pairwise@1", cases, "--judge", "longer", "-o", cli.folder / "out.jsonl")
    return str(json.loads(ok(cli, "runs", "list", "--limit", 1, "--json"))[0]["id"])


def test_a_stored_run_passes_fails_or_lacks_evidence(cli: CommandLine) -> None:
    run, few = judged(cli), judged(cli, 12, "few.jsonl", note="few")
    passed = cli("gate", "--run", run, "--min", "pairwise=0.9", "--min-coverage", 0.95)
    assert passed.exit_code == 0
    assert passed.stdout.startswith("### ✓ Passed\n")
    assert "60 of 60 scored" in passed.stdout
    failed = cli("gate", "--run", run, "--max", "label:A=0.5")
    assert failed.exit_code == 1
    assert failed.stdout.startswith("### ✕ Failed\n")
    short = cli("gate", "--run", few, "--min", "pairwise=0.1")
    assert short.exit_code == 2
    assert "below 30 nothing is decided" in short.stdout
    assert cli("gate", "--run", few, "--min", "pairwise=0.1", "--min-n", 10).exit_code == 0
    found = json.loads(cli("gate", "--run", run, "--min", "pairwise=0.9", "--json").stdout)
    assert (found["verdict"], found["exit_code"]) == ("pass", 0)
    assert found["checks"][0]["estimate"]["n"] == 60


def test_a_run_may_not_fall_behind_another(cli: CommandLine) -> None:
    before = judged(cli, 100)
    rows = [
        {
            "id": f"p{i}",
            "prompt": f"Question {i}?",
            "response_a": "Yes, it is." if i % 5 else "No.",
            "response_b": "Nope",
        }
        for i in range(100)
    ]
    path = cli.folder / "after.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ok(cli, "judge", "pairwise@1", path, "--judge", "longer", "-o", cli.folder / "out.jsonl")
    after = json.loads(ok(cli, "runs", "list", "--limit", 1, "--json"))[0]["id"]
    worse = cli("gate", "--run", after, "--compare", before, "--max-drop", 0.05)
    assert worse.exit_code == 1
    assert f"change since {before}" in worse.stdout.replace("\\", "")
    assert "−0.200" in worse.stdout
    assert cli("gate", "--run", after, "--compare", before, "--max-drop", 0.3).exit_code == 0
    same = json.loads(cli("gate", "--run", before, "--compare", before, "--json").stdout)
    # 100 pairs without a change cannot exclude a drop of 2 points.
    assert same["verdict"] == "not enough evidence"


def test_a_file_is_judged_and_decided_in_one_step(cli: CommandLine) -> None:
    cases = cli.pairs(40)
    args = ("gate", "--cases", cases, "--rubric", "pairwise@1", "--judge", "longer", "--min", "score=0.8")
    result = cli(*args)
    assert result.exit_code == 0, result.output
    assert "40 of 40 cases scored" in result.stdout
    assert cli(*args).exit_code == 0


def test_a_judge_that_fails_on_everything_is_no_evidence(cli: CommandLine) -> None:
    cli.judges('[judges.silent]\nbackend = "scripted"\noptions = { replies = ["not json"], cycle = true }\n')
    cases = cli.pairs(35)
    args = ("gate", "--cases", cases, "--rubric", "pairwise@1", "--judge", "silent", "--min", "score=0", "--point")
    result = cli(*args)
    assert result.exit_code == 2
    assert "0 of 35 cases scored" in result.stdout
    assert cli(*args, "--max-error-rate", 1, "--min-coverage", 0).exit_code == 2


@pytest.mark.parametrize(
    "words",
    [
        ("--nonsense",),
        (),
        ("--run", "run_none", "--min", "score=0.5"),
        ("--run", "{run}"),
        ("--run", "{run}", "--min", "score"),
        ("--run", "{run}", "--min", "score=high"),
        ("--run", "{run}", "--min", "faithfulness=0.5"),
        ("--run", "{run}", "--min", "score=0.5", "--min-coverage", "2"),
        ("--run", "{run}", "--min-coverage", "0.5", "--min-n", "many"),
        ("--run", "{run}", "--min", "score=0.5", "--max-drop", "0.1"),
        ("--run", "{run}", "--compare", "run_none"),
        ("--run", "{run}", "--run", "other", "--compare", "{run}"),
        ("--cases", "none.jsonl", "--rubric", "pairwise@1", "--judge", "longer", "--min", "score=0.5"),
        ("--cases", "{cases}", "--min", "score=0.5"),
        ("--cases", "{cases}", "--rubric", "pairwise@1", "--judge", "nobody", "--min", "score=0.5"),
        ("--cases", "{cases}", "--rubric", "nothing@1", "--judge", "longer", "--min", "score=0.5"),
        ("--cases", "{cases}", "--run", "{run}", "--rubric", "pairwise@1", "--judge", "longer", "--min", "score=0.5"),
        ("--run", "{run}", "--rubric", "pairwise@1", "--min", "score=0.5"),
        ("--run", "{run}", "--min", "score=0.5", "--url", "file:///etc/passwd"),
        ("--run", "{run}", "--min", "score=0.5", "--url", "http://user:secret@127.0.0.1:1"),
        ("--run", "{run}", "--min", "score=0.5", "--url", "http://127.0.0.1:1"),
        ("--run", "{run}", "--min", "score=0.5", "--database", "nonsense"),
        ("extra",),
    ],
)
def test_whatever_keeps_it_from_deciding_ends_with_3(cli: CommandLine, words: tuple[str, ...]) -> None:
    run = judged(cli, 3)
    given = [word.format(run=run, cases=cli.folder / "cases.jsonl") for word in words]
    result = cli("gate", *given)
    assert result.exit_code == 3, result.output
    assert result.stderr
    assert "Traceback" not in result.stderr
    assert "secret" not in result.output


def test_a_fault_of_the_program_itself_is_no_decision(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    import judge_service.reports.run_report as module

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(module, "run_report", broken)
    result = cli("gate", "--run", "run_1", "--min", "score=0.5")
    assert result.exit_code == 3
    assert "RuntimeError: broken" in result.stderr


def test_other_commands_keep_their_usage_error(cli: CommandLine) -> None:
    assert cli("runs", "report").exit_code == 2
    assert cli("gate", "--help").exit_code == 0
    assert "3 could not run" in " ".join(cli("gate", "--help").stdout.split())
    assert app.info.name == "judge-service"


def test_corrected_figures_and_a_calibrated_judge(cli: CommandLine) -> None:
    pairs(cli)
    ok(cli, "sets", "create", "demo", "--rubric", "pairwise@1")
    ok(cli, "sets", "import", "demo", cli.folder / "pairs.jsonl")
    ok(cli, "sets", "freeze", "demo")
    run = judged(cli)
    short = cli("gate", "--run", run, "--min", "score=0.5", "--calibrated")
    assert short.exit_code == 2
    assert cli("gate", "--run", run, "--min", "rogan_gladen:A=0.1").exit_code == 3
    ok(cli, "calibrate", "demo", "--judge", "longer")
    assert cli("gate", "--run", run, "--min", "score=0.5", "--calibrated").exit_code == 0
    assert cli("gate", "--run", run, "--min", "rogan_gladen:A=0.5").exit_code == 0


def test_classifiers_may_judge_in_a_gate(cli: CommandLine) -> None:
    cli.judges(CLASSIFIER)
    rows = [
        {"id": f"c{i}", "question": None, "contexts": [f"Context {i}."], "answer": f"Item {i} has 90 percent."}
        for i in range(40)
    ]
    path = cli.folder / "claims.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    args = ("gate", "--cases", path, "--rubric", "faithfulness@1", "--judge", "entails")
    assert cli(*args, "--min", "faithfulness=0.85").exit_code == 0
    assert cli(*args, "--min", "faithfulness=0.95").exit_code == 2
    assert cli(*args, "--min", "faithfulness=0.95", "--point").exit_code == 0
