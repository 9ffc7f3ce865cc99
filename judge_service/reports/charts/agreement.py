"""Chart: how often each judge says what people say, beside two people, the constant answer and the floor."""

from collections.abc import Sequence
from typing import Any

from judge_service.reports.charts import frame
from judge_service.reports.charts.figure import (
    Chart,
    Figure,
    JudgeMark,
    Table,
    Undefined,
    counts_of,
    interval_of,
    percent,
    reason,
    share_of,
)

NO_CEILING = "No ceiling: fewer than 30 cases have two labels."
HOLLOW = "Hollow: agreement with single labels, as the two people of the band have it."


def agreement(
    judges: Sequence[tuple[JudgeMark, Figure]],
    *,
    n: int,
    people: Figure | None,
    constant: tuple[str, Figure] | None,
    floor: float | None,
    single: Sequence[Figure | None] = (),
) -> Chart:
    """Dot and whisker a judge over x in percent; shares of 1 everywhere.

    `single` is each judge's agreement with single people's labels, which is what the band is compared with: a hollow
    mark below, where it is known. `people` is the agreement of two people (None or undefined: no band), `constant` the
    best constant answer with its name, `floor` the declared least agreement.
    """
    known = people if people is not None and people["value"] is not None else None
    # Without two people to compare with, single labels say nothing new.
    alone: list[Figure | None] = list(single) if known is not None and any(single) else [None] * len(judges)
    table = Table(
        ("Judge", "Agrees", "Of", "%", "95% interval"),
        tuple(
            (name, *counts_of(figure), _value(figure), interval_of(figure))
            for name, figure in [
                *((mark.name, figure) for mark, figure in judges),
                *(
                    (f"{mark.name}, single labels", figure)
                    for (mark, _), figure in zip(judges, alone, strict=True)
                    if figure is not None
                ),
                *([("Two people", known)] if known is not None else []),
                *([(constant[0], constant[1])] if constant is not None else []),
            ]
        ),
    )
    title, aid = "Agreement with people", "Further right is better. A line that reaches the band may be as good as a "
    aid += "second person."
    parts = [f"{mark.name} {share_of(figure)}" for mark, figure in judges]
    parts += [f"two people {share_of(known)}"] if known is not None else []
    parts += [f"{_small(constant[0])} {share_of(constant[1])}"] if constant is not None else []
    parts += [f"floor {percent(floor)}"] if floor is not None else []
    summary = f"Agreement with people in percent of {n} cases, 95% intervals: {'; '.join(parts)}."
    if all(figure["value"] is None for _, figure in judges):
        why = reason(judges[0][1]["undefined_reason"]) if judges else "No judge with a model was run."
        missing = Undefined("Cannot be computed", why, "Label cases of this set and run the judges on them.")
        return Chart("agreement", title, aid, summary, table, undefined=missing)
    notes = (NO_CEILING,) if known is None else (HOLLOW,) if any(alone) else ()
    spec = _spec(judges, alone, n, known, constant, floor)
    return Chart("agreement", title, aid, summary, table, spec=spec, notes=notes)


def _small(text: str) -> str:
    return text[0].lower() + text[1:]


def _value(figure: Figure) -> str:
    return "cannot be computed" if figure["value"] is None else percent(figure["value"])


def _spec(
    judges: Sequence[tuple[JudgeMark, Figure]],
    single: Sequence[Figure | None],
    n: int,
    people: Figure | None,
    constant: tuple[str, Figure] | None,
    floor: float | None,
) -> dict[str, Any]:
    import altair as alt

    lines: list[tuple[float, str, str]] = []
    if people is not None:
        lines.append((people["value"], f"two people {percent(people['value'])}", "people"))
    if constant is not None and constant[1]["value"] is not None:
        value = constant[1]["value"]
        lines.append((value, f"{_small(constant[0])} {percent(value)}", "constant"))
    if floor is not None:
        lines.append((floor, f"floor {percent(floor)}", "floor"))
    seen = [value for value, _, _ in lines]
    for figure in (*(figure for _, figure in judges), *(one for one in single if one is not None)):
        seen += [figure[key] for key in ("value", "low") if figure[key] is not None]
    height = frame.ROW + (14 if any(single) else 0)
    if people is not None and people["low"] is not None:
        seen.append(people["low"])
    low = min(80, int(min(seen) * 100 // 20) * 20)
    domain = (float(low), 100.0)
    left, right = 16, 18
    wide = frame.WIDTH - left - right
    to_pixel = wide / (domain[1] - domain[0])
    spots = frame.levels([((value * 100 - low) * to_pixel, text) for value, text, _ in lines], wide + 12, left=-12)
    top = 12 + 16 * (1 + max((level for _, level in spots), default=-1))
    box = frame.Box(left, right, top, 50, height * len(judges) + 4)
    rows = [
        {
            "y": i * height + 32 + below,
            "value": figure["value"] * 100,
            "low": (figure["value"] if figure["low"] is None else figure["low"]) * 100,
            "high": (figure["value"] if figure["high"] is None else figure["high"]) * 100,
            "shape": mark.shape,
            "colour": mark.colour,
            "fill": frame.PAPER if below else mark.colour,
        }
        for i, ((mark, whole), alone) in enumerate(zip(judges, single, strict=True))
        for figure, below in ((whole, 0), (alone, 14))
        if figure is not None and figure["value"] is not None
    ]
    x = frame.x_axis("value", domain, f"agreement with people, % of {n}", frame.ticks_between(low, 100, 20))
    data = frame.base(rows).encode(y=frame.pixel_y("y"), color=alt.Color("colour:N", scale=None))
    layers: list[Any] = []
    if people is not None and people["low"] is not None:
        band = [{"low": max(people["low"] * 100, low), "high": people["high"] * 100}]
        layers.append(
            frame.base(band).mark_rect(fill=frame.EDGE, fillOpacity=0.22).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"))
        )
    whisker = data.mark_rule(strokeWidth=2.5).encode(x=alt.X("low:Q"), x2="high:Q")
    caps = [
        data.mark_tick(orient="vertical", size=10, thickness=2.5).encode(x=alt.X(f"{end}:Q")) for end in ("low", "high")
    ]
    dots = data.mark_point(filled=False, size=90, opacity=1, strokeWidth=2).encode(
        x=x, shape=alt.Shape("shape:N", scale=None), fill=alt.Fill("fill:N", scale=None)
    )
    styles = {"people": [1, 0], "constant": [5, 4], "floor": [2, 3]}
    for (value, _, kind), (_, level) in zip(lines, spots, strict=True):
        layers.append(
            frame.base([{"value": value * 100, "y": -4 - 16 * level, "y2": box.height}])
            .mark_rule(stroke=frame.INK, strokeDash=styles[kind], strokeWidth=2 if kind == "floor" else 1)
            .encode(x=alt.X("value:Q"), y=frame.pixel_y("y"), y2="y2:Q")
        )
    layers += [whisker, *caps, dots]
    texts, values = [], []
    for i, (mark, figure) in enumerate(judges):
        y = i * height
        texts.append({"x": -10, "y": y + 12, "text": frame.shortened(mark.label, wide + 20), "align": "left"})
        if figure["value"] is None:
            values.append({"x": -10, "y": y + 31, "text": "Cannot be computed", "align": "left"})
            continue
        end = ((figure["high"] or figure["value"]) * 100 - low) * to_pixel + 8
        start = ((figure["low"] or figure["value"]) * 100 - low) * to_pixel - 8
        fits = end + frame.width_of("00.0") <= wide + 14
        value = {"y": y + 32, "text": percent(figure["value"])}
        values.append(value | ({"x": end, "align": "left"} if fits else {"x": start, "align": "right"}))
    heads = [
        {"x": middle, "y": -12 - 16 * level, "text": text, "align": "center"}
        for (_, text, _), (middle, level) in zip(lines, spots, strict=True)
    ]
    layers += [*frame.written(values), *frame.written(texts, bold=True), *frame.written(heads)]
    return frame.chart(layers, box)
