"""A judge-selection report as a page: its chapters, its charts and the limits of its size. One body for web and file.

Owns what stands where; computes no figure. What it shows is the report object that JSON and CSV hold.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from judge_service.reports.charts import drawing
from judge_service.reports.charts.figure import COUNTS_BELOW, Chart, JudgeMark, marks_of
from judge_service.reports.charts.of_sections import charts_of, drawn
from judge_service.reports.selection import parts_of

CHAPTERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Judges side by side", ("judges",)),
    ("Agreement, order and outcomes", ("agreement", "order", "outcomes")),
    ("Can its confidence be believed?", ("confidence",)),
    ("What a threshold buys, and what it costs", ("threshold", "cost")),
    ("Label by label, and where judges and people differ", ("confusion", "disagreements")),
    ("Length, family, planted orders, repeats", ("biases",)),
    ("Slices", ("slices",)),
    ("The labels", ("labels",)),
    ("How this was computed", ("method",)),
)
"""Chapters in reading order with the sections in them; a section of no chapter becomes one at the end."""
CASE_BYTES = 500_000
"""Bytes of case texts in a page at most: the rest is counted, and stands in the JSON."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A chart with its key on the page and its picture; without a picture a script draws it from the document."""

    chart: Chart
    key: str
    svg: str | None


@dataclass(frozen=True, slots=True)
class Chapter:
    """A numbered part of the page: charts first, then the sections' tables."""

    number: int
    title: str
    key: str
    sections: Sequence[Mapping[str, Any]]
    charts: Sequence[Drawn]


@dataclass(frozen=True)
class Part:
    """One report of the page. `level` is that of its chapters' headings."""

    report: Mapping[str, Any]
    place: int
    level: int
    pictures: bool = field(default=True)

    @cached_property
    def marks(self) -> dict[str, JudgeMark]:
        """The judges that are drawn, with shape and colour; all others have none."""
        return marks_of(drawn(self.report))

    @property
    def few(self) -> bool:
        """True under 30 labels: counts stand in place of charts."""
        return int(self.report["facts"]["labelled"]) < COUNTS_BELOW

    @cached_property
    def chapters(self) -> list[Chapter]:
        """The chapters that have something to say."""
        sections = {section["id"]: section for section in self.report["sections"]}
        named = {name for _, names in CHAPTERS for name in names}
        plan = [*CHAPTERS, *((section["title"], (name,)) for name, section in sections.items() if name not in named)]
        charts = charts_of(self.report)
        found: list[Chapter] = []
        for title, names in plan:
            mine = [sections[name] for name in names if name in sections]
            if not mine:
                continue
            key = f"p{self.place}-{names[0]}"
            if "order" in names and "order" not in sections:
                title = title.replace(", order", "")
            mine_drawn = [chart for name in names for chart in charts.get(name, ())]
            # How to ask comes after what was seen.
            mine_drawn.sort(key=lambda chart: chart.id == "policies")
            pictures = list(self._drawn(mine_drawn))
            found.append(Chapter(len(found) + 1, title, key, mine, pictures))
        return found

    def _drawn(self, charts: Sequence[Chart]) -> Iterator[Drawn]:
        for chart in charts:
            key = f"p{self.place}-{chart.id}"
            yield Drawn(chart, key, drawing.inline(chart, key) if self.pictures and not self.few else None)

    def shown(self, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The rows of judges that stand open in a table: those that are drawn, then baselines."""
        drawn_rows = [row for row in rows if row["judge"] in self.marks]
        return drawn_rows + [row for row in rows if row["judge"] not in self.marks and row.get("baseline")]

    def folded(self, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The rows of all other judges, which open on demand."""
        return [row for row in rows if row["judge"] not in self.marks and not row.get("baseline")]

    def unmeasured(self, rows: Sequence[Mapping[str, Any]], kind: str) -> list[tuple[list[str], str]]:
        """Why a kind of bias was not measured, each reason once with its judges; NAME stands for a judge's name."""
        found: dict[str, list[str]] = {}
        for row in rows:
            text = str(row[kind]["text"]).removeprefix("Not measured: ").replace(row["judge"], "NAME")
            found.setdefault(text[0].upper() + text[1:], []).append(row["judge"])
        return [(names, text) for text, names in found.items()]

    def listed(self, cases: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The first cases whose texts fit into the page together."""
        room = CASE_BYTES
        kept = []
        for case in cases:
            room -= sum(len(item["text"].encode()) for item in case["texts"])
            room -= sum(len((row["says"] or "").encode()) + 400 for row in case["judges"])
            if room < 0:
                break
            kept.append(case)
        return kept


@dataclass(frozen=True)
class Page:
    """A report file's content for templates: `title`, `created_at`, `program` and its parts."""

    report: Mapping[str, Any]
    pictures: bool = True

    @cached_property
    def parts(self) -> list[Part]:
        """The reports of the page; with several, each is a chapter of its own."""
        found = parts_of(dict(self.report))
        level = 2 if len(found) == 1 else 3
        return [Part(part, place, level, self.pictures) for place, part in enumerate(found, start=1)]

    @cached_property
    def needs_script(self) -> bool:
        """True where a chart has a document and no picture, and is not replaced by counts."""
        return any(
            chart.chart.spec is not None and chart.svg is None and not part.few
            for part in self.parts
            for chapter in part.chapters
            for chart in chapter.charts
        )
