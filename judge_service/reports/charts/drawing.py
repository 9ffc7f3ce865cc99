"""From a chart's Vega-Lite document to a picture: inline SVG for pages, SVG and PNG files. Needs the extra `charts`.

The only module that knows vl-convert. Inline pictures keep colours as CSS variables and patterns as references into the
page; files hold the light colours and their own patterns.
"""

import html
import importlib.util
import re
from collections.abc import Mapping
from typing import Any

from judge_service.assets import tokens
from judge_service.errors import MissingDependency
from judge_service.reports.charts.figure import Chart

VEGA_LITE = "6.4"
"""The Vega-Lite that documents are written for; the scripts for pages are of the same."""

_TAG = re.compile(r"<[^>]+>")
_DROPPED = re.compile(r'\s(?:aria-[a-z]+|role|class|font-family|pointer-events|xmlns:xlink|version)="[^"]*"')
_EMPTY = re.compile(r'<path(?: aria-hidden="true")? d="[^"]*" display="none"/>|<path d="M0,0h0v0h0Z"/>')
_SIZE = re.compile(r'<svg [^>]*viewBox="([^"]*)"[^>]*>')
_ID = re.compile(r'(\bid="|url\(#)(clip|gradient)')
_VARIABLE = re.compile(r"var\(--([a-z0-9-]+)\)")
_FONT = "Liberation Sans, Noto Sans, DejaVu Sans, Arial, sans-serif"

PATTERNS = (
    '<pattern id="p-tie" width="6" height="6" patternUnits="userSpaceOnUse"><rect width="6" height="6" '
    'fill="var(--paper)"/><path d="M0 3H6" stroke="var(--o-tie)" stroke-width="2"/></pattern>'
    '<pattern id="p-inconsistent" width="7" height="7" patternUnits="userSpaceOnUse"><rect width="7" height="7" '
    'fill="var(--paper)"/><path d="M-1 8L8-1M-1 1L1-1M6 8L8 6" stroke="var(--o-inconsistent)" stroke-width="2.5"/>'
    "</pattern>"
    '<pattern id="p-not-applicable" width="6" height="6" patternUnits="userSpaceOnUse"><rect width="6" height="6" '
    'fill="var(--paper)"/><circle cx="3" cy="3" r="2" fill="var(--o-not-applicable)"/></pattern>'
    '<pattern id="p-judge-error" width="6" height="6" patternUnits="userSpaceOnUse"><rect width="6" height="6" '
    'fill="var(--o-judge-error)"/><path d="M0 0L6 6M6 0L0 6" stroke="var(--paper)" stroke-width="1"/></pattern>'
    '<pattern id="p-not-judged" width="6" height="6" patternUnits="userSpaceOnUse"><rect width="6" height="6" '
    'fill="var(--paper)"/></pattern>'
)
"""The outcome patterns, as they stand once in a page or in a file: fills tell outcomes apart without colour."""


def available() -> bool:
    """True where pictures can be made here; else a page's script draws them."""
    return importlib.util.find_spec("vl_convert") is not None


def inline(chart: Chart, key: str) -> str | None:
    """The chart as an SVG element for a page, None without a picture or without the extra `charts`.

    It has no style, script or size of its own and is named by the chart's summary; ids in it begin with `key`.
    """
    if chart.spec is None or not available():
        return None
    svg = _TAG.sub(lambda tag: _DROPPED.sub("", tag[0]), _drawn(chart.spec))
    svg = _EMPTY.sub("", _ID.sub(rf"\1{key}-\2", svg))
    name = html.escape(chart.summary, quote=True)
    return _SIZE.sub(rf'<svg class="chart" viewBox="\1" role="img" aria-label="{_literal(name)}">', svg, count=1)


def to_svg(chart: Chart) -> str:
    """The chart as an SVG file in light colours.

    Raises MissingDependency without the extra `charts`, ValueError for a chart without a picture.
    """
    light = tokens()[0] | {"paper": "#ffffff"}
    svg = _drawn(_spec(chart))
    svg = svg.replace(">", f' font-family="{_FONT}">', 1)
    svg = _TAG.sub(lambda tag: re.sub(r'(?<!<svg)\sfont-family="sans-serif"', "", tag[0]), svg)
    title = f"<title>{html.escape(chart.title)}</title><desc>{html.escape(chart.summary)}</desc><defs>{PATTERNS}</defs>"
    size = _SIZE.search(svg)
    if size is None:
        raise ValueError("the drawing has no size")
    _, _, wide, high = size[1].split()
    ground = f'<rect width="{wide}" height="{high}" fill="#ffffff"/>'
    svg = svg[: size.end()] + title + ground + svg[size.end() :]
    return _VARIABLE.sub(lambda found: light[found[1]], svg)


def to_png(chart: Chart, scale: float = 2.0) -> bytes:
    """The same as a PNG, `scale` pixels for each of the drawing. Raises as `to_svg`."""
    import vl_convert

    png: bytes = vl_convert.svg_to_png(to_svg(chart), scale=scale)
    return png


def _spec(chart: Chart) -> Mapping[str, Any]:
    if chart.spec is None:
        raise ValueError(f"chart {chart.id} has no picture")
    if not available():
        raise MissingDependency("Pictures need the extra `charts`: pip install 'judge-service[charts]'.")
    return chart.spec


def _drawn(spec: Mapping[str, Any]) -> str:
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(dict(spec), vl_version=VEGA_LITE)
    return svg


def _literal(text: str) -> str:
    """Text that a replacement pattern takes as it stands."""
    return text.replace("\\", r"\\")
