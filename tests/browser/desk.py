"""Labelling in a browser: a project with its cases, people who are signed in, and what a page says."""

from collections.abc import Sequence
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Locator, Page

from judge_service.annotation.projects import ProjectRequest, open_project
from judge_service.domain.annotation import Project
from judge_service.domain.calibration_set import SetCase
from judge_service.domain.case import Case
from judge_service.domain.principal import Principal, Role
from judge_service.security.sessions import new_id
from tests.browser.site import Site

LEAD = Principal(user_id="l" * 12, name="Lea", role=Role.LEAD)
SYSTEM = "system-zebra"
"""The name of a system, planted wherever a case may carry one. No page may show it."""
READY_MS = 300
"""Presses in the first 250 ms of a case do nothing."""


def a_project(
    site: Site, rubric: str, inputs: Sequence[dict[str, Any]], people: Sequence[str] = ("Ann",), **more: Any
) -> Project:
    """A new set of these cases, opened for these people."""
    store = site.service.store
    for name in people:
        site.person(name)
    version = store.sets.create(f"set-{new_id()}", rubric)
    cases = [
        SetCase(case=Case(id=f"{SYSTEM}/{number}", input=fields, metadata={"system": SYSTEM}))
        for number, fields in enumerate(inputs)
    ]
    store.sets.add_cases(version.id, cases)
    fields = {"name": "Helpdesk", "set": version.id, "annotators": tuple(people), "labels_wanted": 2} | more
    return open_project(store, ProjectRequest.model_validate(fields), LEAD, seed=7)


def pairs(n: int) -> list[dict[str, Any]]:
    """Short pairs that can be told apart."""
    return [
        {"prompt": f"Prompt {i}: name a colour.", "response_a": f"Teal {i}.", "response_b": f"Ochre {i}."}
        for i in range(n)
    ]


def claims(n: int) -> list[dict[str, Any]]:
    """Answers of four sentences over two contexts."""
    return [
        {
            "question": f"What is sold in shop {i}?",
            "contexts": ["Bread is sold here. Milk is sold on Mondays.", "The shop shuts at noon. Eggs are brown."],
            "answer": f"Shop {i} sells bread. It sells milk every day. The shop shuts at noon. The eggs are brown.",
        }
        for i in range(n)
    ]


def at_desk(site: Site, browser: Browser, project: Project, name: str = "Ann", **options: Any) -> Page:
    """The labelling page of a project for a person who is signed in, ready for keys."""
    options = {"viewport": {"width": 1280, "height": 900}} | options
    page = site.signed_in(browser, site.person(name), **options).new_page()
    page.goto(f"/label/{project.id}")
    ready(page)
    return page


def ready(page: Page) -> None:
    """Wait until the case takes keys."""
    page.locator(".group.on").first.wait_for()
    page.wait_for_timeout(READY_MS)


def position(page: Page) -> str:
    """Such as "Case 1 of 3"."""
    return page.inner_text("#position")


def label(page: Page, *keys: str) -> None:
    """Press keys; the last one saves. Waits for the next case."""
    before = page.get_attribute("#label-form", "data-case")
    for key in keys:
        page.keyboard.press(key)
    page.wait_for_function("before => document.querySelector('#label-form')?.dataset.case !== before", arg=before)
    page.wait_for_timeout(READY_MS)


def follow(link: Locator) -> None:
    """Click what leads to another page, and wait until all of that page is there: without script nothing else tells."""
    with link.page.expect_navigation():
        link.click()


def tab_to(page: Page, selector: str) -> None:
    """Press Tab until the focus is there."""
    for _ in range(120):
        if page.evaluate("one => document.activeElement.matches(one)", selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not lead to {selector}")


def close(page: Page) -> None:
    """Close the page with its profile."""
    context: BrowserContext = page.context
    context.close()
