"""Exports of a set that import again to the same hash: JSON lines, CSV and Parquet; and its labels as a table.

Owns what an exported row holds. Streams: nothing of the set is held in memory but the names of its columns.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from judge_service.domain.calibration_set import SOMETIMES, Label, SetCase, SetVersion, Split, UsePurpose
from judge_service.files.rows import JSON_SUFFIX, FileKind
from judge_service.files.writing import Column, csv_lines, dump
from judge_service.parquet import pyarrow_parquet
from judge_service.store import Store

_LABEL_COLUMNS = (
    "case_id",
    "rubric",
    "annotator",
    "label",
    "condition",
    "kind",
    "adjudicated",
    "order_shown",
    "seconds",
    "note",
    "created_at",
    "probability",
)
_LABEL_JSON = ("detail", "items")


def export_lines(store: Store, reference: str, kind: FileKind, *, safe: bool = True, note: str = "") -> Iterator[str]:
    """A set with its labels as JSON lines or CSV, a case a record, in the set's order.

    `safe`, for CSV: text cells never open as formulas, and our import takes exactly the added apostrophe off again.
    The export of a frozen release split is recorded as a use.
    """
    version = store.sets.get(reference)
    _record(store, version, note)
    if kind is FileKind.JSONL:
        return (dump(document) + "\n" for document in _documents(store, version))
    return _csv(store, version, safe=safe)


def export_parquet(store: Store, reference: str, file: Path | BinaryIO, *, note: str = "") -> None:
    """A set with its labels as a Parquet file of text columns. Raises MissingDependency without the extra."""
    parquet = pyarrow_parquet()
    import pyarrow

    version = store.sets.get(reference)
    _record(store, version, note)
    names = ("id", "group", "split", "input", "metadata", "labels")
    as_json = {"input", "metadata", "labels"}
    titles = [name + JSON_SUFFIX if name in as_json else name for name in names]
    schema = pyarrow.schema([(title, pyarrow.string()) for title in titles])
    with parquet.ParquetWriter(file, schema) as writer:
        for page in _pages(_documents(store, version)):
            columns = [
                [dump(document[name]) if name in as_json else document[name] for document in page] for name in names
            ]
            arrays = [pyarrow.array(column, pyarrow.string()) for column in columns]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))


def label_lines(store: Store, reference: str, kind: FileKind, *, safe: bool = True) -> Iterator[str]:
    """The labels alone, one a record: for spreadsheets, and for `import_labels`."""
    version = store.sets.get(reference)
    if kind is FileKind.JSONL:
        return (dump(_whole_row(label)) + "\n" for label in store.labels.of(version.id))

    def rows() -> Iterator[list[str | int | float]]:
        for label in store.labels.of(version.id):
            row = _label_row(label)
            cells: list[str | int | float] = []
            for name in _LABEL_COLUMNS:
                value = row[name]
                number = isinstance(value, int | float) and not isinstance(value, bool)
                cells.append(
                    value
                    if number
                    else ""
                    if value is None
                    else str(value).lower()
                    if value in (True, False)
                    else value
                )
            yield [*cells, dump(label.detail), "" if label.items is None else dump(label.items)]

    return csv_lines([*_LABEL_COLUMNS, *(name + JSON_SUFFIX for name in _LABEL_JSON)], rows(), safe=safe)


def label_parquet(store: Store, reference: str, file: Path | BinaryIO) -> None:
    """The labels alone as a Parquet file of text columns. Raises MissingDependency without the extra."""
    parquet = pyarrow_parquet()
    import pyarrow

    version = store.sets.get(reference)
    numbers = {"seconds": pyarrow.float64(), "probability": pyarrow.float64(), "adjudicated": pyarrow.bool_()}
    columns = [(name, numbers.get(name, pyarrow.string())) for name in _LABEL_COLUMNS]
    schema = pyarrow.schema([*columns, *((name + JSON_SUFFIX, pyarrow.string()) for name in _LABEL_JSON)])
    with parquet.ParquetWriter(file, schema) as writer:
        for page in _pages(_whole_row(label) for label in store.labels.of(version.id)):
            for row in page:
                for name in _LABEL_JSON:
                    value = row.pop(name, None)
                    row[name + JSON_SUFFIX] = None if value is None else dump(value)
            writer.write_table(pyarrow.Table.from_pylist(page, schema=schema))


def _label_row(label: Label) -> dict[str, Any]:
    row = label.model_dump(mode="json")
    return {name: row[name] for name in _LABEL_COLUMNS}


def _whole_row(label: Label) -> dict[str, Any]:
    row = _label_row(label) | {"detail": label.detail}
    return row if label.items is None else row | {"items": label.items}


def _record(store: Store, version: SetVersion, note: str) -> None:
    if version.status == "frozen" and store.sets.holds(version.id, Split.RELEASE):
        store.sets.record_use(version.id, Split.RELEASE, None, UsePurpose.EXPORTED, note=note)


def _pages(items: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    page: list[dict[str, Any]] = []
    for item in items:
        page.append(item)
        if len(page) == 500:
            yield page
            page = []
    if page:
        yield page


def _documents(store: Store, version: SetVersion) -> Iterator[dict[str, Any]]:
    """Cases with their labels; both streams are in the set's order, so they are merged as they come."""
    labels = store.labels.of(version.id)
    waiting = next(labels, None)
    for entry in store.sets.cases(version.id, as_frozen=True):
        mine: list[dict[str, Any]] = []
        while waiting is not None and waiting.case_id == entry.case.id:
            mine.append(_label(waiting))
            waiting = next(labels, None)
        yield _document(entry, mine)


def _document(entry: SetCase, labels: list[dict[str, Any]]) -> dict[str, Any]:
    case = entry.case
    return {
        "id": case.id,
        "group": case.group,
        "split": entry.split.value,
        "input": case.input,
        "metadata": case.metadata,
        "labels": labels,
    }


def _label(label: Label) -> dict[str, Any]:
    row = label.model_dump(mode="json", exclude={"id", "set_id", "case_id"})
    # What is as usual is left out: a set of a million labels is half as long.
    usual: dict[str, Any] = {"order_shown": None, "seconds": None, "note": None, "adjudicated": False}
    usual |= dict.fromkeys(SOMETIMES)
    return {name: value for name, value in row.items() if name not in usual or value != usual[name]}


def _csv(store: Store, version: SetVersion, *, safe: bool) -> Iterator[str]:
    group = Column("group", optional=True)
    inputs: dict[str, Column] = {}
    metadata: dict[str, Column] = {}
    n = 0
    for entry in store.sets.cases(version.id, as_frozen=True):
        n += 1
        group.look(entry.case.group)
        for columns, part, fields in ((inputs, "input", entry.case.input), (metadata, "metadata", entry.case.metadata)):
            for name, value in fields.items():
                columns.setdefault(name, Column(f"{part}.{name}")).look(value)
    for column in (*inputs.values(), *metadata.values()):
        column.settle(n)
    header = ["id", group.title, "split"]
    header += [column.title for column in (*inputs.values(), *metadata.values())]
    header.append("labels" + JSON_SUFFIX)

    def rows() -> Iterator[list[str | int | float]]:
        for document in _documents(store, version):
            cells: list[str | int | float] = [document["id"], group.cell(True, document["group"]), document["split"]]
            for columns, fields in ((inputs, document["input"]), (metadata, document["metadata"])):
                cells += [column.cell(name in fields, fields.get(name)) for name, column in columns.items()]
            cells.append(dump(document["labels"]))
            yield cells

    return csv_lines(header, rows(), safe=safe)
