"""A service with something of everything in it, and every page of its web app by route, with who opens it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from judge_service.annotation.adjudication import adjudicate, waiting
from judge_service.annotation.labelling import Labelling
from judge_service.domain.annotation import case_token
from judge_service.domain.calibration_set import SetCase, Split
from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.domain.principal import Principal, Role
from judge_service.gate.people import invite
from judge_service.runs.local import LocalRunner
from judge_service.security.keys import issue
from rubrics.registry import get_rubric
from tests.browser.desk import a_project as opened
from tests.browser.desk import claims
from tests.browser.rubric_cases import CASES, declare
from tests.browser.simulated import agreeing, judged_set, mixed
from tests.browser.site import Site, awaited
from tests.judge_service.annotation.projects import a_project, a_set, say
from tests.judge_service.api.test_statistics import calibrated
from tests.judge_service.web.test_judgments import BOTH_A, CLAIMS, EXTRACT, PAIR, verified
from tests.judge_service.web.test_runs import run

PEOPLE = ("Ann Example", "Bob Example")
ROOT, LEAD, LABELS, NOBODY = "Root Example", "Lea Example", "Ann Example", None
ROLES = {ROOT: Role.ADMIN, LEAD: Role.LEAD, "Ann Example": Role.ANNOTATE, "Bob Example": Role.ANNOTATE}
GUIDELINES = "# Rule\n\nJudge *help*.\n\n| a | b |\n| --- | --- |\n| c | d |\n"


@dataclass(frozen=True, slots=True)
class Page:
    """A page: the route it belongs to (None: an error page), its address, who opens it, and its status."""

    route: str | None
    address: str
    who: str | None = ROOT
    status: int = 200

    def __str__(self) -> str:
        return f"{self.status} {self.address}"


LABELLING = tuple(Page("/label/{project_id}", f"/label/{{{rubric}}}", LABELS) for rubric in CASES)
ADJUDICATION = (
    Page("/projects/{project_id}/disagreements/{token}", "/projects/{project}/disagreements/{waiting}"),
    Page("/projects/{project_id}/disagreements/{token}", "/projects/{claims}/disagreements/{claim}"),
)
PAGES: tuple[Page, ...] = (
    Page("/", "/", NOBODY),
    Page("/", "/"),
    Page("/docs", "/docs"),
    Page("/sign-in", "/sign-in", NOBODY),
    Page("/invitations/{token}", "{invitation}", NOBODY),
    Page("/label", "/label", LABELS),
    *LABELLING,
    Page("/label/{project_id}", "/label/{project}", LABELS),
    Page("/label/{project_id}/guidelines", "/label/{project}/guidelines", LABELS),
    Page("/projects", "/projects"),
    Page("/projects/new", "/projects/new?set=pairs@1"),
    Page("/projects/{project_id}", "/projects/{project}"),
    Page("/projects/{project_id}", "/projects/{claims}"),
    Page("/projects/{project_id}/disagreements", "/projects/{project}/disagreements"),
    Page("/projects/{project_id}/disagreements/next", "/projects/{project}/disagreements/next"),
    *ADJUDICATION,
    Page("/projects/{project_id}/disagreements/{token}", "/projects/{project}/disagreements/{decided}?saved={word}"),
    Page("/sets", "/sets"),
    Page("/sets/{reference}", "/sets/pairs@1"),
    Page("/sets/{reference}", "/sets/chosen@1"),
    Page("/sets/{reference}/import", "/sets/pairs@1/import"),
    Page("/sets/{reference}/cases", "/sets/chosen@1/cases?split=calibration"),
    Page("/sets/{reference}/cases", "/sets/tested@1/cases?split=release"),
    Page("/judges", "/judges"),
    Page("/judges/{name}", "/judges/longer"),
    Page("/judges/{name}", "/judges/overlap"),
    Page("/reports", "/reports"),
    Page("/reports/{reference}", "/reports/chosen@1"),
    Page("/reports/{reference}", "/reports/few@1"),
    Page("/runs", "/runs"),
    Page("/runs/{run_id}", "/runs/{run}"),
    Page("/runs/{run_id}", "/runs/{run}?outcome=judge_error"),
    Page("/runs/{run_id}", "/runs/{over_set}"),
    Page("/runs/{run_id}/report", "/runs/{other}/report?compare={run}&by=part"),
    Page("/runs/{run_id}/report", "/runs/{over_set}/report"),
    Page("/judgments/{judgment_id}", "/judgments/{scored}"),
    Page("/judgments/{judgment_id}", "/judgments/{evidence}"),
    Page("/judgments/{judgment_id}", "/judgments/{failed}"),
    Page("/judgments/{judgment_id}", "/judgments/{timeout}"),
    Page("/people", "/people"),
    Page("/keys", "/keys"),
    Page("/audit", "/audit"),
    Page(None, "/nowhere", NOBODY, 404),
    Page(None, "/runs/run_none", ROOT, 404),
    Page(None, "/projects", LABELS, 403),
    Page(None, "/runs?state=lost", ROOT, 422),
    Page(None, "/invitations/used", NOBODY, 404),
)
NO_PAGES = {
    "/reports/{reference}/report.{form}": "/reports/few@1/report.json",
    "/runs/{run_id}/state": "/runs/{run}/state",
    "/judgments/{judgment_id}/calls/{number}/{what}": "/judgments/{scored}/calls/1/prompt",
    "/static/{name:path}": "/static/site.css",
}
"""GET routes that answer with a file or a part of a page, and an address of each."""


def filled(site: Site) -> Mapping[str, str]:
    """Fill the service; what stands for the names in the addresses of `PAGES`."""
    store = site.service.store
    for name, role in ROLES.items():
        site.person(name, role)
    store.users.disable(site.person("Cy Example").id)
    found = _projects(site) | _judged(site)
    root = Principal(user_id=site.person(ROOT).id, name=ROOT, role=Role.ADMIN)
    _, path = invite(store.users, root, role=Role.ANNOTATE, name="Dee Example", project=found["project"], days=7)
    for name, role in (("nightly", Role.SCORE), ("old", Role.LEAD)):
        key, _ = issue(name, role)
        store.keys.add(key)
        store.audit.add(root.id, root.name, "created a key", f"{name} as {role.value}")
    store.keys.revoke(key.id)
    return found | {"invitation": path}


def _projects(site: Site) -> dict[str, str]:
    """Forty pairs that two people labelled, on five of which they differ, one of these decided; and labelling pages."""
    store, labelling = site.service.store, Labelling(site.service.store)
    declare(site)
    a_set(store, 40)
    made = a_project(store, "pairs@1", PEOPLE, guidelines=GUIDELINES, name="Helpdesk")
    store.projects.add_guidelines(made.id, GUIDELINES + "\nBe brief.", "Asks for brevity.", LEAD)
    for name in PEOPLE:
        person = f"user:{site.person(name).id}"
        while (shown := labelling.next(made.id, person)) is not None:
            differs = name == PEOPLE[1] and "Prompt 7" in shown.form.texts[0].text
            differs |= name == PEOPLE[1] and "Prompt 3" in shown.form.texts[0].text and shown.number % 2 == 0
            if shown.number == 3:
                labelling.flag(shown.case, person, "The second answer is cut off.")
            note = "The second one says less." if differs else None
            value = "cannot_say" if shown.number == 40 else "first" if differs else "tie"
            say(labelling, shown, person, name, value, note=note, seconds=4.0 + shown.number % 5)
    first, second = waiting(store, made.id, limit=2)
    root = Principal(user_id=site.person(ROOT).id, name=ROOT, role=Role.ADMIN)
    word = adjudicate(store, made.id, first.case_id, root, {"answers": {"label": "first"}}, "It names the shop.")
    disputed = _claims(site)
    projects = {rubric: opened(site, rubric, CASES[rubric], [LABELS], guidelines=GUIDELINES).id for rubric in CASES}
    return (
        projects
        | disputed
        | {
            "project": made.id,
            "decided": case_token(made.id, first.case_id),
            "word": word.adjudication.id,
            "waiting": case_token(made.id, second.case_id),
        }
    )


def _claims(site: Site) -> dict[str, str]:
    """Claims of an answer about which two people differ, one of whom wrote one of them anew."""
    store, labelling = site.service.store, Labelling(site.service.store)
    made = opened(site, "faithfulness@1", claims(1), PEOPLE, name="Claims")
    for name, verdict in zip(PEOPLE, ("supported", "unsupported"), strict=True):
        person = f"user:{site.person(name).id}"
        shown = labelling.next(made.id, person)
        assert shown is not None
        items = [{"id": one.id, "text": one.text, "answers": {"verdict": verdict}} for one in shown.form.items]
        answers = {"failure_mode": "fabrication"} if verdict == "unsupported" else {}
        if verdict == "unsupported":
            items[0] |= {"text": "The shop sells bread.", "origin": "edited", "from_ids": [items[0]["id"]]}
        labelling.save(
            shown.case, person, name, {"answers": answers, "items": items}, shown.version, note="Half of it."
        )
    (one,) = waiting(store, made.id)
    return {"claims": made.id, "claim": case_token(made.id, one.case_id)}


def _judged(site: Site) -> dict[str, str]:
    """Sets with judges, runs that end in every way, and judgments of every kind."""
    service, store = site.service, site.service.store
    judges = {"large": agreeing(0.95, cost=0.01, sure=True), "mixed": mixed, "free": agreeing(0.75, sure=True)}
    judged_set(service, "chosen", judges, 120)
    judged_set(service, "few", {"large": agreeing(0.9)}, 20, people=1)
    version = store.sets.create("tested", "pairwise@1")
    cases = [
        SetCase(case=Case(id=f"t{i}", input=PAIR | {"prompt": f"Test {i}?"}), split=Split.RELEASE) for i in range(4)
    ]
    store.sets.add_cases(version.id, cases)
    store.sets.freeze(version.id, store.sets.digest(version.id))

    async def made() -> tuple[str, str]:
        await calibrated(service)
        return await run(service, 60), await run(service, 60, judge="other")

    first, other = awaited(made())
    over_set = next(one for one in store.runs.list(limit=50) if one.judge.name == "mixed")
    ended = {one.outcome.value: one.id for _, one in store.runs.results(first, after=-1, limit=60)}
    fault = {"order": "BA", "error": {"reason": "provider_error", "message": "The provider is down."}}
    return {
        "run": first,
        "other": other,
        "over_set": over_set.id,
        "timeout": ended["judge_error"],
        "scored": _judgment(site, "pairwise@1", PAIR, *BOTH_A),
        "evidence": _judgment(site, "faithfulness@1", CLAIMS, EXTRACT, verified("Bread is sold here.")),
        "failed": _judgment(site, "pairwise@1", PAIR | {"prompt": "Which one?"}, BOTH_A[0], fault),
    }


def _judgment(site: Site, rubric: str, fields: dict[str, Any], *replies: Any) -> str:
    judge = Judge(name="s", backend="scripted", options={"replies": list(replies), "enforcement": "grammar"})

    async def judged() -> str:
        runner = LocalRunner(site.service.store, site.service.judging)
        return (await runner.run([Case(id="shop", input=fields)], get_rubric(rubric), judge)).id

    ((_, judgment),) = site.service.store.runs.results(awaited(judged()))
    return judgment.id
