"""Labelling by keyboard in a real browser: presses, drafts, undo, two tabs, no network, an ended sign-in."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from judge_service.domain.annotation import Action, State
from judge_service.security.sessions import PLAIN_COOKIE, new_session
from judge_service.store.store import utc_now
from tests.browser.desk import a_project, at_desk, claims, close, label, pairs, position, ready
from tests.browser.site import Site, running, watched

COUNT_KEYS = """() => {
  window.presses = 0;
  document.addEventListener("keydown", (event) => { if (!event.repeat) window.presses += 1; }, true);
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running(tmp_path_factory.mktemp("labelling")) as found:
        yield found


@pytest.fixture
def person(site: Site, request: pytest.FixtureRequest) -> str:
    return f"P {abs(hash(request.node.name)) % 10**8}"


def assignments(site: Site, project: Any, name: str) -> list[Any]:
    user = site.service.store.users.named(name)
    assert user is not None
    return site.service.store.assignments.of(project.id, f"user:{user.id}")


def saved(site: Site, project: Any, name: str) -> list[Any]:
    return [one for one in assignments(site, project, name) if one.state is State.SAVED]


def test_a_pair_takes_two_presses_and_the_sides_are_restored(site: Site, browser: Browser, person: str) -> None:
    project = a_project(site, "pairwise@1", pairs(3), [person])
    page = at_desk(site, browser, project, person)
    said = watched(page)
    page.evaluate(COUNT_KEYS)
    assert position(page) == "Case 1 of 3"
    first = page.inner_text("#text-first")
    label(page, "1", "Enter")
    assert page.evaluate("window.presses") == 2
    assert position(page) == "Case 2 of 3"
    assert page.evaluate("document.activeElement.tagName") == "H1"
    expect(page.locator("#live")).to_have_text("Saved. Case 2 of 3.")
    (done,) = saved(site, project, person)
    (kept,) = site.service.store.labels.of(project.set_id)
    case = site.service.store.sets.case(project.set_id, done.case_id)
    assert case is not None
    assert case.case.input[f"response_{kept.label.lower()}"] == first
    assert kept.order_shown == done.order
    assert kept.seconds is not None
    assert 0 < kept.seconds < 60
    label(page, "3", "Enter")
    for key in ("4", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("h1")).to_have_text("No cases left for you.")
    labels = [one.answer["answers"]["label"] for one in saved(site, project, person)]
    assert sorted(labels) == ["cannot_say", "first", "tie"]
    assert said == []
    close(page)


def test_save_as_i_choose_takes_one_press_and_is_remembered(site: Site, browser: Browser, person: str) -> None:
    project = a_project(site, "pairwise@1", pairs(4), [person])
    page = at_desk(site, browser, project, person)
    page.check("#as-i-choose")
    page.reload()
    ready(page)
    assert page.is_checked("#as-i-choose")
    page.evaluate(COUNT_KEYS)
    label(page, "2")
    label(page, "1")
    assert page.evaluate("window.presses") == 2
    assert len(saved(site, project, person)) == 2
    close(page)


def test_four_claims_take_five_presses_and_thirteen_with_evidence(site: Site, browser: Browser, person: str) -> None:
    project = a_project(site, "faithfulness@1", claims(3), [person])
    page = at_desk(site, browser, project, person)
    page.evaluate(COUNT_KEYS)
    assert page.locator(".item").count() == 4
    label(page, "1", "1", "1", "3", "Enter")
    assert page.evaluate("window.presses") == 5
    page.evaluate("window.presses = 0")
    label(page, *("e", "1", "1", "e", "1", "1", "e", "2", "1", "e", "2", "1"), "Enter")
    assert page.evaluate("window.presses") == 13
    answers = [one.answer for one in saved(site, project, person)]
    assert [item["answers"]["verdict"] for item in answers[0]["items"]] == ["supported"] * 3 + ["cannot_say"]
    quoted = [item["evidence"][0]["text"] for item in answers[1]["items"]]
    assert quoted == ["ctx1", "ctx1", "ctx2", "ctx2"]
    assert answers[1]["items"][0]["evidence"][0]["quote"] == claims(1)[0]["contexts"][0]
    close(page)


def test_enter_with_a_gap_goes_there_and_says_it(site: Site, browser: Browser, person: str) -> None:
    project = a_project(site, "faithfulness@1", claims(1), [person])
    page = at_desk(site, browser, project, person)
    for key in ("1", "1", "1", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("#message")).to_have_text("Claim 4 has no answer.")
    expect(page.locator("#live")).to_have_text("Claim 4 has no answer.")
    assert page.evaluate("document.activeElement.closest('fieldset').dataset.title") == "Claim 4"
    assert saved(site, project, person) == []
    page.keyboard.press("2")
    expect(page.locator(".group.on legend")).to_contain_text("What is mostly wrong")
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("No cases left for you.")
    (done,) = saved(site, project, person)
    assert done.answer["answers"] == {"failure_mode": "fabrication"}
    close(page)


def test_evidence_by_selection_and_by_click_counts_in_code_points(site: Site, browser: Browser, person: str) -> None:
    context = "\U0001f34e\U0001f34e apples\r\nare red. Pears \u202eare green. Plums are blue."
    case = {"question": "What?", "contexts": [context], "answer": "Apples are red."}
    project = a_project(site, "faithfulness@1", [case], [person])
    page = at_desk(site, browser, project, person)
    page.evaluate(
        """() => {
          const box = document.querySelector("#text-ctx1");
          const walk = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
          let node = walk.nextNode();
          const at = node.data.indexOf("are red");
          const range = document.createRange();
          range.setStart(node, at);
          range.setEnd(node, at + 7);
          getSelection().addRange(range);
        }"""
    )
    page.keyboard.press("e")
    page.keyboard.press("1")
    expect(page.locator(".quotes q")).to_have_text("are red")
    assert page.locator("#text-ctx1 mark.evidence").inner_text() == "are red"
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("No cases left for you.")
    (done,) = saved(site, project, person)
    for quote in done.answer["items"][0]["evidence"]:
        assert context[quote["start"] : quote["end"]] == quote["quote"]
    assert done.answer["items"][0]["evidence"][0]["quote"] == "are red"
    close(page)


def test_a_clicked_sentence_is_quoted_and_a_second_click_takes_it_back(
    site: Site, browser: Browser, person: str
) -> None:
    project = a_project(site, "faithfulness@1", claims(1), [person])
    page = at_desk(site, browser, project, person)
    page.click("#text-ctx2", position={"x": 40, "y": 22})
    expect(page.locator(".quotes q")).to_have_text("The shop shuts at noon.")
    expect(page.locator("#text-ctx2 mark")).to_have_text("The shop shuts at noon.")
    page.click("#text-ctx2 mark", position={"x": 20, "y": 8})
    expect(page.locator(".quotes q")).to_have_count(0)
    assert page.locator("#text-answer mark.source").inner_text().startswith("Shop 0 sells bread.")
    close(page)


def test_claims_are_added_edited_merged_and_removed(site: Site, browser: Browser, person: str) -> None:
    project = a_project(site, "faithfulness@1", claims(1), [person])
    page = at_desk(site, browser, project, person)
    page.click("#add summary")
    page.fill("#new", "Bread is sold.")
    page.get_by_role("button", name="Add it").click()
    expect(page.locator(".item")).to_have_count(5)
    page.locator(".item").nth(1).locator("summary").click()
    page.get_by_role("button", name="Merge with claim 1").click()
    expect(page.locator(".item")).to_have_count(4)
    page.locator(".item").nth(3).locator("summary").click()
    page.locator(".item").nth(3).locator("textarea").fill("Bread <b>is</b> sold here.")
    page.locator(".item").nth(2).locator("summary").click()
    page.locator(".item").nth(2).get_by_role("button", name="Remove").click()
    expect(page.locator(".item")).to_have_count(3)
    ready(page)
    page.evaluate("document.activeElement.blur()")
    for key in ("1", "1", "1", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("h1")).to_have_text("No cases left for you.")
    (done,) = saved(site, project, person)
    items = [(one["id"], one["origin"], one["text"], tuple(one["from_ids"])) for one in done.answer["items"]]
    assert items == [
        ("c1", "merged", "Shop 0 sells bread. It sells milk every day.", ("c1", "c2")),
        ("c3", "proposed", "The shop shuts at noon.", ()),
        ("n1", "added", "Bread <b>is</b> sold here.", ()),
    ]
    close(page)


def test_held_enter_saves_once_and_early_presses_do_nothing(site: Site, browser: Browser, person: str) -> None:
    project = a_project(site, "pairwise@1", pairs(5), [person])
    page = at_desk(site, browser, project, person)
    page.check("#as-i-choose")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("1")
    # A digit and Enter in the same breath as the next case: meant for the one before it.
    expect(page.locator("#position")).to_have_text("Case 2 of 5")
    page.evaluate(
        """() => { for (const key of ["2", "Enter"]) {
          document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })); } }"""
    )
    page.uncheck("#as-i-choose")
    page.evaluate("document.activeElement.blur()")
    ready(page)
    page.keyboard.press("1")
    for _ in range(6):
        page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    expect(page.locator("#position")).to_have_text("Case 3 of 5")
    ready(page)
    assert len(saved(site, project, person)) == 2
    close(page)


def test_letters_in_fields_do_nothing_and_single_keys_switch_off(site: Site, browser: Browser, person: str) -> None:
    project = a_project(site, "pairwise@1", pairs(2), [person])
    page = at_desk(site, browser, project, person)
    page.keyboard.press("n")
    page.keyboard.type("sug?123 eE")
    page.keyboard.press("Enter")
    page.keyboard.type("second line")
    assert page.input_value("#note") == "sug?123 eE\nsecond line"
    assert position(page) == "Case 1 of 2"
    assert page.locator("input[type=radio]:checked").count() == 0
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.uncheck("#single-keys")
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    page.keyboard.press("s")
    assert page.locator("input[type=radio]:checked").count() == 0
    assert not page.locator("#skip").evaluate("one => one.open")
    page.reload()
    ready(page)
    page.keyboard.press("1")
    assert page.locator("input[type=radio]:checked").count() == 0
    page.keyboard.press("?")
    assert not page.locator("#help").evaluate("one => one.open")
    page.click("[data-do=keys]")
    page.check("#single-keys")
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    label(page, "1", "Enter")
    (kept,) = site.service.store.labels.of(project.set_id)
    assert kept.note == "sug?123 eE\nsecond line"
    close(page)


def test_keys_are_read_by_position_and_without_modifiers(site: Site, browser: Browser, person: str) -> None:
    project = a_project(site, "pairwise@1", pairs(1), [person])
    page = at_desk(site, browser, project, person)
    press = "fields => document.dispatchEvent(new KeyboardEvent('keydown', { bubbles: true, ...fields }))"
    for more in ({"ctrlKey": True}, {"altKey": True}, {"metaKey": True}, {"repeat": True}):
        page.evaluate(press, {"key": "1", "code": "Digit1", **more})
    assert page.locator("input[type=radio]:checked").count() == 0
    page.evaluate(press, {"key": "é", "code": "Digit2"})
    assert page.input_value("input[type=radio]:checked") == "second"
    page.evaluate(press, {"key": "ы", "code": "KeyS"})
    assert page.evaluate("document.activeElement.id") == "reason"
    close(page)


def test_the_key_table_is_one(site: Site, browser: Browser, person: str) -> None:
    project = a_project(site, "pairwise@1", pairs(1), [person])
    page = at_desk(site, browser, project, person)
    help_keys = page.eval_on_selector_all("#help tr[data-action] kbd", "all => all.map(one => one.textContent)")
    badges = page.eval_on_selector_all(".label-top kbd, .dock kbd", "all => all.map(one => one.textContent)")
    assert {one for one in badges if not one.isdigit()} <= set(help_keys)
    assert page.locator(".dock kbd:not([aria-hidden])").count() == 0
    close(page)


def test_undo_is_one_press_and_history_is_kept(site: Site, browser: Browser, person: str) -> None:
    project = a_project(site, "pairwise@1", pairs(3), [person])
    page = at_desk(site, browser, project, person)
    first = page.get_attribute("#label-form", "data-case")
    label(page, "1", "Enter")
    page.keyboard.press("2")
    label(page, "u")
    expect(page.locator("#live")).to_have_text("Undone. Case 1.")
    assert page.get_attribute("#label-form", "data-case") == first
    assert page.input_value("input[type=radio]:checked") == "first"
    assert list(site.service.store.labels.of(project.set_id)) == []
    label(page, "2", "Enter")
    # What was chosen on the case that the undo left is its draft.
    assert page.input_value("input[type=radio]:checked") == "second"
    events = [one.action for one in site.service.store.assignments.history(first or "")]
    assert events == [Action.SAVED, Action.UNDONE, Action.SAVED]
    close(page)


def test_skip_needs_a_reason_is_no_label_and_can_be_undone(site: Site, browser: Browser, person: str) -> None:
    project = a_project(site, "pairwise@1", pairs(2), [person])
    page = at_desk(site, browser, project, person)
    first = page.get_attribute("#label-form", "data-case")
    page.keyboard.press("s")
    page.keyboard.press("Enter")
    expect(page.locator("#summary")).to_contain_text("Say why you skip it.")
    assert page.title().startswith("Error: ")
    assert page.evaluate("document.activeElement.id") == "summary"
    ready(page)
    page.keyboard.press("s")
    page.keyboard.type("I cannot read it")
    page.keyboard.press("Enter")
    page.wait_for_function("before => document.querySelector('#label-form').dataset.case !== before", arg=first)
    assert list(site.service.store.labels.of(project.set_id)) == []
    ready(page)
    label(page, "u")
    assert page.get_attribute("#label-form", "data-case") == first
    close(page)


def test_a_flag_keeps_what_is_chosen(site: Site, browser: Browser, person: str) -> None:
    project = a_project(site, "pairwise@1", pairs(1), [person])
    page = at_desk(site, browser, project, person)
    page.keyboard.press("2")
    page.keyboard.press("f")
    page.keyboard.type("cut off")
    page.keyboard.press("Enter")
    expect(page.locator("#flag-panel summary")).to_contain_text("Flagged")
    assert page.input_value("input[type=radio]:checked") == "second"
    assert [one.flag for one in assignments(site, project, person)] == ["cut off"]
    close(page)


def test_a_draft_survives_a_reload_and_another_device(site: Site, browser: Browser, person: str) -> None:
    project = a_project(site, "faithfulness@1", claims(1), [person])
    page = at_desk(site, browser, project, person)
    with page.expect_response(lambda one: one.request.method == "POST"):
        page.keyboard.press("2")
        page.keyboard.press("n")
        page.keyboard.type("half way")
    page.wait_for_function("() => Object.keys(localStorage).every(one => !one.includes(':draft:'))")
    page.reload()
    ready(page)
    assert page.locator("input[type=radio]:checked").count() == 1
    assert page.input_value("#note") == "half way"
    other = at_desk(site, browser, project, person)
    assert other.input_value("#note") == "half way"
    expect(other.locator("#items-count")).to_have_text("1 of 4 answered")
    close(other)
    close(page)


def test_two_tabs_see_both_answers_and_one_is_kept(site: Site, browser: Browser, person: str) -> None:
    project = a_project(site, "pairwise@1", pairs(2), [person])
    page = at_desk(site, browser, project, person)
    other = page.context.new_page()
    other.goto(f"/label/{project.id}")
    ready(other)
    label(page, "2", "Enter")
    other.bring_to_front()
    other.keyboard.press("1")
    other.keyboard.press("Enter")
    both = other.locator("#both")
    expect(both).to_contain_text("You saved this case in another tab.")
    expect(both).to_contain_text("Yours: Answer 1. Saved: Answer 2. Keep which?")
    assert other.evaluate("document.activeElement.id") == "both"
    assert other.title().startswith("Error: ")
    (before,) = saved(site, project, person)
    assert before.answer["answers"] == {"label": "second"}
    other.get_by_role("button", name="Keep mine").click()
    expect(other.locator("#position")).to_have_text("Case 2 of 2")
    (after,) = saved(site, project, person)
    assert after.answer["answers"] == {"label": "first"}
    close(page)


def test_a_case_with_enough_labels_keeps_the_draft(site: Site, browser: Browser, person: str) -> None:
    project = a_project(site, "pairwise@1", pairs(2), [person, f"{person} b"], labels_wanted=1)
    page = at_desk(site, browser, project, person)
    held = assignments(site, project, person)[0]
    site.service.store.assignments.skip(held.id, held.person, held.version, "gives the place back")
    other = at_desk(site, browser, project, f"{person} b")
    label(other, "1", "Enter")
    other.keyboard.press("1")
    other.keyboard.press("Enter")
    expect(other.locator("h1")).to_have_text("No cases left for you.")
    page.keyboard.press("2")
    page.keyboard.press("Enter")
    expect(page.locator("[data-told]")).to_contain_text(re.compile("enough labels|skipped this case"))
    close(other)
    close(page)


def test_without_a_connection_the_label_waits_and_is_sent(site: Site, browser: Browser, person: str) -> None:
    project = a_project(site, "pairwise@1", pairs(2), [person])
    page = at_desk(site, browser, project, person)
    page.context.set_offline(True)
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(page.locator("#message")).to_have_text("No connection. 1 label waits on this device.")
    assert saved(site, project, person) == []
    page.context.set_offline(False)
    expect(page.locator("#position")).to_have_text("Case 2 of 2")
    assert len(saved(site, project, person)) == 1
    assert page.evaluate("Object.keys(localStorage).filter(one => one.startsWith('judge-label'))") == []
    close(page)


def test_a_label_that_waits_is_sent_after_a_reload(site: Site, browser: Browser, person: str) -> None:
    project = a_project(site, "pairwise@1", pairs(2), [person])
    page = at_desk(site, browser, project, person)
    page.route("**/label/*", lambda route: route.abort() if route.request.method == "POST" else route.continue_())
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(page.locator("#message")).to_contain_text("1 label waits on this device.")
    page.unroute("**/label/*")
    page.reload()
    expect(page.locator("#position")).to_have_text("Case 2 of 2")
    assert [one.answer["answers"]["label"] for one in saved(site, project, person)] == ["first"]
    close(page)


def test_an_ended_sign_in_keeps_the_draft_and_comes_back_to_it(site: Site, browser: Browser, person: str) -> None:
    project = a_project(site, "pairwise@1", pairs(2), [person])
    page = at_desk(site, browser, project, person)
    case = page.get_attribute("#label-form", "data-case")
    page.context.clear_cookies()
    page.keyboard.press("2")
    page.keyboard.press("Enter")
    expect(page.locator("#message")).to_contain_text("Your sign-in has ended. Your draft is kept on this device.")
    assert saved(site, project, person) == []
    link = page.get_by_role("link", name="Sign in again")
    assert link.get_attribute("href") == f"/sign-in?next=%2Flabel%2F{project.id}"
    sign_in_again(site, page, person)
    link.click()
    page.wait_for_url(f"**/label/{project.id}")
    page.locator("input[type=radio]:checked").wait_for()
    assert page.get_attribute("#label-form", "data-case") == case
    assert page.input_value("input[type=radio]:checked") == "second"
    expect(page.locator("#message")).to_have_text("Your draft is back.")
    close(page)


def sign_in_again(site: Site, page: Page, person: str) -> None:
    """A new session for the profile of a page."""
    user = site.person(person)
    session, token = new_session(user_id=user.id, key_id=None, now=utc_now(), absolute=timedelta(hours=1))
    site.service.store.users.begin(session)
    page.context.add_cookies([{"name": PLAIN_COOKIE, "value": token, "url": site.address}])


def test_differences_are_marked_and_text_stays_the_same(site: Site, browser: Browser, person: str) -> None:
    case = {"prompt": "Say it.", "response_a": "The cat sat on the mat today.", "response_b": "The dog sat on a mat."}
    project = a_project(site, "pairwise@1", [case], [person])
    page = at_desk(site, browser, project, person)
    page.check("#differences")
    marked = {
        page.inner_text(f"#text-{side}"): page.eval_on_selector_all(
            f"#text-{side} mark", "all => all.map(one => one.textContent.trim())"
        )
        for side in ("first", "second")
    }
    assert marked[case["response_a"]] == ["cat", "the", "today"]
    assert marked[case["response_b"]] == ["dog", "a"]
    page.uncheck("#differences")
    assert page.locator("mark").count() == 0
    close(page)


def test_time_stops_while_nobody_works(site: Site, browser: Browser, person: str) -> None:
    project = a_project(site, "pairwise@1", pairs(1), [person])
    context = site.signed_in(browser, site.person(person))
    page = context.new_page()
    page.clock.install()
    page.goto(f"/label/{project.id}")
    page.locator(".group.on").wait_for()
    page.clock.fast_forward(10_000)
    page.keyboard.press("1")
    page.clock.fast_forward(30 * 60_000)
    seconds = page.evaluate(
        """async () => {
          const form = document.querySelector("#label-form");
          const sent = new Promise((done) => {
            const real = window.fetch;
            window.fetch = (address, options) => { done(options.body.get("seconds")); return real(address, options); };
          });
          document.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
          return Number(await sent);
        }"""
    )
    assert 69 <= seconds <= 75
    context.close()


def test_guidelines_open_by_key_and_by_link(site: Site, browser: Browser, person: str) -> None:
    project = a_project(site, "pairwise@1", pairs(1), [person], guidelines="# Rule\n\nJudge *help*. <script>x</script>")
    page = at_desk(site, browser, project, person)
    said = watched(page)
    page.keyboard.press("g")
    expect(page.locator("#guidelines-body em")).to_have_text("help")
    expect(page.locator("#guidelines-body")).to_contain_text("<script>x</script>")
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    assert page.input_value("input[type=radio]:checked") in ("first", "second")
    assert said == []
    close(page)
