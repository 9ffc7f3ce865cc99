"""Tables of a report as CSV: text is no formula, numbers stay numbers."""

import pytest

from judge_service.reports.tables import Table


@pytest.mark.parametrize("text", ["=1+1", " =HYPERLINK(1)", "\t@x", "+cmd", "-2+3", "'=1"])
def test_no_cell_begins_a_formula(text: str) -> None:
    table = Table("t", "T")
    table.add({"id": text, "share": -0.25, text: "plain"})
    header, row, _ = table.csv().split("\n")
    assert row == f"'{text},-0.25,plain"
    assert header == f"id,share,'{text}"
