"""Sections of a report, one module each: a study in, JSON-ready figures out. Sections know nothing of each other.

A section module offers `ID`, `TITLE` and `build(study)`, which returns None where the section says nothing about the
study's rubric. The shape of what it returns stands at its top. Its template is `templates/<ID>.html.j2`.
"""

from types import ModuleType

from judge_service.reports.sections import (
    agreement,
    biases,
    confidence,
    confusion,
    cost,
    disagreements,
    judges,
    labels,
    method,
    order,
    outcomes,
    slices,
    threshold,
)

SECTIONS: tuple[ModuleType, ...] = (
    judges,
    agreement,
    order,
    outcomes,
    confidence,
    threshold,
    cost,
    confusion,
    biases,
    slices,
    labels,
    disagreements,
    method,
)
"""All sections in reading order."""
