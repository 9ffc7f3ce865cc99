"""`judge-service demo`: the tour on a loopback server in place of the model, and on the model itself."""

import json
from collections import Counter

import pytest

from judge_service.demo import RUBRICS, sample_lines
from judge_service.runs.casefile import read_cases
from judge_service.settings import Settings
from rubrics.registry import get_rubric
from tests.judge_service.cli.conftest import CommandLine
from tests.support.fake_provider import FakeProvider


@pytest.mark.parametrize("name", RUBRICS)
def test_samples_fit_their_rubric_in_two_languages_with_right_and_wrong(name: str) -> None:
    rubric = get_rubric(name)
    rows = [json.loads(line) for line in sample_lines(name)]
    labels = Counter(row["human_label"] for row in rows)
    assert sum(count for label, count in labels.items() if label is not None) >= 12
    assert set(labels) - {None} == set(rubric.scale.names)
    assert all(count > 4 for label, count in labels.items() if label not in (None, "tie"))
    assert {row["language"] for row in rows} == {"en", "de"}
    assert len({row["domain"] for row in rows}) >= 5
    assert all(row["human_note"] for row in rows)
    cases = list(read_cases(sample_lines(name), rubric, strict=False))
    assert len({case.content_hash for case in cases}) == len(rows)
    assert len({case.group for case in cases if case.group is not None}) >= 10


def test_samples_of_an_unknown_rubric() -> None:
    with pytest.raises(KeyError):
        sample_lines("nothing")


def test_the_tour_and_again_without_a_call(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    model = cli.folder / "own.gguf"
    model.write_bytes(b"GGUF" + b"\0" * 32)
    monkeypatch.setenv("JUDGE_SERVICE_MODEL_PATH", str(model))
    folder = cli.folder / "demo"
    with FakeProvider() as server:
        cli.judges(f'[judges.embedded]\nbackend = "openai"\nmodel = "m"\noptions = {{ base_url = "{server.url}" }}\n')
        first = cli("demo", "-o", folder)
        asked = len(server.completions)
        again = cli("demo", "-o", folder)
        assert len(server.completions) == asked
    assert first.exit_code == 0, first.output
    assert again.exit_code == 0, again.output
    assert asked >= 24 + 12
    assert "faithfulness@1: Not enough evidence to choose. Missing: at least" in first.stdout
    assert "pairwise@1: Not enough evidence to choose. Missing: at least" in first.stdout
    for name in ("faith-en-01", "faith-de-05", "pair-en-01", "pair-de-05"):
        assert name in first.stdout
    assert "uncalibrated" in first.stdout
    assert "not applicable: empty answer" in first.stdout
    assert "near chance" not in first.stdout, "that is said of the bundled model only"
    assert str(folder / "report.html") in first.stdout.replace("\n", "")
    assert "No call was made" in again.stdout
    report = json.loads((folder / "report.json").read_text())
    assert [part["facts"]["rubric"] for part in report["parts"]] == ["faithfulness@1", "pairwise@1"]
    names = [row["judge"] for row in report["parts"][1]["sections"][0]["data"]["judges"]]
    assert names == ["embedded", "constant", "longer", "overlap"]
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    assert len(list(folder.glob("*.sqlite3"))) == 1
    # The samples lie beside the report, ready to be judged by another judge.
    done = cli("judge", "pairwise", folder / "pairwise.jsonl", "--judge", "longer", "-o", cli.folder / "out.jsonl")
    assert done.exit_code == 0, done.output


@pytest.mark.model
def test_the_embedded_model_judges_a_pair_and_an_answer_under_grammar(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from judge_service.backends.weights import locate

    monkeypatch.setenv("JUDGE_SERVICE_MODEL_PATH", str(locate(Settings())))
    for name in RUBRICS:
        cases = cli.folder / f"{name}.jsonl"
        cases.write_bytes(sample_lines(name)[0])
        out = cli.folder / f"{name}.out.jsonl"
        done = cli("judge", name, cases, "--judge", "embedded", "-o", out)
        (row,) = cli.rows(out.name)
        assert row["outcome"] in ("scored", "inconsistent", "not_applicable"), row
        assert done.exit_code == (0 if row["outcome"] == "scored" else 1)
        assert row["enforcement"] == "grammar"
        assert row["calls"]
        assert all(call["error"] is None and call["enforcement"] == "grammar" for call in row["calls"])


def test_the_sample_files_end_every_line_with_a_newline() -> None:
    for name in RUBRICS:
        assert all(line.endswith(b"\n") and b"\r" not in line for line in sample_lines(name))
