"""Chart: what a judge costs against how often it agrees with people."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from judge_service.reports.charts import frame
from judge_service.reports.charts.figure import (
    Chart,
    Figure,
    JudgeMark,
    Table,
    Undefined,
    interval_of,
    percent,
    share_of,
)


@dataclass(frozen=True, slots=True)
class Priced:
    """One judge: US dollars per 1,000 judgments (None where unknown, with why) and its agreement."""

    mark: JudgeMark
    dollars: float | None
    why_unknown: str
    agreement: Figure


def money(dollars: float) -> str:
    """Dollars with as many decimals as are worth reading."""
    if dollars == 0:
        return "0"
    return f"{dollars:,.0f}" if dollars >= 100 else f"{dollars:.2f}" if dollars >= 0.1 else f"{dollars:.2g}"


def cost(judges: Sequence[Priced], *, people: Figure | None) -> Chart:
    """Agreement in percent over dollars per 1,000 on a logarithmic axis, 0 apart; a band for two people."""
    table = Table(
        ("Judge", "US$ per 1,000", "Agreement, %", "95% interval"),
        tuple(
            (
                row.mark.name,
                money(row.dollars) if row.dollars is not None else row.why_unknown,
                percent(row.agreement["value"]) if row.agreement["value"] is not None else "cannot be computed",
                interval_of(row.agreement),
            )
            for row in judges
        ),
    )
    title = "Cost against agreement"
    aid = "On the dashed line, nothing cheaper agrees as well. Cost counts every call, both orders and retries."
    known = [row for row in judges if row.dollars is not None and row.agreement["value"] is not None]
    unknown = [row for row in judges if row.dollars is None]
    if not known:
        missing = Undefined(
            "Not measured",
            "The cost of these judges is not known: recorded verdicts and judges of this machine have no price.",
            "Run the judges through a provider whose prices are known.",
        )
        return Chart("cost", title, aid, "No judge has a known cost.", table, undefined=missing)
    summary = "Cost per 1,000 judgments in US dollars and agreement in percent: " + "; ".join(
        f"{row.mark.name} {money(row.dollars or 0.0)} and {share_of(row.agreement)}" for row in known
    )
    notes = tuple(f"Not drawn, cost not known: {', '.join(row.mark.name for row in unknown)}." for _ in unknown[:1])
    return Chart("cost", title, aid, f"{summary}.", table, spec=_spec(known, people), notes=notes)


def frontier(rows: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Cost and agreement of the judges that nothing cheaper equals, the cheapest first."""
    best = -1.0
    found = []
    for dollars, value in sorted(rows, key=lambda row: (row[0], -row[1])):
        if value > best:
            found.append((dollars, value))
            best = value
    return found


def _spec(judges: Sequence[Priced], people: Figure | None) -> dict[str, Any]:
    import altair as alt

    left, right, top = 34, 20, 28
    wide = frame.WIDTH - left - right
    box = frame.Box(left, right, top, 60, 190)
    priced = [row.dollars for row in judges if row.dollars]
    free = any(row.dollars == 0 for row in judges)
    low = math.floor(math.log10(min(priced)) - 0.05) if priced else 0
    high = math.ceil(math.log10(max(priced)) + 0.05) if priced else 1
    zero = low - 0.6
    domain = (zero - 0.25 if free else float(low), float(high))

    def place(dollars: float) -> float:
        return math.log10(dollars) if dollars > 0 else zero

    seen = [row.agreement[key] for row in judges for key in ("value", "low") if row.agreement[key] is not None]
    band = people if people is not None and people["value"] is not None and people["low"] is not None else None
    floor = min(80, int(min([*seen, *([band["low"]] if band else [])]) * 100 // 10) * 10)
    step = 5 if floor >= 80 else 10 if floor >= 60 else 20
    rows = [
        {
            "x": place(row.dollars or 0.0),
            "value": row.agreement["value"] * 100,
            "low": (row.agreement["value"] if row.agreement["low"] is None else row.agreement["low"]) * 100,
            "high": (row.agreement["value"] if row.agreement["high"] is None else row.agreement["high"]) * 100,
            "shape": row.mark.shape,
            "colour": row.mark.colour,
        }
        for row in judges
    ]
    ticks = [*([zero] if free else []), *range(low, high + 1)]
    x = frame.x_axis(
        "x",
        domain,
        "US$ per 1,000 judgments, log scale",
        ticks,
        labelExpr=f"datum.value < {low} ? '0' : format(pow(10, datum.value), '~r')",
        grid=False,
    )
    y = frame.y_axis("value", (floor, 100), "agreement with people, %", frame.ticks_between(floor, 100, step))
    layers: list[Any] = []

    def spot(at: float, share: float) -> tuple[float, float]:
        return (at - domain[0]) / (domain[1] - domain[0]) * wide, box.height * (100 - share) / (100 - floor)

    texts = []
    taken: list[tuple[frame.Rect, str | None]] = []
    if band is not None:
        layers.append(
            frame.base([{"value": max(band["low"] * 100, floor), "high": band["high"] * 100}])
            .mark_rect(fill=frame.EDGE, fillOpacity=0.22)
            .encode(y=alt.Y("value:Q"), y2="high:Q")
        )
        words = f"two people {percent(band['value'])}"
        py = spot(zero, band["high"] * 100)[1]
        texts.append({"x": 4, "y": py + 10, "text": words, "align": "left"})
        taken.append((frame.Rect(4, py + 2, 4 + frame.width_of(words), py + 18), None))
    steps = frontier([(row.dollars or 0.0, row.agreement["value"]) for row in judges])
    corners = [{"x": place(dollars), "value": value * 100} for dollars, value in steps]
    layers.append(
        frame.base([*corners, {"x": domain[1], "value": corners[-1]["value"]}])
        .mark_line(interpolate="step-after", stroke=frame.INK, strokeDash=[5, 4], strokeWidth=1)
        .encode(x=x, y=y)
    )
    data = frame.base(rows).encode(x=alt.X("x:Q"), color=alt.Color("colour:N", scale=None))
    layers += [
        data.mark_rule(strokeWidth=2.5).encode(y=alt.Y("low:Q"), y2="high:Q"),
        data.mark_point(filled=True, size=110, opacity=1).encode(
            y=alt.Y("value:Q"), shape=alt.Shape("shape:N", scale=None)
        ),
    ]
    spots = []
    for row, drawn in zip(judges, rows, strict=True):
        px, py = spot(drawn["x"], drawn["value"])
        spots.append(frame.Spot(px, py, frame.shortened(row.mark.label, 180), row.mark.name))
        whisker = frame.Rect(px - 3, spot(0, drawn["high"])[1], px + 3, spot(0, drawn["low"])[1])
        taken.append((whisker, row.mark.name))
    named = frame.beside(spots, frame.Rect(0, 0, wide + 14, box.height - 2), taken)
    layers += [*frame.written(texts), *frame.written(named, bold=True)]
    if free:
        layers.append(
            frame.base([{"x": (zero + low) / 2}]).mark_rule(stroke=frame.EDGE, strokeDash=[1, 3]).encode(x=alt.X("x:Q"))
        )
    return frame.chart(layers, box)
