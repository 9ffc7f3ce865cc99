"""The page on rubrics names every rubric with its labels, reasons, fields and figures."""

import re

import pytest

from rubrics.library.citation_support_v1.records import NO_FIGURES
from rubrics.library.faithfulness_v1.records import FAILURE_MODES
from rubrics.library.refusal_v1.records import SCORES
from rubrics.registry import all_rubrics
from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "rubrics.md").read_text(encoding="utf-8")
PARTS = dict(re.findall(r"^## (\w+@\d+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def test_every_rubric_has_its_part_and_no_other_has() -> None:
    assert set(PARTS) == {rubric.id for rubric in all_rubrics()}


@pytest.mark.parametrize("rubric", all_rubrics(), ids=lambda rubric: rubric.id)
def test_labels_reasons_and_fields_are_named(rubric) -> None:  # type: ignore[no-untyped-def]
    words = set(re.findall(r"`([^`]+)`", PARTS[rubric.id]))
    assert set(rubric.scale.names) <= words
    assert set(rubric.rules.nothing_to_judge) <= words
    assert set(rubric.case_model.model_fields) <= words


def test_derived_figures_and_cells_are_defined() -> None:
    assert all(f"`{name}`" in PARTS["citation_support@1"] for name in NO_FIGURES)
    assert all(f"`{name}`" in PARTS["faithfulness@1"] for name in FAILURE_MODES)
    for cell, score in SCORES.items():
        assert f"`{cell}`, {score:g}" in PARTS["refusal@1"]
