"""`judge-service agreement` through the command line, on published figures and on bad files."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from judge_service.cli.main import app
from tests.judge_service.cli.conftest import CommandLine

FIGURES = ("accuracy_AB", "accuracy_BA", "accuracy", "both_correct", "positional_agreement")
MORE = (
    "positional_agreement_parsed",
    "flips",
    "flips_to_first",
    "flips_to_second",
    "verdicts_first",
    "verdicts_second",
    "verdicts_tie",
    "verdicts_null",
    "folded_correct",
    "folded_incorrect",
    "folded_undecided",
    "kappa_AB",
    "kappa_BA",
    "kappa_between_orders",
)


def data(folder: str) -> Path:
    root = Path(os.environ.get("JUDGE_DATA_DIR", Path(__file__).parents[4] / "shared" / "data"))
    assert (root / folder).is_dir(), f"{root / folder} is missing: set JUDGE_DATA_DIR to the folder with the data sets"
    return root / folder


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["agreement", *arguments])
    return result.exit_code, result.stdout, result.stderr


def rows(folder: Path) -> list[dict[str, Any]]:
    code, out, _ = run(str(folder / "cases.jsonl"), str(folder / "verdicts.jsonl"), "--json")
    assert code == 0
    found: list[dict[str, Any]] = json.loads(out)
    return found


@pytest.mark.data
def test_all_published_rows_of_llmbar() -> None:
    folder = data("llmbar")
    published = json.loads((folder / "published.json").read_text())
    expected = json.loads((folder / "expected.json").read_text())
    found = {f"{row['group']}|{row['judge']}|{row['strategy']}": row for row in rows(folder)}
    assert len(published) == 182
    assert set(found) == set(published)
    for key, figures in published.items():
        row = found[key]
        assert row["n"] == figures["n"], key
        for name in FIGURES:
            assert row[name] == pytest.approx(figures[name], abs=1e-4), (key, name)
            low, high = row["intervals"][name]
            assert low <= row[name] <= high, (key, name)
        for name in MORE:
            if expected[key][name] is None:
                assert row[name] is None, (key, name)
                assert row["reasons"][name], (key, name)
            else:
                assert row[name] == pytest.approx(expected[key][name], abs=1e-4), (key, name)


@pytest.mark.data
def test_pandalm_has_one_order_and_ties() -> None:
    folder = data("pandalm")
    expected = json.loads((folder / "expected.json").read_text())
    found = rows(folder)
    for judge in ("gpt-3.5-turbo", "pandalm-7b"):
        mine = [row for row in found if row["judge"] == judge]
        n = sum(row["n"] for row in mine)
        right = sum(row["estimates"]["accuracy_AB"]["numerator"] for row in mine)
        assert n == 999
        assert 100 * right / n == pytest.approx(expected[f"{judge}|null_is_wrong"]["accuracy"], abs=1e-4)
        assert sum(row["verdicts_null"] for row in mine) == expected[f"{judge}|null_is_wrong"]["null"]
        assert sum(row["verdicts_tie"] for row in mine) > 0
        assert all(row["accuracy_BA"] is None and row["reasons"]["accuracy_BA"] == "single_order" for row in mine)


def write(path: Path, *objects: Any) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in objects))
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    cases = write(
        tmp_path / "cases.jsonl",
        {"id": "a", "group": "g[bold]", "human_label": "A"},
        {"id": "b", "group": "g[bold]", "human_label": "B"},
        {"id": "c", "group": "g[bold]"},
    )
    verdicts = write(
        tmp_path / "verdicts.jsonl",
        *(
            {"case_id": name, "judge": "small", "strategy": "plain", "order": order, "verdict": "first"}
            for name in ("a", "b", "c", "zz")
            for order in ("AB", "BA")
        ),
    )
    return cases, verdicts


def test_the_table_fits_and_says_what_is_not_counted(files: tuple[Path, Path]) -> None:
    code, out, err = run(*map(str, files))
    assert code == 0
    assert max(len(line) for line in out.splitlines()[:6]) <= 100
    assert "g[bold], n = 2" in out
    assert "small" in out
    assert "50.0" in out
    assert "2 verdicts of cases that cases.jsonl does not list" in err
    assert "1 of 3 cases, which carry no human label" in err


def test_judgments_of_this_program_can_be_given_as_they_are(cli: CommandLine) -> None:
    cases = cli.pairs(4, human_label="A")
    out = cli.folder / "out.jsonl"
    assert cli("judge", "pairwise", cases, "--judge", "constant", "-o", out).exit_code == 0
    lines = cli.rows()
    lines[3] |= {"outcome": "judge_error", "record": None}
    write(out, *lines)
    (row,) = json.loads(cli("agreement", cases, out, "--json").stdout)
    assert (row["judge"], row["strategy"], row["n"]) == ("constant", "pairwise@1", 4)
    assert (row["accuracy_AB"], row["accuracy_BA"]) == (75.0, 75.0)
    assert (row["positional_agreement_parsed"], row["verdicts_null"]) == (75.0, 2)


def test_a_judgment_that_is_no_pair_is_refused(cli: CommandLine, files: tuple[Path, Path]) -> None:
    cases = cli.folder / "answers.jsonl"
    write(cases, {"id": "a", "contexts": ["It is open."], "answer": "It is open."})
    out = cli.folder / "out.jsonl"
    assert cli("judge", "faithfulness", cases, "--judge", "overlap", "-o", out).exit_code == 0
    done = cli("agreement", files[0], out)
    assert done.exit_code == 1
    assert "out.jsonl line 1: is a judgment, but not of a pair" in done.stderr


def test_verdicts_that_join_nothing_end_with_1(tmp_path: Path, files: tuple[Path, Path]) -> None:
    other = write(tmp_path / "v.jsonl", {"case_id": "x", "judge": "j", "order": "AB", "verdict": "first"})
    code, out, err = run(str(files[0]), str(other))
    assert code == 1
    assert out == ""
    assert "no verdict joins a labelled case" in err


def test_bad_lines_end_with_1_and_their_numbers(tmp_path: Path, files: tuple[Path, Path]) -> None:
    bad = tmp_path / "v.jsonl"
    bad.write_text('{"case_id": "a", "judge": "j", "order": "AB", "verdict": "left"}\n')
    code, out, err = run(str(files[0]), str(bad), "--json")
    assert code == 1
    assert out == ""
    assert "Error: The verdict file has 1 problem" in err
    assert "v.jsonl line 1: verdict" in err


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    code, _, err = run(str(tmp_path / "none.jsonl"), str(tmp_path / "none.jsonl"))
    assert code == 2
    assert "does not exist" in err


def test_a_pair_that_was_never_asked_stays_in_n_and_ids_may_be_numbers(cli: CommandLine) -> None:
    cases = cli.folder / "pairs.jsonl"
    write(
        cases,
        {"id": 1, "prompt": "p", "response_a": "longer", "response_b": "short", "human_label": "A"},
        {"id": 2, "prompt": "p", "response_a": "", "response_b": "", "human_label": "B"},
    )
    out = cli.folder / "out.jsonl"
    assert cli("judge", "pairwise", cases, "--judge", "longer", "-o", out).exit_code == 0
    assert [row["outcome"] for row in cli.rows()] == ["scored", "not_applicable"]
    done = cli("agreement", cases, out, "--json")
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)
    assert (row["n"], row["accuracy"], row["n_missing"]) == (2, 50.0, 2)


@pytest.mark.parametrize("field", ["group", "cluster", "note"])
def test_half_a_surrogate_pair_is_a_bad_line(tmp_path: Path, files: tuple[Path, Path], field: str) -> None:
    cases = tmp_path / "half.jsonl"
    write(cases, {"id": "a", "human_label": "A", field: "\ud801"})
    code, out, err = run(str(cases), str(files[1]), "--json")
    assert (code, out) == (1, "")
    assert "half.jsonl line 1: holds half of a surrogate pair" in err


def test_an_interval_up_to_100_fits_its_column(tmp_path: Path) -> None:
    ids = [f"c{i}" for i in range(92)]
    cases = write(tmp_path / "c.jsonl", *({"id": i, "human_label": "A"} for i in ids))
    verdicts = write(
        tmp_path / "v.jsonl",
        *(
            {"case_id": i, "judge": "j", "order": o, "verdict": v}
            for i in ids
            for o, v in (("AB", "first"), ("BA", "second"))
        ),
    )
    code, out, _ = run(str(cases), str(verdicts))
    assert code == 0
    assert "96.0-100.0" in out
    assert "…" not in out
    assert max(len(line.rstrip()) for line in out.split("\n")[:6]) <= 100
