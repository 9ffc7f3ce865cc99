"""The browser of the browser tests: the one that is installed, started without any traffic of its own.

JUDGE_BROWSER names an executable; otherwise the usual names are looked for, then the one Playwright brought.
"""

import os
import shutil
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Playwright, expect, sync_playwright

from tests.support.waiting import LONG_ENOUGH_S

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NAMES = ("chromium", "chromium-browser", "google-chrome")
expect.set_options(timeout=LONG_ENOUGH_S * 1000 / 4)
MISSING = "No Chromium was found: install chromium or set JUDGE_BROWSER to its executable."


def executable(playwright: Playwright) -> str | None:
    """Path of the browser, None where there is none. Raises FileNotFoundError when JUDGE_BROWSER names no file."""
    named = os.environ.get("JUDGE_BROWSER")
    if named:
        if not Path(named).is_file():
            raise FileNotFoundError(f"JUDGE_BROWSER names {named}, which is no file")
        return named
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    if found is None and Path(playwright.chromium.executable_path).is_file():
        found = playwright.chromium.executable_path
    return found


def available() -> bool:
    """True where a browser can be started."""
    with sync_playwright() as playwright:
        return executable(playwright) is not None


def launch(playwright: Playwright) -> Browser:
    """A new browser with a profile of its own, whose pages are waited for as long as a busy machine may need.

    Raises RuntimeError that says what to install.
    """
    path = executable(playwright)
    if path is None:
        raise RuntimeError(MISSING)
    opened = playwright.chromium.launch(executable_path=path, headless=True, args=list(ARGUMENTS))
    plain = opened.new_context

    def patient(**options: Any) -> BrowserContext:
        context = plain(**options)
        context.set_default_timeout(LONG_ENOUGH_S * 1000)
        return context

    opened.new_context = patient
    return opened
