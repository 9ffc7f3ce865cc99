"""`judge-service judge` over tables: CSV and Parquet files, and sets that were made of the same files."""

import csv
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from tests.judge_service.cli.conftest import CommandLine

ROWS: list[dict[str, Any]] = [
    {
        "id": f"c{n}",
        "question": question,
        "contexts": '["On Saturdays the library opens at 10:00."]',
        "answer": "The library opens at 10:00 on Saturdays.",
        "day": date(2026, 1, 2),
        "seen": datetime(2026, 1, 2, 3, 4, 5),  # noqa: DTZ001  # as tables write it
        "price": Decimal("1.50"),
        "pieces": Decimal(3),
        "remark": remark,
    }
    for n, (question, remark) in enumerate([("When does it open?", "good"), (None, None), ("", "")])
]


def table(folder: Path, kind: str) -> Path:
    """The rows as a file."""
    path = folder / f"cases.{kind}"
    if kind == "parquet":
        typed = [row | {"contexts": ["On Saturdays the library opens at 10:00."]} for row in ROWS]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(typed), path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(ROWS[0]))
            writer.writeheader()
            writer.writerows(ROWS)
    return path


def judged(cli: CommandLine, *arguments: object) -> list[dict[str, Any]]:
    done = cli("judge", "faithfulness@1", *arguments, "--judge", "overlap", "-o", cli.folder / "out.jsonl")
    assert done.exit_code == 0, done.output
    return cli.rows()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_is_judged_alike_as_a_file_and_as_a_set(cli: CommandLine, kind: str) -> None:
    path = table(cli.folder, kind)
    rows = judged(cli, path)
    assert [row["case_id"] for row in rows] == ["c0", "c1", "c2"]
    assert {row["outcome"] for row in rows} == {"scored"}
    # Dates are texts in ISO form; decimals are numbers where the file has types; an empty cell is no question.
    typed = {"day": "2026-01-02", "price": 1.5, "pieces": 3}
    texts = {"day": "2026-01-02", "price": "1.50", "pieces": "3"}
    seen = {"seen": "2026-01-02T03:04:05" if kind == "parquet" else "2026-01-02 03:04:05"}
    wanted = (typed if kind == "parquet" else texts) | seen
    remarks = ["good", None, ""] if kind == "parquet" else ["good", "", ""]
    assert [row["metadata"] for row in rows] == [wanted | {"remark": remark} for remark in remarks]
    hashes = [row["case_hash"] for row in rows]
    assert hashes[1] == hashes[2] != hashes[0]
    assert cli("sets", "create", "s", "--rubric", "faithfulness@1").exit_code == 0
    imported = cli("sets", "import", "s", path)
    assert imported.exit_code == 0, imported.output
    again = judged(cli, "--set", "s@1")
    assert [row["case_hash"] for row in again] == hashes
    assert [row["id"] for row in again] == [row["id"] for row in rows]
    assert [row["metadata"] for row in again] == [row["metadata"] for row in rows]


def test_an_empty_text_that_was_said_survives_a_csv(cli: CommandLine) -> None:
    said = cli.folder / "said.jsonl"
    said.write_text('{"id": "c", "question": "", "contexts": ["One page."], "answer": "So."}\n')
    hashes = []
    for name, path in (("s", said), ("copy", cli.folder / "s.csv")):
        cli("sets", "create", name, "--rubric", "faithfulness@1")
        assert cli("sets", "import", name, path).exit_code == 0
        assert cli("sets", "export", name, "--out", cli.folder / f"{name}.csv").exit_code == 0
        hashes.append(judged(cli, "--set", name)[0]["case_hash"])
    assert hashes[0] == hashes[1]
    # Its export is a file of cases too, and says the same.
    assert judged(cli, cli.folder / "s.csv")[0]["case_hash"] == hashes[0]
