"""The whole way of a set by keyboard alone: opened, labelled by three people, adjudicated, frozen, reported."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from judge_service.domain.principal import Role
from judge_service.files.rows import FileKind
from judge_service.files.source import Source
from judge_service.sets.importing import import_cases
from judge_service.sets.recorded import import_verdicts
from tests.browser.desk import READY_MS, close, label, ready, tab_to
from tests.browser.site import Site, running, violations, watched
from tests.data.folders import data_folder, read_lines

pytestmark = pytest.mark.data

N_PAIRS, N_CLAIMS = 30, 10
PEOPLE = ("Ann Example", "Bob Example", "Lea Example")
FIELDS = ("id", "group", "prompt", "response_a", "response_b", "question", "contexts", "answer")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("set")
    with running(folder) as found:
        # A browser under way holds an event loop in this thread.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(_sets, found, folder).result()
        for name, role in zip(PEOPLE, (Role.ANNOTATE, Role.ANNOTATE, Role.LEAD), strict=True):
            found.person(name, role)
        yield found


def _sets(site: Site, folder: Path) -> None:
    """Cases of two collections, without the labels that came with them."""
    for name, rubric, collection, n in (
        ("pairs", "pairwise@1", "llmbar", N_PAIRS),
        ("answers", "faithfulness@1", "expertqa", N_CLAIMS),
    ):
        lines = [row for row, _ in zip(read_lines(data_folder() / collection / "cases.jsonl"), range(n), strict=False)]
        # Cases of one collection share a group there; here each stands for itself.
        rows = [{field: row[field] for field in FIELDS if field in row and field != "group"} for row in lines]
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        site.service.store.sets.create(name, rubric)
        import_cases(site.service.store, name, Source(path.name, lambda path=path: path.open("rb"), FileKind.JSONL))


def _verdicts(site: Site, reference: str) -> None:
    """What judges said of the pairs: without any there is nothing to report on."""
    path = data_folder() / "llmbar" / "verdicts.jsonl"
    import_verdicts(site.service.store, reference, Source(path.name, lambda: path.open("rb"), FileKind.JSONL))


def at(site: Site, browser: Browser, name: str, address: str) -> Page:
    page = site.signed_in(browser, site.person(name), viewport={"width": 1280, "height": 900}).new_page()
    page.goto(address)
    return page


def enter(page: Page) -> None:
    """Press Enter where it leads to another page."""
    with page.expect_navigation():
        page.keyboard.press("Enter")


def opens(site: Site, browser: Browser, name: str, reference: str) -> str:
    """The lead opens a set for labelling; the id of the project."""
    page = at(site, browser, "Lea Example", f"/projects/new?set={reference}")
    said = watched(page)
    tab_to(page, "#name")
    page.keyboard.type(name)
    for person in PEOPLE:
        tab_to(page, f"input[value='{person}']")
        page.keyboard.press("Space")
    tab_to(page, "button[value=open]")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/projects/[a-z0-9]{12}$"))
    assert said == []
    project = page.url.rpartition("/")[2]
    close(page)
    return project


def pair_keys(page: Page, name: str) -> tuple[str, ...]:
    """The longer answer; Bob says another thing of every sixth prompt."""
    prompt, first, second = (page.inner_text(f"#text-{part}") for part in ("prompt", "first", "second"))
    longer = "1" if (len(first), first) >= (len(second), second) else "2"
    return ("3",) if name == "Bob Example" and sum(map(ord, prompt)) % 6 == 0 else (longer,)


def claim_keys(page: Page, name: str) -> tuple[str, ...]:
    """Every claim is supported, but the first one to Bob in every third case, who says why."""
    n = page.locator(".items > [data-item]").count()
    text = page.inner_text("#text-answer")
    if name == "Bob Example" and sum(map(ord, text)) % 3 == 0:
        return ("2", *("1" for _ in range(n - 1)))
    return tuple("1" for _ in range(n))


def labels(site: Site, browser: Browser, project: str, keys_of: object) -> None:
    """All three label in turn, a case at a time each, until none has one left."""
    pages = {name: at(site, browser, name, f"/label/{project}") for name in PEOPLE}
    said = {name: watched(page) for name, page in pages.items()}
    going = set(PEOPLE)
    while going:
        for name in sorted(going):
            page = pages[name]
            if page.locator("#label-form").count() == 0:
                going.discard(name)
                continue
            ready(page)
            keys = keys_of(page, name)  # type: ignore[operator]
            label(page, *keys, "Enter")
    assert said == {name: [] for name in PEOPLE}
    for page in pages.values():
        close(page)


@pytest.fixture(scope="module")
def projects(site: Site, browser: Browser) -> dict[str, str]:
    """Both sets, opened and labelled."""
    opened = {
        "pairs@1": opens(site, browser, "Pairs by hand", "pairs@1"),
        "answers@1": opens(site, browser, "Answers by hand", "answers@1"),
    }
    labels(site, browser, opened["pairs@1"], pair_keys)
    labels(site, browser, opened["answers@1"], claim_keys)
    return opened


def test_every_case_has_its_labels_of_different_people(site: Site, projects: dict[str, str]) -> None:
    store = site.service.store
    for reference, n in (("pairs@1", N_PAIRS), ("answers@1", N_CLAIMS)):
        found: dict[str, list[str]] = {}
        for one in store.labels.of(reference):
            found.setdefault(one.case_id, []).append(one.annotator)
        assert {case: len(set(names)) for case, names in found.items()} == dict.fromkeys(found, 2)
        assert len(found) == n


def test_the_lead_adjudicates_freezes_and_opens_the_report(
    site: Site, browser: Browser, projects: dict[str, str]
) -> None:
    store = site.service.store
    for reference, project in projects.items():
        page = at(site, browser, "Lea Example", f"/projects/{project}")
        said = watched(page)
        n = N_PAIRS if reference == "pairs@1" else N_CLAIMS
        expect(page.locator(".lead-line")).to_have_text(f"{n} of {n} cases have enough labels.")
        assert violations(page) == []
        tab_to(page, "a[href$='/disagreements']")
        enter(page)
        tab_to(page, "a[href$='/next']")
        enter(page)
        done = 0
        while page.locator("#decide").count():
            page.locator("html.keyed").wait_for()
            page.wait_for_timeout(READY_MS)
            for _ in range(page.locator("[data-required]").count()):
                page.keyboard.press("1")
            page.keyboard.press("n")
            page.keyboard.type(f"Reason {done}: 1 2 3 n s ?")
            page.keyboard.press("Escape")
            enter(page)
            done += 1
        words = store.projects.adjudications(project)
        assert done == len(words) > 0
        assert {one.reason for one in words} == {f"Reason {number}: 1 2 3 n s ?" for number in range(done)}
        tab_to(page, f"a[href='/projects/{project}']")
        enter(page)
        tab_to(page, "a[href^='/sets/']:not([href='/sets'])")
        enter(page)
        tab_to(page, "#typed")
        page.keyboard.type(reference)
        enter(page)
        expect(page.locator("h1 .tag")).to_have_text("Frozen")
        assert store.sets.get(reference).status == "frozen"
        if reference == "pairs@1":
            with ThreadPoolExecutor(1) as thread:
                thread.submit(_verdicts, site, reference).result()
        tab_to(page, "a[href^='/reports/']")
        enter(page)
        page.wait_for_url("**/reports/**")
        rubric = "pairwise@1" if reference == "pairs@1" else "faithfulness@1"
        expect(page.locator("h1")).to_have_text(f"Which judge for {rubric}?")
        assert said == []
        close(page)
