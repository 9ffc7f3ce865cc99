"""What every page of the web app is held to: axe finds nothing, nothing is cut off or empty, the console is silent.

The table of pages is held against the app's own routes: a page that is not in it fails.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Response
from playwright.sync_api import Page as Tab

from judge_service.web.routers import ROUTERS
from tests.browser.conftest import WIDE
from tests.browser.site import THEMES, WIDTHS, Site, alone, running, sideways, violations, watched
from tests.browser.whole import ADJUDICATION, LABELLING, NO_PAGES, PAGES, Page, filled

HEIGHT = 844
FIGURES = ("/projects/{project_id}", "/judges/{name}", "/judges", "/runs/{run_id}/report")
OF_COLOUR = ("color-contrast", "link-in-text-block")
"""What axe asks of colours. A theme changes nothing but these."""
ZOOMED = {"width": 640, "height": 450}
"""A window of 1280 by 900 at 200%."""
NARROW = {"width": 320, "height": 640}
SCROLLS = """() => [...document.querySelectorAll("body *")].filter(one => {
    const style = getComputedStyle(one);
    return one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0 && !one.closest("svg")
        && ["auto", "scroll"].includes(style.overflowX) && !["TEXTAREA", "SELECT", "INPUT"].includes(one.tagName);
  }).map(one => ({
    what: `${one.tagName} ${one.className} ${one.id}`,
    table: one.querySelector("table") !== null || one.tagName === "PRE",
    told: one.tagName === "PRE" || one.previousElementSibling?.matches(".sideways") === true,
    named: one.matches("[role=region][tabindex='0']")
        && Boolean(one.getAttribute("aria-label") || document.getElementById(one.getAttribute("aria-labelledby"))),
  }))"""
NOTHING_SAID = """() => {
  const bare = /^(|[-\\u2010-\\u2015\\u2212]+|n\\/?a|none|null|undefined|nan|inf|infinity|true|false)$/i;
  const found = [];
  for (const one of document.querySelectorAll("main :is(td, th, dd, dt, li, figcaption, svg text)")) {
    if (!one.checkVisibility() && !one.closest("details:not([open])")) continue;
    const fields = one.querySelector("input, select, textarea, button, svg");
    const said = one.textContent.trim();
    // A drawing may hold a text of nothing: it is not drawn.
    const drawn = one.matches("text") && said === "";
    const near = one.parentElement.textContent.trim().slice(0, 80);
    if (bare.test(said) && !fields && !drawn) found.push(`"${said}" in ${near}`);
  }
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const said = walk.currentNode.data;
    const wrong = /\\bNaN\\b|\\bnan\\b|\\[object |\\bInfinity\\b|(None|null|undefined)(%| %| to | points)|\\{\\{|`/;
    // The texts of a case, and what is shown as code, are somebody else's.
    const others = walk.currentNode.parentElement.closest("pre, script, textarea, .words, .case-text, .text");
    if (wrong.test(said) && !others) found.push(said.trim().slice(0, 120));
  }
  return found;
}"""
"""Cells, terms and items that say nothing, numbers that are none, and left marks of Markdown or a template."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running(tmp_path_factory.mktemp("whole")) as found:
        yield found


@pytest.fixture(scope="module")
def names(site: Site) -> Mapping[str, str]:
    return filled(site)


def profile(site: Site, browser: Browser, who: str | None, **options: Any) -> BrowserContext:
    """A profile in which `who` is signed in, or nobody."""
    if who is None:
        return browser.new_context(base_url=site.address, **options)
    return site.signed_in(browser, site.person(who), **options)


def opened(tab: Tab, page: Page, names: Mapping[str, str]) -> Response:
    """Go to a page; a report that is being made is waited for."""
    address = page.address.format_map(names)
    if page.route == "/reports/{reference}":
        while tab.context.request.get(f"{address}?wait=true", timeout=120_000).status == 202:
            pass
    answer = tab.goto(address)
    assert answer is not None
    assert answer.status == page.status
    return answer


def test_every_page_is_in_the_table(site: Site, browser: Browser, names: Mapping[str, str]) -> None:
    routes = {
        route.path  # type: ignore[attr-defined]
        for router in ROUTERS
        for route in router.routes
        if "GET" in route.methods  # type: ignore[attr-defined]
    }
    assert routes == {page.route for page in PAGES if page.route} | set(NO_PAGES)
    context = profile(site, browser, "Root Example")
    for address in NO_PAGES.values():
        answer = context.request.get(address.format_map(names))
        assert answer.status == 200
        assert "<html" not in answer.text()
    context.close()


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_a_page_is_accessible_and_fits(site: Site, browser: Browser, names: Mapping[str, str], page: Page) -> None:
    context = profile(site, browser, page.who, viewport={"width": WIDTHS[0], "height": HEIGHT})
    tab = context.new_page()
    said = watched(tab)
    opened(tab, page, names)
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": HEIGHT})
        for theme in THEMES:
            tab.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            assert violations(tab, () if theme == THEMES[0] else OF_COLOUR) == [], (width, theme)
        assert sideways(tab) == 0, width
        if width == WIDTHS[0]:
            assert [one["what"] for one in tab.evaluate(SCROLLS) if not one["told"]] == []
    for size in (ZOOMED, NARROW):
        tab.set_viewport_size(size)  # type: ignore[arg-type]
        assert sideways(tab) == 0, size
        scrolls = tab.evaluate(SCROLLS)
        assert [one["what"] for one in scrolls if not (one["table"] and one["named"])] == [], size
    assert tab.evaluate(NOTHING_SAID) == []
    # A page that is an error is told as one by the browser too.
    assert [line for line in said if str(page.status) not in line or page.status == 200] == []
    context.close()


@pytest.mark.parametrize("page", [page for page in PAGES if page.route in FIGURES], ids=str)
def test_no_number_of_people_judges_and_comparisons_is_alone(
    site: Site, browser: Browser, names: Mapping[str, str], page: Page
) -> None:
    context = profile(site, browser, page.who)
    tab = context.new_page()
    opened(tab, page, names)
    found = alone(tab)
    # Sums of money and time are counts; the row says which.
    assert [one for one in found if one[0] != "Table: Cost and time"] == []
    context.close()


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_a_page_works_without_script(site: Site, browser: Browser, names: Mapping[str, str], page: Page) -> None:
    context = profile(site, browser, page.who, java_script_enabled=False)
    tab = context.new_page()
    answer = opened(tab, page, names)
    assert tab.locator("h1").count() == 1
    assert tab.locator("main").inner_text().strip() != ""
    # A button outside a form does nothing without script, so none may be seen.
    loose = [one.inner_text() for one in tab.locator("button").all() if one.is_visible() and not _posts(one)]
    assert loose == []
    assert tab.locator("[data-chart]:not(:has(svg))").count() == 0
    text = answer.text()
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=|[^>]*application/json)", text)
    context.close()


def _posts(button: Any) -> bool:
    sends: bool = button.evaluate("one => one.type === 'submit' && one.form !== null && one.form.method !== 'dialog'")
    return sends


HIDDEN = """() => {
  const at = document.activeElement;
  const docks = [...document.querySelectorAll("#dock, #decide")];
  const dock = docks.find(one => getComputedStyle(one).position === "sticky");
  if (at === document.body || at === document.documentElement) return null;
  const box = at.getBoundingClientRect();
  const top = dock && !dock.contains(at) ? dock.getBoundingClientRect().top : innerHeight;
  // Of a box that is higher than what is free, its beginning or its end must be seen.
  const seen = Math.min(box.bottom, top) - Math.max(box.top, 0);
  return seen >= Math.min(box.height, 20, top) - 1 ? "" : `${at.tagName} ${at.id} ${JSON.stringify(box)}`;
}"""


@pytest.mark.parametrize("page", [*LABELLING, *ADJUDICATION], ids=str)
@pytest.mark.parametrize("size", [NARROW, ZOOMED, WIDE], ids=["320", "200%", "1280"])
def test_the_dock_hides_no_focused_control(
    site: Site, browser: Browser, names: Mapping[str, str], page: Page, size: Any
) -> None:
    context = profile(site, browser, page.who, viewport=size)
    tab = context.new_page()
    opened(tab, page, names)
    tab.locator("html.keyed, .group.on").first.wait_for()
    hidden, stops = [], 0
    for key in ("Tab", "Shift+Tab"):
        for _ in range(150):
            tab.keyboard.press(key)
            found = tab.evaluate(HIDDEN)
            if found is None:
                break
            stops += 1
            hidden += [found] if found else []
    assert hidden == []
    assert stops > 10
    context.close()
