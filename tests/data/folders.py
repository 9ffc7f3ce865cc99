"""Where tests find the evaluation data and the reference values that are not part of the repository."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).resolve().parents[2]


def _folder(variable: str, default: str) -> Path:
    folder = Path(os.environ.get(variable) or _ROOT / default)
    if not folder.is_dir():
        pytest.fail(f"no folder {folder}: set {variable} to the folder that holds the data", pytrace=False)
    return folder


def data_folder() -> Path:
    """The folder named by JUDGE_DATA_DIR, default ../shared/data beside the repository."""
    return _folder("JUDGE_DATA_DIR", "../shared/data")


def reference_folder() -> Path:
    """The folder named by JUDGE_REFERENCE_DIR, default ../shared/reference beside the repository."""
    return _folder("JUDGE_REFERENCE_DIR", "../shared/reference")


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Objects of a JSONL file, split on newlines only: some texts hold other separators."""
    with path.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def read_object(path: Path) -> dict[str, Any]:
    """The one JSON object of a file."""
    return json.loads(path.read_text(encoding="utf-8"))
