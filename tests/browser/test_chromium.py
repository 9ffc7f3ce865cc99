import pytest
from playwright.sync_api import Browser

from tests.browser import chromium


def test_a_page_is_drawn(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content("<title>Drawn</title><p id='here'>text</p>")
    assert page.title() == "Drawn"
    assert page.inner_text("#here") == "text"
    page.close()


def test_a_named_browser_that_is_no_file_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_BROWSER", "/nowhere/chromium")
    with pytest.raises(FileNotFoundError, match="JUDGE_BROWSER names /nowhere/chromium"):
        chromium.executable(None)  # type: ignore[arg-type]
