"""Blind in the browser: nothing that a labelling person's browser gets names a judge, a system, a person or a label."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from judge_service.annotation.labelling import Labelling
from judge_service.domain.judge import Judge
from judge_service.reports.labelled_set import source_of
from judge_service.runs.local import LocalRunner
from rubrics.registry import get_rubric
from tests.browser.desk import READY_MS, SYSTEM, a_project
from tests.browser.rubric_cases import CASES, declare
from tests.browser.site import Site, awaited, running
from tests.judge_service.runs.fake import FakeJudging

JUDGE, OTHER, NOTE, FLAG = "judge-okapi", "Zed Ibex", "note-of-the-other", "flag-of-the-other"
SECRETS = (
    SYSTEM,
    JUDGE,
    "model-okapi",
    "fake-1",
    OTHER,
    "Ibex",
    NOTE,
    FLAG,
    "judge_error",
    "labels_wanted",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running(tmp_path_factory.mktemp("blind")) as found:
        declare(found)
        yield found


def judged_and_labelled(site: Site, rubric: str, person: str) -> str:
    """A project whose cases a judge has judged, all of them failures, and another person labelled; its id."""
    store = site.service.store
    project = a_project(site, rubric, CASES[rubric], [person, OTHER])
    cases = [one.case for one in store.sets.cases(project.set_id)]
    judge = Judge(name=JUDGE, backend="scripted", model="model-okapi")
    runner = LocalRunner(store, FakeJudging(lambda case: "timeout"))
    awaited(runner.run(cases, get_rubric(rubric), judge, source=source_of(project.set_id)))
    labelling, other = Labelling(store), f"user:{site.person(OTHER).id}"
    while (shown := labelling.next(project.id, other)) is not None:
        labelling.flag(shown.case, other, FLAG)
        first = {one.id: one.choices[0].value for one in (*shown.form.questions, *shown.form.item_questions)}
        items = [
            {"id": one.id, "text": one.text, "answers": {name: first[name] for name in one.required}}
            for one in shown.form.items
        ]
        answers = {one.id: first[one.id] for one in shown.form.questions if one.required}
        labelling.save(shown.case, other, OTHER, {"answers": answers, "items": items}, shown.version, note=NOTE)
    assert len(list(store.labels.of(project.set_id))) == len(cases)
    return project.id


def answered(page: Page) -> None:
    """Press the first choice until nothing is open."""
    for _ in range(20):
        if page.locator(".group.on input:checked").count():
            return
        page.keyboard.press("1")


@pytest.mark.parametrize("rubric", CASES)
def test_no_answer_of_the_service_unblinds(site: Site, browser: Browser, rubric: str) -> None:
    person = f"Ann of {rubric.partition('@')[0].replace('_', ' ')}"
    site.person(person)
    project = judged_and_labelled(site, rubric, person)
    page = site.signed_in(browser, site.person(person), viewport={"width": 1280, "height": 900}).new_page()
    got: list[tuple[str, str, bytes]] = []

    def seen(route: Route) -> None:
        answer = route.fetch(max_redirects=0)
        got.append((f"{route.request.method} {route.request.url}", str(answer.headers_array), answer.body()))
        route.fulfill(response=answer)

    page.route("**/*", seen)
    page.goto("/label")
    page.goto(f"/label/{project}/guidelines")
    page.goto(f"/label/{project}")
    for place in range(len(CASES[rubric])):
        page.locator(".group.on").first.wait_for()
        page.wait_for_timeout(READY_MS)
        before = page.get_attribute("#label-form", "data-case")
        page.keyboard.press("f")
        page.keyboard.type("odd")
        page.keyboard.press("Enter")
        expect(page.locator("#flag-panel summary")).to_contain_text("Flagged")
        page.wait_for_timeout(READY_MS)
        page.keyboard.press("Escape")
        page.evaluate("document.activeElement.blur()")
        # A save with gaps is refused first; then the case is answered, saved, taken back, and saved again.
        page.keyboard.press("Enter")
        expect(page.locator("#message")).not_to_be_empty()
        answered(page)
        page.keyboard.press("Enter")
        page.wait_for_function("was => document.querySelector('#label-form')?.dataset.case !== was", arg=before)
        if place == 0:
            page.wait_for_timeout(READY_MS)
            page.keyboard.press("u")
            page.wait_for_function("was => document.querySelector('#label-form')?.dataset.case === was", arg=before)
            page.wait_for_timeout(READY_MS)
            page.keyboard.press("Enter")
            page.wait_for_function("was => document.querySelector('#label-form')?.dataset.case !== was", arg=before)
    expect(page.locator("h1")).to_have_text("No cases left for you.")
    assert len([address for address, _, _ in got if address.startswith("POST")]) >= 3
    assert any(b"No cases left for you" in body for _, _, body in got)
    for address, headers, body in got:
        whole = f"{headers} {body.decode('utf-8', 'replace')}"
        assert [secret for secret in SECRETS if secret in whole] == [], address
    page.context.close()
