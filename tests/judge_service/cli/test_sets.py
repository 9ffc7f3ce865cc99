"""`judge-service sets` through the command line."""

import json
from typing import Any

from tests.judge_service.cli.conftest import CommandLine


def test_from_files_to_a_frozen_version_and_back(cli: CommandLine) -> None:
    cases = cli.pairs(40, human_label="A")
    assert "Made pairs@1" in cli("sets", "create", "pairs", "--rubric", "pairwise").stdout
    done = cli("sets", "import", "pairs", cases)
    assert "cases   40 new, 0 there already" in done.stdout
    assert "cases   0 new, 40 there already" in cli("sets", "import", "pairs", cases).stdout
    labels = cli.folder / "labels.csv"
    labels.write_text("id,verdict,by\np0,first,ada\np99,first,ada\n")
    joined = cli("sets", "labels", "pairs", labels, "--map", "verdict=label", "--label", "first=A")
    assert "labels 1 new" in joined.stdout
    assert "Not counted: labels of 1 ids that are no case of the set: 'p99'." in joined.stderr
    assert "40 cases in" in cli("sets", "groups", "pairs", "--threshold", "0.99").stdout
    split = json.loads(cli("sets", "split", "pairs", "--release", 2, "--json").stdout)
    assert sum(split["cases"].values()) == 40
    frozen = json.loads(cli("sets", "freeze", "pairs", "--json").stdout)
    shown = cli("sets", "show", "pairs")
    assert frozen["content_hash"] in shown.stdout
    assert "pairs@1: frozen, made new, rubric pairwise@1" in shown.stdout
    for name in ("out.csv", "out.jsonl", "out.parquet"):
        target = cli.folder / name
        assert cli("sets", "export", "pairs", "--out", target).exit_code == 0
        copy = name.replace(".", "-")
        cli("sets", "create", copy)
        cli("sets", "import", copy, target)
        assert json.loads(cli("sets", "freeze", copy, "--json").stdout)["content_hash"] == frozen["content_hash"]
    verdicts = cli.folder / "verdicts.jsonl"
    rows = [
        {"case_id": f"p{n}", "judge": "GPT-4", "strategy": "CoT", "order": "AB", "verdict": "first"} for n in (1, 2, 50)
    ]
    verdicts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    judged = cli("sets", "verdicts", "pairs", verdicts)
    assert "GPT-4--CoT" in judged.stdout
    assert "'p50'" in judged.stderr
    assert cli("sets", "create", "pairs", "--from", "pairs@1").exit_code == 0
    assert "the same cases and labels" in cli("sets", "diff", "pairs@1", "pairs@2").stdout
    listed = json.loads(cli("sets", "list", "--json").stdout)
    assert [one["id"] for one in listed][-2:] == ["pairs@1", "pairs@2"]


def test_refusals_end_with_one_and_keep_what_is_stored(cli: CommandLine) -> None:
    cli("sets", "create", "s", "--rubric", "pairwise@1")
    cli("sets", "import", "s", cli.pairs(2, human_label="B"))
    changed = cli("sets", "import", "s", cli.pairs(2, "changed.jsonl", human_label="B", language="en"))
    assert changed.exit_code == 1
    assert "p0: language: stored None, given 'en'" in changed.stderr
    twice = cli.folder / "twice.jsonl"
    twice.write_bytes(cli.pairs(1, "one.jsonl").read_bytes() * 2)
    doubled = cli("sets", "import", "s", twice)
    assert doubled.exit_code == 1
    assert "line 2: id: the id 'p0' is in the file already, at line 1" in doubled.stderr
    for arguments, words in (
        (("import", "nothing", twice), "no calibration set 'nothing'"),
        (("create", "s"), "s@1 exists already"),
        (("create", "t", "--rubric", "nonsense"), "nonsense"),
        (("import", "s", twice, "--map", "x"), "NAME=VALUE"),
        (("export", "s", "--kind", "parquet"), "needs --out"),
        (("show", "s@7"), "s@7"),
    ):
        refused = cli("sets", *arguments)
        assert refused.exit_code == 1
        assert words in refused.stderr
    assert json.loads(cli("sets", "show", "s", "--json").stdout)["version"]["n_cases"] == 2


def test_looking_at_release_says_what_it_does(cli: CommandLine) -> None:
    cli("sets", "create", "s", "--rubric", "pairwise@1")
    cli("sets", "import", "s", cli.pairs(3), "--split", "release")
    cli("sets", "freeze", "s")
    assert cli("sets", "show", "s", "--cases").stdout == ""
    rows: list[dict[str, Any]] = [
        json.loads(line) for line in cli("sets", "show", "s", "--cases", "--split", "release").stdout.splitlines()
    ]
    assert [row["case"]["id"] for row in rows] == ["p0", "p1", "p2"]
    shown = cli("sets", "show", "s").stdout
    assert "The release split counts as development since" in shown
    assert "release viewed: command line" in shown


def test_labels_alone_go_to_standard_output(cli: CommandLine) -> None:
    cli("sets", "create", "s", "--rubric", "pairwise@1")
    cli("sets", "import", "s", cli.pairs(1, human_label="tie"), "--annotator", "ada", "--assisted")
    out = cli("sets", "export", "s", "--labels", "--kind", "csv").stdout
    assert out.splitlines()[1].startswith("p0,pairwise@1,ada,tie,assisted,human,false,")
