"""Sections of a report, one module each: a dataset in, JSON-ready figures out. Sections know nothing of each other.

A section module offers `ID`, `TITLE` and `build(dataset)`, which returns None where the section says nothing about
the dataset's rubric. Its template is `templates/<ID>.html.j2`.
"""

from types import ModuleType

from judge_service.reports.sections import disagreements, judges, method, order, outcomes

SECTIONS: tuple[ModuleType, ...] = (judges, outcomes, order, disagreements, method)
"""All sections in reading order."""
