"""`runs report` over the command line, on the verdicts that judges gave elsewhere."""

import csv
import json
from pathlib import Path

import pytest

from tests.data.folders import data_folder
from tests.judge_service.cli.conftest import CommandLine
from tests.judge_service.cli.test_calibrate import ok


def run_ids(cli: CommandLine) -> dict[str, str]:
    return {run["judge"]: run["id"] for run in json.loads(ok(cli, "runs", "list", "--limit", 100, "--json"))}


@pytest.mark.data
def test_two_recorded_judges_of_a_published_collection(cli: CommandLine) -> None:
    source = data_folder() / "llmbar"
    ok(cli, "sets", "create", "llmbar", "--rubric", "pairwise@1")
    ok(cli, "sets", "import", "llmbar", source / "cases.jsonl")
    ok(cli, "sets", "verdicts", "llmbar", source / "verdicts.jsonl")
    runs = run_ids(cli)
    strong, weak = runs["GPT-4--Vanilla"], runs["ChatGPT--Vanilla"]
    args = ("runs", "report", strong, "--compare", weak, "--by", "source_subset")
    for ending in ("html", "json", "csv", "md"):
        ok(cli, *args, "--out", cli.folder / f"report.{ending}")
    report = json.loads((cli.folder / "report.json").read_text())
    # Counted from the verdict file itself.
    said: dict[tuple[str, str], dict[str, str]] = {}
    for line in (source / "verdicts.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["strategy"] == "Vanilla" and row["judge"] in ("GPT-4", "ChatGPT"):
            answer = {"first": "AB", "second": "BA"}.get(row["verdict"], "??")[row["order"] == "BA"]
            said.setdefault((row["judge"], str(row["case_id"])), {})[row["order"]] = answer
    score = {
        key: {"A": 1.0, "B": 0.0}[orders["AB"]]
        for key, orders in said.items()
        if len(set(orders.values())) == 1 and "?" not in orders.values()
    }
    both = [name for judge, name in score if judge == "GPT-4" and ("ChatGPT", name) in score]
    assert report["comparison"]["n_paired"] == len(both)
    difference = sum(score["GPT-4", name] - score["ChatGPT", name] for name in both) / len(both)
    assert report["comparison"]["difference"]["mean"]["value"] == pytest.approx(difference)
    mine = [value for (judge, _), value in score.items() if judge == "GPT-4"]
    assert report["numbers"]["mean_score"]["value"] == pytest.approx(sum(mine) / len(mine))
    with (cli.folder / "report.csv").open(newline="") as file:
        rows = {row["figure"]: row["value"] for row in csv.DictReader(file)}
    assert float(rows["comparison / n_paired"]) == len(both)
    assert f"n = {len(both)}" in (cli.folder / "report.md").read_text()
    assert f"n = {len(both)}" in (cli.folder / "report.html").read_text()
    assert (cli.folder / "report.html").stat().st_size < 3_000_000


def test_a_report_is_printed_as_markdown_and_refuses_unknown_endings(cli: CommandLine) -> None:
    cases = cli.pairs(5)
    ok(cli, "judge", "pairwise@1", cases, "--judge", "longer", "-o", cli.folder / "out.jsonl")
    [run] = run_ids(cli).values()
    assert ok(cli, "runs", "report", run).startswith("### Mean score 1.000")
    assert json.loads(ok(cli, "runs", "report", run, "--form", "json"))["kind"] == "run_report"
    refused = cli("runs", "report", run, "--out", cli.folder / "report.pdf")
    assert refused.exit_code == 1
    assert "must end in one of" in refused.stderr
    assert not Path(cli.folder / "report.pdf").exists()
    assert cli("runs", "report", "run_none").exit_code == 1


def test_panels_are_told_apart_by_their_members(cli: CommandLine) -> None:
    lines = [{"id": f"c{i}", "prompt": f"{i}?", "response_a": "x" * i, "response_b": "yyy"} for i in range(8)]
    (cli.folder / "cases.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    shown = []
    for model in ("longer", "constant"):
        members = "".join(f'[judges.{name}]\nbackend = "baseline"\nmodel = "{model}"\n' for name in ("one", "two"))
        cli.judges(f'{members}[judges.mine]\nbackend = "panel"\npanel = ["one", "two"]\n')
        shown.append(json.loads(cli("judges", "show", "mine", "--json").stdout)["content_hash"])
        done = cli("judge", "pairwise", cli.folder / "cases.jsonl", "--judge", "mine", "-o", cli.folder / "out.jsonl")
        assert done.exit_code == 0, done.output
    runs = [row["id"] for row in json.loads(cli("runs", "list", "--json").stdout)]
    assert len(runs) == 2
    reports = {run: json.loads(cli("runs", "report", run, "--form", "json").stdout) for run in runs}
    assert {report["run"]["judge_hash"] for report in reports.values()} == set(shown)
    assert len(set(shown)) == 2
    found = json.loads(cli("runs", "compare", *runs, "--json").stdout)
    assert found["notes"] == ["Different configurations of mine: the difference is theirs too."]
