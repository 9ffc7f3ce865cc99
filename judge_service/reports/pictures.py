"""The charts of a report as files of their own, for slides and papers. Needs the extra `charts`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from judge_service.reports.charts import drawing
from judge_service.reports.page import Page


def write_charts(report: Mapping[str, Any], folder: Path) -> list[Path]:
    """Each chart that has a picture as SVG and as PNG in this folder, which is made; the files' paths.

    Under 30 labels there are none: counts stand in their place. Raises MissingDependency without the extra.
    """
    folder.mkdir(parents=True, exist_ok=True)
    page = Page(report, pictures=False)
    paths = []
    for part in page.parts:
        before = "" if len(page.parts) == 1 else f"{part.report['facts']['rubric'].replace('@', '-')}-"
        for drawn in (drawn for chapter in part.chapters for drawn in chapter.charts):
            if drawn.chart.spec is None or part.few:
                continue
            svg, png = (folder / f"{before}{drawn.chart.id}.{ending}" for ending in ("svg", "png"))
            svg.write_text(drawing.to_svg(drawn.chart), encoding="utf-8")
            png.write_bytes(drawing.to_png(drawn.chart))
            paths += [svg, png]
    return paths
