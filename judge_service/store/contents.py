"""By what a case is known in copies, new versions and other sets: its content in one form, however it was written.

Owns that form. A judgment's own hash covers the case as it was judged; this one only says that two cases are the same.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from judge_service.domain.canonical import content_hash
from rubrics.registry import UnknownRubric, get_rubric


def content_key(fields: Mapping[str, Any], rubric: str | None) -> str:
    """SHA-256 of a case's input as the rubric reads it, without what says nothing: null and empty values.

    Other spellings of a field, default values and a passage written as a text or as an object make no other case. A
    case that the rubric cannot read, or of a set without one, counts as it is written.
    """
    read: Any = fields
    if rubric is not None:
        try:
            read = get_rubric(rubric).case_model.model_validate(fields).model_dump(mode="json")
        except (UnknownRubric, ValidationError):
            read = fields
    return content_hash(_said(read))


def _said(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {name: said for name, part in value.items() if (said := _said(part)) not in (None, "", [], {})}
        # A passage of which only the text is known is its text.
        return kept["text"] if kept.keys() == {"text"} else kept
    if isinstance(value, list | tuple):
        # Places count (a citation names one), so an empty one between others stays.
        said = [_said(part) for part in value]
        return said if any(part not in (None, "", [], {}) for part in said) else []
    return value
