import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from judge_service.domain.calibration_set import SetCase, Split, UsePurpose
from judge_service.domain.case import Case
from judge_service.files.rows import FileKind
from judge_service.sets.exporting import export_lines, export_parquet, label_lines
from judge_service.sets.grouping import freeze_set
from judge_service.sets.importing import import_cases, import_labels
from judge_service.store import Store

from .conftest import MakeFile, pair

ODD = [
    pair("00123", "A", response_a='He said "no", then left.\nSecond line', group="=1+1", lang="en"),
    pair(
        "2718281828459045235",
        "B",
        response_a="tab\there \U0001f642 \u05e9\u05dc\u05d5\u05dd\u200b\r\nx",
        lang=None,
        n=1.0,
    ),
    pair("12e5", "tie", response_a="; semicolon", annotators={"=ada": "A", "bob": None}, n=10**20, flag=True),
    pair("-n4", None, response_a="", response_b=" =1", split="release", lang="", group=""),
    pair("=n5", "A", response_a="'=quoted", response_b="'plain", note="-0.25", seconds=0.1, order_shown="BA", n="1"),
]


def filled(store: Store, file: MakeFile, name: str = "s") -> str:
    store.sets.create(name, "pairwise@1")
    import_cases(store, name, file(ODD))
    frozen = freeze_set(store, name)
    assert frozen.content_hash is not None
    return frozen.content_hash


@pytest.mark.parametrize(("kind", "safe"), [("jsonl", True), ("csv", True), ("csv", False)])
def test_an_export_imports_to_the_same_hash(store: Store, file: MakeFile, kind: str, safe: bool) -> None:
    digest = filled(store, file)
    text = "".join(export_lines(store, "s", FileKind(kind), safe=safe))
    store.sets.create("again")
    done = import_cases(store, "again", file(text, f"export.{kind}"))
    assert done.format == "set"
    assert freeze_set(store, "again").content_hash == digest
    assert store.sets.get("again").rubric == "pairwise@1"
    assert "".join(export_lines(store, "again", FileKind(kind), safe=safe)) == text
    cases, again = ([one.case for one in store.sets.cases(f"{name}@1")] for name in ("s", "again"))
    assert cases == again
    assert [type(one.metadata.get("n")) for one in again] == [type(one.metadata.get("n")) for one in cases]


def test_parquet_imports_to_the_same_hash(lite: Store, file: MakeFile, tmp_path: Path) -> None:
    digest = filled(lite, file)
    path = tmp_path / "export.parquet"
    export_parquet(lite, "s", path)
    lite.sets.create("again")
    import_cases(lite, "again", file(path.read_bytes(), "export.parquet"))
    assert freeze_set(lite, "again").content_hash == digest


TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
NAME = st.text(st.characters(codec="utf-8"), min_size=1, max_size=3)
ROW = st.tuples(st.dictionaries(NAME, TEXT | st.integers() | st.none()), st.none() | TEXT, st.sampled_from(Split))


@given(st.lists(ROW, min_size=1, max_size=5), st.booleans())
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_case_survives_a_csv(lite: Store, file: MakeFile, rows: list[Any], safe: bool) -> None:
    name = f"s{len(lite.sets.all())}"
    lite.sets.create(name)
    entries = [
        SetCase(case=Case(id=f"={place}", input={"text": "t", **fields}, group=group), split=split)
        for place, (fields, group, split) in enumerate(rows)
        if not any("." in key or key.endswith(":json") or key != key.strip() for key in fields)
    ]
    assume(entries)
    lite.sets.add_cases(f"{name}@1", entries)
    text = "".join(export_lines(lite, name, FileKind.CSV, safe=safe))
    lite.sets.create(f"{name}-b")
    import_cases(lite, f"{name}-b", file(text, "export.csv"))
    assert [one.case for one in lite.sets.cases(f"{name}-b@1")] == [one.case for one in entries]
    assert lite.sets.digest(f"{name}-b@1") == lite.sets.digest(f"{name}@1")


def test_no_text_cell_of_a_safe_export_is_a_formula(lite: Store, file: MakeFile) -> None:
    filled(lite, file)
    import csv
    import io

    text = "".join(export_lines(lite, "s", FileKind.CSV))
    records = list(csv.reader(io.StringIO(text, newline="")))
    assert len(records) == 6
    assert records[0][0] == "id"
    for record in records:
        assert not any(cell.lstrip().startswith(("=", "+", "-", "@")) for cell in record)
    table = list(csv.DictReader(io.StringIO("".join(label_lines(lite, "s", FileKind.CSV)), newline="")))
    assert {"'=n5", "'=ada"} <= {row["case_id"] for row in table} | {row["annotator"] for row in table}
    assert [row["seconds"] for row in table if row["seconds"]] == ["0.1"]
    assert [row["note"] for row in table if row["note"]] == ["'-0.25"]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_labels_alone_import_too(lite: Store, file: MakeFile, kind: str) -> None:
    filled(lite, file)
    text = "".join(label_lines(lite, "s", FileKind(kind)))
    lite.sets.create("bare", "pairwise@1")
    bare = [{name: value for name, value in row.items() if name not in ("human_label", "annotators")} for row in ODD]
    for row in bare:
        for name in ("note", "seconds", "order_shown"):
            row.pop(name, None)
    import_cases(lite, "bare", file(bare))
    import_labels(lite, "bare", file(text, f"labels.{kind}"))
    one, two = ([label.digest for label in lite.labels.of(f"{name}@1")] for name in ("s", "bare"))
    assert one == two


def test_exporting_a_frozen_release_split_is_recorded_and_demotes_nothing(lite: Store, file: MakeFile) -> None:
    filled(lite, file)
    list(export_lines(lite, "s", FileKind.JSONL, note="backup"))
    (use,) = lite.sets.uses("s@1")
    assert (use.split, use.purpose, use.note) == (Split.RELEASE, UsePurpose.EXPORTED, "backup")
    assert lite.sets.get("s").release_demoted_at is None


def test_a_line_holds_all_of_a_case(lite: Store, file: MakeFile, data: Callable[[str], Any]) -> None:
    filled(lite, file)
    lines = [json.loads(line) for line in export_lines(lite, "s", FileKind.JSONL)]
    assert [line["id"] for line in lines] == [row["id"] for row in ODD]
    assert lines[3] == {
        "id": "-n4",
        "group": None,
        "split": "release",
        "input": {"prompt": "Question -n4?", "response_a": "", "response_b": " =1"},
        "metadata": {"lang": ""},
        "labels": [],
    }
