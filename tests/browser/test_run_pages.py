"""Pages of runs and judgments in a browser: axe in both themes and widths, a silent console, nothing wider than it."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from judge_service.domain.principal import Role
from tests.browser.site import THEMES, WIDTHS, Site, running, sideways, violations, watched
from tests.judge_service.web.test_runs import run

HOSTILE = "<script>alert(1)</script>\u202e" + "x" * 300 + "-"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running(tmp_path_factory.mktemp("runs")) as found:
        yield found


@pytest.fixture(scope="module")
def runs(site: Site) -> tuple[str, str]:
    """Two runs over the same sixty cases, whose ids are hostile text."""

    async def made() -> tuple[str, str]:
        return await run(site.service, 60, text=HOSTILE), await run(site.service, 60, judge="other", text=HOSTILE)

    # The browser's own event loop occupies this thread.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, made()).result()


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing_and_the_console_is_silent(
    site: Site, browser: Browser, runs: tuple[str, str], width: int, theme: Any
) -> None:
    user = site.person("Sco Example", Role.SCORE)
    context = site.signed_in(browser, user, viewport={"width": width, "height": 844}, color_scheme=theme)
    page = context.new_page()
    said = watched(page)
    first, second = runs
    found = site.service.store.runs.results(first, after=-1, limit=1)[0][1]
    addresses = (
        "/runs",
        f"/runs/{first}",
        f"/runs/{first}?outcome=judge_error",
        f"/runs/{second}/report?compare={first}&by=part",
        f"/judgments/{found.id}",
    )
    for address in addresses:
        answer = page.goto(address)
        assert answer is not None
        assert answer.status == 200, address
        assert violations(page) == [], address
        assert sideways(page) == 0, address
    assert said == []
    context.close()


def test_a_judgment_is_reached_by_keyboard(site: Site, browser: Browser, runs: tuple[str, str]) -> None:
    context = site.signed_in(browser, site.person("Sco Example", Role.SCORE))
    page = context.new_page()
    page.goto(f"/runs/{runs[0]}")
    page.locator("a[href^='/judgments/']").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/judgments/**")
    expect(page.locator("h1")).to_be_visible()
    assert "[U+202E]" in page.inner_text("main")
    context.close()
