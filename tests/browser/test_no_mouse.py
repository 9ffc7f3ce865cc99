"""Without a mouse: signing in and freezing; and a form that is sent twice saves once."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from judge_service.domain.annotation import Action
from judge_service.domain.principal import Role
from judge_service.domain.user import User
from judge_service.security.passwords import hash_password
from judge_service.security.sessions import new_id
from judge_service.store.store import utc_now
from tests.browser.desk import READY_MS, a_project, at_desk, close, pairs, tab_to
from tests.browser.site import Site, running, watched

PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running(tmp_path_factory.mktemp("mouse")) as found:
        yield found


def test_a_lead_signs_in_and_freezes_a_set_by_keyboard(site: Site, browser: Browser) -> None:
    store = site.service.store
    user = User(id=new_id(), name="Lea", role=Role.LEAD, password_hash=hash_password(PASSWORD), created_at=utc_now())
    store.users.add(user)
    project = a_project(site, "pairwise@1", pairs(2), ["Ann"])
    page = browser.new_context(base_url=site.address).new_page()
    said = watched(page)
    page.goto(f"/sets/{project.set_id}")
    page.wait_for_url("**/sign-in?next=*")
    tab_to(page, "#name")
    page.keyboard.type("Lea")
    page.keyboard.press("Tab")
    page.keyboard.type("not the password")
    page.keyboard.press("Enter")
    expect(page.locator("#problem")).to_be_visible()
    tab_to(page, "#password")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/sets/{project.set_id.replace('@', '*')}")
    tab_to(page, "#typed")
    page.keyboard.type(project.set_id)
    page.keyboard.press("Enter")
    expect(page.locator("h1 .tag")).to_have_text("Frozen")
    assert store.sets.get(project.set_id).status == "frozen"
    # The refused sign-in is the browser's own line.
    assert [line for line in said if "401" not in line] == []
    close(page)


def test_a_label_that_is_sent_twice_is_saved_once(site: Site, browser: Browser) -> None:
    project = a_project(site, "pairwise@1", pairs(3), ["Bob"])
    page = at_desk(site, browser, project, "Bob")
    statuses = page.evaluate(
        """async () => {
          document.querySelector("[name='q.label']").checked = true;
          const form = document.querySelector("#label-form");
          const data = new URLSearchParams(new FormData(form));
          data.set("do", "save");
          const send = () => fetch(form.action, { method: "POST", body: data, redirect: "manual",
            headers: { Accept: "application/json" } });
          const answers = await Promise.all([send(), send(), send()]);
          return answers.map(one => one.status).sort();
        }"""
    )
    # The same answer to the same version is the same save: each time it is said to be saved, once it is.
    assert statuses == [200, 200, 200]
    assert len(list(site.service.store.labels.of(project.set_id))) == 1
    case = page.get_attribute("#label-form", "data-case") or ""
    assert [one.action for one in site.service.store.assignments.history(case)] == [Action.SAVED]
    close(page)


def test_enter_and_undo_speak_in_the_one_live_region(site: Site, browser: Browser) -> None:
    project = a_project(site, "pairwise@1", pairs(3), ["Cy"])
    page = at_desk(site, browser, project, "Cy")
    live = page.locator("[aria-live]")
    assert live.count() == 1
    page.keyboard.press("Enter")
    expect(live).to_contain_text("Choose an answer.")
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(live).to_have_text("Saved. Case 2 of 3.")
    page.wait_for_timeout(READY_MS)
    page.keyboard.press("u")
    expect(live).to_have_text("Undone. Case 1.")
    close(page)
