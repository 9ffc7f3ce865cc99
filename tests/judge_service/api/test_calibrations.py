"""A calibration over HTTP: ordinary runs, then a measurement that later judgments carry as trust."""

import asyncio
from typing import Any

import httpx
import pytest

from judge_service.app import Service
from judge_service.domain.calibration_set import Label, SetCase, Split
from judge_service.domain.case import Case
from judge_service.domain.principal import Role
from judge_service.errors import StoreError
from tests.judge_service.api.conftest import Connect, Start
from tests.judge_service.api.test_statistics import NOON, pair, request


@pytest.fixture
def lead(connect: Connect) -> httpx.AsyncClient:
    return connect(Role.LEAD)


def labelled(service: Service, n: int = 60, split: Split = Split.CALIBRATION, frozen: bool = True) -> str:
    """A set of pairs in which people prefer the longer answer in 5 of 6 cases."""
    store = service.store
    version = store.sets.create("demo", "pairwise@1")
    cases = [Case(id=f"c{i}", input=pair(i)) for i in range(n)]
    store.sets.add_cases(version.id, [SetCase(case=case, split=split) for case in cases])
    labels = []
    for i, case in enumerate(cases):
        longer = "B" if i % 2 else "A"
        said = longer if i % 6 else {"A": "B", "B": "A"}[longer]
        labels.append(
            Label(
                set_id=version.id,
                case_id=case.id,
                rubric="pairwise@1",
                annotator="ann",
                label=said,
                created_at=NOON,
            )
        )
    store.labels.add(version.id, labels)
    if frozen:
        store.sets.freeze(version.id, store.sets.digest(version.id))
    return version.id


KEY = {"Idempotency-Key": "calibrate-1"}


async def test_judges_are_run_measured_and_trusted(lead: httpx.AsyncClient, service: Service) -> None:
    set_id = labelled(service)
    body = {"set": "demo", "judges": ["longer", "constant"]}
    answer = await lead.post("/v1/calibrations", json=body, headers=KEY)
    assert answer.status_code == 202
    begun = answer.json()
    assert begun["set"] == set_id
    assert [run["judge"] for run in begun["runs"]] == ["longer", "constant"]
    await service.calibrators.wait(begun["id"])
    replay = await lead.post("/v1/calibrations", json=body, headers=KEY)
    assert replay.headers["Idempotent-Replayed"] == "true"
    found = replay.json()
    assert (found["id"], found["status"], found["message"]) == (begun["id"], "measured", None)
    assert found["runs"] == begun["runs"]
    assert (await lead.get(found["runs"][0]["url"])).json()["source"] == f"set:{set_id}"
    first = (await lead.get(found["calibrations"][0]["url"])).json()
    assert (first["judge"], first["n"], first["runs"]) == ("longer", 60, [begun["runs"][0]["run"]])
    assert first["agreement"] == pytest.approx(50 / 60)
    listed = (await lead.get(found["calibrations_url"])).json()["items"]
    assert {one["judge"] for one in listed} == {"longer", "constant"}
    trusted = await lead.post("/v1/judgments", json=request(pair(1000), require="calibrated"))
    assert trusted.json()["trust"]["level"] == "calibrated"


async def test_the_same_key_with_another_request_is_refused(lead: httpx.AsyncClient, service: Service) -> None:
    labelled(service)
    await lead.post("/v1/calibrations", json={"set": "demo", "judges": ["longer"]}, headers=KEY)
    other = await lead.post("/v1/calibrations", json={"set": "demo", "judges": ["constant"]}, headers=KEY)
    assert other.status_code == 409


async def test_another_request_under_a_key_begins_nothing_in_another_service(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, lead = await start()
    labelled(service)
    other, elsewhere = await start()
    begins, go_on = asyncio.Event(), asyncio.Event()
    begin = service.calibrators.start

    async def held(*given: Any, **options: Any) -> Any:
        begins.set()
        await go_on.wait()
        return await begin(*given, **options)

    monkeypatch.setattr(service.calibrators, "start", held)
    first = asyncio.create_task(lead.post("/v1/calibrations", json={"set": "demo", "judges": ["longer"]}, headers=KEY))
    await begins.wait()
    wanted = {"set": "demo", "judges": ["constant"]}
    assert (await elsewhere.post("/v1/calibrations", json=wanted, headers=KEY)).status_code == 409
    assert other.store.runs.list() == []
    go_on.set()
    assert (await first).status_code == 202
    assert [run.judge.name for run in other.store.runs.list()] == ["longer"]
    await service.calibrators.wait((await first).json()["id"])


async def test_a_calibration_that_could_not_begin_leaves_its_key_free(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, lead = await start()
    labelled(service)
    with monkeypatch.context() as patch:

        def refuse(*_: object, **__: object) -> None:
            raise StoreError("There is no room.")

        patch.setattr(service.calibrators, "start", refuse)
        wanted = {"set": "demo", "judges": ["longer"]}
        assert (await lead.post("/v1/calibrations", json=wanted, headers=KEY)).status_code == 500
    again = await lead.post("/v1/calibrations", json={"set": "demo", "judges": ["constant"]}, headers=KEY)
    assert again.status_code == 202, again.text
    await service.calibrators.wait(again.json()["id"])


@pytest.mark.parametrize("split", [Split.CALIBRATION, Split.RELEASE])
async def test_another_service_names_what_was_measured_under_the_key(start: Start, split: Split) -> None:
    service, lead = await start()
    set_id = labelled(service, split=split)
    body = {"set": "demo", "judges": ["longer", "constant"], "split": split.value}
    begun = (await lead.post("/v1/calibrations", json=body, headers=KEY)).json()
    await service.calibrators.wait(begun["id"])
    here = (await lead.post("/v1/calibrations", json=body, headers=KEY)).json()
    assert here["status"] == "measured"
    uses = service.store.sets.uses(set_id)
    other, elsewhere = await start()
    answer = await elsewhere.post("/v1/calibrations", json=body, headers=KEY)
    assert answer.json() == here
    assert answer.headers["Idempotent-Replayed"] == "true"
    assert {one.id for one in other.store.calibrations.all()} == {one["id"] for one in here["calibrations"]}
    assert other.store.sets.uses(set_id) == uses
    # Another key asks for another measurement.
    more = await elsewhere.post("/v1/calibrations", json=body, headers={"Idempotency-Key": "calibrate-2"})
    assert more.status_code == (202 if split is Split.CALIBRATION else 409)


async def test_what_a_dead_service_had_scored_on_a_release_split_is_measured_under_its_key(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, lead = await start()
    set_id = labelled(service, split=Split.RELEASE)

    def dies(*_: object) -> None:
        raise StoreError("It is gone.")

    with monkeypatch.context() as patch:
        patch.setattr(service.store.calibrations, "add", dies)
        body = {"set": "demo", "judges": ["longer"], "split": "release"}
        begun = (await lead.post("/v1/calibrations", json=body, headers=KEY)).json()
        await service.calibrators.wait(begun["id"])
    assert [use.judge for use in service.store.sets.uses(set_id)] == ["longer"]
    other, elsewhere = await start()
    again = (await elsewhere.post("/v1/calibrations", json=body, headers=KEY)).json()
    assert (again["id"], again["runs"]) == (begun["id"], begun["runs"])
    await other.calibrators.wait(again["id"])
    assert len(other.store.calibrations.all()) == 1
    assert [use.judge for use in service.store.sets.uses(set_id)] == ["longer"]


async def test_without_a_key_it_is_measured_again_and_judged_once(lead: httpx.AsyncClient, service: Service) -> None:
    labelled(service)
    runs = set()
    for _ in range(2):
        answer = (await lead.post("/v1/calibrations", json={"set": "demo", "judges": ["longer"]})).json()
        await service.calibrators.wait(answer["id"])
        runs.add(answer["runs"][0]["run"])
    assert len(runs) == 1
    assert len(service.store.calibrations.all()) == 2


async def test_the_release_split_is_scored_once(lead: httpx.AsyncClient, service: Service) -> None:
    labelled(service, split=Split.RELEASE)
    body = {"set": "demo", "judges": ["longer"], "split": "release"}
    answer = await lead.post("/v1/calibrations", json=body)
    await service.calibrators.wait(answer.json()["id"])
    again = await lead.post("/v1/calibrations", json=body)
    assert again.status_code == 409
    assert "scored there once" in again.json()["detail"]


async def test_what_cannot_be_measured_is_refused_before_anything_is_asked(
    lead: httpx.AsyncClient, service: Service, client: httpx.AsyncClient
) -> None:
    labelled(service, frozen=False)
    opened = await lead.post("/v1/calibrations", json={"set": "demo", "judges": ["longer"]})
    assert opened.status_code == 409
    assert "not frozen" in opened.json()["detail"]
    service.store.sets.freeze("demo@1", service.store.sets.digest("demo@1"))
    unknown = await lead.post("/v1/calibrations", json={"set": "demo", "judges": ["longer", "lnger"]})
    assert unknown.status_code == 422
    assert unknown.json()["errors"][0]["path"] == "judges[1]"
    assert (await lead.post("/v1/calibrations", json={"set": "none", "judges": ["longer"]})).status_code == 404
    assert (await lead.post("/v1/calibrations", json={"set": "demo", "judges": []})).status_code == 422
    assert (await client.post("/v1/calibrations", json={"set": "demo", "judges": ["longer"]})).status_code == 403
    assert service.store.runs.list() == []
    assert service.store.calibrations.all() == []


async def test_a_split_without_cases_is_refused(lead: httpx.AsyncClient, service: Service) -> None:
    labelled(service)
    body = {"set": "demo", "judges": ["longer"], "split": "monitoring"}
    answer = await lead.post("/v1/calibrations", json=body, headers=KEY)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"] == "split"
