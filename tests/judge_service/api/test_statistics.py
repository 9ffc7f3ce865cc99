import asyncio
from datetime import UTC, datetime

import httpx
import pytest

from judge_service.app import Service
from judge_service.domain.calibration_set import Label, SetCase, Split
from judge_service.domain.case import Case
from judge_service.domain.principal import Role
from judge_service.reports.labelled_set import read_set, source_of
from judge_service.reports.measuring import measure
from judge_service.runs.local import LocalRunner
from rubrics.registry import get_rubric

RUBRIC = get_rubric("pairwise@1")
NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)


def pair(number: int) -> dict[str, str]:
    short, long = f"w{number} a", f"v{number} b c d e f"
    first, second = (short, long) if number % 2 else (long, short)
    return {"prompt": f"Question {number}?", "response_a": first, "response_b": second}


async def calibrated(service: Service, n: int = 60) -> str:
    """A frozen set of pairs in which people prefer the longer answer in 5 of 6 cases, and its calibration's id."""
    store = service.store
    version = store.sets.create("demo", "pairwise@1")
    cases = [Case(id=f"c{i}", input=pair(i), metadata={"language": "en"}) for i in range(n)]
    store.sets.add_cases(version.id, [SetCase(case=case, split=Split.CALIBRATION) for case in cases])
    labels = []
    for i, case in enumerate(cases):
        longer = "B" if i % 2 else "A"
        labels.append(
            Label(
                set_id=version.id,
                case_id=case.id,
                rubric="pairwise@1",
                annotator="ann",
                label=longer if i % 6 else {"A": "B", "B": "A"}[longer],
                created_at=NOON,
            )
        )
    store.labels.add(version.id, labels)
    store.sets.freeze(version.id, store.sets.digest(version.id))
    judge = service.roster.get("longer")
    await LocalRunner(store, service.judging).run(cases, RUBRIC, judge, source=source_of(version.id))
    labelled = await asyncio.to_thread(read_set, store, version.id, split=Split.CALIBRATION)
    [(made, statistics, fitted)] = measure(labelled, Split.CALIBRATION, NOON)
    store.calibrations.add(made, statistics, fitted)
    return made.id


def request(case: dict[str, str], **more: object) -> dict[str, object]:
    return {"rubric": "pairwise@1", "judge": "longer", "case": {"id": "x", **case}, **more}


async def test_a_calibrated_judge_is_demanded_before_any_call(client: httpx.AsyncClient, service: Service) -> None:
    body = request(pair(1000), require="calibrated")
    refused = await client.post("/v1/judgments", json=body)
    assert refused.status_code == 409
    assert refused.json()["code"] == "not_calibrated"
    assert refused.json()["trust"]["level"] == "uncalibrated"
    assert service.store.runs.list() == []
    identifier = await calibrated(service)
    answer = await client.post("/v1/judgments", json=body)
    assert answer.status_code == 201
    trust = answer.json()["trust"]
    assert trust["level"] == "calibrated"
    assert trust["n"] == 60
    assert trust["agreement"] == pytest.approx(50 / 60)
    assert trust["report"] == f"/v1/calibrations/{identifier}"
    read = await client.get(trust["report"])
    assert read.json()["statistics"]["judge"]["agreement"]["raw_agreement"]["numerator"] == 50
    assert "pairs" not in read.json()["statistics"]
    listed = await client.get("/v1/calibrations", params={"judge": "longer", "set": "demo@1"})
    assert [item["id"] for item in listed.json()["items"]] == [identifier]


async def test_a_run_demands_it_too_and_old_judgments_learn_it(client: httpx.AsyncClient, service: Service) -> None:
    earlier = await client.post("/v1/judgments", json=request(pair(2000)))
    assert earlier.json()["trust"]["level"] == "uncalibrated"
    run = {"rubric": "pairwise@1", "judge": "longer", "cases": [{"id": "y", **pair(3000)}], "require": "calibrated"}
    assert (await client.post("/v1/runs", json=run)).status_code == 409
    await calibrated(service)
    assert (await client.post("/v1/runs", json=run)).status_code == 202
    again = await client.get(f"/v1/judgments/{earlier.json()['id']}")
    assert again.json()["trust"]["level"] == "calibrated"


async def test_a_judgment_of_other_content_under_the_same_id_is_none_of_the_case(service: Service) -> None:
    await calibrated(service)
    judge = service.roster.get("longer")
    other = [Case(id="c0", input=pair(7000)), Case(id="c1", input=pair(1))]
    await LocalRunner(service.store, service.judging).run(other, RUBRIC, judge, source=source_of("demo@1"))
    labelled = await asyncio.to_thread(read_set, service.store, "demo@1")
    assert labelled.other_content == {"longer": ("c0",)}
    (column,) = labelled.dataset.columns
    assert [column.judgments[i] is None for i in (0, 1)] == [True, False]


async def test_what_was_measured_on_development_supports_no_trust(service: Service) -> None:
    await calibrated(service)
    labelled = await asyncio.to_thread(read_set, service.store, "demo@1")
    [(made, _, fitted)] = measure(labelled, Split.DEVELOPMENT, NOON)
    assert "no evidence" in (made.shortcoming or "")
    assert fitted is None


async def test_a_threshold_chosen_on_release_is_tuning(connect, service: Service) -> None:
    store = service.store
    store.sets.create("r", "pairwise@1")
    cases = [Case(id=f"c{i}", input=pair(i)) for i in range(12)]
    splits = [Split.RELEASE if i % 2 else Split.CALIBRATION for i in range(12)]
    store.sets.add_cases("r@1", [SetCase(case=case, split=split) for case, split in zip(cases, splits, strict=True)])
    store.sets.freeze("r@1", store.sets.digest("r@1"))
    judge = service.roster.get("longer")
    await LocalRunner(store, service.judging).run(cases, RUBRIC, judge, source=source_of("r@1"))
    lead = connect(Role.LEAD)

    async def look(**params: object):
        return await lead.get("/v1/sets/r@1/statistics", params={"resamples": 200, **params})

    usual = await look()
    assert (usual.json()["n_cases"], usual.json()["set"]["release_closed"]) == (6, 6)
    assert store.sets.uses("r@1") == []
    for _ in range(2):
        assert (await look(split="release")).status_code == 200
    assert [use.purpose.value for use in store.sets.uses("r@1")] == ["scored"]
    second = await look(split="release", failures="tie")
    assert second.status_code == 409
    assert second.json()["errors"][0]["path"] == "split"
    wrong = await look(threshold_from="colour=red")
    assert (wrong.status_code, wrong.json()["errors"][0]["path"]) == (422, "threshold_from")
    tuned = await look(threshold_from="split=release", again=True)
    assert tuned.status_code == 200
    assert [use.purpose.value for use in store.sets.uses("r@1")] == ["scored", "tuned", "tuned"]
    assert store.sets.split_counts("r@1")[Split.RELEASE] == 0
    for name in ("where", "by"):
        answer = await look(**{name: "nothing"})
        assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, name)
        assert name in answer.json()["detail"]


async def test_statistics_are_for_leads(connect, service: Service) -> None:
    await calibrated(service)
    lead = connect(Role.LEAD)
    answer = await lead.get("/v1/sets/demo@1/statistics", params={"resamples": 200, "by": "language"})
    assert answer.status_code == 200
    found = answer.json()
    assert found["judges"][0]["agreement"]["raw_agreement"]["denominator"] == 60
    assert found["slices"]["language"][0]["n"] == 60
    assert (await connect(Role.SCORE).get("/v1/sets/demo/statistics")).status_code == 403
    assert (await lead.get("/v1/sets/none/statistics")).status_code == 404
    counted = await lead.get(
        "/v1/sets/demo/statistics", params={"resamples": 200, "by": "language", "shares": ["label", "language"]}
    )
    assert [(row["of"], row["by"]) for row in counted.json()["shares"]][:2] == [("label", None), ("label", "language")]
    assert counted.json()["shares"][0]["shares"].keys() == {"A", "B", "tie"}
    unasked = await lead.get("/v1/sets/demo/statistics", params={"leave_out": "A"})
    assert (unasked.status_code, unasked.json()["errors"][0]["path"]) == (422, "leave_out")
    wrong = await lead.get("/v1/sets/demo/statistics", params={"positive": "C"})
    assert wrong.status_code == 422
    assert wrong.json()["errors"][0]["path"] == "positive"
    unknown = await lead.get("/v1/sets/demo/statistics", params={"judge": "overlap"})
    assert unknown.status_code == 404


async def test_numbers_of_a_run_and_of_two_runs(client: httpx.AsyncClient, service: Service) -> None:
    await calibrated(service)
    judge = service.roster.get("longer")
    runner = LocalRunner(service.store, service.judging)
    cases = [Case(id=f"n{i}", input=pair(2 * i + 5000), metadata={"part": i % 2}) for i in range(40)]
    other = [case.model_copy(update={"input": pair(2 * i + 5001)}) for i, case in enumerate(cases)]
    first = await runner.run(cases, RUBRIC, judge)
    second = await runner.run(other, RUBRIC, judge)
    shown = (await client.get(f"/v1/runs/{first.id}/aggregate", params={"slice": "part"})).json()
    assert shown["mean_score"]["value"] == 1.0
    assert shown["corrected"]["labels"]["A"]["raw"]["value"] == 1.0
    assert {key: part["n_scored"] for key, part in shown["slices"]["values"].items()} == {"0": 20, "1": 20}
    compared = (await client.get("/v1/comparisons", params={"a": first.id, "b": second.id, "slice": "part"})).json()
    assert compared["difference"]["mean"]["value"] == -1.0
    assert compared["difference"]["mean"]["interval_reason"] == "zero_variance"
    assert compared["verdict"] == "worse"
    assert compared["pass_rate_difference"]["high"] < 0
    assert (await client.get("/v1/runs/run_none/aggregate")).status_code == 404
    bad = await client.get(f"/v1/runs/{first.id}/aggregate", params={"slice": "colour"})
    assert bad.status_code == 422
    no_common = await client.get("/v1/comparisons", params={"a": first.id, "b": first.id, "mix": "perhaps"})
    assert no_common.status_code == 422
