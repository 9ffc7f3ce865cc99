"""The forms of a run report: Markdown of comment size, one HTML file, CSV, JSON. All show the one report object.

Owns escaping for Markdown and the flat rows of the CSV. Computes nothing.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from judge_service.cells import guard
from judge_service.reports.outline import Cell, Grid, headline, outline
from judge_service.reports.render import OUTCOMES, fragment, standalone, to_json

COMMENT_LIMIT = 60_000
"""Characters of a comment that code hosts take."""
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~$!])")
_MENTION = re.compile(r"(?<![\w.])@")
_FIGURES = ("value", "low", "high", "n", "method", "undefined_reason", "interval_reason")
_IN_COMMENT = ("comparison", "outcomes", "scores", "labels", "repeats")
FORMS: Mapping[str, str] = {
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "md": "text/markdown; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
}
"""Forms by the ending of a file's name, with the media type of each."""


def render(report: Mapping[str, Any], form: str) -> str:
    """The report in one of `FORMS`. Raises KeyError for another."""
    return {"html": to_html, "json": lambda found: to_json(dict(found)), "md": to_markdown, "csv": to_csv}[form](report)


def to_html(report: Mapping[str, Any]) -> str:
    """One self-contained page; case texts and names are escaped."""
    return standalone("run_report.html.j2", report=report, **shown(report))


def body(report: Mapping[str, Any]) -> str:
    """What a page of the service shows inside its own frame: escaped already, marked as safe."""
    return fragment("run_report_body.html.j2", report=report, **shown(report))


def patterns() -> str:
    """The patterns that the parts of an outcome bar are filled with, once a page; marked as safe."""
    return fragment("patterns.html.j2")


def shown(report: Mapping[str, Any]) -> dict[str, Any]:
    """What the body of the page needs beside the report."""
    return {"headline": headline(report), "parts": outline(report), "bar": bar(report)}


def bar(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The outcome bar, left to right: kind, word, count, and x and width on a line of 690 units."""
    total = report["numbers"]["n_total"]
    parts, x = [], 0.0
    for kind, (mark, word, _) in OUTCOMES.items():
        count = report["numbers"]["outcomes"].get(kind, 0)
        if count:
            width = 690 * count / total
            parts.append(
                {"kind": kind, "mark": mark, "word": word, "count": count, "x": round(x, 2), "width": round(width, 2)}
            )
            x += width
    return parts


def escape(text: str) -> str:
    """Text that means itself in Markdown, on one line: no mark-up, no mention of a person, no break of a table."""
    return _MENTION.sub("@\u200b", _MARKUP.sub(r"\\\1", " ".join(text.split())))


def to_markdown(report: Mapping[str, Any]) -> str:
    """A summary of comment size: the sentence to act on, then tables. Single cases are named by id only."""
    run = report["run"]
    facts = (
        f"{escape(run['rubric'])} by {escape(run['judge'])}, run {escape(run['id'])}, {run['status'].replace('_', ' ')}"
    )
    lines = [f"### {escape(headline(report))}", "", facts, ""]
    for part in outline(report):
        if part.id not in _IN_COMMENT and not part.id.startswith("by-"):
            continue
        lines += [f"**{escape(part.title)}**", ""]
        lines += [line for sentence in part.sentences for line in (escape(sentence), "")]
        for grid in part.grids:
            lines += [*markdown_table(grid), ""]
        for kind, examples in part.examples.items():
            if examples:
                names = ", ".join(escape(str(example["case_id"])[:80]) for example in examples)
                lines += [f"{kind.capitalize()}, for example: {names}.", ""]
    text = "\n".join(lines)
    if len(text) > COMMENT_LIMIT:
        text = text[: text.rfind("\n", 0, COMMENT_LIMIT - 100)] + "\n\nCut here: the report file holds the rest.\n"
    return text


def markdown_table(grid: Grid) -> Iterator[str]:
    """The lines of one table."""
    yield "| " + " | ".join(escape(column) for column in grid.columns) + " |"
    yield "| --- |" + " ---: |" * (len(grid.columns) - 1)
    for row in grid.rows:
        yield "| " + " | ".join(_cell(cell) for cell in row) + " |"


def _cell(cell: Cell) -> str:
    return escape(cell.text) + (f" ({escape(', '.join(cell.sub))})" if cell.sub else "")


def to_csv(report: Mapping[str, Any]) -> str:
    """Every figure as a row with its full precision: where it stands in the report, value, interval, n, reason.

    A cell that a spreadsheet would take for a formula begins with an apostrophe.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["figure", *_FIGURES])
    for path, fields in figures(report):
        writer.writerow([guard(path), *("" if fields.get(name) is None else fields[name] for name in _FIGURES)])
    return text.getvalue()


def figures(report: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every number of the report with its path: estimates whole, plain counts as a value."""
    for name in ("numbers", "usage", "slices", "comparison"):
        yield from _walk(report[name], (name,))


def _walk(value: Any, path: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(value, Mapping):
        if {"value", "low", "high", "n", "method"} <= value.keys():
            yield " / ".join(path), value
            return
        for name, item in value.items():
            if name != "examples":
                yield from _walk(item, (*path, str(name)))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            name = item["key"] if isinstance(item, Mapping) and "key" in item else str(place + 1)
            yield from _walk(item, (*path, name))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield " / ".join(path), {"value": value}
