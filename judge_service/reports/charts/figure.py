"""What a chart consists of besides its picture: title, reading aid, summary, table, and why there may be none.

Owns how judges are marked and how figures are written in charts. Knows neither Altair nor HTML.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from calibration.estimate import REASON_TEXT, Reason

AT_MOST = 6
"""Judges in one chart: more cannot be told apart."""
GLYPHS = ("●", "■", "▲", "◆", "✚", "▼")
"""Shapes of judges in text; colour never stands alone."""
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
COUNTS_BELOW = 30
"""Labels below which counts stand in place of charts."""

Figure = Mapping[str, Any]
"""An estimate as JSON: `value`, `low`, `high`, `n`, `undefined_reason` and what else `Estimate.to_dict` gives."""


@dataclass(frozen=True, slots=True)
class JudgeMark:
    """How one judge looks in every chart and table of a report: `place` 0 to 5 is its shape and colour."""

    name: str
    place: int

    @property
    def glyph(self) -> str:
        """The shape as a character."""
        return GLYPHS[self.place]

    @property
    def shape(self) -> str:
        """The shape as Vega names it."""
        return _SHAPES[self.place]

    @property
    def colour(self) -> str:
        """The colour's token, which the page's theme fills."""
        return f"var(--j{self.place})"

    @property
    def label(self) -> str:
        """Shape and name."""
        return f"{self.glyph} {self.name}"


def marks_of(names: Sequence[str]) -> dict[str, JudgeMark]:
    """Marks of at most six judges, in this order. Raises ValueError for more."""
    if len(names) > AT_MOST:
        raise ValueError(f"{len(names)} judges in one chart, at most {AT_MOST} can be told apart")
    return {name: JudgeMark(name, place) for place, name in enumerate(names)}


@dataclass(frozen=True, slots=True)
class Table:
    """The numbers behind a chart as text: `rows` have a cell for each of `columns`; the first names the row."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Undefined:
    """Why there is no picture: `title` is "Not measured" or "Cannot be computed", then the reason and the cure."""

    title: str
    reason: str
    cure: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart: `spec` is its Vega-Lite document, None where `undefined` says why.

    `summary` says in one or two sentences what the picture shows. `notes` stand below it. `patterns` names the outcome
    patterns that it uses, in the order of its key.
    """

    id: str
    title: str
    aid: str
    summary: str
    table: Table
    spec: Mapping[str, Any] | None = None
    undefined: Undefined | None = None
    notes: tuple[str, ...] = ()
    patterns: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if (self.spec is None) == (self.undefined is None):
            raise ValueError(f"chart {self.id}: either a picture or a reason why there is none")


def percent(share: float) -> str:
    """A share of 1 as a percentage with one decimal, without its sign."""
    return f"{share * 100:.1f}"


def points(difference: float) -> str:
    """A difference of shares in points with its sign."""
    text = f"{difference * 100:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text


def reason(code: str | None) -> str:
    """A reason code as a sentence for people."""
    if code is None:
        return "No reason was given."
    try:
        text = REASON_TEXT[Reason(code)]
    except ValueError:
        text = code.replace("_", " ")
    return text[0].upper() + text[1:] + "."


def share_of(figure: Figure) -> str:
    """A share in percent with its interval, or why there is none: `84.0 (80.1 to 87.2)`."""
    if figure["value"] is None:
        return f"cannot be computed: {reason(figure['undefined_reason'])[:-1].lower()}"
    if figure["low"] is None:
        return f"{percent(figure['value'])} (no interval)"
    return f"{percent(figure['value'])} ({percent(figure['low'])} to {percent(figure['high'])})"


def interval_of(figure: Figure) -> str:
    """The interval of a share in percent, or why there is none."""
    if figure["value"] is None or figure["low"] is None:
        return f"none: {reason(figure.get('interval_reason') or figure['undefined_reason'])[:-1].lower()}"
    return f"{percent(figure['low'])} to {percent(figure['high'])}"


def counts_of(figure: Figure) -> tuple[str, str]:
    """Numerator and denominator of a rate as text; where they are not known, the value and n."""
    if figure.get("numerator") is not None and figure.get("denominator") is not None:
        return f"{figure['numerator']:g}", f"{figure['denominator']:g}"
    value = "not measured" if figure["value"] is None else f"{percent(figure['value'])}%"
    return value, str(figure["n"])
