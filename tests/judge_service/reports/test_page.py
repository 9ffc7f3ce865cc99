"""The page of a report: which judges are drawn, what stands in its chapters, its limits, and its pictures as files."""

from pathlib import Path
from typing import Any

import pytest

from judge_service.reports.charts.of_sections import charts_of, drawn
from judge_service.reports.page import CASE_BYTES, CHAPTERS, Page, Part
from judge_service.reports.pictures import write_charts
from judge_service.reports.render import figure, to_html
from judge_service.reports.sections import SECTIONS
from judge_service.reports.selection import bundle_reports
from judge_service.visible import code
from tests.judge_service.reports.test_report import dataset

MANY = 40


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    labels: list[str | None] = ["A", "B"] * (MANY // 2)
    made: dict[str, Any] = bundle_reports([dataset([("A", "A"), ("B", "A")] * (MANY // 2), labels)], "t")["parts"][0]
    return made


def judged(values: list[float | None], *, labelled: int = 100, **decision: list[str]) -> dict[str, Any]:
    """A report of judges j0, j1, ... with these agreements, as far as the choice of who is drawn looks."""
    rows = [{"judge": f"j{i}", "baseline": False, "agreement": {"value": value}} for i, value in enumerate(values)]
    rows.append({"judge": "constant", "baseline": True, "agreement": {"value": 0.9}})
    return {
        "facts": {"labelled": labelled},
        "decision": {"judges": [], "leading": []} | decision,
        "sections": [{"id": "judges", "title": "t", "data": {"judges": rows}}],
    }


def test_up_to_six_judges_are_all_drawn_and_baselines_never_beside_them() -> None:
    assert drawn(judged([0.1, None, 0.3])) == ["j0", "j1", "j2"]
    assert drawn(judged([])) == ["constant"]


def test_of_more_than_six_those_are_drawn_that_decide_then_by_agreement_in_the_given_order() -> None:
    values = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, None]
    assert drawn(judged(values)) == ["j1", "j2", "j3", "j4", "j5", "j6"]
    assert drawn(judged(values, leading=["j0"], judges=["j7"])) == ["j0", "j3", "j4", "j5", "j6", "j7"]


def test_under_30_labels_nothing_is_ranked() -> None:
    assert drawn(judged([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], labelled=29)) == [f"j{i}" for i in range(6)]


def test_every_section_stands_in_one_chapter(report: dict[str, Any]) -> None:
    named = [name for _, names in CHAPTERS for name in names]
    assert sorted(named) == sorted(section.ID for section in SECTIONS)
    chapters = Page(report).parts[0].chapters
    assert [chapter.number for chapter in chapters] == list(range(1, len(chapters) + 1))
    assert [section["id"] for chapter in chapters for section in chapter.sections] == named
    assert [one.chart.id for one in chapters[1].charts] == ["agreement", "order", "outcomes", "policies"]


def test_a_section_of_no_chapter_becomes_one(report: dict[str, Any]) -> None:
    data = {"n": 3, "judges": [{"judge": "model", "note": "<b>new</b>"}]}
    more = report | {"sections": [*report["sections"], {"id": "news", "title": "News", "data": data}]}
    last = Page(more).parts[0].chapters[-1]
    assert (last.title, [section["id"] for section in last.sections]) == ("News", ["news"])
    assert "&lt;b&gt;new&lt;/b&gt;" in to_html(more)


def test_without_a_section_on_order_the_chapter_does_not_name_it(report: dict[str, Any]) -> None:
    less = report | {"sections": [section for section in report["sections"] if section["id"] != "order"]}
    assert Page(less).parts[0].chapters[1].title == "Agreement and outcomes"


def test_numbers_behind_a_chart_are_those_of_the_section(report: dict[str, Any]) -> None:
    section = next(section["data"] for section in report["sections"] if section["id"] == "agreement")
    raw = section["judges"][0]["raw"]
    table = charts_of(report)["agreement"][0].table
    assert table.rows[0][:4] == (
        "model",
        f"{raw['numerator']:g}",
        f"{raw['denominator']:g}",
        f"{raw['value'] * 100:.1f}",
    )


def test_texts_of_cases_are_bounded_and_the_rest_is_counted(report: dict[str, Any]) -> None:
    part = Part(report, 1, 2)
    case = {"texts": [{"name": "t", "text": "ü" * 4000}], "judges": []}
    listed = part.listed([case] * 100)
    assert len(listed) == CASE_BYTES // 8000
    assert part.listed([]) == []


def test_the_reason_for_not_measuring_stands_once_with_its_judges(report: dict[str, Any]) -> None:
    rows = [
        {"judge": name, "planted": {"text": f"Not measured: `judge-service judges probe {name}` measures it."}}
        for name in ("a-1", "b-2")
    ]
    found = Part(report, 1, 2).unmeasured(rows, "planted")
    assert found == [(["a-1", "b-2"], "`judge-service judges probe NAME` measures it.")]
    assert code(found[0][1] + "<i>") == "<code>judge-service judges probe NAME</code> measures it.&lt;i&gt;"


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [(0.8401, "percent", "84.0"), (0.07, "points", "+7.0"), (-0.00001, "points", "0.0"), (0.1044, "three", "0.104"),
     (0.755, "two", "0.76")],
)  # fmt: skip
def test_figures_have_the_decimals_of_their_kind(value: float, form: str, text: str) -> None:
    assert figure(value, form) == text


def test_charts_are_written_as_files(report: dict[str, Any], tmp_path: Path) -> None:
    paths = write_charts(report, tmp_path / "charts")
    names = {path.name for path in paths}
    assert {"agreement.svg", "agreement.png", "order.svg", "outcomes.png", "policies.svg"} <= names
    assert all(path.stat().st_size > 500 for path in paths)
    few = bundle_reports([dataset([("A", "A")] * 5, ["A"] * 5)], "t")
    assert write_charts(few, tmp_path / "few") == []
