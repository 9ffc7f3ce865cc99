"""`judge-service report` from import to decision: forms, splits, release used once, refusals that say what to do."""

import csv
import json
from pathlib import Path

import pytest

from tests.judge_service.cli.conftest import CommandLine
from tests.judge_service.cli.test_calibrate import ok

N = 160


def verdicts(cli: CommandLine) -> None:
    """Two recorded judges: `good` is right on 9 of 10 cases, `fair` on 7 of 10; people say A and B in turn."""
    cases, lines = [], []
    for i in range(N):
        label = "AB"[i % 2]
        cases.append(
            {
                "id": f"c{i}",
                "prompt": f"Question number {i}, on subject {i * 7}?",
                "response_a": f"first {i}",
                "response_b": f"second {i} of {i}",
                "human_label": label,
                "language": "de" if i % 4 < 2 else "en",
            }
        )
        for judge, right in (("good", i // 2 % 10 != 0), ("fair", i // 2 % 10 > 2)):
            said = label if right else {"A": "B", "B": "A"}[label]
            for order in ("AB", "BA"):
                slot = "first" if said == order[0] else "second"
                lines.append({"case_id": f"c{i}", "judge": judge, "order": order, "verdict": slot})
    for name, rows in (("cases", cases), ("verdicts", lines)):
        (cli.folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def frozen(cli: CommandLine) -> CommandLine:
    verdicts(cli)
    ok(cli, "sets", "create", "pairs", "--rubric", "pairwise@1")
    ok(cli, "sets", "import", "pairs", cli.folder / "cases.jsonl")
    ok(cli, "sets", "verdicts", "pairs", cli.folder / "verdicts.jsonl")
    ok(cli, "sets", "freeze", "pairs")
    return cli


def report(cli: CommandLine, *options: object) -> str:
    return ok(cli, "report", "pairs", "--resamples", 200, *options)


SENTENCE = "Select good for pairwise@1, judging both orders. It has no threshold: a person checks its verdicts."


def test_every_form_says_the_same(frozen: CommandLine) -> None:
    folder: Path = frozen.folder
    summary = report(frozen, "--floor", 0.7)
    assert f"✓ **{SENTENCE}**" in summary
    assert "| good | 90.0 (" in summary
    assert len(summary.splitlines()) < 60
    printed = report(frozen, "--floor", 0.7, "--by", "language", "-o", folder / "report.json")
    assert f"✓ {SENTENCE}" in printed
    found = json.loads((folder / "report.json").read_text())
    assert found["decision"]["sentence"] == SENTENCE
    assert found["facts"]["set"] == "pairs@1"
    assert found["facts"]["splits"] == ["calibration"]
    sections = {part["id"]: part["data"] for part in found["sections"]}
    judges = {row["judge"]: row for row in sections["judges"]["judges"]}
    assert [row["baseline"] for row in judges.values()] == [False, False, True, True, True]
    assert {name: row["agreement"]["numerator"] for name, row in judges.items()} | {"longer": 0, "overlap": 0} == {
        "good": 144, "fair": 112, "constant": 80, "longer": 0, "overlap": 0
    }  # fmt: skip
    assert sections["slices"]["declared"] is True
    assert judges["constant"]["floors"] is None
    report(frozen, "--floor", 0.7, "-o", folder / "report.html")
    assert SENTENCE in (folder / "report.html").read_text()
    report(frozen, "--floor", 0.7, "-o", folder / "tables")
    with (folder / "tables" / "agreement.csv").open() as file:
        assert {row["judge"]: float(row["raw"]) for row in csv.DictReader(file)}["good"] == 0.9


def test_an_open_set_and_named_judges(cli: CommandLine) -> None:
    verdicts(cli)
    ok(cli, "sets", "create", "pairs", "--rubric", "pairwise@1")
    ok(cli, "sets", "import", "pairs", cli.folder / "cases.jsonl")
    assert "Missing: the freeze of pairs@1, which may still change." in report(cli)
    ok(cli, "sets", "verdicts", "pairs", cli.folder / "verdicts.jsonl")
    summary = report(cli, "--judge", "fair")
    assert "| fair |" in summary
    assert "| good |" not in summary
    refused = cli("report", "pairs", "--judge", "nobody")
    assert refused.exit_code == 1
    assert "nobody did not judge the set pairs@1" in refused.output


def test_release_is_read_when_asked_for_and_chosen_on_calibration(cli: CommandLine) -> None:
    verdicts(cli)
    rows = [json.loads(line) for line in (cli.folder / "cases.jsonl").read_text().splitlines()]
    for part, name in ((rows[:110], "calibration"), (rows[110:], "release")):
        (cli.folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    ok(cli, "sets", "create", "pairs", "--rubric", "pairwise@1")
    for name in ("calibration", "release"):
        ok(cli, "sets", "import", "pairs", cli.folder / f"{name}.jsonl", "--split", name)
    ok(cli, "sets", "verdicts", "pairs", cli.folder / "verdicts.jsonl")
    ok(cli, "sets", "freeze", "pairs")
    report(cli, "-o", cli.folder / "own.json")
    own = json.loads((cli.folder / "own.json").read_text())
    assert (own["facts"]["splits"], own["facts"]["cases"]) == (["calibration"], 110)
    assert "release scored" not in ok(cli, "sets", "show", "pairs")
    report(cli, "--split", "release", "-o", cli.folder / "release.json")
    found = json.loads((cli.folder / "release.json").read_text())
    assert (found["facts"]["splits"], found["facts"]["cases"]) == (["release"], 50)
    sections = {part["id"]: part["data"] for part in found["sections"]}
    assert sections["order"]["judges"][0]["chosen"]["chosen_on"] == "the calibration split"
    assert sections["disagreements"]["cases"] == []
    assert sections["disagreements"]["withheld"]
    shown = ok(cli, "sets", "show", "pairs")
    assert "release scored: good" in shown
    assert "constant" not in shown
    report(cli, "--split", "release")
    again = cli("report", "pairs", "--split", "release", "--target", 0.8)
    assert again.exit_code == 1
    assert "release" in again.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--form", "csv"), "--out: is needed with csv"),
        (("-o", "report.pdf"), "must end in .html, .json or .md"),
        (("--family", "gpt"), "family: "),
        (("--by", "colour"), "no labelled case has metadata 'colour'"),
        (("--rubric", "pairwise@9"), "rubric: "),
    ],
)
def test_refusals_name_the_option(frozen: CommandLine, options: tuple[str, ...], words: str) -> None:
    refused = frozen("report", "pairs", "--resamples", 100, *options)
    assert refused.exit_code == 1
    assert words in refused.output
