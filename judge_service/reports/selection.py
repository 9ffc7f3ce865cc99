"""A judge-selection report: verdict, facts and sections of one study, put together. Owns the report's shape.

Shape: `{format, program, created_at, title, decision, facts, sections: [{id, title, data}]}`. `decision` is
`decision`'s; `facts` is what stands under the title. Several reports in one file: `{format, program, created_at,
title, parts: [report]}`.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from calibration.power import tier
from judge_service import __version__
from judge_service.reports.dataset import Dataset
from judge_service.reports.decision import decide
from judge_service.reports.drawn import mark
from judge_service.reports.figures import jsonable
from judge_service.reports.sections import SECTIONS
from judge_service.reports.study import Study

FORMAT = "judge-selection-report/2"
BUNDLE = "judge-selection-reports/2"


def build_report(study: Study, title: str | None = None, *, now: datetime | None = None) -> dict[str, Any]:
    """The whole report as JSON-ready data without NaN; what is rendered, exported or printed is exactly this."""
    made = (now or datetime.now(UTC)).astimezone(UTC)
    sections = [
        {"id": section.ID, "title": section.TITLE, "data": mark(jsonable(data)) if study.uneven else jsonable(data)}
        for section in SECTIONS
        if (data := section.build(study)) is not None
    ]
    return {
        "format": FORMAT,
        "program": __version__,
        "created_at": made.isoformat(timespec="seconds"),
        "title": title or f"Which judge for {study.dataset.rubric.id}?",
        "decision": jsonable(decide(study)),
        "facts": facts(study),
        "sections": sections,
    }


def bundle_reports(datasets: Sequence[Dataset], title: str, *, now: datetime | None = None) -> dict[str, Any]:
    """One report for each dataset, in one file."""
    made = (now or datetime.now(UTC)).astimezone(UTC)
    return {
        "format": BUNDLE,
        "program": __version__,
        "created_at": made.isoformat(timespec="seconds"),
        "title": title,
        "parts": [build_report(Study(dataset), now=made) for dataset in datasets],
    }


def parts_of(report: dict[str, Any]) -> list[dict[str, Any]]:
    """The reports of a file: its parts, or itself."""
    found: list[dict[str, Any]] = report.get("parts", [report])
    return found


def facts(study: Study) -> dict[str, Any]:
    """What stands under the title: rubric, set, split, hash, cases, groups, labels, choices made before."""
    dataset, origin, chosen = study.dataset, study.labelled_set, study.choices
    version = None if origin is None else origin.version
    annotators = {annotator for item in study.labelled.items for annotator in item.votes}
    return {
        "rubric": dataset.rubric.id,
        "rubric_hash": dataset.rubric.content_hash,
        "kind": dataset.rubric.kind,
        "question": dataset.rubric.question,
        "classes": list(study.classes),
        "set": dataset.name,
        "set_status": None if version is None else version.status,
        "set_hash": None if version is None else version.content_hash,
        "splits": [] if origin is None else [split.value for split in origin.splits],
        "source": dataset.source,
        "cases": len(dataset.items),
        "labelled": study.n,
        "groups": len(set(study.labelled.groups)),
        "tier": tier(study.labelled.effective_n),
        "annotators": len(annotators),
        "label_condition": "blind" if origin is not None else "as the source says",
        "judges": len(dataset.columns),
        "floor": study.choice.floor,
        "floor_of": study.choice.floor_of,
        "margin": chosen.margin,
        "target": chosen.target,
        "chosen_on": None if study.tuning is None else "a split of its own",
    }
