"""What routes of calibration sets share: how one is named in a path, and examples for the OpenAPI document."""

from typing import Annotated, Any

from fastapi import Path

Reference = Annotated[
    str, Path(min_length=1, max_length=80, description="`name@version`, or `name` for the newest version.")
]
VERSION: dict[str, Any] = {
    "id": "pairs@1",
    "name": "pairs",
    "version": 1,
    "rubric": "pairwise@1",
    "status": "open",
    "content_hash": None,
    "n_cases": 0,
    "n_labels": 0,
    "created_at": "2026-03-29T12:00:00Z",
    "frozen_at": None,
    "parent": None,
    "note": "",
    "release_demoted_at": None,
}
FROZEN = VERSION | {"status": "frozen", "content_hash": "5b1f" * 16, "frozen_at": "2026-03-29T12:30:00Z"}
SPENT: dict[str, Any] = {"n": 0, "cases": []}
COUNTED: dict[str, Any] = {"added": 2, "unchanged": 0, "unjoined": []}
IMPORTED: dict[str, Any] = {
    "set_id": "pairs@1",
    "file": "cases.jsonl",
    "format": "plain",
    "rubric": "pairwise@1",
    "cases": COUNTED,
    "labels": COUNTED,
    "dropped": {},
    "spent": SPENT,
}
