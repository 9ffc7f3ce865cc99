"""Pages of leads and admins in a browser: errors, forms without script, keys."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from judge_service.annotation.labelling import Labelling
from judge_service.domain.annotation import Project
from judge_service.domain.principal import Role
from tests.browser.desk import READY_MS, claims, follow
from tests.browser.desk import a_project as opened
from tests.browser.site import THEMES, WIDTHS, Site, running, sideways, violations, watched
from tests.judge_service.annotation.projects import a_project, a_set, say

PEOPLE = ("Ann Example", "Bob Example")
HOSTILE = '<script>alert(1)</script>\u202e{{ 7 }}"' + "x" * 1500


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running(tmp_path_factory.mktemp("lead")) as found:
        for name in PEOPLE:
            found.person(name)
        yield found


@pytest.fixture(scope="module")
def project(site: Site) -> Project:
    """Forty pairs on which two people differ now and then."""
    store, labelling = site.service.store, Labelling(site.service.store)
    a_set(store, 40)
    made = a_project(store, "pairs@1", PEOPLE, guidelines="# Rule\n\n| a | b |\n| --- | --- |\n| c | d |")
    store.projects.add_guidelines(made.id, "Changed.", HOSTILE, "Lea Example")
    for name in PEOPLE:
        person = f"user:{site.person(name).id}"
        while (shown := labelling.next(made.id, person)) is not None:
            differs = name == PEOPLE[1] and "Prompt 7" in shown.form.texts[0].text
            say(
                labelling,
                shown,
                person,
                name,
                "cannot_say" if shown.number == 40 else "first" if differs else "tie",
                note=HOSTILE if differs else None,
            )
    return made


def root(site: Site, browser: Browser, **options: Any) -> BrowserContext:
    return site.signed_in(browser, site.person("Root Example", Role.ADMIN), **options)


ERRORS = (
    ("/projects/new", "button[value=open]"),
    ("/projects/{id}", "form[action$='/annotators'] button"),
    ("/projects/{id}/disagreements/next", "#decide .primary"),
    ("/sets", "section form .primary"),
    ("/sets/pairs@1", "form[action$='/freeze'] .primary"),
    ("/sets/pairs@1/import", "form .primary"),
    ("/keys", "section form .primary"),
)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_an_error_takes_the_focus_and_axe_finds_nothing(
    site: Site, browser: Browser, project: Project, width: int, theme: Any
) -> None:
    context = root(site, browser, viewport={"width": width, "height": 844}, color_scheme=theme)
    site.person("Cy Example")
    page = context.new_page()
    for address, button in ERRORS:
        page.goto(address.format(id=project.id))
        # What the browser would refuse itself is sent too.
        page.eval_on_selector_all("form", "all => all.forEach(one => one.noValidate = true)")
        page.locator(button).last.click()
        page.locator("#problems").wait_for()
        assert page.title().startswith("Error: "), address
        assert page.evaluate("document.activeElement.id") == "problems", address
        assert violations(page) == [], address
        assert sideways(page) == 0, address
        first = page.locator("#problems a").first
        first.press("Enter")
        assert page.evaluate("document.querySelector(':target') !== null"), address
    context.close()


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing_on_a_sign_in_that_is_refused(site: Site, browser: Browser, width: int, theme: Any) -> None:
    context = browser.new_context(base_url=site.address, viewport={"width": width, "height": 844}, color_scheme=theme)
    page = context.new_page()
    page.goto("/sign-in")
    page.eval_on_selector_all("form", "all => all.forEach(one => one.noValidate = true)")
    follow(page.locator("form button").first)
    assert page.title().startswith("Error: ")
    assert violations(page) == []
    assert sideways(page) == 0
    context.close()


def test_without_script_a_lead_does_everything(site: Site, browser: Browser) -> None:
    store = site.service.store
    context = root(site, browser, java_script_enabled=False)
    page = context.new_page()
    page.goto("/sets")
    page.fill("#name", "plain")
    page.select_option("#rubric", "pairwise@1")
    page.click("text=Make the set")
    expect(page.locator("h1")).to_contain_text("plain@1")
    page.click("text=Import a file")
    line = '{"id": "1", "prompt": "P", "response_a": "one", "response_b": "two"}\n'
    page.set_input_files("#file", {"name": "rows.jsonl", "mimeType": "text/plain", "buffer": line.encode()})
    page.click("button:has-text('Import')")
    expect(page.locator(".note.is-good")).to_contain_text("1 added")
    page.click("text=To the set")
    page.click("text=Label it")
    page.fill("#name", "Plain project")
    for name in PEOPLE:
        page.check(f"input[value='{name}']")
    page.fill("#guidelines", "Judge *help*.")
    page.click("text=Preview the guidelines")
    expect(page.locator(".markdown em")).to_have_text("help")
    page.click("button[value=open]")
    expect(page.locator("h1")).to_have_text("Plain project")
    made = page.url.rpartition("/")[2]
    labelling = Labelling(store)
    for name, value in zip(PEOPLE, ("first", "tie"), strict=True):
        person = f"user:{site.person(name).id}"
        shown = labelling.next(made, person)
        assert shown is not None
        say(labelling, shown, person, name, value)
    page.reload()
    page.click("text=Adjudicate 1 disagreement")
    follow(page.locator("text=Begin with the oldest"))
    assert not page.locator("kbd").first.is_visible()
    page.check("input[name='q.label'][value=tie]")
    page.fill("#reason", "Both say the same.")
    page.click("text=Save and next")
    expect(page.locator("h1")).to_have_text("0 disagreements wait for a final word")
    page.goto("/sets/plain@1")
    page.fill("#typed", "plain@1")
    page.click("text=Freeze the set")
    expect(page.locator("h1")).to_contain_text("Frozen")
    page.goto("/keys")
    page.fill("#name", "nightly")
    page.click("button:has-text('Create key')")
    expect(page.locator(".copy")).to_contain_text("jk_")
    context.close()


def word_page(site: Site, browser: Browser) -> Page:
    """A case of claims that waits for its final word."""
    made = opened(site, "faithfulness@1", claims(1), PEOPLE)
    labelling = Labelling(site.service.store)
    for name, verdict in zip(PEOPLE, ("supported", "unsupported"), strict=True):
        person = f"user:{site.person(name).id}"
        shown = labelling.next(made.id, person)
        assert shown is not None
        items = [{"id": one.id, "text": one.text, "answers": {"verdict": verdict}} for one in shown.form.items]
        labelling.save(shown.case, person, name, {"answers": {}, "items": items}, shown.version)
    page = root(site, browser, viewport={"width": 1280, "height": 900}).new_page()
    page.goto(f"/projects/{made.id}/disagreements/next")
    page.locator("html.keyed").wait_for()
    page.wait_for_timeout(READY_MS)
    return page


def checked(page: Page) -> list[str]:
    found: list[str] = page.eval_on_selector_all("input:checked", "all => all.map(one => one.value)")
    return [value for value in found if value != "on"]


def test_keys_decide_and_letters_in_the_reason_do_nothing(site: Site, browser: Browser) -> None:
    page = word_page(site, browser)
    said = watched(page)
    page.keyboard.press("1")
    page.keyboard.press("2")
    assert checked(page) == ["supported", "unsupported"]
    page.keyboard.press("n")
    page.keyboard.type("1n?s2")
    assert page.input_value("#reason") == "1n?s2"
    assert checked(page) == ["supported", "unsupported"]
    page.keyboard.press("Escape")
    page.keyboard.press("3")
    assert checked(page) == ["supported", "unsupported", "cannot_say"]
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    page.locator("#problems").wait_for()
    expect(page.locator("#problems a")).to_have_text("Claim 4 has no answer.")
    assert page.input_value("#reason") == "1n?s2"
    assert [line for line in said if "422" not in line] == []
    page.context.close()


def test_what_was_chosen_outlives_a_reload(site: Site, browser: Browser) -> None:
    page = word_page(site, browser)
    page.keyboard.press("2")
    page.keyboard.press("n")
    page.keyboard.type("Half a reason")
    page.reload()
    page.locator("html.keyed").wait_for()
    assert checked(page) == ["unsupported"]
    assert page.input_value("#reason") == "Half a reason"
    page.context.close()


def test_keys_can_be_switched_off(site: Site, browser: Browser) -> None:
    page = word_page(site, browser)
    page.keyboard.press("?")
    page.locator("#single-keys").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    assert checked(page) == []
    page.context.close()
