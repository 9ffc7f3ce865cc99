import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from judge_service.files.source import Source, kind_of
from judge_service.store import Store
from tests.judge_service.store.databases import database_url, postgres

__all__ = ["data", "database_url", "file", "lite", "postgres", "store"]

MakeFile = Callable[..., Source]


def source_of(path: Path, **options: Any) -> Source:
    return Source(path.name, lambda: path.open("rb"), kind_of(path.name), **options)


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with Store.open(database_url) as opened:
        yield opened


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[Store]:
    """On SQLite only: for what does not depend on the database."""
    with Store.open(f"sqlite:///{tmp_path}/lite.sqlite3") as opened:
        yield opened


@pytest.fixture
def file(tmp_path: Path) -> MakeFile:
    """A file of rows (JSON lines), or of bytes or text as given."""

    def make(content: list[dict[str, Any]] | str | bytes, name: str = "file.jsonl", **options: Any) -> Source:
        path = tmp_path / name
        if isinstance(content, list):
            content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in content)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return Source(name, lambda: path.open("rb"), options.pop("kind", None) or kind_of(name), **options)

    return make


@pytest.fixture
def data() -> Callable[[str], Source]:
    """A file of the data folder."""
    root = Path(os.environ.get("JUDGE_DATA_DIR", Path(__file__).parents[4] / "shared" / "data"))

    def find(name: str) -> Source:
        path = root / name
        assert path.is_file(), f"{path} is missing: set JUDGE_DATA_DIR to the folder with the data sets"
        return source_of(path)

    return find


def pair(case_id: str = "p1", label: str | None = "A", **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"id": case_id, "prompt": f"Question {case_id}?", "response_a": "yes", "response_b": "no"}
    return row | ({} if label is None else {"human_label": label}) | more
