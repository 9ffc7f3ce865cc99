"""Chart: whether a judge's stated confidence is how often it agrees with people. One panel a judge, same scales."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judge_service.reports.charts import frame
from judge_service.reports.charts.figure import Chart, Figure, JudgeMark, Table, Undefined

HOLLOW_BELOW = 10
"""Cases of a bin below which its point is hollow."""
ECE_FROM = 100
"""Cases from which an ECE is said; below, the Brier score alone."""

AID = "On the line, stated confidence is true; below it, too sure."


@dataclass(frozen=True, slots=True)
class Stated:
    """One judge's confidence: its bins as the section `confidence` gives them, ECE and Brier score.

    `source` names where the confidence comes from; None with empty `bins` where the judge states none.
    """

    mark: JudgeMark
    bins: Sequence[Mapping[str, Any]]
    ece: Figure | None
    brier: Figure | None
    source: str | None


def scales(judges: Sequence[Stated]) -> tuple[float, float]:
    """The least confidence and share of all judges, as tenths: all panels use the same scales."""
    stated = [row["low"] for judge in judges for row in judge.bins]
    shares = [row["accuracy_low"] for judge in judges for row in judge.bins]
    return (
        min([0.8, *(int(value * 10 + 1e-9) / 10 for value in stated)]),
        min([0.8, *(int(value * 5) / 5 for value in [*shares, *stated])]),
    )


def reliability(judge: Stated, least: tuple[float, float]) -> Chart:
    """A panel: point and Wilson whisker a bin at its mean confidence, the dashed diagonal, n as bars below."""
    title = judge.mark.label
    name = f"reliability-{judge.mark.place}"
    table = Table(
        ("Confidence", "n", "Stated", "Agrees", "95% interval"),
        tuple(
            (
                f"{row['low']:.2f} to {row['high']:.2f}",
                str(row["n"]),
                f"{row['mean_confidence']:.3f}",
                f"{row['accuracy']:.3f}",
                f"{row['accuracy_low']:.3f} to {row['accuracy_high']:.3f}",
            )
            for row in judge.bins
        ),
    )
    if not judge.bins:
        missing = Undefined(
            "Not measured",
            "This judge gives no confidence, so there is nothing to check and no threshold can be set.",
            "Use a judge whose backend gives token probabilities, or ask it for a confidence.",
        )
        summary = f"{judge.mark.name} gives no confidence."
        return Chart(name, title, "Confidence against agreement.", summary, table, undefined=missing)
    n = sum(row["n"] for row in judge.bins)
    notes = [_said(judge, n)]
    if any(row["n"] < HOLLOW_BELOW for row in judge.bins):
        notes.append(f"Hollow: under {HOLLOW_BELOW} cases.")
    summary = (
        f"Reliability of {judge.mark.name} over {n} cases with a confidence"
        f"{'' if judge.source is None else f' ({judge.source})'}: "
        + "; ".join(
            f"stated {row['mean_confidence']:.2f}, agrees {row['accuracy']:.2f}, n {row['n']}" for row in judge.bins
        )
        + f". {notes[0]}"
    )
    return Chart(name, title, AID, summary, table, spec=_spec(judge, least), notes=tuple(notes))


def _said(judge: Stated, n: int) -> str:
    """ECE with what chance alone would show, or the Brier score where there are too few cases for it."""
    brier = judge.brier
    ece = judge.ece
    if ece is not None and ece["value"] is not None and n >= ECE_FROM:
        details = ece.get("details", {})
        chance, most = details.get("null_mean"), details.get("null_q95")
        text = f"ECE {ece['value']:.3f}"
        if chance is not None and most is not None:
            text += f"; a perfect judge would show {chance:.3f} by chance, above {most:.3f} in 1 of 20 (n = {n})."
            return f"{text} {'Miscalibrated.' if details.get('miscalibrated') else 'No sign of miscalibration.'}"
        return f"{text} (n = {n})."
    if brier is not None and brier["value"] is not None:
        interval = "" if brier["low"] is None else f" ({brier['low']:.3f} to {brier['high']:.3f})"
        return f"Brier score {brier['value']:.3f}{interval}, n = {n}. Under {ECE_FROM} cases no ECE is said."
    return f"n = {n}."


def _spec(judge: Stated, least: tuple[float, float]) -> dict[str, Any]:
    import altair as alt

    left, right, top = 38, 16, 26
    wide = frame.WIDTH - left - right
    plot, bars_high = 156, 40
    box = frame.Box(left, right, top, 44, plot + bars_high + 22)
    low, floor = least
    n_most = max(row["n"] for row in judge.bins)

    def y_of(share: float) -> float:
        return plot * (1 - share) / (1 - floor)

    points, bars, counts = [], [], []
    for row in judge.bins:
        solid = row["n"] >= HOLLOW_BELOW
        points.append(
            {
                "x": row["mean_confidence"],
                "y": y_of(row["accuracy"]),
                "top": y_of(row["accuracy_high"]),
                "bottom": y_of(max(row["accuracy_low"], floor)),
                "fill": judge.mark.colour if solid else frame.PAPER,
            }
        )
        high = max(1.0, bars_high * row["n"] / n_most)
        bars.append({"x": row["low"], "x2": row["high"], "top": box.height - high, "bottom": box.height})
        middle = ((row["low"] + row["high"]) / 2 - low) / (1 - low) * wide
        counts.append({"x": middle, "y": box.height - high - 9, "text": str(row["n"]), "align": "center"})
    x = frame.x_axis("x", (low, 1.0), "confidence the judge stated", _ticks(low), format=".1f", grid=False)
    y = frame.y_axis(
        "share",
        (1 - box.height * (1 - floor) / plot, 1.0),
        "share that agrees; n of each bin below",
        frame.ticks_between(floor, 1.0, 0.2),
        format=".1f",
    )
    start = max(low, floor)
    line = [{"x": start, "share": start}, {"x": 1.0, "share": 1.0}]
    data = frame.base(points).encode(x=alt.X("x:Q"))
    layers: list[Any] = [
        frame.base(line).mark_line(stroke=frame.INK, strokeDash=[5, 4], strokeWidth=1).encode(x=x, y=y),
        frame.base(bars)
        .mark_rect(fill=judge.mark.colour, fillOpacity=0.55, stroke=frame.PAPER, strokeWidth=2)
        .encode(x=alt.X("x:Q"), x2="x2:Q", y=frame.pixel_y("top"), y2="bottom:Q"),
        frame.base([{"y": box.height}]).mark_rule(stroke=frame.EDGE).encode(y=frame.pixel_y("y")),
        data.mark_rule(strokeWidth=2.5, stroke=judge.mark.colour).encode(y=frame.pixel_y("top"), y2="bottom:Q"),
        data.mark_point(
            shape=judge.mark.shape, size=110, opacity=1, stroke=judge.mark.colour, strokeWidth=2, filled=False
        ).encode(y=frame.pixel_y("y"), fill=alt.Fill("fill:N", scale=None)),
        *frame.written(_thinned(counts), muted=True),
    ]
    return frame.chart(layers, box)


def _ticks(low: float) -> list[float]:
    return frame.ticks_between(low, 1.0, 0.1 if low >= 0.5 else 0.2 if low >= 0.2 else 0.25)


def _thinned(counts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Numbers of bins without those that would stand on their left neighbour; all are in the table."""
    kept: list[dict[str, Any]] = []
    end = -1e9
    for row in counts:
        half = frame.width_of(row["text"]) / 2
        if row["x"] - half > end + 3:
            kept.append(row)
            end = row["x"] + half
    return kept
