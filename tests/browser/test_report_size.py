"""The one-file report of a large set: bounded in size, and it opens from the disk without asking anything."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from judge_service.reports.render import to_html
from judge_service.reports.selection import build_report
from judge_service.reports.study import Choices
from tests.browser.simulated import agreeing, mixed
from tests.browser.site import watched
from tests.judge_service.reports.studies import study_of

JUDGES = {f"judge-{place}": agreeing(0.9 - place / 50, cost=0.001 * (place + 1), sure=True) for place in range(5)}
LIMIT = 2_000_000


N = 600


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of six judges."""
    report = build_report(study_of({**JUDGES, "mixed": mixed}, N, people=2, choices=Choices(resamples=50)))
    found = tmp_path_factory.mktemp("report") / "report.html"
    found.write_text(to_html(report), encoding="utf-8")
    return found


@pytest.mark.parametrize("scripts", [True, False])
def test_six_judges_stay_under_the_limit_and_the_file_opens_offline(
    browser: Browser, file: Path, scripts: bool
) -> None:
    assert file.stat().st_size < LIMIT
    context = browser.new_context(offline=True, java_script_enabled=scripts)
    page = context.new_page()
    said, asked = watched(page), []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    assert page.locator("svg.chart").count() >= 5
    assert page.locator(".verdict .big").inner_text() != ""
    assert asked == [file.as_uri()]
    assert said == []
    context.close()
