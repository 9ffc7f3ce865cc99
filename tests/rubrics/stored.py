"""Compares a text with its stored copy; `UPDATE_STORED=1` writes the copy instead."""

import os
from pathlib import Path

HERE = Path(__file__).parent


def matches_stored(folder: str, name: str, text: str) -> None:
    """Fails with the first difference and how to accept it."""
    path = HERE / folder / name
    if os.environ.get("UPDATE_STORED") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    assert path.exists(), f"{path.name} is not stored: run this test once with UPDATE_STORED=1 and commit it"
    assert text == path.read_text(encoding="utf-8"), (
        f"{folder}/{name} differs from what was stored. A released rubric version must not change; for an unreleased "
        "one run the test with UPDATE_STORED=1 and look at the difference before you commit it."
    )
