"""Hostile text on the pages of leads: it stays text in its box on adjudication, judgment, set and report pages."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from judge_service.annotation.labelling import Labelling
from judge_service.annotation.projects import ProjectRequest, open_project
from judge_service.domain.annotation import case_token
from judge_service.domain.calibration_set import SetCase, Split
from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.domain.principal import Role
from judge_service.reports.labelled_set import source_of
from judge_service.runs.local import LocalRunner
from judge_service.visible import visible
from rubrics.registry import get_rubric
from tests.browser.desk import LEAD, pairs
from tests.browser.site import WIDTHS, Site, awaited, running, sideways, watched

HOSTILE = (
    "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\"></div></form><h1>No</h1>",
    "\u202eright to left override {{ 7 * 7 }} {% raw %} `code` \u200b",
    "x" * 200_000,
)
SHORT = f"{HOSTILE[0]} {HOSTILE[1]}"
N_PLAIN = 30
TALL = """() => [...document.querySelectorAll(".words, .text, pre, blockquote")]
  .filter(one => one.checkVisibility() && one.getBoundingClientRect().height > innerHeight).map(one => one.className)"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running(tmp_path_factory.mktemp("hostile")) as found:
        yield found


@pytest.fixture(scope="module")
def addresses(site: Site) -> Mapping[str, str]:
    """A set with hostile cases that two people differ on, that a judge has judged; the pages that show them."""
    store, labelling = site.service.store, Labelling(site.service.store)
    for name in ("Ann", "Bob"):
        site.person(name)
    version = store.sets.create("hostile", "pairwise@1")
    fields = [{"prompt": one, "response_a": one, "response_b": f"{one}."} for one in HOSTILE] + pairs(N_PLAIN)
    cases = [Case(id=f"{SHORT[:90]}{i}" if i < 3 else f"c{i}", input=one) for i, one in enumerate(fields)]
    store.sets.add_cases(version.id, [SetCase(case=one, split=Split.CALIBRATION) for one in cases])
    request = {"name": "Hostile", "set": version.id, "annotators": ("Ann", "Bob"), "labels_wanted": 2}
    project = open_project(store, ProjectRequest.model_validate(request), LEAD, seed=7)
    hostile = {case.id: place for place, case in enumerate(cases[:3])}
    for name in ("Ann", "Bob"):
        person = f"user:{site.person(name).id}"
        while (shown := labelling.next(project.id, person)) is not None:
            differs = shown.form.texts[0].text in HOSTILE
            value = "tie" if name == "Ann" and differs else "first"
            labelling.save(
                shown.case, person, name, {"answers": {"label": value}}, shown.version, note=SHORT if differs else None
            )
    replies = [
        {"order": order, "value": {"rationale": SHORT, "verdict": verdict}}
        for order, verdict in (("AB", "A"), ("BA", "B"))
    ]
    judge = Judge(name="s", backend="scripted", options={"replies": replies, "enforcement": "grammar"})
    runner = LocalRunner(store, site.service.judging)
    run = awaited(runner.run(cases, get_rubric("pairwise@1"), judge, source=source_of(version.id)))
    judgments = {one.case_id: one.id for _, one in store.runs.results(run.id, limit=100)}
    found = {f"judgment {place}": f"/judgments/{judgments[name]}" for name, place in hostile.items()}
    found |= {
        f"adjudication {place}": f"/projects/{project.id}/disagreements/{case_token(project.id, name)}"
        for name, place in hostile.items()
    }
    return found | {
        "queue": f"/projects/{project.id}/disagreements",
        "run": f"/runs/{run.id}",
        "set": "/sets/hostile@1/cases?split=calibration",
        "report": "/reports/hostile@1",
    }


PAGES = {
    **{f"adjudication {place}": (HOSTILE[place], SHORT) for place in range(3)},
    **{f"judgment {place}": (HOSTILE[place], SHORT) for place in range(3)},
    "queue": (HOSTILE[0][:40],),
    "run": (HOSTILE[0][:40],),
    "set": (*HOSTILE, SHORT),
    "report": (HOSTILE[0], HOSTILE[1]),
}
"""What each page shows as text."""


@pytest.mark.parametrize("name", PAGES)
def test_hostile_text_stays_text_in_its_box(
    site: Site, browser: Browser, addresses: Mapping[str, str], name: str
) -> None:
    user: Any = site.person("Lea Example", Role.LEAD)
    context = site.signed_in(browser, user, viewport={"width": WIDTHS[1], "height": 844})
    page = context.new_page()
    said = watched(page)
    if name == "report":
        while page.request.get(f"{addresses[name]}?wait=true", timeout=120_000).status == 202:
            pass
    page.goto(addresses[name])
    expect(page.locator("h1")).to_have_count(1)
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    shown = page.evaluate("document.querySelector('main').textContent")
    for text in PAGES[name]:
        assert visible(text) in shown, text[:60]
    assert "\u202e" not in shown
    assert page.locator("main :is(img, iframe, object)").count() == 0
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 844})
        assert sideways(page) == 0, width
        assert page.evaluate(TALL) == [], width
    assert page.title() != "owned"
    assert said == []
    context.close()
