"""A judge-selection report: sections and verdict of each dataset, put together. Owns the report's shape."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from judge_service import __version__
from judge_service.reports.dataset import Dataset
from judge_service.reports.decision import decide
from judge_service.reports.sections import SECTIONS

FORMAT = "judge-selection-report/1"


def build_report(datasets: Sequence[Dataset], title: str, *, now: datetime | None = None) -> dict[str, Any]:
    """The whole report as JSON-ready data, one part per dataset; what is rendered is exactly this."""
    made = (now or datetime.now(UTC)).astimezone(UTC)
    return {
        "format": FORMAT,
        "program": __version__,
        "created_at": made.isoformat(timespec="seconds"),
        "title": title,
        "parts": [_part(dataset) for dataset in datasets],
    }


def _part(dataset: Dataset) -> dict[str, Any]:
    sections = [
        {"id": section.ID, "title": section.TITLE, "data": data}
        for section in SECTIONS
        if (data := section.build(dataset)) is not None
    ]
    by_id = {section["id"]: section["data"] for section in sections}
    return {
        "rubric": dataset.rubric.id,
        "rubric_hash": dataset.rubric.content_hash,
        "kind": dataset.rubric.kind,
        "question": dataset.rubric.question,
        "set": dataset.name,
        "source": dataset.source,
        "cases": len(dataset.items),
        "labelled": len(dataset.labelled),
        "groups": len(set(dataset.groups)),
        "decision": decide(dataset, by_id["judges"]["judges"], by_id.get("order")),
        "sections": sections,
    }
