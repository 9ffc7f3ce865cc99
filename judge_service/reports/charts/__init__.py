"""Charts of a report: from a section's figures to a Vega-Lite document, its summary in words and its table.

Pure functions; each chart is one module. Only `frame` knows Altair and only `drawing` knows vl-convert; both are loaded
when a chart is made. Charts compute no figure: what they show stands in the section already.
"""

from judge_service.reports.charts.figure import Chart, JudgeMark, Table, Undefined, marks_of

__all__ = ["Chart", "JudgeMark", "Table", "Undefined", "marks_of"]
