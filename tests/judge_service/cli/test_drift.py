"""`drift` over the command line: baseline, check, change, and what each exit code is kept for."""

import json
from pathlib import Path

import pytest

from tests.judge_service.cli.conftest import CommandLine
from tests.judge_service.cli.test_calibrate import ok

JUDGES = """
[judges.told]
backend = "classifier"
confidence = "classifier"
options = { function = "tests.support.classifiers:told" }
"""


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "told.txt"
    path.write_text("0.9")
    monkeypatch.setenv("TOLD_FILE", str(path))
    return path


def anchored(cli: CommandLine) -> None:
    cli.judges(JUDGES)
    rows = [
        {
            "id": f"c{i}",
            "question": None,
            "contexts": [f"Context number {i}."],
            "answer": f"Item {i} is in stock.",
            "human_label": "supported",
            "split": "monitoring" if i < 60 else "calibration",
        }
        for i in range(70)
    ]
    (cli.folder / "anchors.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ok(cli, "sets", "create", "anchors", "--rubric", "faithfulness@1")
    ok(cli, "sets", "import", "anchors", cli.folder / "anchors.jsonl")


def test_a_judge_is_watched_from_its_baseline_on(cli: CommandLine, told: Path) -> None:
    anchored(cli)
    open_set = cli("drift", "anchors", "--judge", "told")
    assert open_set.exit_code == 3
    assert "not frozen" in open_set.stderr
    ok(cli, "sets", "freeze", "anchors")
    first = cli("drift", "anchors", "--judge", "told", "--repeats", 3)
    assert first.exit_code == 0, first.output
    assert first.stdout.startswith("### ✓ Baseline stored")
    same = cli("drift", "anchors", "--judge", "told")
    assert same.exit_code == 0
    assert same.stdout.startswith("### ✓ No change seen")
    assert "told on 60 anchors of anchors@1 (monitoring), faithfulness@1." in same.stdout
    told.write_text("0.1")
    changed = cli("drift", "anchors", "--judge", "told", "--json")
    assert changed.exit_code == 1
    found = json.loads(changed.stdout)
    assert (found["verdict"], found["exit_code"], found["look"]) == ("judge changed", 1, 2)
    assert found["result"]["moves"] == [{"from": "supported", "to": "unsupported", "n": 60}]
    cli.judges(JUDGES.replace('told" }', 'told", threshold = 0.05 }'))
    other = cli("drift", "anchors", "--judge", "told")
    assert other.exit_code == 4
    assert "configuration changed since the baseline" in other.stdout
    assert "Nothing was asked." in other.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("drift",),
        ("drift", "anchors"),
        ("drift", "anchors", "--judge", "nobody"),
        ("drift", "none", "--judge", "longer"),
        ("drift", "anchors", "--judge", "longer", "--split", "release"),
        ("drift", "anchors", "--judge", "longer", "--repeats", "1"),
        ("drift", "anchors", "--judge", "longer", "--rubric", "nothing@1"),
    ],
)
def test_what_keeps_it_from_an_answer_ends_with_3(cli: CommandLine, words: tuple[str, ...]) -> None:
    result = cli(*words)
    assert result.exit_code == 3
    assert "Traceback" not in result.stderr
