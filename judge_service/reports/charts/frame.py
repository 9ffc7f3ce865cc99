"""The frame of every chart: size, type, colours as tokens, and where labels go so that they do not cover each other.

The only module that knows Altair. Colours are CSS variables, so that one picture serves the light and the dark theme.
Sizes are pixels of a drawing that is 360 wide.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH = 360
"""Width of every drawing."""
TEXT = 13
"""Size of all text: it stays above 12 px where the drawing is shrunk to the width of a phone."""
ROW = 42
"""Height of a judge's row: name above, marks below."""
_CHARACTER = 6.9
_LINE = 16

INK = "var(--ink)"
MUTED = "var(--muted)"
EDGE = "var(--edge)"
LINE = "var(--line)"
PAPER = "var(--paper)"


@dataclass(frozen=True, slots=True)
class Box:
    """Margins around the plot and its height; the drawing's width is always the same."""

    left: int
    right: int
    top: int
    bottom: int
    height: int

    @property
    def width(self) -> int:
        """Width of the plot itself."""
        return WIDTH - self.left - self.right


def chart(layers: Sequence[Any], box: Box) -> dict[str, Any]:
    """Layers put together as a Vega-Lite document of a fixed size without any colour of its own."""
    import altair as alt

    padding = {"left": box.left, "right": box.right, "top": box.top, "bottom": box.bottom}
    whole = (
        alt.layer(*layers)
        .properties(width=box.width, height=box.height, padding=padding, autosize=alt.AutoSizeParams(type="none"))
        .configure(
            aria=False,
            background="transparent",
            font="sans-serif",
            view=alt.ViewConfig(stroke="transparent"),
            axis=alt.AxisConfig(
                labelFontSize=TEXT,
                titleFontSize=TEXT,
                titleFontWeight="normal",
                labelColor=MUTED,
                titleColor=MUTED,
                gridColor=LINE,
                tickColor=EDGE,
                domain=False,
                ticks=False,
                labelPadding=6,
                labelFlush=False,
                labelOverlap=False,
            ),
        )
    )
    document: dict[str, Any] = whole.to_dict()
    return document


def base(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A chart over these rows, which are kept in it."""
    import altair as alt

    return alt.Chart(alt.InlineData(values=[dict(row) for row in rows]))


def x_axis(field: str, domain: tuple[float, float], title: str, ticks: Sequence[float], **axis: Any) -> Any:
    """A linear x over `domain` with these ticks."""
    import altair as alt

    return alt.X(
        field,
        type="quantitative",
        scale=alt.Scale(domain=list(domain), nice=False, zero=False),
        axis=alt.Axis(title=title, values=list(ticks), **axis),
    )


def y_axis(field: str, domain: tuple[float, float], title: str, ticks: Sequence[float], **axis: Any) -> Any:
    """A linear y over `domain`; its title stands above the plot, read without turning the head."""
    import altair as alt

    return alt.Y(
        field,
        type="quantitative",
        scale=alt.Scale(domain=list(domain), nice=False, zero=False),
        axis=alt.Axis(
            title=title,
            titleAngle=0,
            titleAlign="left",
            titleAnchor="end",
            titleBaseline="bottom",
            titleX=0,
            titleY=-8,
            values=list(ticks),
            **axis,
        ),
    )


def pixel_y(field: str) -> Any:
    """A y that is a pixel of the plot already."""
    import altair as alt

    return alt.Y(field, type="quantitative", scale=None, axis=None)


def written(rows: Sequence[Mapping[str, Any]], *, bold: bool = False, muted: bool = False) -> list[Any]:
    """Texts at pixels: `x`, `y`, `text`, `align` of each row. Paper around the letters keeps lines off them."""
    import altair as alt

    layers = []
    for align in ("left", "center", "right"):
        mine = [row for row in rows if row["align"] == align]
        if not mine:
            continue
        for halo in (True, False):
            colours = {"fill": PAPER, "stroke": PAPER, "strokeWidth": 4} if halo else {"fill": MUTED if muted else INK}
            layers.append(
                base(mine)
                .mark_text(
                    align=align,
                    baseline="middle",
                    fontSize=TEXT,
                    fontWeight=600 if bold else 400,
                    limit=WIDTH,
                    **colours,
                )
                .encode(
                    x=alt.X("x", type="quantitative", scale=None, axis=None), y=pixel_y("y"), text=alt.Text("text:N")
                )
            )
    return layers


def width_of(text: str) -> float:
    """About how wide a text is, in pixels."""
    return len(text) * _CHARACTER


def shortened(text: str, room: float) -> str:
    """A text cut to about this many pixels; the whole stands in the table."""
    most = max(4, int(room / _CHARACTER))
    return text if len(text) <= most else text[: most - 1] + "…"


def ticks_between(low: float, high: float, step: float) -> list[float]:
    """Multiples of `step` from `low` to `high`, both ends included."""
    first = round(low / step)
    return [round(i * step, 10) for i in range(first, int(high / step + 1e-9) + 1) if i * step >= low - 1e-9]


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle of the plot."""

    x0: float
    y0: float
    x1: float
    y1: float

    def overlap(self, other: "Rect") -> float:
        """Common area."""
        wide = min(self.x1, other.x1) - max(self.x0, other.x0)
        high = min(self.y1, other.y1) - max(self.y0, other.y0)
        return wide * high if wide > 0 and high > 0 else 0.0

    def distance(self, other: "Rect") -> float:
        """Shortest way between the two; 0 where they touch."""
        wide = max(self.x0 - other.x1, other.x0 - self.x1, 0.0)
        high = max(self.y0 - other.y1, other.y0 - self.y1, 0.0)
        return math.hypot(wide, high)


def levels(labels: Sequence[tuple[float, str]], width: float, left: float = 0.0) -> list[tuple[float, int]]:
    """Middle and level (0 is the lowest) of labels that stand above a plot at these x, so that none covers another.

    A label keeps inside `left` to `width`. Level by level from the plot upwards, left to right.
    """
    placed: list[tuple[float, float, int]] = []
    found: dict[int, tuple[float, int]] = {}
    for i in sorted(range(len(labels)), key=lambda i: labels[i][0]):
        x, text = labels[i]
        half = width_of(text) / 2 + 4
        middle = min(max(x, left + half), width - half)
        level = 0
        while any(level == other and middle - half < end and middle + half > start for start, end, other in placed):
            level += 1
        placed.append((middle - half, middle + half, level))
        found[i] = (middle, level)
    return [found[i] for i in range(len(labels))]


@dataclass(frozen=True, slots=True)
class Spot:
    """A point that gets a name: its place, the text, and whose it is."""

    x: float
    y: float
    text: str
    owner: str


def beside(spots: Sequence[Spot], plot: Rect, taken: Sequence[tuple[Rect, str | None]] = ()) -> list[dict[str, Any]]:
    """Where the names of points go, as rows of `written`: beside their point where there is room.

    `taken` are rectangles that should stay free, with whose they are: a name that stands nearer to another's marks than
    to its own would be read as the other's. Where everything is crowded the least bad place is taken; one that leaves
    the plot least always comes first, because what is outside is cut off.
    """
    blocked = [*taken, *((Rect(spot.x - 7, spot.y - 7, spot.x + 7, spot.y + 7), spot.owner) for spot in spots)]
    rows: list[dict[str, Any]] = []
    for spot in spots:
        wide = width_of(spot.text)
        best: tuple[tuple[float, float], dict[str, Any], Rect] | None = None
        for dy in (0, -15, 15, -24, 24, -33, 33, -45, 45, -60, 60, -80, 80):
            for align, at in (
                ("left", spot.x + 12),
                ("right", spot.x - 12),
                ("right", spot.x + 12),
                ("center", spot.x),
            ):
                start = at - (wide if align == "right" else wide / 2 if align == "center" else 0)
                place = Rect(start, spot.y + dy - _LINE / 2, start + wide, spot.y + dy + _LINE / 2)
                outside = max(0.0, plot.x0 - place.x0) + max(0.0, place.x1 - plot.x1)
                outside += max(0.0, plot.y0 - place.y0) + max(0.0, place.y1 - plot.y1)
                cost = sum(place.overlap(other) for other, _ in blocked) + abs(dy) * 0.5
                own = min(place.distance(other) for other, owner in blocked if owner == spot.owner)
                strange = [place.distance(other) for other, owner in blocked if owner not in (spot.owner, None)]
                cost += 60 if strange and min(strange) < own else 0
                # rounded, so that the sums' last digits do not choose between equal places
                rank = (round(outside, 6), round(cost, 6))
                if best is None or rank < best[0]:
                    best = (rank, {"x": at, "y": spot.y + dy, "text": spot.text, "align": align}, place)
        if best is not None:
            rows.append(best[1])
            blocked.append((best[2], None))
    return rows
