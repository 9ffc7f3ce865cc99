"""One browser for each module of browser tests; without any, these tests say so and do not run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.browser.chromium import MISSING, available, launch

HERE = Path(__file__).parent
WIDE = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mine = [item for item in items if HERE in item.path.parents]
    if mine and not available():
        for item in mine:
            item.add_marker(pytest.mark.skip(reason=MISSING))


# Playwright's synchronous interface keeps an event loop running in its thread: it must end before another module's
# asynchronous tests run in the same process, so its scope is the module and no wider.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = launch(playwright)
        yield opened
        opened.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A fresh profile: no cookie, no storage."""
    opened = browser.new_context(viewport=WIDE)
    yield opened
    opened.close()
