"""Reports in a real browser: the page under its real policy, the file offline, with and without pictures and script."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page
from typer.testing import CliRunner

from judge_service.app import create_app
from judge_service.cli.main import app as command_line
from judge_service.domain.principal import Role
from judge_service.reports.charts import drawing
from judge_service.reports.reading import read_study
from judge_service.reports.render import to_html
from judge_service.reports.selection import build_report
from judge_service.reports.study import Choices
from judge_service.security.keys import issue
from judge_service.settings import Settings
from judge_service.store import Store
from tests.browser.desk import follow
from tests.data.folders import data_folder
from tests.judge_service.serving import serving

pytestmark = pytest.mark.data

CHARTS = "svg.chart"
SMALLEST = """() => Math.min(...[...document.querySelectorAll('svg.chart')].flatMap(svg => {
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  return [...svg.querySelectorAll('text')].map(text => scale * parseFloat(getComputedStyle(text).fontSize));
}))"""
OPEN = "document.querySelectorAll('figure details, section > details').forEach(one => one.open = true)"
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@dataclass(frozen=True)
class Running:
    """The service with a set of faithfulness labels (`wice`) and one of twenty pairs (`few`)."""

    url: str
    key: str
    report: dict[str, Any]


def _run(database: str, *arguments: object) -> None:
    done = CliRunner().invoke(command_line, [*map(str, arguments), "--database", database])
    assert done.exit_code == 0, done.output


def _few(folder: Path) -> None:
    """Twenty pairs with labels, and a judge that sees them in both orders."""
    cases = [
        {"id": f"p{i}", "prompt": f"Question {i}?", "response_a": f"Yes {i}.", "response_b": f"No, not {i}."}
        for i in range(20)
    ]
    labelled = [case | {"human_label": "AB"[i % 2], "annotator": "ada"} for i, case in enumerate(cases)]
    verdicts = [
        {"case_id": f"p{i}", "judge": "<b>judge</b>", "strategy": "s", "order": order, "verdict": "first"}
        for i in range(20)
        for order in ("AB", "BA")
    ]
    (folder / "few.jsonl").write_text("".join(json.dumps(row) + "\n" for row in labelled))
    (folder / "verdicts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in verdicts))


def _prepared(folder: Path, settings: Settings) -> tuple[str, dict[str, Any]]:
    """Both sets with their verdicts, a key, and the report of the larger."""
    database = settings.database
    _few(folder)
    wice = data_folder() / "wice"
    for name, rubric, cases, verdicts in (
        ("wice", "faithfulness@1", wice / "cases.jsonl", wice / "verdicts.jsonl"),
        ("few", "pairwise@1", folder / "few.jsonl", folder / "verdicts.jsonl"),
    ):
        _run(database, "sets", "create", name, "--rubric", rubric)
        _run(database, "sets", "import", name, cases)
        _run(database, "sets", "freeze", name)
        _run(database, "sets", "verdicts", name, verdicts)
    store = Store.open(database)
    key, plain = issue("lead", Role.LEAD)
    store.keys.add(key)
    report = build_report(read_study(store, settings, "wice", choices=Choices(resamples=200)))
    store.close()
    return plain, report


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("service")
    settings = Settings(data_dir=folder, requests_per_minute=1_000_000)
    # A browser under way holds an event loop in this thread; the command line starts its own.
    with ThreadPoolExecutor(1) as thread:
        key, report = thread.submit(_prepared, folder, settings).result()
    with serving(create_app(settings)) as port:
        yield Running(f"http://127.0.0.1:{port}", key, report)


@dataclass
class Visit:
    """A page of a signed-in lead; `said` is what its console said."""

    page: Page
    said: list[str]

    def open(self, address: str) -> None:
        """Go there; a report that is being made is waited for."""
        self.page.goto(address)
        if "being made" in self.page.title():
            self.page.wait_for_selector(".verdict", timeout=300_000)

    def violations(self) -> list[tuple[str, str]]:
        """What axe finds, best practice included."""
        found = Axe().run(self.page).response["violations"]
        return [(violation["id"], violation["nodes"][0]["html"][:200]) for violation in found]


@pytest.fixture
def visit(browser: Browser, running: Running, request: pytest.FixtureRequest) -> Iterator[Visit]:
    width, scheme = getattr(request, "param", (1280, "light"))
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(f"{running.url}/sign-in?next=/reports")
    page.click("summary")
    page.fill("[name=key]", running.key)
    page.press("[name=key]", "Enter")
    page.wait_for_url("**/reports")
    yield Visit(page, said)
    context.close()


@pytest.mark.parametrize(
    "visit",
    [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark"), (360, "light"), (320, "light")],
    indirect=True,
)
def test_a_report_is_accessible_quiet_and_fits_in_both_themes(visit: Visit, running: Running) -> None:
    assert visit.violations() == []
    assert visit.page.evaluate(SIDEWAYS) == 0
    follow(visit.page.locator("a[aria-label='Report of wice@1']"))
    if "being made" in visit.page.title():
        assert visit.violations() == []
        visit.page.wait_for_selector(".verdict", timeout=300_000)
    assert running.report["decision"]["sentence"] in visit.page.inner_text(".verdict")
    assert visit.page.locator(CHARTS).count() == 5
    visit.page.evaluate(
        "document.querySelectorAll('figure details, section > details').forEach(one => one.open = true)"
    )
    assert visit.violations() == []
    assert visit.page.evaluate(SIDEWAYS) == 0
    assert visit.page.evaluate(SMALLEST) >= 12
    assert visit.page.evaluate("document.querySelectorAll('[style]').length") == 0
    assert visit.said == []


@pytest.mark.parametrize("visit", [(390, "light"), (1280, "dark")], indirect=True)
def test_under_30_labels_counts_stand_in_place_of_charts(visit: Visit, running: Running) -> None:
    visit.open(f"{running.url}/reports/few")
    assert "Not enough evidence to choose. Missing: at least 10 more labelled cases." in visit.page.inner_text(
        ".verdict"
    )
    assert visit.page.locator(CHARTS).count() == 0
    assert visit.page.locator("text=Under 30 labels: counts in place of a picture.").count() >= 3
    assert visit.page.locator("text=20 of 20").count() >= 1
    assert visit.page.locator("b >> text=judge").count() == 0
    assert visit.violations() == []
    assert visit.page.evaluate(SIDEWAYS) == 0
    assert visit.said == []


def test_files_of_a_report_are_downloads(visit: Visit, running: Running, tmp_path: Path) -> None:
    visit.open(f"{running.url}/reports/wice@1")
    for text, name in (
        ("One-file HTML", "wice-1-report.html"),
        ("JSON", "wice-1-report.json"),
        ("CSV tables (ZIP)", "wice-1-report.zip"),
        ("Markdown summary", "wice-1-report.md"),
    ):
        with visit.page.expect_download() as download:
            visit.page.click(f".downloads >> text={text}")
        assert download.value.suggested_filename == name
        saved = tmp_path / name
        download.value.save_as(saved)
        assert saved.stat().st_size > 1000
        if name.endswith(".json"):
            assert json.loads(saved.read_text())["decision"]["sentence"] in visit.page.inner_text(".verdict")


def test_without_pictures_the_page_draws_the_same_charts_under_its_policy(
    visit: Visit, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "available", lambda: False)
    # Another address, so that the report is made anew without pictures.
    visit.open(f"{running.url}/reports/wice@1?split=calibration")
    visit.page.wait_for_function("document.querySelectorAll('[data-chart] svg.chart').length === 5")
    assert visit.page.evaluate("document.querySelectorAll('[style]').length") == 0
    assert visit.page.evaluate(SMALLEST) >= 12
    names = visit.page.eval_on_selector_all(CHARTS, "all => all.map(one => one.getAttribute('aria-label'))")
    assert names[0].startswith("Agreement with people in percent of 200 cases")
    assert visit.violations() == []
    assert visit.said == []


@pytest.mark.parametrize("scripts", [True, False])
def test_the_file_opens_offline_without_script(
    browser: Browser, running: Running, tmp_path: Path, scripts: bool
) -> None:
    file = tmp_path / "report.html"
    file.write_text(to_html(running.report), encoding="utf-8")
    assert file.stat().st_size < 2_000_000
    context = browser.new_context(offline=True, java_script_enabled=scripts, viewport={"width": 390, "height": 844})
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(file.as_uri())
    assert page.locator(CHARTS).count() == 5
    decision = running.report["decision"]
    assert page.inner_text(".verdict .big") == f"{decision['mark']} {decision['sentence']}"
    assert page.locator("script").count() == 0
    if scripts:
        found = Axe().run(page).response["violations"]
        assert [violation["id"] for violation in found] == []
    assert said == []
    context.close()


def test_a_file_without_pictures_draws_its_charts_with_its_own_scripts_offline(
    browser: Browser, running: Running, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    file.write_text(to_html(running.report, pictures=False), encoding="utf-8")
    assert file.stat().st_size < 2_000_000
    context = browser.new_context(offline=True)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(file.as_uri())
    page.wait_for_function("document.querySelectorAll('[data-chart] svg.chart').length === 5")
    drawn = page.eval_on_selector_all(f"{CHARTS} text", "all => all.map(one => one.textContent)")
    context.close()
    file.write_text(to_html(running.report), encoding="utf-8")
    page = browser.new_page()
    page.goto(file.as_uri())
    assert page.eval_on_selector_all(f"{CHARTS} text", "all => all.map(one => one.textContent)") == drawn
    page.close()
    assert said == []


def test_an_error_is_a_page_that_says_what_to_do(visit: Visit, running: Running) -> None:
    visit.page.goto(f"{running.url}/reports/nothing@9")
    assert visit.page.title().startswith("Error: Not Found")
    assert visit.violations() == []
    assert visit.page.evaluate("document.activeElement === document.body")
