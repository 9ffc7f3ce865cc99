"""Labels as files through the command line: out, in again, and the same."""

import json

import pytest

from tests.judge_service.cli.conftest import CommandLine
from tests.judge_service.sets.labels import KINDS, LABELS, cases


def fill(cli: CommandLine) -> None:
    for name, rows in (("cases.jsonl", cases(3)), ("labels.jsonl", LABELS)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (cli.folder / name).write_text(text)
    for name in ("pairs", "copy"):
        cli("sets", "create", name, "--rubric", "pairwise")
        cli("sets", "import", name, cli.folder / "cases.jsonl")
    assert f"labels {len(LABELS)} new" in cli("sets", "labels", "pairs", cli.folder / "labels.jsonl").stdout


def written(cli: CommandLine, name: str, kind: str = "jsonl") -> bytes:
    how = ("--label-studio",) if kind == "label-studio" else ("--labels", "--kind", kind)
    target = cli.folder / "out"
    done = cli("sets", "export", name, *how, "--out", target)
    assert done.exit_code == 0, done.stderr
    return target.read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_labels_come_back_exactly(cli: CommandLine, kind: str) -> None:
    fill(cli)
    file = cli.folder / f"again.{'json' if kind == 'label-studio' else kind}"
    file.write_bytes(written(cli, "pairs", kind))
    studio = ("--label-studio",) if kind == "label-studio" else ()
    for words in (f"labels {len(LABELS)} new, 0 there already", f"labels 0 new, {len(LABELS)} there already"):
        done = cli("sets", "labels", "copy", file, *studio)
        assert done.exit_code == 0, done.stderr
        assert words in done.stdout
    for each in KINDS:
        if each != "parquet":
            assert written(cli, "copy", each) == written(cli, "pairs", each)
    digests = [json.loads(cli("sets", "freeze", name, "--json").stdout)["content_hash"] for name in ("pairs", "copy")]
    assert digests[0] == digests[1]


def test_labels_go_to_standard_output_and_parquet_needs_a_file(cli: CommandLine) -> None:
    fill(cli)
    shown = cli("sets", "export", "pairs", "--label-studio")
    assert [len(task["annotations"]) for task in json.loads(shown.stdout)] == [2, 2]
    for arguments in (("--kind", "parquet"), ("--kind", "parquet", "--label-studio", "--out", cli.folder / "x")):
        refused = cli("sets", "export", "pairs", "--labels", *arguments)
        assert (refused.exit_code, "Parquet needs --out and is no JSON" in refused.stderr) == (1, True)


def test_a_file_of_another_kind_is_refused(cli: CommandLine) -> None:
    fill(cli)
    refused = cli("sets", "labels", "copy", cli.folder / "labels.jsonl", "--label-studio")
    assert (refused.exit_code, "labels.jsonl is not JSON" in refused.stderr) == (1, True)
    assert json.loads(cli("sets", "show", "copy", "--json").stdout)["version"]["n_labels"] == 0
