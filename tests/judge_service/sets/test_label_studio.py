import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from judge_service.domain.calibration_set import Label, LabelCondition
from judge_service.errors import InvalidInput
from judge_service.files.rows import FileKind
from judge_service.files.source import Source
from judge_service.sets.exporting import label_lines, label_parquet
from judge_service.sets.importing import import_labels
from judge_service.sets.label_studio import label_studio, label_studio_source
from judge_service.sets.labelling import Labeller
from judge_service.store import Store
from tests.judge_service.annotation.projects import a_set
from tests.judge_service.sets.labels import LABELS


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'a.sqlite3'}") as opened:
        yield opened


def fill(store: Store) -> str:
    reference = a_set(store, 3)
    maker = Labeller(reference, datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC), rubric="pairwise@1")
    store.labels.add(
        reference,
        [maker.label(row["case_id"], {name: row[name] for name in row if name != "case_id"}) for row in LABELS],
    )
    return reference


def labels(store: Store, reference: str) -> list[Label]:
    return list(store.labels.of(reference))


def again(store: Store, source: Source) -> tuple[str, list[Label]]:
    reference = a_set(store, 3, "again")
    import_labels(store, reference, source)
    return reference, [label.model_copy(update={"set_id": "pairs@1", "id": ""}) for label in store.labels.of(reference)]


def plain(found: list[Label]) -> list[Label]:
    return [label.model_copy(update={"id": ""}) for label in found]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "label studio"])
def test_labels_come_back_exactly_and_go_out_the_same(store: Store, tmp_path: Path, kind: str) -> None:
    reference = fill(store)

    def out(name: str) -> bytes:
        if kind == "parquet":
            label_parquet(store, name, tmp_path / "labels.parquet")
            return (tmp_path / "labels.parquet").read_bytes()
        pieces = label_studio(store, name) if kind == "label studio" else label_lines(store, name, FileKind(kind))
        return "".join(pieces).encode()

    written = out(reference)
    if kind == "label studio":
        source = label_studio_source("tasks.json", written)
    else:
        source = Source(f"in.{kind}", lambda: io.BytesIO(written), FileKind(kind), None, None)
    name, found = again(store, source)
    assert found == plain(labels(store, reference))
    if kind != "parquet":
        assert out(name) == written


def test_a_set_with_labels_item_by_item_keeps_its_hash_over_a_file(store: Store) -> None:
    from judge_service.sets.exporting import export_lines
    from judge_service.sets.importing import import_cases

    reference = fill(store)
    content = "".join(export_lines(store, reference, FileKind.JSONL)).encode()
    copy = store.sets.create("copy", "pairwise@1").id
    import_cases(store, copy, Source("x.jsonl", lambda: io.BytesIO(content), FileKind.JSONL, None, None))
    assert store.sets.digest(copy) == store.sets.digest(reference)


def test_a_choice_changed_elsewhere_counts_and_a_cancelled_one_is_no_label(store: Store) -> None:
    reference = fill(store)
    tasks = json.loads("".join(label_studio(store, reference)))
    assert tasks[0]["data"]["prompt"] == "Prompt 0"
    tasks[0]["annotations"][0]["result"][0]["value"]["choices"] = ["tie"]
    tasks[0]["annotations"][1]["was_cancelled"] = True
    _, found = again(store, label_studio_source("t.json", json.dumps(tasks).encode()))
    first = [label for label in found if label.case_id == "model-x/0"]
    assert [(label.annotator, label.label, label.detail) for label in first] == [("Ann", "tie", {"label": "tie"})]


def test_tasks_made_there_are_read(store: Store) -> None:
    reference = a_set(store, 1)
    task = {
        "id": 7,
        "data": {"case_id": "model-x/0"},
        "annotations": [
            {
                "completed_by": 12,
                "lead_time": 3,
                "result": [{"type": "choices", "from_name": "x", "to_name": "y", "value": {"choices": ["a"]}}],
            }
        ],
    }
    import_labels(store, reference, label_studio_source("t.json", json.dumps([task]).encode()))
    (label,) = store.labels.of(reference)
    assert (label.annotator, label.label, label.seconds, label.condition) == ("12", "A", 3.0, LabelCondition.BLIND)


@pytest.mark.parametrize(
    ("content", "path"),
    [
        (b"{", "file"),
        (b"{}", "file"),
        (b'[{"data": {}}]', "[0].annotations"),
        (b'[{"data": {}, "annotations": [{}]}]', "[0].annotations[0]"),
        (b'[{"data": {"id": "x"}, "annotations": [{"completed_by": 1}]}]', "[0].annotations[0].result"),
    ],
)
def test_what_cannot_be_read_is_named(content: bytes, path: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        label_studio_source("t.json", content)
    assert [problem.path for problem in caught.value.fields] == [path]
