import httpx

from judge_service.app import Service
from judge_service.domain.principal import Role
from tests.judge_service.api.conftest import Start
from tests.judge_service.api.test_statistics import calibrated


async def done(client: httpx.AsyncClient, service: Service, answer: httpx.Response) -> dict:
    assert answer.status_code == 202, answer.text
    assert answer.json()["state"] == "running"
    await service.watch.wait(answer.json()["id"])
    return (await client.get(answer.headers["location"])).json()


async def test_a_baseline_then_a_check(connect, service: Service) -> None:
    await calibrated(service)
    lead = connect(Role.LEAD)
    body = {"set": "demo", "judge": "longer", "repeats": 2}
    first = await done(lead, service, await lead.post("/v1/drift", json=body))
    assert (first["state"], first["record"]["verdict"]) == ("done", "baseline stored")
    second = await done(lead, service, await lead.post("/v1/drift", json=body))
    record = second["record"]
    assert (record["verdict"], record["look"], record["split"]) == ("no change seen", 1, None)
    assert record["result"]["correctness"]["mean"]["value"] == 0.0
    assert (await lead.get(f"/v1/drift/{record['id']}")).json() == record
    listed = (await lead.get("/v1/drift", params={"judge": "longer", "set": "demo@1"})).json()["items"]
    assert [item["kind"] for item in listed] == ["check", "baseline"]
    run = await lead.get(f"/v1/runs/{record['runs'][0]}/report")
    assert run.json()["run"]["source"] == "drift:demo@1"
    resumed = await lead.post(f"/v1/runs/{record['runs'][0]}/resume")
    assert resumed.status_code == 409


async def test_any_service_says_how_a_check_stands(start: Start) -> None:
    service, lead = await start()
    await calibrated(service)
    _, elsewhere = await start()
    began = await lead.post("/v1/drift", json={"set": "demo", "judge": "longer", "repeats": 2})
    address = began.headers["location"]
    begun = (await elsewhere.get(address)).json()
    assert begun["set"] == begun["asked"]["set"] == "demo@1"
    here = await done(lead, service, began)
    assert (here["state"], here["error"], here["record"]["verdict"]) == ("done", None, "baseline stored")
    assert (await elsewhere.get(address)).json() == here
    await service.aclose()
    _, restarted = await start()
    assert (await restarted.get(address)).json() == here
    again = await restarted.post("/v1/drift", json=here["asked"])
    assert again.status_code == 202, again.text
    assert again.json()["asked"] == here["asked"]


async def test_what_cannot_be_checked(connect, service: Service) -> None:
    await calibrated(service)
    lead = connect(Role.LEAD)
    for body, status, path in (
        ({"set": "none", "judge": "longer"}, 404, None),
        ({"set": "demo", "judge": "longr"}, 422, "judge"),
        ({"set": "demo", "judge": "longer", "split": "release"}, 422, "split"),
        ({"set": "demo", "judge": "longer", "split": "monitoring"}, 422, "split"),
        ({"set": "demo", "judge": "longer", "repeats": 1}, 422, "repeats"),
        ({"set": "demo"}, 422, "judge"),
        ({"set": "demo", "judge": "longer", "more": 1}, 422, "more"),
    ):
        answer = await lead.post("/v1/drift", json=body)
        assert answer.status_code == status, answer.text
        if path is not None:
            assert answer.json()["errors"][0]["path"].endswith(path)
    assert (await lead.get("/v1/drift/tasks/none")).status_code == 404
    assert (await lead.get("/v1/drift/none")).status_code == 404
    score = connect(Role.SCORE)
    assert (await score.post("/v1/drift", json={"set": "demo", "judge": "longer"})).status_code == 403
    assert (await score.get("/v1/drift")).status_code == 403
    taken = await lead.post(
        "/v1/runs", json={"rubric": "pairwise@1", "judge": "longer", "source": "drift:x", "cases": [{}]}
    )
    assert taken.status_code == 422
