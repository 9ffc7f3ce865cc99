"""Chart: how every case ended with each judge, told apart by pattern before colour."""

from collections.abc import Mapping, Sequence
from typing import Any

from judge_service.reports.charts import frame
from judge_service.reports.charts.figure import Chart, JudgeMark, Table, Undefined

ORDER = ("scored", "tie", "not_applicable", "inconsistent", "judge_error", "not_judged")
"""All ways a case can end, as they stand in the bar."""
OUTCOMES: dict[str, tuple[str, str]] = {
    "scored": ("✓", "Scored"),
    "tie": ("=", "Tie (scored)"),
    "inconsistent": ("⇄", "Inconsistent: orders disagree"),
    "not_applicable": ("∅", "Not applicable"),
    "judge_error": ("!", "Judge error: no verdict"),
    "not_judged": ("◷", "Not judged"),
}
"""Mark and words of every way a case can end."""
WORDS = {kind: words.partition(":")[0] for kind, (_, words) in OUTCOMES.items()}
FILLS = {kind: f"url(#p-{kind.replace('_', '-')})" for kind in ORDER} | {"scored": "var(--o-scored)"}
"""Patterns of the page by their ids; a decided verdict is solid."""


def outcomes(judges: Sequence[tuple[JudgeMark, Mapping[str, int]]], *, n: int) -> Chart:
    """A stacked bar a judge with the counts of all `n` cases."""
    used = tuple(kind for kind in ORDER if any(counts.get(kind) for _, counts in judges))
    table = Table(
        ("Judge", *(WORDS[kind] for kind in used), "Cases"),
        tuple((mark.name, *(str(counts.get(kind, 0)) for kind in used), str(n)) for mark, counts in judges),
    )
    title, aid = (
        "What came back",
        "Every case ends in exactly one outcome. Nothing that failed is counted as a verdict.",
    )
    summary = f"Outcomes of {n} cases: " + "; ".join(
        mark.name + " " + ", ".join(f"{counts[kind]} {WORDS[kind].lower()}" for kind in used if counts.get(kind))
        for mark, counts in judges
    )
    if not used:
        missing = Undefined("Not measured", "No judge was run on a case of this set.", "Start a run over the set.")
        return Chart("outcomes", title, aid, "No judge was run.", table, undefined=missing)
    return Chart("outcomes", title, aid, f"{summary}.", table, spec=_spec(judges, n, used), patterns=used)


def _spec(judges: Sequence[tuple[JudgeMark, Mapping[str, int]]], n: int, used: Sequence[str]) -> dict[str, Any]:
    import altair as alt

    left, right, top = 16, 20, 8
    wide = frame.WIDTH - left - right
    box = frame.Box(left, right, top, 50, frame.ROW * len(judges) + 4)
    bars, texts, counted = [], [], []
    for i, (mark, counts) in enumerate(judges):
        y = i * frame.ROW
        start = 0
        for kind in used:
            if counts.get(kind):
                part = {"from": start, "to": start + counts[kind], "top": y + 23, "bottom": y + 39}
                bars.append(part | {"fill": FILLS[kind]})
                start += counts[kind]
        said = "\u2002".join(f"{OUTCOMES[kind][0]} {counts[kind]}" for kind in used[1:] if counts.get(kind))
        counted.append({"x": wide + 10, "y": y + 12, "text": said, "align": "right"})
        room = wide + 16 - frame.width_of(said)
        texts.append({"x": -10, "y": y + 12, "text": frame.shortened(mark.label, room), "align": "left"})
    x = frame.x_axis("from", (0, n), f"cases, of {n}", _ticks(n), format="d")
    drawn = (
        frame.base(bars)
        .mark_rect(stroke=frame.EDGE, strokeWidth=1)
        .encode(
            x=x,
            x2=alt.X2("to:Q"),
            y=frame.pixel_y("top"),
            y2="bottom:Q",
            fill=alt.Fill("fill:N", scale=None),
        )
    )
    return frame.chart([drawn, *frame.written(counted), *frame.written(texts, bold=True)], box)


def _ticks(n: int) -> list[float]:
    """0, a few round numbers between, and all cases."""
    step = next(step * 10**power for power in range(9) for step in (1, 2, 5) if n / (step * 10**power) <= 4)
    return [*(i * step for i in range(int(n / step) + 1) if n - i * step >= step * 0.6), n]
