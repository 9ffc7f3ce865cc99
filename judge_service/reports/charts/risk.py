"""Chart: how many mistakes remain among the cases a judge keeps above each threshold of confidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judge_service.reports.charts import frame
from judge_service.reports.charts.figure import Chart, JudgeMark, Table, Undefined, percent

MOST_POINTS = 60
"""Points of a judge's curve at most: the drawing's size must not grow with the set."""
_MARKS = 5


@dataclass(frozen=True, slots=True)
class Kept:
    """One judge's curve from the most confident case on: rows of threshold, accepted, errors, coverage and risk.

    `usable` is the lowest threshold that holds the target with 95% confidence, None where none does; there,
    `risk_upper` bounds the share of wrong verdicts among the kept, and `coverage` and `risk` are what was measured.
    """

    mark: JudgeMark
    curve: Sequence[Mapping[str, Any]]
    usable: float | None
    usable_coverage: float | None = None
    usable_risk: float | None = None
    risk_upper: float | None = None


def risk(judges: Sequence[Kept], *, n: int, target: float) -> Chart:
    """Lines over kept cases in percent; `target` is the share of wrong verdicts that is accepted (of 1)."""
    known = [judge for judge in judges if judge.curve]
    rows = tuple(
        (
            judge.mark.name,
            f"{row['threshold']:.3f}",
            str(row["accepted"]),
            percent(row["coverage"]),
            str(row["errors"]),
            percent(row["risk"]),
        )
        for judge in judges
        for row in _thin(judge.curve, 12)
    )
    table = Table(("Judge", "Confidence from", "Kept", "Kept, %", "Wrong", "Wrong of kept, %"), rows)
    title = "Risk against coverage"
    aid = "Further right keeps more cases and more mistakes. Ring: the lowest threshold that meets the target."
    if not known:
        missing = Undefined(
            "Not measured",
            "No judge gives a confidence, so none can decide above a threshold.",
            "Use a judge whose backend gives token probabilities, or ask it for a confidence.",
        )
        return Chart("risk", title, aid, "No judge gives a confidence.", table, undefined=missing)
    parts = []
    for judge in known:
        if judge.usable is None:
            parts.append(f"{judge.mark.name} meets the target at no threshold")
        else:
            parts.append(
                f"{judge.mark.name} from confidence {judge.usable:.2f} on keeps "
                f"{percent(judge.usable_coverage or 0.0)}% of cases and is wrong "
                f"on {percent(judge.usable_risk or 0.0)}% of them, at most "
                f"{percent(judge.risk_upper or 0.0)}% with 95% confidence"
            )
    summary = f"Target: at most {percent(target)}% wrong of {n} cases. {'; '.join(parts)}."
    silent = [judge.mark.name for judge in judges if not judge.curve]
    notes = (f"No confidence, so no curve: {', '.join(silent)}.",) if silent else ()
    return Chart("risk", title, aid, summary, table, spec=_spec(known, n, target), notes=notes)


def _thin(curve: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """At most so many points of a curve, evenly by coverage, its last always among them."""
    if len(curve) <= most:
        return list(curve)
    end = curve[-1]["coverage"]
    wanted = [end * (i + 1) / most for i in range(most)]
    kept: list[Mapping[str, Any]] = []
    for goal in wanted:
        nearest = min(curve, key=lambda row: abs(row["coverage"] - goal))
        if not kept or nearest is not kept[-1]:
            kept.append(nearest)
    return kept


def _spec(judges: Sequence[Kept], n: int, target: float) -> dict[str, Any]:
    import altair as alt

    left, right, top = 34, 20, 28
    wide = frame.WIDTH - left - right
    box = frame.Box(left, right, top, 44, 190)
    # The first few cases swing between 0 and 100%: a curve is drawn from 5% of the cases on.
    curves = {
        judge.mark: _thin([row for row in judge.curve if row["coverage"] >= 0.05] or list(judge.curve), MOST_POINTS)
        for judge in judges
    }
    highest = max([target, *(row["risk"] for curve in curves.values() for row in curve)])
    step = next(step for step in (2, 5, 10, 20) if highest * 100 / step <= 4 or step == 20)
    end = min(100.0, step * (highest * 100 // step + 1))
    lines = [
        {"x": row["coverage"] * 100, "y": row["risk"] * 100, "colour": mark.colour, "judge": mark.name}
        for mark, curve in curves.items()
        for row in curve
    ]
    dots = [
        {"x": row["coverage"] * 100, "y": row["risk"] * 100, "colour": mark.colour, "shape": mark.shape}
        for mark, curve in curves.items()
        for row in _thin(curve, _MARKS)
    ]
    x = frame.x_axis("x", (0, 100), f"cases it keeps, % of {n}", [0, 25, 50, 75, 100], grid=False)
    y = frame.y_axis("y", (0, end), "wrong among those kept, %", frame.ticks_between(0, end, step), format="d")
    colour = alt.Color("colour:N", scale=None)
    layers: list[Any] = [
        frame.base([{"y": target * 100}])
        .mark_rule(stroke=frame.INK, strokeDash=[2, 3], strokeWidth=2)
        .encode(y=alt.Y("y:Q")),
        frame.base(lines)
        .mark_line(strokeWidth=2.5)
        .encode(x=x, y=y, color=colour, detail="judge:N", order=alt.Order("x:Q")),
        frame.base(dots)
        .mark_point(filled=True, size=60, opacity=1)
        .encode(x=alt.X("x:Q"), y=alt.Y("y:Q"), color=colour, shape=alt.Shape("shape:N", scale=None)),
    ]

    def spot(coverage: float, wrong: float) -> tuple[float, float]:
        return coverage * wide, box.height * (1 - wrong * 100 / end)

    taken: list[tuple[frame.Rect, str | None]] = []
    for mark, curve in curves.items():
        for row in curve:
            px, py = spot(row["coverage"], row["risk"])
            taken.append((frame.Rect(px - 4, py - 4, px + 4, py + 4), mark.name))
    level = spot(0, target)[1]
    words = f"target {percent(target)}%"
    texts = [{"x": 4, "y": level - 10, "text": words, "align": "left"}]
    taken.append((frame.Rect(4, level - 18, 4 + frame.width_of(words), level), None))
    rings, bounds = [], []
    for judge in judges:
        if judge.usable is not None and judge.usable_coverage is not None and judge.usable_risk is not None:
            rings.append({"x": judge.usable_coverage * 100, "y": judge.usable_risk * 100})
            said = f"from {judge.usable:.2f}: at most {percent(judge.risk_upper or 0.0)}%"
            bounds.append(frame.Spot(*spot(judge.usable_coverage, judge.usable_risk), said, judge.mark.name))
    ends = [
        frame.Spot(*spot(curve[-1]["coverage"], curve[-1]["risk"]), frame.shortened(mark.label, 190), mark.name)
        for mark, curve in curves.items()
    ]
    if rings:
        layers.append(
            frame.base(rings)
            .mark_point(shape="circle", size=320, filled=False, stroke=frame.INK, strokeWidth=2, opacity=1)
            .encode(x=alt.X("x:Q"), y=alt.Y("y:Q"))
        )
    plot = frame.Rect(0, 0, wide + 14, box.height - 4)
    named = frame.beside([*bounds, *ends], plot, taken)
    layers += [*frame.written([*texts, *named[: len(bounds)]]), *frame.written(named[len(bounds) :], bold=True)]
    return frame.chart(layers, box)
