"""The forms of a judge-selection report: one HTML file, JSON, CSV tables, Markdown of comment size.

All show the one report object. Owns which figures stand in a comment. Computes nothing.
"""

import io
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from judge_service.reports.render import reason_text, to_html, to_json
from judge_service.reports.run_forms import escape
from judge_service.reports.selection import parts_of
from judge_service.reports.tables import all_tables

MOST_JUDGES = 15
"""Judges of a comment's table; the rest is counted."""
MOST_LINES = 60

MEDIA: Mapping[str, str] = {
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "md": "text/markdown; charset=utf-8",
    "csv": "application/zip",
}
"""Forms by the ending of a file's name, with the media type of each; `csv` is a ZIP file of one CSV file a table."""


def render(report: dict[str, Any], form: str) -> bytes:
    """The report in one of `MEDIA`. Raises KeyError for another."""
    if form == "csv":
        return to_zip(report)
    text = {"html": to_html, "json": to_json, "md": to_markdown}[form](report)
    return text.encode()


def write_tables(report: dict[str, Any], folder: Path) -> list[Path]:
    """One CSV file for each table of the report, in this folder, which is made; the files' paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, table in all_tables(report).items():
        path = folder / f"{name}.csv"
        path.write_text(table.csv(), encoding="utf-8", newline="")
        paths.append(path)
    return paths


def to_zip(report: dict[str, Any]) -> bytes:
    """The same files in one ZIP file; the same report gives the same bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, table in all_tables(report).items():
            entry = zipfile.ZipInfo(f"{name}.csv", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, table.csv().encode())
    return packed.getvalue()


def to_markdown(report: dict[str, Any]) -> str:
    """A summary of comment size: decision and reasons, then one table of judges; at most 60 lines for one set."""
    lines: list[str] = []
    for part in parts_of(report):
        lines += [*_part(part), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _part(part: Mapping[str, Any]) -> Iterator[str]:
    decision, facts = part["decision"], part["facts"]
    sections = {section["id"]: section["data"] for section in part["sections"]}
    yield f"### {escape(part['title'])}"
    yield ""
    yield f"{decision['mark']} **{escape(decision['sentence'])}**"
    yield ""
    for reason in decision["reasons"]:
        yield f"- {escape(reason)}"
    yield ""
    yield from _table(sections, facts, decision["leading"])
    yield ""
    splits = f", {' and '.join(facts['splits'])} split" if facts["splits"] else ""
    status = f", {facts['set_status']}" if facts["set_status"] else ""
    yield escape(
        f"{facts['set']}{splits}{status}: {facts['cases']} cases, {facts['labelled']} labelled, {facts['groups']} "
        f"independent groups; {facts['tier']}. A case without a verdict counts as not agreeing. In brackets: 95% "
        "interval."
    )
    yield ""
    digest = f", set {facts['set_hash'][:12]}" if facts["set_hash"] else ""
    method = sections["method"]
    yield escape(
        f"judge-service {part['program']}, {facts['rubric']} {facts['rubric_hash'][:12]}{digest}, "
        f"{part['created_at']}, {method['resamples']:,} resamples, seed {method['seed']}."
    )


def _table(sections: Mapping[str, Any], facts: Mapping[str, Any], leading: Sequence[str]) -> Iterator[str]:
    pairs = facts["kind"] == "pairwise"
    columns = ["Judge", "Agrees with people, %", "Kappa", *(["Same in both orders, %"] if pairs else [])]
    columns += ["No verdict", "ECE (by chance)", "US$ per 1,000", "Seconds p50 / p95"]
    rows = sections["judges"]["judges"]
    if len(rows) > MOST_JUDGES:
        # The judges that the decision is about must not be among those that are only counted.
        rows = sorted(rows, key=lambda row: row["judge"] not in leading)
    yield "| " + " | ".join(columns) + " |"
    yield "| --- |" + " ---: |" * (len(columns) - 1)
    for row in rows[:MOST_JUDGES]:
        cells = [
            escape(row["judge"]) + (" (no model)" if row["baseline"] else ""),
            _share(row["agreement"]),
            _number(row["kappa"]),
            *([_share(row["consistency"])] if pairs else []),
            str(row["failed"]),
            _ece(row),
            "not measured" if row["cost_per_1000"] is None else f"{row['cost_per_1000']:.2f}",
            "not measured"
            if row["seconds_median"] is None
            else f"{row['seconds_median']:.2f} / {row['seconds_p95']:.2f}",
        ]
        yield "| " + " | ".join(cells) + " |"
    people = sections["agreement"]["people"]["s1"]
    empty = [""] * (len(columns) - 2)
    yield "| " + " | ".join(["Two people", _share(people), *empty]) + " |"
    if len(rows) > MOST_JUDGES:
        yield ""
        yield f"{len(rows) - MOST_JUDGES} more judges are in the report."


def _share(figure: Mapping[str, Any] | None) -> str:
    return _shown(figure, 100.0, 1)


def _number(figure: Mapping[str, Any] | None) -> str:
    return _shown(figure, 1.0, 2)


def _shown(figure: Mapping[str, Any] | None, factor: float, digits: int) -> str:
    if figure is None:
        return "not measured"
    if figure["value"] is None:
        return escape(reason_text(figure["undefined_reason"]).rstrip("."))
    text = f"{figure['value'] * factor:.{digits}f}"
    if figure["low"] is not None:
        text += f" ({figure['low'] * factor:.{digits}f} to {figure['high'] * factor:.{digits}f})"
    return text


def _ece(row: Mapping[str, Any]) -> str:
    if row["ece"] is None or row["ece"]["value"] is None:
        return "not measured"
    if "no_headline_below_100" in row["ece"].get("flags", ()):
        return "fewer than 100 cases"
    return f"{row['ece']['value']:.3f} ({row['ece_by_chance']:.3f})"
