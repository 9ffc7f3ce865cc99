"""Figures of a report in the browser: the verdict is the decision's, charts say what the CSV says, none is alone."""

import csv
import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from judge_service.domain.principal import Role
from tests.browser.simulated import agreeing, judged_set, mixed
from tests.browser.site import Site, alone, running

ALIKE = {"dear": agreeing(0.995, cost=0.002), "cheap": agreeing(0.995, cost=0.001)}
CHOICE = {"large": agreeing(0.95, cost=0.01, sure=True), "mixed": mixed, "free": agreeing(0.75, sure=True)}
PATTERNS: dict[str, tuple[str, Mapping[str, Any], int]] = {
    "chosen": ("select", CHOICE, 120),
    "alike": ("any_of", ALIKE, 1000),
    "weak": ("none", {"weak": agreeing(0.6), "weaker": agreeing(0.5)}, 120),
    "short": ("not_enough_evidence", {"large": agreeing(0.95)}, 64),
    "few": ("not_enough_evidence", {"large": agreeing(0.95), "small": agreeing(0.8)}, 20),
}
"""Sets by name: the pattern of the verdict, the judges, and how many labelled pairs."""
TABLES = """() => [...document.querySelectorAll("main figure")].map(figure => ({
    title: figure.querySelector("h3, h4").textContent.trim(),
    name: figure.querySelector("svg.chart")?.getAttribute("aria-label") ?? "",
    role: figure.querySelector("svg.chart")?.getAttribute("role") ?? "",
    aid: figure.querySelector("figcaption").textContent.trim(),
    columns: [...figure.querySelectorAll("thead th")].map(one => one.textContent),
    rows: [...figure.querySelectorAll("tbody tr")].map(row => [...row.children].map(one => one.textContent.trim())),
  }))"""
GREY = """() => [...document.querySelectorAll("svg.chart")].map(svg => {
    const kinds = {};
    for (const one of svg.querySelectorAll("path[transform], line, path")) {
      const colour = (/--j\\d/.exec(one.outerHTML) ?? [""])[0];
      if (!colour) continue;
      const shape = one.tagName === "path" && one.hasAttribute("transform")
        ? one.getAttribute("d").replace(/[-\\d.,]+/g, "") : "";
      const dash = one.getAttribute("stroke-dasharray") ?? "";
      (kinds[colour] ??= []).push(shape + dash);
    }
    return {
      name: svg.getAttribute("aria-label").slice(0, 40),
      kinds: Object.fromEntries(Object.entries(kinds).map(([one, all]) => [one, [...new Set(all)].sort().join("|")])),
      texts: [...svg.querySelectorAll("text")].map(one => one.textContent),
    };
  })"""


@dataclass(frozen=True)
class Report:
    """A report in the browser, as JSON, and its CSV tables by name."""

    page: Page
    json: dict[str, Any]
    csv: dict[str, list[dict[str, str]]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running(tmp_path_factory.mktemp("figures")) as found:
        yield found


@pytest.fixture(scope="module")
def lead(site: Site, browser: Browser) -> Iterator[Page]:
    context = site.signed_in(browser, site.person("Lea Example", Role.LEAD), viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()


def opened(site: Site, page: Page, name: str) -> Report:
    """The report of one of the sets, which is made at the first call."""
    _, judges, n = PATTERNS[name]
    if not any(one.name == name for one in site.service.store.sets.all()):
        judged_set(site.service, name, judges, n)
    while page.request.get(f"/reports/{name}@1?wait=true", timeout=120_000).status == 202:
        pass
    page.goto(f"/reports/{name}@1")
    found = page.request.get(f"/reports/{name}@1/report.json").json()
    packed = zipfile.ZipFile(io.BytesIO(page.request.get(f"/reports/{name}@1/report.csv").body()))
    tables = {
        one.removesuffix(".csv"): list(csv.DictReader(io.StringIO(packed.read(one).decode("utf-8-sig"))))
        for one in packed.namelist()
    }
    return Report(page, found, tables)


@pytest.mark.parametrize("name", PATTERNS)
def test_the_verdict_is_the_decision_of_the_json(site: Site, lead: Page, name: str) -> None:
    report = opened(site, lead, name)
    decision = report.json["decision"]
    assert decision["pattern"] == PATTERNS[name][0]
    expect(lead.locator(".verdict .big")).to_have_text(f"{decision['mark']} {decision['sentence']}")
    assert report.csv["decision"][0]["sentence"] == decision["sentence"]
    assert lead.locator(".verdict li").all_inner_texts()[: len(decision["reasons"])] == decision["reasons"]
    charts = lead.locator("svg.chart").count()
    assert charts == 0 if name == "few" else charts >= 4
    if decision["pattern"] == "not_enough_evidence":
        rows = lead.locator("[aria-label='Judges side by side'] tbody th").all_inner_texts()
        assert not any("best" in row.lower() for row in rows)


def percent(value: str) -> str:
    return f"{float(value) * 100:.1f}"


def between(row: Mapping[str, str], name: str) -> str:
    return f"{percent(row[f'{name}_low'])} to {percent(row[f'{name}_high'])}"


def of(table: list[dict[str, str]], judge: str, **also: str) -> dict[str, str]:
    """The row of a judge."""
    (found,) = [row for row in table if row["judge"] == judge and all(row[key] == also[key] for key in also)]
    return found


def test_numbers_behind_each_chart_are_those_of_the_csv(site: Site, lead: Page) -> None:
    report = opened(site, lead, "chosen")
    charts = {one["title"]: one for one in lead.evaluate(TABLES)}
    tables = report.csv
    assert all(one["aid"] for one in charts.values())
    drawn = [one for one in charts.values() if one["name"]]
    assert len(drawn) == 8
    assert all(one["role"] == "img" and one["rows"] for one in drawn)
    for judge in CHOICE:
        raw = of(tables["agreement"], judge)
        agrees = [
            str(round(float(raw["raw"]) * int(raw["raw_n"]))),
            raw["raw_n"],
            percent(raw["raw"]),
            between(raw, "raw"),
        ]
        assert [judge, *agrees] in charts["Agreement with people"]["rows"]
        order = of(tables["order"], judge)
        (said,) = [row for row in charts["Does the order matter?"]["rows"] if row[0] == judge]
        assert said[1:4] == [order["pairs"], percent(order["consistency"]), between(order, "consistency")]
        counts = of(tables["outcomes"], judge)
        (said,) = [row for row in charts["What came back"]["rows"] if row[0] == judge]
        kinds = ("scored", "tie", "inconsistent", "judge_error")
        assert said[1:] == [*(counts[f"counts_{kind}"] for kind in kinds), counts["n"]]
        policy = of(tables["order_policies"], judge, policy="swap_tie")
        (said,) = [row for row in charts["Which way of ordering helps?"]["rows"] if row[0] == judge]
        assert float(said[2]) == pytest.approx(float(policy["versus_random"]) * 100, abs=0.05)
        cost = of(tables["cost"], judge)
        (said,) = [row for row in charts["Cost against agreement"]["rows"] if row[0] == judge]
        assert said[2:] == [percent(cost["agreement"]), between(cost, "agreement")]
        if cost["cost_per_1000"]:
            assert float(said[1]) == pytest.approx(float(cost["cost_per_1000"]), abs=0.005)
        else:
            assert said[1].startswith("Not measured: ")
        curve = [row for row in tables["threshold_curve"] if row["judge"] == judge]
        rows = [row[1:] for row in charts["Risk against coverage"]["rows"] if row[0] == judge]
        assert rows == [
            [
                f"{float(one['threshold']):.3f}",
                one["accepted"],
                percent(one["coverage"]),
                one["errors"],
                percent(one["risk"]),
            ]
            for one in curve
        ]
        panel = next(one for title, one in charts.items() if title.endswith(f" {judge}"))
        bins = [row for row in tables["confidence_bins"] if row["judge"] == judge]
        if bins:
            assert [row[1:4] for row in panel["rows"]] == [
                [one["n"], f"{float(one['mean_confidence']):.3f}", f"{float(one['accuracy']):.3f}"] for one in bins
            ]
        else:
            assert "gives no token probabilities" in panel["rows"][0][1]


def test_without_colour_judges_and_outcomes_are_told_apart(site: Site, lead: Page) -> None:
    opened(site, lead, "chosen")
    for chart in lead.evaluate(GREY):
        kinds = chart["kinds"]
        for one in kinds:
            for other in kinds:
                # Other shapes or dashes, or rows of their own with the judges' names beside them.
                named = all(any(judge in text for text in chart["texts"]) for judge in ("large", "mixed"))
                assert one == other or kinds[one] != kinds[other] or named, (chart["name"], kinds)
    shapes = lead.evaluate(GREY)[0]["kinds"]
    assert len(set(shapes.values())) == len(shapes) == 3
    fills = lead.eval_on_selector_all(".key .swatch", "all => all.map(one => one.getAttribute('fill'))")
    assert len(set(fills)) == len(fills) >= 4
    assert sum("url(#" in fill for fill in fills) >= len(fills) - 1
    glyphs = lead.locator("[aria-label='Judges side by side'] .glyph").all_inner_texts()
    assert glyphs == ["●", "■", "▲"]


@pytest.mark.parametrize("name", ["chosen", "few"])
def test_no_number_of_a_report_is_alone(site: Site, lead: Page, name: str) -> None:
    opened(site, lead, name)
    assert alone(lead) == []
    # In sentences: an agreement has its interval and n.
    for said in lead.locator("main p, main li").all_inner_texts():
        for place in re.finditer(r"[Aa]grees? (?:with people |with each other )?on \d+\.\d%(.{0,60})", said):
            assert re.match(r" (\(|of them)", place[1]), said
