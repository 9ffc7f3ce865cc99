"""A rubric that another process declared reaches every route that may name one."""

import pytest

from judge_service.api import health, keys, users
from judge_service.api.routers import ROUTERS
from judge_service.api.services import RubricRoute
from judge_service.domain.principal import Role
from judge_service.domain.run import Run
from judge_service.runs import in_step
from rubrics.declared import Declaration

LEVELS = [{"value": 1, "description": "Bad."}, {"value": 2, "description": "Good."}]
ANSWER = {"id": "c", "answer": "It opened in 1931."}


def declared_elsewhere(service, name):
    """What another process leaves in the database, without a word to this one."""
    fields = {"name": name, "version": 1, "inputs": ["answer"]}
    criterion = {"name": "good", "text": "Is it good?", "levels": LEVELS}
    declaration = Declaration.model_validate(fields | {"criteria": [criterion]})
    service.store.rubrics.add(declaration)
    return declaration.id


@pytest.fixture(autouse=True)
def always_read(monkeypatch):
    monkeypatch.setattr(in_step, "FRESH_S", 0.0)


async def test_sets_are_made_and_filled(connect, service):
    lead = connect(Role.LEAD)
    rubric = declared_elsewhere(service, "one")
    made = await lead.post("/v1/sets", json={"name": "s", "rubric": rubric})
    assert made.status_code == 201, made.text
    other = declared_elsewhere(service, "two")
    line = b'{"id": "c", "answer": "It opened in 1931.", "label": "2"}'
    filled = await lead.post(
        "/v1/sets/s@1/cases",
        params={"rubric": other},
        content=line,
        headers={"Content-Type": "application/x-ndjson"},
    )
    assert filled.status_code < 300, filled.text


async def test_a_judgment_by_one_declared_a_moment_ago(connect, service, monkeypatch):
    # The table was read for the request, and is read again because the name is not known.
    fresh = service.stored_rubrics.fresh

    async def before(**options):
        if not options:
            await fresh()
            declared_elsewhere(service, "moment")
        else:
            await fresh(**options)

    monkeypatch.setattr(service.stored_rubrics, "fresh", before)
    body = {"rubric": "moment@1", "judge": "overlap", "case": ANSWER}
    answer = await connect(Role.SCORE).post("/v1/judgments", json=body)
    assert "There is no rubric" not in answer.text


async def test_aggregates_of_its_runs_are_computed(connect, service):
    rubric = declared_elsewhere(service, "three")
    judge = service.roster.get("overlap")
    now = service.judging.now()
    service.store.runs.create(Run(id="run_1", rubric=rubric, rubric_hash="a" * 64, judge=judge, created_at=now))
    read = await connect(Role.LEAD).get("/v1/runs/run_1/aggregate")
    assert read.status_code == 200, read.text
    assert read.json()["rubric"] == rubric


async def test_statistics_are_answered_about_the_set_and_not_about_the_name(connect, service):
    lead = connect(Role.LEAD)
    await lead.post("/v1/sets", json={"name": "s"})
    rubric = declared_elsewhere(service, "four")
    read = await lead.get("/v1/sets/s@1/statistics", params={"rubric": rubric})
    assert "there is no rubric" not in read.text.lower()
    assert f"unknown rubric {rubric}" not in read.text.lower()


async def test_judgments_runs_and_the_catalogue(connect, service):
    score = connect(Role.SCORE)
    rubric = declared_elsewhere(service, "five")
    assert rubric in {item["id"] for item in (await score.get("/v1/rubrics")).json()["items"]}
    rubric = declared_elsewhere(service, "six")
    judged = await score.post("/v1/judgments", json={"rubric": rubric, "judge": "overlap", "case": ANSWER})
    assert "no rubric" not in judged.text
    rubric = declared_elsewhere(service, "seven")
    assert (await score.get(f"/v1/rubrics/{rubric}")).status_code == 200


def test_only_keys_people_and_health_do_without():
    without = [router for router in ROUTERS if not all(isinstance(route, RubricRoute) for route in router.routes)]
    assert without == [keys.router, users.router, health.router]
    assert not any(isinstance(route, RubricRoute) for router in without for route in router.routes)
