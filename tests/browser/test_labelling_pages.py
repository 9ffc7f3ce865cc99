"""Labelling pages of every rubric: axe in both themes, on a phone, without script, with hostile text."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from judge_service.domain.annotation import Project, State
from tests.browser.desk import a_project, at_desk, claims, close, follow, label, pairs, position, ready
from tests.browser.rubric_cases import CASES, declare
from tests.browser.site import THEMES, WIDTHS, Site, running, sideways, violations, watched


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running(tmp_path_factory.mktemp("pages")) as found:
        declare(found)
        yield found


def opened(site: Site, rubric: str, name: str) -> Project:
    return a_project(site, rubric, CASES[rubric], [name])


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("rubric", CASES)
def test_axe_finds_nothing_and_the_dock_is_low(
    site: Site, browser: Browser, rubric: str, width: int, theme: Any
) -> None:
    name = f"{rubric} {width} {theme}"
    project = opened(site, rubric, name)
    size = {"width": width, "height": 844}
    page = at_desk(site, browser, project, name, viewport=size, color_scheme=theme)
    said = watched(page)
    assert violations(page) == []
    assert sideways(page) == 0
    height = page.evaluate("document.querySelector('#dock').getBoundingClientRect().height")
    assert height < 844 * 0.3
    targets = page.eval_on_selector_all(
        ".dock .group.on .opt, .dock .save", "all => all.map(one => one.getBoundingClientRect().height)"
    )
    assert min(targets) >= 44
    page.keyboard.press("s")
    page.keyboard.press("Enter")
    page.locator("#summary").wait_for()
    assert violations(page) == []
    assert sideways(page) == 0
    # A refused request is the browser's own line.
    assert [line for line in said if "422" not in line] == []
    close(page)


@pytest.mark.parametrize("theme", THEMES)
def test_axe_finds_nothing_around_the_cases(site: Site, browser: Browser, theme: Any) -> None:
    name = f"around {theme}"
    project = a_project(site, "pairwise@1", pairs(1), [name], guidelines="# Rule\n\nHelp.")
    page = at_desk(site, browser, project, name, color_scheme=theme)
    page.keyboard.press("?")
    assert violations(page) == []
    page.keyboard.press("Escape")
    for address in ("/label", f"/label/{project.id}/guidelines"):
        page.goto(address)
        assert violations(page) == []
    page.goto(f"/label/{project.id}")
    ready(page)
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("No cases left for you.")
    assert violations(page) == []
    close(page)


@pytest.mark.parametrize("rubric", CASES)
def test_every_rubric_is_labelled_by_keyboard(site: Site, browser: Browser, rubric: str) -> None:
    name = f"keys {rubric}"
    project = opened(site, rubric, name)
    page = at_desk(site, browser, project, name)
    for _ in CASES[rubric]:
        for _ in range(20):
            if page.locator(".group.on input:checked").count():
                break
            page.keyboard.press("1")
        before = page.get_attribute("#label-form", "data-case")
        page.keyboard.press("Enter")
        page.wait_for_function("was => document.querySelector('#label-form')?.dataset.case !== was", arg=before)
        page.wait_for_timeout(300)
    expect(page.locator("h1")).to_have_text("No cases left for you.")
    labels = list(site.service.store.labels.of(project.set_id))
    assert len(labels) == len(CASES[rubric])
    assert all(one.label is not None and one.condition == "blind" for one in labels)
    close(page)


@pytest.mark.parametrize("rubric", CASES)
def test_every_rubric_is_labelled_without_script(site: Site, browser: Browser, rubric: str) -> None:
    name = f"plain {rubric}"
    project = opened(site, rubric, name)
    page = site.signed_in(browser, site.person(name), java_script_enabled=False).new_page()
    page.goto("/label")
    follow(page.get_by_role("link", name="Start with Helpdesk"))
    for number, _ in enumerate(CASES[rubric], start=1):
        assert position(page) == f"Case {number} of {len(CASES[rubric])}"
        follow(page.locator("button.save"))
        assert page.title().startswith("Error: ")
        links = page.locator("#summary a")
        assert links.count() >= 1
        for place in range(links.count()):
            assert page.locator(str(links.nth(place).get_attribute("href"))).count() == 1
        page.click("#note-panel summary")
        page.fill("#note", "kept over an error")
        for group in page.locator("fieldset[data-required]").all():
            group.locator("input").first.check()
        follow(page.locator("button.save"))
    expect(page.locator("h1")).to_have_text("No cases left for you.")
    labels = list(site.service.store.labels.of(project.set_id))
    assert [one.note for one in labels] == ["kept over an error"] * len(CASES[rubric])
    follow(page.get_by_role("button", name="Undo the last one"))
    assert page.locator("input[type=radio]:checked").count() >= 1
    assert page.input_value("#note") == "kept over an error"
    close(page)


def test_without_script_entries_stay_beside_an_error(site: Site, browser: Browser) -> None:
    project = a_project(site, "faithfulness@1", claims(1), ["half"])
    page = site.signed_in(browser, site.person("half"), java_script_enabled=False).new_page()
    page.goto(f"/label/{project.id}")
    page.locator("fieldset[data-required]").nth(1).locator("input").nth(1).check()
    follow(page.locator("button.save"))
    assert page.locator("#summary li").all_inner_texts() == [f"Claim {place} has no answer." for place in (1, 3, 4)]
    assert page.locator("fieldset[data-required]").nth(1).locator("input").nth(1).is_checked()
    assert page.locator("fieldset[aria-invalid=true]").count() == 3
    close(page)


def test_hostile_text_stays_text_in_its_box(site: Site, browser: Browser) -> None:
    hostile = [
        "<script>document.title = 'owned'</script><img src=x onerror=alert(1)></div></form><h1>No</h1>",
        "\u202eright to left override {{ 7 * 7 }} {% raw %}",
        "x" * 200_000,
    ]
    for width in WIDTHS:
        inputs = [{"prompt": text, "response_a": text, "response_b": f"{text}."} for text in hostile]
        project = a_project(site, "pairwise@1", inputs, [f"hostile {width}"])
        size = {"width": width, "height": 844}
        page = at_desk(site, browser, project, f"hostile {width}", viewport=size)
        said = watched(page)
        seen = set()
        for number in range(len(hostile)):
            assert page.locator("h1").count() == 1
            seen.add(page.evaluate("document.querySelector('#text-prompt').textContent"))
            assert sideways(page) == 0
            box = page.locator("#text-first").bounding_box()
            assert box is not None
            assert box["height"] <= 844
            assert "owned" not in page.title()
            page.check("#differences")
            page.evaluate("document.activeElement.blur()")
            if number < len(hostile) - 1:
                label(page, "1", "Enter")
        assert seen == set(hostile)
        assert said == []
        close(page)


def test_texts_say_their_language_and_direction(site: Site, browser: Browser) -> None:
    case = {"prompt": "ما هو اللون؟", "response_a": "色は青緑です。", "response_b": "שלום לך"}
    project = a_project(site, "pairwise@1", [case], ["scripts"])
    page = at_desk(site, browser, project, "scripts")
    found = page.eval_on_selector_all(
        ".case-text", "all => all.map(one => [one.lang, getComputedStyle(one).direction, one.textContent])"
    )
    assert sorted(found) == sorted(
        [["und-Arab", "rtl", "ما هو اللون؟"], ["ja", "ltr", "色は青緑です。"], ["he", "rtl", "שלום לך"]]
    )
    close(page)


def test_long_answers_scroll_side_by_side_and_stack_on_a_phone(site: Site, browser: Browser) -> None:
    text = "A sentence that goes on. " * 400
    case = {"prompt": "Go on.", "response_a": text, "response_b": text + "More."}
    project = a_project(site, "pairwise@1", [case], ["long"])
    for width, beside in ((1280, True), (390, False), (320, False)):
        page = at_desk(site, browser, project, "long", viewport={"width": width, "height": 844})
        first, second = (page.locator(f"#text-{side}").bounding_box() for side in ("first", "second"))
        assert first is not None
        assert second is not None
        assert (first["y"] == second["y"]) is beside
        assert sideways(page) == 0
        page.locator("#text-second").evaluate("one => one.scrollTo(0, 300)")
        assert page.evaluate("document.querySelector('#text-first').scrollTop") == 0
        close(page)


def test_focus_goes_in_order_and_is_never_under_the_dock(site: Site, browser: Browser) -> None:
    project = a_project(site, "faithfulness@1", claims(2), ["order"])
    page = at_desk(site, browser, project, "order", viewport={"width": 390, "height": 700})
    seen: list[str] = []
    page.evaluate("document.activeElement.blur()")
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate(
                """() => {
                  const at = document.activeElement;
                  const dock = document.querySelector("#dock");
                  const low = at.getBoundingClientRect();
                  const hidden = !dock.contains(at) && low.top >= dock.getBoundingClientRect().top;
                  if (hidden) return "hidden";
                  if (at.matches(".skip")) return "skip link";
                  if (at.closest("header")) return "header";
                  if (at.closest("#case")) return "case";
                  if (at.matches("input[type=radio]")) return "choices";
                  if (at.matches(".save")) return "save";
                  return at.closest("details")?.id ?? at.tagName;
                }"""
            )
        )
        if seen[-1] == "flag-panel":
            break
    order = list(dict.fromkeys(seen))
    assert order == ["skip link", "header", "case", "choices", "save", "skip", "note-panel", "flag-panel"]
    close(page)


def test_a_saved_case_is_not_offered_again_and_progress_is_shown(site: Site, browser: Browser) -> None:
    project = a_project(site, "pairwise@1", pairs(3), ["progress"], name="Night shift", due_at="2030-01-31T12:00:00Z")
    page = at_desk(site, browser, project, "progress")
    label(page, "1", "Enter")
    page.goto("/label")
    expect(page.locator(".projects li")).to_contain_text("1 of 3 cases done.")
    expect(page.locator(".projects li")).to_contain_text("Due 31 January 2030, 12:00 UTC.")
    user = site.service.store.users.named("progress")
    assert user is not None
    states = [one.state for one in site.service.store.assignments.of(project.id, f"user:{user.id}")]
    assert states == [State.SAVED, State.OPEN]
    close(page)
