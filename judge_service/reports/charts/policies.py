"""Chart: what each way of ordering two answers gains over asking in one order drawn by chance."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from judge_service.reports.charts import frame
from judge_service.reports.charts.figure import Chart, Figure, JudgeMark, Table, Undefined, points, reason

_HEAD, _LINE = 24, 22


@dataclass(frozen=True, slots=True)
class Ordered:
    """One judge under one policy: the paired difference to a random order (shares of 1), and what it decides."""

    mark: JudgeMark
    policy: str
    difference: Figure
    verdict: str | None


def policies(rows: Sequence[Ordered]) -> Chart:
    """Point and whisker a judge and policy, a line at 0; rows of one judge stand together."""
    table = Table(
        ("Judge", "Way of ordering", "Difference, points", "95% interval", "Cases", "Decision"),
        tuple(
            (
                row.mark.name,
                row.policy,
                points(row.difference["value"]) if row.difference["value"] is not None else "cannot be computed",
                _interval(row.difference),
                str(row.difference["n"]),
                row.verdict or "not compared",
            )
            for row in rows
        ),
    )
    title = "Which way of ordering helps?"
    aid = "Right of 0, this way of ordering helps. Left of 0, one order drawn by chance agrees more often."
    known = [row for row in rows if row.difference["value"] is not None]
    if not known:
        why = reason(rows[0].difference["undefined_reason"]) if rows else "No judge was asked in both orders."
        missing = Undefined("Not measured", why, "Run the judges with the order policy both_orders.")
        return Chart("policies", title, aid, "No policy could be compared.", table, undefined=missing)
    said = "; ".join(
        f"{row.mark.name} {row.policy} {points(row.difference['value'])} ({_interval(row.difference)})" for row in known
    )
    summary = f"Agreement minus that of a random order in points, 95% intervals: {said}."
    return Chart("policies", title, aid, summary, table, spec=_spec(known))


def _interval(difference: Figure) -> str:
    if difference["low"] is None:
        return f"none: {reason(difference.get('interval_reason') or difference['undefined_reason'])[:-1].lower()}"
    return f"{points(difference['low'])} to {points(difference['high'])}"


def _spec(rows: Sequence[Ordered]) -> dict[str, Any]:
    import altair as alt

    left, right, top = 122, 18, 8
    seen = [0.0]
    marks: list[dict[str, Any]] = []
    names, labels = [], []
    y = 0
    last = None
    for row in rows:
        if row.mark != last:
            names.append({"x": 6 - left, "y": y + 14, "text": frame.shortened(row.mark.label, 330), "align": "left"})
            y += _HEAD
            last = row.mark
        value = row.difference["value"] * 100
        low = value if row.difference["low"] is None else row.difference["low"] * 100
        high = value if row.difference["high"] is None else row.difference["high"] * 100
        seen += [low, high]
        marks.append(
            {
                "y": y + _LINE / 2,
                "value": value,
                "low": low,
                "high": high,
                "shape": row.mark.shape,
                "colour": row.mark.colour,
            }
        )
        labels.append({"x": -10, "y": y + _LINE / 2, "text": row.policy, "align": "right"})
        y += _LINE
    step = next(step for step in (2, 5, 10, 20, 50) if (max(seen) - min(seen)) / step <= 4 or step == 50)
    low_end, high_end = step * (min(seen) // step), -step * (-max(seen) // step)
    if high_end == low_end:
        low_end, high_end = -step, step
    box = frame.Box(left, right, top, 50, y + 6)
    x = frame.x_axis(
        "value",
        (low_end, high_end),
        "agreement, points",
        frame.ticks_between(low_end, high_end, step),
        labelExpr="datum.value > 0 ? '+' + datum.label : datum.label",
        format="~f",
    )
    data = frame.base(marks).encode(y=frame.pixel_y("y"), color=alt.Color("colour:N", scale=None))
    layers: list[Any] = [
        frame.base([{"value": 0, "y": 0, "y2": box.height}])
        .mark_rule(stroke=frame.INK)
        .encode(x=x, y=frame.pixel_y("y"), y2="y2:Q"),
        data.mark_rule(strokeWidth=2.5).encode(x=alt.X("low:Q"), x2="high:Q"),
    ]
    layers += [
        data.mark_tick(orient="vertical", size=8, thickness=2.5).encode(x=alt.X(f"{end}:Q")) for end in ("low", "high")
    ]
    layers.append(
        data.mark_point(filled=True, size=80, opacity=1).encode(
            x=alt.X("value:Q"), shape=alt.Shape("shape:N", scale=None)
        )
    )
    layers += [*frame.written(labels), *frame.written(names, bold=True)]
    return frame.chart(layers, box)
