"""Chart: how many verdicts change when two answers swap places, and towards which place."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from judge_service.reports.charts import frame
from judge_service.reports.charts.figure import Chart, Figure, JudgeMark, Table, Undefined, interval_of, percent


@dataclass(frozen=True, slots=True)
class Swapped:
    """One judge: pairs judged both ways, changes towards the answer shown first and second, and the same share.

    `noise` is the share of verdicts that differ between two asks of the same order, None where it was not measured.
    """

    mark: JudgeMark
    pairs: int
    to_first: int
    to_second: int
    same: Figure
    noise: float | None = None


def order(judges: Sequence[Swapped]) -> Chart:
    """Bars from 0: to the first shown on the left (solid), to the second on the right (hollow)."""
    table = Table(
        ("Judge", "Pairs", "Same, %", "95% interval", "To the first", "To the second"),
        tuple(
            (
                row.mark.name,
                str(row.pairs),
                percent(row.same["value"]) if row.same["value"] is not None else "not measured",
                interval_of(row.same),
                str(row.to_first),
                str(row.to_second),
            )
            for row in judges
        ),
    )
    title = "Does the order matter?"
    aid = "Short bars: few verdicts change when answers swap. Tick: changes between repeats of one order."
    if not any(row.noise is not None for row in judges):
        aid = aid.partition(" Tick")[0]
    measured = [row for row in judges if row.pairs]
    summary = (
        "Verdicts that changed when the answers swapped places, in percent of pairs judged both ways: "
        + "; ".join(
            f"{row.mark.name} {percent(row.to_first / row.pairs)} to the first, "
            f"{percent(row.to_second / row.pairs)} to the second, {row.pairs} pairs"
            for row in measured
        )
        + "."
    )
    if not measured:
        missing = Undefined(
            "Not measured",
            "Position sensitivity: not measured (one order).",
            "Run the judges with the order policy both_orders.",
        )
        return Chart("order", title, aid, "No judge was asked in both orders.", table, undefined=missing)
    return Chart("order", title, aid, summary, table, spec=_spec(judges))


def _spec(judges: Sequence[Swapped]) -> dict[str, Any]:
    import altair as alt

    left, right, top = 16, 16, 26
    wide = frame.WIDTH - left - right
    shares = [side / row.pairs * 100 for row in judges if row.pairs for side in (row.to_first, row.to_second)] + [
        row.noise * 100 for row in judges if row.noise is not None
    ]
    most = max([5.0, *shares])
    step = next(step for step in (2, 5, 10, 20, 50) if most / step <= 2.6 or step == 50)
    end = min(100.0, step * (most // step + 1))
    box = frame.Box(left, right, top, 50, frame.ROW * len(judges) + 4)
    bars: list[dict[str, Any]] = []
    ticks = []
    texts, same = [], []
    for i, row in enumerate(judges):
        y = i * frame.ROW
        texts.append({"x": -10, "y": y + 12, "text": frame.shortened(row.mark.label, 205), "align": "left"})
        if not row.pairs:
            same.append({"x": wide + 10, "y": y + 12, "text": "not measured", "align": "right"})
            same.append({"x": 0, "y": y + 30, "text": "asked in one order only", "align": "left"})
            continue
        value = row.same["value"]
        same.append({"x": wide + 10, "y": y + 12, "text": f"same {percent(value)}%", "align": "right"})
        common = {"top": y + 23, "bottom": y + 37, "colour": row.mark.colour, "from": 0}
        bars.append(common | {"to": -row.to_first / row.pairs * 100, "fill": row.mark.colour})
        bars.append(common | {"to": row.to_second / row.pairs * 100, "fill": frame.PAPER})
        if row.noise is not None:
            ticks += [{"to": side * row.noise * 100, "top": y + 20, "bottom": y + 40} for side in (-0.5, 0.5)]
    x = frame.x_axis(
        "to",
        (-end, end),
        "changed with the order, % of pairs",
        frame.ticks_between(-end, end, step),
        labelExpr="format(abs(datum.value), '~f')",
    )
    drawn = (
        frame.base(bars)
        .mark_rect(strokeWidth=2)
        .encode(
            x=x,
            x2=alt.X2("from:Q"),
            y=frame.pixel_y("top"),
            y2="bottom:Q",
            fill=alt.Fill("fill:N", scale=None),
            stroke=alt.Stroke("colour:N", scale=None),
        )
    )
    zero = (
        frame.base([{"to": 0, "top": 0, "bottom": box.height}])
        .mark_rule(stroke=frame.INK)
        .encode(x=alt.X("to:Q"), y=frame.pixel_y("top"), y2="bottom:Q")
    )
    layers: list[Any] = [drawn, zero]
    if ticks:
        layers.append(
            frame.base(ticks)
            .mark_rule(stroke=frame.INK, strokeWidth=2)
            .encode(x=alt.X("to:Q"), y=frame.pixel_y("top"), y2="bottom:Q")
        )
    heads = [
        {"x": wide / 2 - 8, "y": -12, "text": "to the first shown", "align": "right"},
        {"x": wide / 2 + 8, "y": -12, "text": "to the second", "align": "left"},
    ]
    layers += [*frame.written(same), *frame.written(texts, bold=True), *frame.written(heads, muted=True)]
    return frame.chart(layers, box)
