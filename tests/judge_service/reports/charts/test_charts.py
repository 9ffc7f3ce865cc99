"""Charts of a report: what each says, that pictures keep to tokens and sizes, and that nothing undefined is drawn."""

import json
import re
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from judge_service.assets import tokens
from judge_service.reports.charts import Chart, JudgeMark, Table, drawing, frame, marks_of
from judge_service.reports.charts.agreement import NO_CEILING, agreement
from judge_service.reports.charts.cost import Priced, cost, frontier, money
from judge_service.reports.charts.figure import points, share_of
from judge_service.reports.charts.order import Swapped, order
from judge_service.reports.charts.outcomes import outcomes
from judge_service.reports.charts.policies import Ordered, policies
from judge_service.reports.charts.reliability import Stated, reliability, scales
from judge_service.reports.charts.risk import MOST_POINTS, Kept, risk

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '<script>"&\u202e' + "x" * 80
NAMES = ("large", "mid", HOSTILE)
MARKS = list(marks_of(NAMES).values())
NOTHING = {"value": None, "low": None, "high": None, "n": 0, "undefined_reason": "empty", "method": "m"}


def parsed(svg: str) -> ElementTree.Element:
    """The root of a picture; inside a page it needs no name space, here it does."""
    if "xmlns=" not in svg:
        svg = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return ElementTree.fromstring(svg)  # noqa: S314  # the product's own drawing


def values(chart: Chart, mark: str) -> list[dict[str, Any]]:
    """The rows behind the first layer of this mark."""
    assert chart.spec is not None
    layer = next(layer for layer in chart.spec["layer"] if layer["mark"]["type"] == mark)
    rows: list[dict[str, Any]] = chart.spec["datasets"][layer["data"]["name"]]
    return rows


def figure(
    value: float, low: float | None = None, high: float | None = None, n: int = 400, **more: Any
) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, "n": n, "undefined_reason": None, "method": "m", **more}


CHANCE = "a perfect judge would show 0.026 by chance, above 0.043 in 1 of 20"
GOOD = figure(0.84, 0.801, 0.872, numerator=336, denominator=400)
PEOPLE = figure(0.847, 0.807, 0.88, 372)


def bins(*rows: tuple[float, float, int]) -> list[dict[str, Any]]:
    """Bins of a tenth by their lower end, share that agrees and number of cases."""
    return [
        {
            "low": low,
            "high": low + 0.1,
            "n": n,
            "mean_confidence": low + 0.05,
            "accuracy": share,
            "accuracy_low": max(0.0, share - 0.2),
            "accuracy_high": min(1.0, share + 0.1),
            "greyed": n < 10,
        }
        for low, share, n in rows
    ]


def curve(n: int) -> list[dict[str, Any]]:
    return [
        {"threshold": 1 - i / n, "accepted": i, "errors": i // 10, "coverage": i / n, "risk": (i // 10) / i}
        for i in range(1, n + 1)
    ]


def ece(value: float, miscalibrated: bool) -> dict[str, Any]:
    return figure(value, details={"null_mean": 0.026, "null_q95": 0.043, "miscalibrated": miscalibrated})


def every_chart() -> list[Chart]:
    large, mid, hostile = MARKS
    stated = [
        Stated(
            large, bins((0.5, 0.6, 9), (0.6, 0.7, 40), (0.9, 0.96, 160)), ece(0.037, False), figure(0.1), "classifier"
        ),
        Stated(hostile, bins((0.5, 0.4, 40), (0.9, 0.7, 60)), ece(0.2, True), figure(0.2), None),
    ]
    counts = {"scored": 300, "tie": 50, "inconsistent": 40, "not_applicable": 3, "judge_error": 5, "not_judged": 2}
    return [
        agreement(
            [(large, GOOD), (mid, figure(0.7, 0.65, 0.75)), (hostile, NOTHING)],
            n=400,
            people=PEOPLE,
            constant=("Always A", figure(0.464, 0.41, 0.51)),
            floor=0.8,
            single=[figure(0.82, 0.78, 0.86), None, None],
        ),
        order(
            [
                Swapped(large, 390, 21, 17, figure(0.907, 0.87, 0.93), 0.02),
                Swapped(mid, 0, 0, 0, NOTHING),
                Swapped(hostile, 380, 0, 190, figure(0.5, 0.45, 0.55)),
            ]
        ),
        outcomes([(mark, counts) for mark in MARKS], n=400),
        policies([Ordered(mark, "both orders", figure(0.02, -0.01, 0.05), "keep") for mark in MARKS]),
        *(reliability(one, scales(stated)) for one in stated),
        risk([Kept(large, curve(400), 0.7, 0.76, 0.09, 0.14), Kept(hostile, curve(90), None)], n=400, target=0.15),
        cost([Priced(large, 6.2, "", GOOD), Priced(hostile, 0.0, "", figure(0.7, 0.65, 0.75))], people=PEOPLE),
    ]


CHARTS = every_chart()
IDS = [chart.id for chart in CHARTS]


@pytest.mark.parametrize("chart", CHARTS, ids=IDS)
def test_a_picture_has_only_tokens_no_style_no_size_and_its_summary_as_name(chart: Chart) -> None:
    svg = drawing.inline(chart, "key")
    assert svg is not None
    root = parsed(svg)
    assert (root.get("role"), root.get("aria-label"), root.get("class")) == ("img", chart.summary, "chart")
    assert root.get("width") is None
    colours = set()
    for element in root.iter():
        assert element.tag in {
            f"{SVG}{name}" for name in ("svg", "g", "path", "line", "text", "defs", "clipPath", "rect")
        }
        assert not {"style", "class"} & set(element.keys()) or element is root
        colours |= {element.get(name) for name in ("fill", "stroke")} - {None}
        assert (element.get("id") or "key-").startswith("key-")
    named = {colour for colour in colours if colour.startswith("var(--")}
    assert {name[6:-1] for name in named} <= set(tokens()[0])
    assert all(
        colour in named or colour in ("none", "transparent") or colour.startswith("url(#p-") for colour in colours
    )


@pytest.mark.parametrize("chart", CHARTS, ids=IDS)
def test_text_is_large_enough_and_begins_inside_the_drawing(chart: Chart) -> None:
    svg = drawing.inline(chart, "key")
    assert svg is not None
    root = parsed(svg)
    _, _, wide, high = map(float, str(root.get("viewBox")).split())
    assert wide == frame.WIDTH

    def walk(element: ElementTree.Element, x: float, y: float) -> None:
        moved = re.match(r"translate\(([-\d.e]+),([-\d.e]+)\)", element.get("transform") or "translate(0,0)")
        assert moved is not None
        x, y = x + float(moved[1]), y + float(moved[2])
        if element.tag == f"{SVG}text" and element.text:
            assert float(str(element.get("font-size"))[:-2]) >= frame.TEXT
            assert -1 <= x <= wide + 1, element.text
            assert 8 <= y <= high + 1, element.text
        for child in element:
            walk(child, x, y)

    walk(root, 0, 0)


@pytest.mark.parametrize("chart", CHARTS, ids=IDS)
def test_a_file_has_light_colours_patterns_and_a_title(chart: Chart) -> None:
    svg = drawing.to_svg(chart)
    assert "var(--" not in svg
    root = parsed(svg)
    title = root.find(f"{SVG}title")
    assert title is not None
    assert title.text == chart.title
    for reference in re.findall(r'"url\(#(p-[a-z-]+)\)"', svg):
        assert f'<pattern id="{reference}"' in svg
    assert drawing.to_png(chart, 1.0)[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("chart", CHARTS, ids=IDS)
def test_a_chart_has_a_table_a_summary_with_figures_and_a_document_of_bounded_size(chart: Chart) -> None:
    assert chart.table.rows
    assert all(len(row) == len(chart.table.columns) for row in chart.table.rows)
    assert all(cell and cell not in ("-", "nan", "None") for row in chart.table.rows for cell in row)
    assert re.search(r"\d", chart.summary)
    assert chart.spec is not None
    text = json.dumps(chart.spec, allow_nan=False)
    assert len(text) < 60_000
    titles = re.findall(r'"title": "([^"]+)"', text)
    assert titles, "an axis names what it shows"


def test_shape_colour_and_glyph_of_a_judge_go_together_and_a_seventh_is_refused() -> None:
    marks = list(marks_of([f"j{i}" for i in range(6)]).values())
    assert [mark.glyph for mark in marks] == ["●", "■", "▲", "◆", "✚", "▼"]
    assert [mark.shape for mark in marks] == ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"]
    assert [mark.colour for mark in marks] == [f"var(--j{i})" for i in range(6)]
    with pytest.raises(ValueError, match="at most 6"):
        marks_of([f"j{i}" for i in range(7)])


def test_a_chart_is_a_picture_or_a_reason() -> None:
    with pytest.raises(ValueError, match="either a picture or a reason"):
        Chart("x", "t", "a", "s", Table((), ()))


def test_agreement_says_value_interval_and_what_stands_beside_it() -> None:
    chart = CHARTS[0]
    assert "large 84.0 (80.1 to 87.2)" in chart.summary
    assert "two people 84.7 (80.7 to 88.0)" in chart.summary
    assert "always A 46.4" in chart.summary
    assert chart.table.rows[0] == ("large", "336", "400", "84.0", "80.1 to 87.2")
    assert chart.table.rows[2][3] == "cannot be computed"
    assert chart.notes == ("Hollow: agreement with single labels, as the two people of the band have it.",)
    alone = agreement([(MARKS[0], GOOD)], n=400, people=NOTHING, constant=None, floor=None, single=[GOOD])
    assert alone.notes == (NO_CEILING,)
    assert "two people" not in json.dumps(alone.spec)
    assert len(alone.table.rows) == 1


def test_nothing_is_drawn_where_nothing_is_known() -> None:
    charts = [
        agreement([(MARKS[0], NOTHING)], n=0, people=None, constant=None, floor=None),
        order([Swapped(MARKS[0], 0, 0, 0, NOTHING)]),
        outcomes([(MARKS[0], {})], n=0),
        policies([]),
        reliability(Stated(MARKS[0], [], None, None, None), scales([])),
        risk([Kept(MARKS[0], [], None)], n=4, target=0.1),
        cost([Priced(MARKS[0], None, "Not measured: the judge's calls name no cost.", GOOD)], people=None),
    ]
    for chart in charts:
        assert chart.spec is None
        assert chart.undefined is not None
        assert chart.undefined.title in ("Not measured", "Cannot be computed")
        assert chart.undefined.reason.endswith(".")
        assert chart.undefined.cure.endswith(".")
        assert drawing.inline(chart, "k") is None
        with pytest.raises(ValueError, match="has no picture"):
            drawing.to_svg(chart)
    assert charts[1].undefined is not None
    assert charts[1].undefined.reason == "Position sensitivity: not measured (one order)."


def test_miscalibrated_is_said_only_above_what_chance_shows_and_no_ece_under_100_cases() -> None:
    calm, loud = CHARTS[4], CHARTS[5]
    assert calm.notes == (
        f"ECE 0.037; {CHANCE} (n = 209). No sign of miscalibration.",
        "Hollow: under 10 cases.",
    )
    assert loud.notes[0].endswith("(n = 100). Miscalibrated.")
    rows = bins((0.6, 0.7, 50))
    few = reliability(Stated(MARKS[0], rows, ece(0.2, True), figure(0.123, 0.1, 0.15), None), (0.5, 0.4))
    assert few.notes == ("Brier score 0.123 (0.100 to 0.150), n = 50. Under 100 cases no ECE is said.",)
    assert "iscalibrat" not in few.summary


def test_all_panels_use_the_scales_of_all_judges() -> None:
    one = Stated(MARKS[0], bins((0.4, 0.5, 20)), None, None, None)
    other = Stated(MARKS[1], bins((0.9, 0.9, 20)), None, None, None)
    assert scales([one, other]) == pytest.approx((0.4, 0.2))
    assert scales([other]) == pytest.approx((0.8, 0.6))


def test_risk_rings_the_usable_threshold_and_says_where_there_is_none() -> None:
    chart = risk(
        [Kept(MARKS[0], curve(400), 0.7, 0.76, 0.09, 0.141), Kept(MARKS[1], curve(50), None)], n=400, target=0.15
    )
    assert "from confidence 0.70 on keeps 76.0% of cases and is wrong on 9.0% of them, at most 14.1%" in chart.summary
    assert "mid meets the target at no threshold" in chart.summary
    assert "from 0.70: at most 14.1%" in json.dumps(chart.spec)


def test_a_curve_of_100_000_cases_stays_small() -> None:
    chart = risk([Kept(MARKS[0], curve(100_000), None)], n=100_000, target=0.1)
    assert 2 < len(values(chart, "line")) <= MOST_POINTS
    assert len(json.dumps(chart.spec)) < 30_000


def test_cost_names_the_frontier_and_who_has_no_price() -> None:
    assert frontier([(2.0, 0.7), (1.0, 0.8), (3.0, 0.9), (3.0, 0.85), (0.0, 0.5)]) == [
        (0.0, 0.5),
        (1.0, 0.8),
        (3.0, 0.9),
    ]
    chart = cost([Priced(MARKS[0], 2.0, "", GOOD), Priced(MARKS[1], None, "No price.", GOOD)], people=None)
    assert chart.notes == ("Not drawn, cost not known: mid.",)
    assert chart.table.rows[1][1] == "No price."
    assert [money(value) for value in (0, 0.0123, 0.5, 6.2, 1234.5)] == ["0", "0.012", "0.50", "6.20", "1,234"]


def test_a_bar_of_outcomes_holds_every_case_once() -> None:
    chart = CHARTS[2]
    rows = values(chart, "rect")
    first = [row for row in rows if row["top"] == rows[0]["top"]]
    assert first[0]["from"] == 0
    assert all(a["to"] == b["from"] for a, b in pairwise(first))
    assert first[-1]["to"] == 400
    assert [row["fill"] for row in first][1:] == [
        f"url(#p-{kind})" for kind in ("tie", "not-applicable", "inconsistent", "judge-error", "not-judged")
    ]
    assert chart.patterns == ("scored", "tie", "not_applicable", "inconsistent", "judge_error", "not_judged")


@given(st.lists(st.tuples(st.floats(0, 320), st.text("abc ", min_size=1, max_size=16)), max_size=6))
def test_labels_above_a_plot_never_cover_each_other(labels: list[tuple[float, str]]) -> None:
    spots = frame.levels(labels, 330)
    for i, (middle, level) in enumerate(spots):
        half = frame.width_of(labels[i][1]) / 2
        assert middle - half >= 0
        assert middle + half <= 330
        for j in range(i):
            other, same = spots[j]
            if same == level:
                assert abs(middle - other) >= half + frame.width_of(labels[j][1]) / 2


@example([(0.0, 0.0, "judge"), (102.0, 11.0, "a-long-judge-name"), (190.75, 0.0, "a-long-judge-name")])
@given(
    st.lists(
        st.tuples(st.floats(0, 300), st.floats(0, 190), st.sampled_from(["a", "judge", "a-long-judge-name"])),
        min_size=1,
        max_size=6,
    )
)
def test_names_of_points_stay_inside_the_plot(points_of: list[tuple[float, float, str]]) -> None:
    plot = frame.Rect(-10, -20, 320, 200)
    rows = frame.beside([frame.Spot(x, y, text, str(i)) for i, (x, y, text) in enumerate(points_of)], plot)
    assert [row["text"] for row in rows] == [text for _, _, text in points_of]
    for row in rows:
        wide = frame.width_of(row["text"])
        start = row["x"] - {"left": 0, "center": wide / 2, "right": wide}[row["align"]]
        assert start >= plot.x0 - 1e-6
        assert start + wide <= plot.x1 + 1e-6
        assert plot.y0 <= row["y"] <= plot.y1


@given(st.floats(-1, 1))
def test_points_carry_a_sign_and_zero_has_none(value: float) -> None:
    text = points(value)
    assert text == "0.0" if abs(value * 100) < 0.05 else text[0] in "+-"


def test_a_share_without_an_interval_says_so() -> None:
    assert share_of(figure(0.5)) == "50.0 (no interval)"
    assert share_of(NOTHING) == "cannot be computed: there is nothing to count"


def test_mark_labels_are_shape_and_name() -> None:
    assert JudgeMark("x", 2).label == "▲ x"
