"""Pages of runs and judgments in a browser: they move by themselves, and are used by keyboard and without script."""

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from judge_service.domain.judge import Judge
from judge_service.domain.principal import Role
from judge_service.security.keys import issue
from tests.browser.desk import tab_to
from tests.browser.site import Site, awaited, running, violations, watched
from tests.judge_service.api.test_statistics import pair
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

    return awaited(made())


def slow(site: Site, n: int, of: str) -> str:
    """A run that is slow: one case at a time, half a second each. Cases of another `of` are other cases."""
    replies = [
        {"order": order, "value": {"rationale": "r", "verdict": "tie"}, "latency_ms": 250} for order in ("AB", "BA")
    ]
    judge = {
        "name": "slow",
        "backend": "scripted",
        "options": {"replies": replies, "enforcement": "grammar"},
        "limits": {"concurrency": 1},
    }
    if "slow" not in {one.name for one in site.service.roster.all()}:
        site.service.roster.add(Judge.model_validate(judge))
    key, plain = issue("runner", Role.ADMIN)
    site.service.store.keys.add(key)
    cases = [{"id": f"{of}{i}", **pair(i), "prompt": f"{of} {i}"} for i in range(n)]
    started = httpx.post(
        f"{site.address}/v1/runs",
        json={"rubric": "pairwise@1", "judge": "slow", "cases": cases},
        headers={"Authorization": f"Bearer {plain}"},
        timeout=60,
    )
    assert started.status_code == 202, started.text
    return str(started.json()["id"])


def done(page: Page) -> int:
    """How many cases the page says were judged."""
    found = re.search(r"([0-9,]+) of", page.inner_text("#state"))
    assert found is not None
    return int(found[1])


def test_a_run_moves_by_itself_and_is_cancelled_and_resumed_by_keyboard(site: Site, browser: Browser) -> None:
    made = slow(site, 5_000, "keys")
    context = site.signed_in(browser, site.person("Sco Example", Role.SCORE))
    page = context.new_page()
    said = watched(page)
    page.goto(f"/runs/{made}")
    expect(page.locator("#state strong")).to_have_text(re.compile("Queued|Running"))
    before = done(page)
    page.wait_for_function(
        "before => Number(/([0-9]+) of/.exec(document.querySelector('#state').textContent)[1]) > before",
        arg=before,
    )
    expect(page.locator("#state strong")).to_have_text("▶ Running")
    assert violations(page) == []
    expect(page.locator("[data-left]")).to_have_text(re.compile("about .* (s|min|h)"))
    tab_to(page, "#run-actions button")
    page.keyboard.press("Enter")
    expect(page.locator("#state strong")).to_have_text("■ Cancelled")
    resume = page.get_by_role("button", name="Resume the run")
    expect(resume).to_be_visible()
    assert "never" not in page.inner_text("#run-state")
    stopped = done(page)
    tab_to(page, "#run-actions button")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    page.wait_for_function(
        "before => Number(/([0-9]+) of/.exec(document.querySelector('#state').textContent)[1]) > before",
        arg=stopped,
    )
    tab_to(page, "#run-actions button")
    page.keyboard.press("Enter")
    expect(page.locator("#state strong")).to_have_text("■ Cancelled")
    assert said == []
    context.close()


def test_the_end_of_a_run_is_spoken_and_its_results_appear(site: Site, browser: Browser) -> None:
    made = slow(site, 8, "spoken")
    context = site.signed_in(browser, site.person("Sco Example", Role.SCORE))
    page = context.new_page()
    page.add_init_script(
        """document.addEventListener("DOMContentLoaded", () => {
          window.spoken = [];
          new MutationObserver(() => window.spoken.push(document.querySelector("#live").textContent))
            .observe(document.querySelector("#live"), { childList: true });
        });"""
    )
    page.goto(f"/runs/{made}")
    expect(page.locator("#state strong")).to_have_text("✓ Finished")
    expect(page.locator("#run-results tbody tr")).to_have_count(8)
    expect(page.locator("#live")).to_have_text("✓ Finished, 8 of 8 cases judged.")
    spoken = page.evaluate("window.spoken")
    quarters = [int(line.partition("%")[0]) for line in spoken if "% done." in line]
    assert quarters == sorted(set(quarters))
    assert set(quarters) <= {25, 50, 75, 100}
    context.close()


def test_without_script_a_run_is_cancelled_by_its_form(site: Site, browser: Browser) -> None:
    made = slow(site, 5_000, "plain")
    context = site.signed_in(browser, site.person("Sco Example", Role.SCORE), java_script_enabled=False)
    page = context.new_page()
    page.goto(f"/runs/{made}")
    expect(page.get_by_role("link", name="Look again")).to_be_visible()
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.locator("#state strong")).to_have_text(re.compile("Being cancelled|Cancelled"))
    while "Being cancelled" in page.inner_text("#state"):
        page.get_by_role("link", name="Look again").click()
    page.get_by_role("button", name="Resume the run").click()
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.locator("#state strong")).to_have_text(re.compile("Being cancelled|Cancelled"))
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
