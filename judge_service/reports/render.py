"""A report as a file: one self-contained HTML page, or JSON. Owns escaping, the page's policy and how figures look."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from calibration.estimate import REASON_TEXT, Reason
from judge_service.assets import assets
from judge_service.reports.charts import cost, drawing, outcomes
from judge_service.reports.charts.figure import points
from judge_service.reports.charts.of_sections import POLICIES
from judge_service.reports.page import Page
from judge_service.reports.tables import tables
from judge_service.visible import code, shown

STYLES = ("site.css", "report.css")
"""Styles of every report page, in their order."""
SCRIPTS = ("vendor/vega.min.js", "vendor/vega-lite.min.js", "vendor/vega-interpreter.js", "charts.js")
"""Scripts that draw charts where there are no pictures, in the order in which they build on each other."""

OUTCOMES: dict[str, tuple[str, str, str]] = {
    kind: (mark, words.partition(":")[0] if kind == "judge_error" else words, kind)
    for kind, (mark, words) in outcomes.OUTCOMES.items()
}
"""Mark, word and pattern of every way a case can end."""


def to_json(report: dict[str, Any]) -> str:
    """The report as JSON. Raises ValueError on NaN or Infinity."""
    return json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def percent(share: float) -> str:
    """A share of 1 as a percentage with one decimal."""
    return f"{share * 100:.1f}"


def reason_text(code: str) -> str:
    """A reason code as a sentence for people; an unknown code in its own words."""
    try:
        text = REASON_TEXT[Reason(code)]
    except ValueError:
        text = code.replace("_", " ")
    return text[0].upper() + text[1:] + "."


def duration(seconds: float | None) -> str:
    """Seconds, with as many decimals as are worth reading."""
    if seconds is None:
        return "not measured"
    return f"{seconds:.0f}" if seconds >= 100 else f"{seconds:.1f}" if seconds >= 1 else f"{seconds:.2f}"


def money(dollars: float) -> str:
    """US dollars with as many decimals as are worth reading."""
    return cost.money(dollars)


def figure(value: float, form: str) -> str:
    """A figure in one of the forms of tables: `percent`, `two` or `three` decimals, `points` with a sign."""
    if form == "percent":
        return percent(value)
    if form == "points":
        return points(value)
    return f"{value:.3f}" if form == "three" else f"{value:.2f}"


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("judge_service.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        percent=percent, reason_text=reason_text, duration=duration, money=money, figure=figure, code=code
    )
    environment.globals.update(
        tables=tables,
        OUTCOMES=OUTCOMES,
        WORDS=outcomes.WORDS,
        FILLS=outcomes.FILLS,
        POLICIES=POLICIES,
        PATTERNS=Markup(drawing.PATTERNS),  # noqa: S704  # a constant of this program
    )
    return environment


def standalone(template: str, scripts: Sequence[str] = (), **values: Any) -> str:
    """A template as one HTML page that loads nothing; its policy allows only its own style and `scripts`."""
    style = "".join(assets()[name].text for name in STYLES)
    allowed = [f"style-src {_source(style)}", *([f"script-src {' '.join(map(_source, scripts))}"] if scripts else [])]
    policy = f"default-src 'none'; {'; '.join(allowed)}; base-uri 'none'; form-action 'none'"
    return _environment().get_template(template).render(style=style, policy=policy, scripts=scripts, **values)


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def fragment(template: str, **values: Any) -> Markup:
    """A template without a frame, for a page of the service."""
    return Markup(_environment().get_template(template).render(**values))  # noqa: S704  # autoescaped


def body(page: Page) -> Markup:
    """The content of a report's page without its frame, for a page of the service."""
    return fragment("report_body.html.j2", page=page)


def to_html(report: Mapping[str, Any], *, pictures: bool = True) -> str:
    """The report as one self-contained HTML page.

    With `pictures` and the extra `charts` its charts are pictures and it needs no script; else it holds the scripts
    that draw them.
    """
    page = Page(report, pictures)
    scripts = [assets()[name].text for name in SCRIPTS] if page.needs_script else []
    return standalone("report.html.j2", scripts, page=page)
