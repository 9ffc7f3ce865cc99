"""Labels as Label Studio's JSON: tasks with annotations, out and in again without loss.

Owns the mapping. What Label Studio has no place for travels beside the result under `judge_service`; where somebody
changed the choice there, the choice counts.
"""

import io
import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from judge_service.domain.calibration_set import Label
from judge_service.errors import FieldProblem, InvalidInput
from judge_service.files.rows import FileKind
from judge_service.files.source import Source
from judge_service.files.writing import dump
from judge_service.store import Store

OWN = "judge_service"
"""Key of what Label Studio itself does not know, in a task and in an annotation."""
CONTROL = "label"
OBJECT = "case"
NO_LABEL = "cannot_say"
_KEPT = ("rubric", "annotator", "condition", "kind", "adjudicated", "order_shown", "detail", "items", "probability")


def label_studio(store: Store, reference: str) -> Iterator[str]:
    """The labelled cases of a set as the pieces of one JSON array of tasks, in the set's order."""
    version = store.sets.get(reference)
    yield "["
    first = True
    for number, (case_id, labels) in enumerate(groupby(store.labels.of(version.id), lambda label: label.case_id), 1):
        entry = store.sets.case(version.id, case_id)
        if entry is None:
            continue
        task = {
            "id": number,
            "data": {**entry.case.input, OWN: {"case_id": case_id}},
            "annotations": [_annotation(place, label) for place, label in enumerate(labels, 1)],
        }
        yield ("\n" if first else ",\n") + dump(task)
        first = False
    yield "\n]\n"


def _annotation(place: int, label: Label) -> dict[str, Any]:
    result: list[dict[str, Any]] = [_choice(label.label if label.label is not None else NO_LABEL)]
    if label.note is not None:
        note = {"from_name": "note", "to_name": OBJECT, "type": "textarea", "value": {"text": [label.note]}}
        result.append(note)
    row = label.model_dump(mode="json")
    return {
        "id": place,
        "completed_by": {"email": label.annotator},
        "created_at": row["created_at"],
        "lead_time": label.seconds,
        "was_cancelled": False,
        "result": result,
        OWN: {"label": label.label, **{name: row[name] for name in _KEPT}},
    }


def _choice(value: str) -> dict[str, Any]:
    return {"from_name": CONTROL, "to_name": OBJECT, "type": "choices", "value": {"choices": [value]}}


def label_studio_source(name: str, content: bytes) -> Source:
    """Tasks as a table of labels for `import_labels`: a row an annotation, numbered in the order of the file.

    Cancelled annotations are skips and no labels. Raises InvalidInput naming the task and the annotation.
    """
    try:
        tasks = json.loads(content.decode("utf-8-sig"))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{name} is not JSON.", fields=[FieldProblem("file", "is not JSON in UTF-8")]) from error
    if not isinstance(tasks, list):
        raise InvalidInput(fields=[FieldProblem("file", "must be a list of tasks")])
    lines = [
        dump(_row(task, annotation, f"[{number}].annotations[{place}]"))
        for number, task in enumerate(tasks)
        for place, annotation in enumerate(_annotations(task, f"[{number}]"))
        if not annotation.get("was_cancelled")
    ]
    text = "".join(f"{line}\n" for line in lines).encode("utf-8")
    return Source(name, lambda: io.BytesIO(text), FileKind.JSONL, None, None)


def _annotations(task: Any, path: str) -> list[Mapping[str, Any]]:
    found = task.get("annotations") if isinstance(task, Mapping) else None
    if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
        raise InvalidInput(fields=[FieldProblem(f"{path}.annotations", "must be a list of annotations")])
    return found


def _row(task: Mapping[str, Any], annotation: Mapping[str, Any], path: str) -> dict[str, Any]:
    data = task.get("data")
    own = data.get(OWN) if isinstance(data, Mapping) else None
    case_id = own.get("case_id") if isinstance(own, Mapping) else None
    if case_id is None and isinstance(data, Mapping):
        case_id = data.get("case_id", data.get("id"))
    if case_id is None:
        raise InvalidInput(fields=[FieldProblem(f"{path}", "the task's data names no case: `case_id` is missing")])
    row: dict[str, Any] = {"case_id": str(case_id)}
    kept = annotation.get(OWN)
    kept = dict(kept) if isinstance(kept, Mapping) else {}
    chosen = _chosen(annotation, path)
    said = None if chosen == NO_LABEL else chosen
    if kept and kept.pop("label", None) != said:
        # Changed in Label Studio: what belonged to the old answer goes.
        kept.pop("detail", None)
        kept.pop("items", None)
    row |= {name: value for name, value in kept.items() if name in _KEPT and value is not None}
    row.setdefault("annotator", _who(annotation, path))
    row["label"] = chosen
    if isinstance(annotation.get("lead_time"), int | float):
        row["seconds"] = annotation["lead_time"]
    if annotation.get("created_at") is not None:
        row["created_at"] = annotation["created_at"]
    note = [text for one in _results(annotation, "textarea") for text in one.get("text", [])]
    return row | ({"note": "\n".join(map(str, note))} if note else {})


def _results(annotation: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    found = annotation.get("result")
    parts = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
    return [one["value"] for one in parts if one.get("type") == kind and isinstance(one.get("value"), Mapping)]


def _chosen(annotation: Mapping[str, Any], path: str) -> str:
    choices = [choice for one in _results(annotation, "choices") for choice in one.get("choices", [])]
    if len(choices) != 1 or not isinstance(choices[0], str):
        message = f"needs exactly one choice, not {len(choices)}"
        raise InvalidInput(f"{path}.result {message}.", fields=[FieldProblem(f"{path}.result", message)])
    return choices[0]


def _who(annotation: Mapping[str, Any], path: str) -> str:
    by = annotation.get("completed_by")
    if isinstance(by, Mapping):
        by = by.get("email") or by.get("username") or by.get("id")
    if by is None:
        raise InvalidInput(fields=[FieldProblem(f"{path}.completed_by", "says who labelled and is missing")])
    return str(by)
