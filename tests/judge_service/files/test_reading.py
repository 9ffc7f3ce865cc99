import builtins
import dataclasses
import io
import sys
from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_service.cells import guard, unguard
from judge_service.errors import InvalidInput, MissingDependency
from judge_service.files.rows import FileKind
from judge_service.files.source import kind_of
from judge_service.files.writing import csv_lines
from judge_service.parquet import pyarrow_parquet
from tests.judge_service.sets.conftest import MakeFile

ROWS = [
    ("00123", 'He said "no", then left.\nSecond line'),
    ("2718281828459045235", "tab\there, emoji \U0001f642, \u05e9\u05dc\u05d5\u05dd, zero\u200bwidth"),
    ("12e5", "; semicolon"),
    ("n4", ""),
]


def table(delimiter: str = ",", end: str = "\n") -> str:
    def quoted(cell: str) -> str:
        return '"' + cell.replace('"', '""') + '"'

    return "".join(delimiter.join(map(quoted, row)) + end for row in [("id", "text"), *ROWS])


@pytest.mark.parametrize(
    "content",
    [
        table().encode(),
        b"\xef\xbb\xbf" + table().encode(),
        b"\xef\xbb\xbf" + table(";").encode(),
        table(end="\r\n").encode(),
        table("\t").encode("utf-16"),
        table("|").encode("utf-16-be").join([b"\xfe\xff", b""]),
    ],
    ids=["plain", "bom", "semicolon and bom", "crlf", "utf-16 tabs", "utf-16-be bars"],
)
def test_csv_of_every_kind_is_read_alike(file: MakeFile, content: bytes) -> None:
    rows = list(file(content, "x.csv").rows())
    assert [(row.fields["id"], row.fields["text"]) for row in rows] == ROWS
    assert [row.number for row in rows] == [2, 3, 4, 5]
    assert list(rows[0].fields) == ["id", "text"]


def test_an_encoding_may_be_named(file: MakeFile) -> None:
    content = "id;text\n1;café\n".encode("cp1252")
    with pytest.raises(InvalidInput, match="not utf-8") as caught:
        list(file(content, "x.csv").rows())
    assert "encoding" in caught.value.fields[0].message
    (row,) = file(content, "x.csv", encoding="cp1252").rows()
    assert row.fields == {"id": "1", "text": "café"}
    with pytest.raises(InvalidInput, match="no encoding"):
        list(file(content, "x.csv", encoding="klingon").rows())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,text\na,1\nb\n", "record 3: has 1 cells where the header has 2"),
        ("id,id\na,b\n", "record 1: the column 'id' is there twice"),
        ("id,\na,b\n", "record 1: column 2 has no name"),
        ('id,text\na,"open\n', "record 2: is no CSV"),
        ("id,x:json\na,{\n", "record 2: x:json: is not JSON"),
    ],
)
def test_a_bad_record_is_named(file: MakeFile, content: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        list(file(content, "x.csv").rows())


def test_json_lines_are_read_strictly(file: MakeFile) -> None:
    rows = list(file('\ufeff{"a": 1}\n\n{"a": "x\u2028y"}\r\n').rows())
    assert [(row.number, row.fields) for row in rows] == [(1, {"a": 1}), (3, {"a": "x\u2028y"})]
    for line, message in (
        ('{"a": NaN}', "NaN"),
        ('{"a": 1, "a": 2}', "more than once"),
        ("[1]", "must be one JSON object"),
        ("{", "not JSON"),
        ('{"a": "\\ud800"}', "surrogate"),
    ):
        with pytest.raises(InvalidInput, match=f"line 2: .*{message}"):
            list(file('{"a": 1}\n' + line + "\n").rows())


@given(st.text())
def test_a_guarded_cell_is_no_formula_and_comes_back(text: str) -> None:
    safe = guard(text)
    assert unguard(safe) == text
    assert not safe.lstrip().startswith(("=", "+", "-", "@"))
    assert not safe.startswith(("\t", "\r"))
    assert safe in (text, f"'{text}")


CELLS = [
    '=HYPERLINK("https://attacker.example.org","x")',
    "+1+1",
    "-7+1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    " =1",
    "=) smile",
    "'=quoted already",
    "'plain",
]


@pytest.mark.parametrize("safe", [True, False])
def test_cells_of_an_export_come_back(file: MakeFile, safe: bool) -> None:
    lines = list(
        csv_lines(["id", "text", "number"], ([str(n), cell, -0.25] for n, cell in enumerate(CELLS)), safe=safe)
    )
    rows = list(file("".join(lines), "x.csv").rows())
    assert [row.fields["text"] for row in rows] == CELLS
    assert {row.fields["number"] for row in rows} == {"-0.25"}
    assert (lines[1].rstrip() == '0,"\'=HYPERLINK(""https://attacker.example.org"",""x"")",-0.25,safe') == safe


def test_the_kind_of_a_file() -> None:
    assert kind_of("a.JSONL") is FileKind.JSONL
    assert kind_of("a.tsv") is FileKind.CSV
    assert kind_of("upload", b"PAR1....") is FileKind.PARQUET
    assert kind_of("upload", b'\xef\xbb\xbf {"id"') is FileKind.JSONL
    assert kind_of("upload", b"id,text") is FileKind.CSV
    with pytest.raises(InvalidInput, match="neither"):
        kind_of("upload")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoding": "base64"}, "no encoding 'base64'"),
        ({"encoding": "zlib"}, "no encoding 'zlib'"),
        ({"encoding": "utf-8\0"}, "no encoding"),
        ({"encoding": "utf-16"}, "not utf-16"),
        ({"encoding": "punycode"}, "not punycode"),
        ({"delimiter": '"'}, "delimiter"),
        ({"delimiter": "\r"}, "delimiter"),
        ({"delimiter": "\0"}, "delimiter"),
    ],
)
def test_an_encoding_or_delimiter_that_cannot_be_used_is_said_so(
    file: MakeFile, options: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        list(dataclasses.replace(file(b"id,x\n1,2\n", "x.csv"), **options).rows())


def parquet(**columns: list[Any]) -> bytes:
    written = io.BytesIO()
    pyarrow_parquet().write_table(pyarrow.table(columns), written)
    return written.getvalue()


def test_parquet_values_are_those_of_json(file: MakeFile) -> None:
    content = parquet(id=["1", "2"], m=[float("nan"), 0.5], text=[b"p", "\u00e9".encode()], many=[[float("nan")], None])
    assert [row.fields for row in file(content, "x.parquet").rows()] == [
        {"id": "1", "m": None, "text": "p", "many": [None]},
        {"id": "2", "m": 0.5, "text": "\u00e9", "many": None},
    ]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"m": [1.0, float("inf")]}, "row 2: m: is infinite"),
        ({"m": [b"a", b"\xff"]}, "row 2: m: holds bytes that are no UTF-8"),
        ({"m:json": ["1", "{bad"]}, "row 2: m:json: is not JSON"),
    ],
)
def test_parquet_values_that_json_has_not_name_their_row(
    file: MakeFile, columns: dict[str, list[Any]], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        list(file(parquet(**columns), "x.parquet").rows())


def test_a_broken_parquet_file_is_said_so(file: MakeFile) -> None:
    with pytest.raises(InvalidInput, match="no Parquet"):
        list(file(b"PAR1 but no more", "x.parquet").rows())


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ModuleNotFoundError(name="pyarrow")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    for name in [name for name in sys.modules if name.startswith("pyarrow")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MissingDependency, match="judge-service\\[parquet\\]"):
        pyarrow_parquet()
