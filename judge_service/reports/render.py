"""A report as a file: one self-contained HTML page, or JSON. Owns escaping, the page's policy and how figures look."""

import base64
import hashlib
import json
from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from calibration.estimate import REASON_TEXT, Reason
from judge_service.reports.selection import parts_of
from judge_service.reports.tables import tables

MARKS = ("●", "■", "▲", "◆", "✚", "▼")
"""Shapes of judges, in the order they are given; colour never stands alone."""

OUTCOMES: dict[str, tuple[str, str, str]] = {
    "scored": ("✓", "Scored", "solid"),
    "tie": ("=", "Tie (scored)", "level"),
    "inconsistent": ("⇄", "Inconsistent: orders disagree", "slant"),
    "not_applicable": ("∅", "Not applicable", "dots"),
    "judge_error": ("!", "Judge error", "cross"),
    "not_judged": ("◷", "Not judged", "empty"),
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


def segments(row: dict[str, Any], order: list[str], width: float) -> list[dict[str, Any]]:
    """The parts of one judge's outcome bar, left to right: kind, x and width in user units; empty parts left out."""
    parts = []
    x = 0.0
    for kind in order:
        count = row["counts"][kind]
        if count:
            wide = width * count / row["n"]
            parts.append({"kind": kind, "x": round(x, 2), "width": round(wide, 2), "count": count})
            x += wide
    return parts


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("judge_service.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(percent=percent, reason_text=reason_text, duration=duration)
    environment.globals.update(segments=segments, tables=tables, OUTCOMES=OUTCOMES, MARKS=MARKS)
    return environment


def standalone(template: str, **values: Any) -> str:
    """A template as one HTML page that needs no script and loads nothing; its policy allows only its own style."""
    environment = _environment()
    style = environment.get_template("report.css").render()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return environment.get_template(template).render(style=style, policy=policy, **values)


def to_html(report: dict[str, Any]) -> str:
    """The report as one self-contained HTML page."""
    return standalone("report.html.j2", report=report, parts=parts_of(report))
