"""From Enter to the next case on the screen: the labelling page in a real browser over loopback.

Prints median, 95th percentile and largest time in milliseconds from the key press until the next case was drawn, for
short pairs and for answers with four claims, one person after the other. The target is 150 ms at the 95th percentile.

    python -m benchmarks.labelling                # 100 cases of each
    python -m benchmarks.labelling --cases 20
"""

import argparse
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.browser.chromium import launch
from tests.browser.desk import a_project, at_desk, claims, close, pairs
from tests.browser.site import Site, running

# Counted in the page: from the event of the key to the drawing after the case has changed.
TIME = """() => {
  window.times = [];
  const place = document.querySelector("#case-part");
  let pressed = 0;
  document.addEventListener("keydown", (event) => { if (event.key === "Enter") pressed = performance.now(); }, true);
  new MutationObserver(() => {
    const from = pressed;
    pressed = 0;
    if (from) requestAnimationFrame(() => setTimeout(() => window.times.push(performance.now() - from)));
  }).observe(place, { childList: true });
}"""


def measure(site: Site, browser: Browser, rubric: str, cases: int) -> list[float]:
    """Milliseconds of each save."""
    inputs = pairs(cases + 1) if rubric == "pairwise@1" else claims(cases + 1)
    name = f"person {rubric}"
    page = at_desk(site, browser, a_project(site, rubric, inputs, [name]), name)
    page.evaluate(TIME)
    for number in range(1, cases + 1):
        for key in "1" if rubric == "pairwise@1" else "1111":
            page.keyboard.press(key)
        page.keyboard.press("Enter")
        page.wait_for_function("n => window.times.length === n", arg=number)
        page.wait_for_timeout(300)
    times: list[float] = page.evaluate("window.times")
    close(page)
    return times


def main() -> None:
    """Measure both kinds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100)
    cases = parser.parse_args().cases
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as site, sync_playwright() as playwright:
        browser = launch(playwright)
        for rubric in ("pairwise@1", "faithfulness@1"):
            times = sorted(measure(site, browser, rubric, cases))
            at = [times[len(times) // 2], times[min(len(times) - 1, int(0.95 * len(times)))], times[-1]]
            print(f"{rubric}: n = {len(times)}, median {at[0]:.0f} ms, p95 {at[1]:.0f} ms, largest {at[2]:.0f} ms")
        browser.close()


if __name__ == "__main__":
    main()
