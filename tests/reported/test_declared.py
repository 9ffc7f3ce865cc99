"""Faults of other tools with rubrics of their users' own, by their case ids, over the API."""

import json
from typing import Any

import httpx
import pytest

from judge_service.app import Service
from rubrics.registry import get_rubric
from tests.judge_service.api.requests import paths
from tests.reported.judged import scripted

ANSWER = {"id": "c", "answer": "It opened in 1931."}


def scale(*values: int) -> list[dict[str, Any]]:
    return [{"value": value, "description": f"As good as {value}."} for value in values]


def rubric(*criteria: dict[str, Any], **more: Any) -> dict[str, Any]:
    filled = [{"name": f"c{place}", "text": "Is it good?", **one} for place, one in enumerate(criteria)]
    return {"name": "mine", "version": 1, "inputs": ["answer"], "criteria": filled, **more}


async def ask(api: httpx.AsyncClient, service: Service, reply: dict[str, Any]) -> dict[str, Any]:
    service.roster.add(scripted(json.dumps(reply)))
    answer = await api.post("/v1/judgments", json={"rubric": "mine@1", "judge": "s", "case": ANSWER, "fresh": True})
    assert answer.status_code == 201, answer.text
    judgment: dict[str, Any] = answer.json()
    return judgment


@pytest.mark.parametrize(("raw", "right"), [(1, 0.0), (3, 0.5), (5, 1.0)])
async def test_case_020_a_level_is_normalised_by_the_rubrics_own_scale(
    api: httpx.AsyncClient, service: Service, raw: int, right: float
) -> None:
    made = await api.post("/v1/rubrics", json=rubric({"levels": scale(1, 2, 3, 4, 5)}))
    assert (made.status_code, made.headers["location"]) == (201, "/v1/rubrics/mine@1")
    judgment = await ask(api, service, {"c0": {"rationale": "So.", "level": raw}})
    assert (judgment["outcome"], judgment["score"], judgment["label"]) == ("scored", right, str(raw))
    only = judgment["record"]["criteria"]["c0"]
    assert (only["level"], only["normalised"]) == (raw, right)


async def test_case_020_the_scale_reaches_the_judge_and_binds_it(api: httpx.AsyncClient, service: Service) -> None:
    await api.post("/v1/rubrics", json=rubric({"levels": scale(0, 1, 2)}))
    shown = (await api.get("/v1/rubrics/mine@1")).json()["schemas"]["decoding_samples"]["judge"]["schema"]
    assert shown["properties"]["c0"]["properties"]["level"] == {"type": "integer", "enum": [0, 1, 2]}
    judgment = await ask(api, service, {"c0": {"rationale": "So.", "level": 4}})
    assert (judgment["outcome"], judgment["reason"], judgment["score"]) == ("judge_error", "schema_error", None)


async def test_case_020_the_total_is_computed_by_code(api: httpx.AsyncClient, service: Service) -> None:
    scores = [0.9, 0.8, 1.0, 0.6, 0.55]
    criteria = [{"labels": [{"name": "no", "score": 0}, {"name": "yes", "score": score}]} for score in scores]
    await api.post("/v1/rubrics", json=rubric(*criteria))
    reply = {f"c{place}": {"rationale": "The total is 3.85.", "label": "yes"} for place in range(5)}
    judgment = await ask(api, service, reply)
    assert judgment["score"] == judgment["record"]["overall"] == pytest.approx(0.77, abs=1e-12)
    judgment = await ask(api, service, reply | {"total": 3.85})
    assert (judgment["outcome"], judgment["score"]) == ("judge_error", None)


async def run_of(api: httpx.AsyncClient, service: Service, rubric_id: str, level: int) -> str:
    name = rubric_id.replace("@", "-")
    service.roster.add(scripted(*[json.dumps({"c0": {"rationale": "", "level": level}})] * 2, name=name))
    cases = [ANSWER | {"id": f"c{number}"} for number in range(2)]
    made = await api.post("/v1/runs", json={"rubric": rubric_id, "judge": name, "cases": cases})
    assert made.status_code == 202, made.text
    run_id: str = made.json()["id"]
    await service.background.wait(run_id)
    return run_id


async def test_case_020_scores_of_two_scales_are_not_averaged_unless_it_is_said(
    api: httpx.AsyncClient, service: Service
) -> None:
    await api.post("/v1/rubrics", json=rubric({"levels": scale(1, 2, 3, 4, 5)}))
    await api.post("/v1/rubrics", json=rubric({"levels": scale(0, 1, 2)}, version=2))
    runs = {"a": await run_of(api, service, "mine@1", 5), "b": await run_of(api, service, "mine@2", 1)}
    refused = await api.get("/v1/comparisons", params=runs)
    assert (refused.status_code, refused.json()["code"]) == (409, "not_comparable")
    assert paths(refused) == ["rubric", "scale"]
    assert refused.json()["differences"] == [
        "The runs were made under different rubrics (mine@1 and mine@2).",
        "Their scales differ (1, 2, 3, 4, 5 and 0, 1, 2).",
    ]
    report = await api.get(f"/v1/runs/{runs['b']}/report", params={"form": "json", "compare": runs["a"]})
    assert report.status_code == 200, report.text
    assert report.json()["comparison"]["comparable"] is False
    assert "difference" not in report.json()["comparison"]
    said = (await api.get("/v1/comparisons", params={**runs, "mix": True})).json()
    # Both on 0 to 1 by their own scales: 5 of 1..5 is 1, 1 of 0..2 is one half.
    assert (said["mean_a"]["value"], said["mean_b"]["value"]) == (1.0, 0.5)
    assert len(said["mixed"]) == 2


@pytest.mark.parametrize(
    ("weights", "where"),
    [
        ([0, 0], ["criteria[0].weight", "criteria[1].weight"]),
        ([1, -1], ["criteria[1].weight"]),
        ([1, "NaN"], ["criteria[1].weight"]),
        ([1, "Infinity"], ["criteria[1].weight"]),
    ],
)
async def test_case_022_weights_that_cannot_be_divided_by_are_refused_at_creation(
    api: httpx.AsyncClient, weights: list[Any], where: list[str]
) -> None:
    refused = await api.post("/v1/rubrics", json=rubric(*({"levels": scale(1, 2), "weight": one} for one in weights)))
    assert refused.status_code == 422
    assert paths(refused) == where
    assert f"criterion c{where[0][9]}" in refused.json()["errors"][0]["message"]
    assert (await api.get("/v1/rubrics/mine@1")).status_code == 404


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity"])
async def test_case_022_a_bare_token_that_is_no_number_is_refused_as_a_weight(
    api: httpx.AsyncClient, token: str
) -> None:
    body = json.dumps(rubric({"levels": scale(1, 2), "weight": 1}, {"levels": scale(1, 2), "weight": "HERE"}))
    raw = body.replace('"HERE"', token)
    refused = await api.post("/v1/rubrics", content=raw, headers={"Content-Type": "application/json"})
    assert (refused.status_code, refused.json()["code"]) == (400, "malformed_request")
    assert token in refused.json()["detail"]
    assert (await api.get("/v1/rubrics/mine@1")).status_code == 404


@pytest.mark.parametrize(("weights", "right"), [([0.5, 0.5, 0.5], 1 / 3), ([1, 0, 0], 1.0)])
async def test_case_022_weights_are_relative_and_zero_is_reported_not_scored(
    api: httpx.AsyncClient, service: Service, weights: list[float], right: float
) -> None:
    made = await api.post("/v1/rubrics", json=rubric(*({"levels": scale(1, 2), "weight": one} for one in weights)))
    assert made.status_code == 201
    reply = {f"c{place}": {"rationale": "", "level": level} for place, level in enumerate((2, 1, 1))}
    judgment = await ask(api, service, reply)
    assert judgment["score"] == right
    assert [one["level"] for one in judgment["record"]["criteria"].values()] == [2, 1, 1]
    assert "reported, not scored" in (await api.get("/v1/rubrics/mine")).json()["rules"]["score"]


@pytest.mark.parametrize(
    ("labels", "where"),
    [([], "criteria[0].labels"), (["pass"], "criteria[0].labels"), (["pass", "Pass "], "criteria[0].labels[1]")],
)
async def test_case_054_labels_that_make_no_grammar_are_refused_at_creation(
    api: httpx.AsyncClient, labels: list[str], where: str
) -> None:
    refused = await api.post("/v1/rubrics", json=rubric({"labels": labels}))
    assert (refused.status_code, paths(refused)) == (422, [where])


async def test_a_version_never_changes_and_names_of_installed_rubrics_are_taken(api: httpx.AsyncClient) -> None:
    one = rubric({"levels": scale(1, 2)})
    assert [(await api.post("/v1/rubrics", json=one)).status_code for _ in range(2)] == [201, 200]
    assert (await api.post("/v1/rubrics", json=one | {"title": "Other"})).status_code == 409
    assert (await api.post("/v1/rubrics", json=one | {"version": 2, "title": "Other"})).status_code == 201
    assert (await api.post("/v1/rubrics", json=one | {"name": "pairwise", "version": 2})).status_code == 409
    listed = [item["id"] for item in (await api.get("/v1/rubrics")).json()["items"]]
    assert [name for name in listed if name.startswith("mine")] == ["mine@1", "mine@2"]
    assert (await api.get("/v1/rubrics/mine@1")).json()["declaration"]["criteria"][0]["weight"] == 1.0


async def test_it_is_there_after_a_start_and_used_by_baselines(api: httpx.AsyncClient, service: Service) -> None:
    made = await api.post("/v1/rubrics", json=rubric({"levels": scale(1, 2, 3)}))
    service.stored_rubrics.close()
    with pytest.raises(KeyError):
        get_rubric("mine")
    async with Service.open(service.settings):
        assert get_rubric("mine@1").content_hash == made.json()["content_hash"]
        wanted = {"rubric": "mine", "judge": "constant", "case": ANSWER}
        judgment = (await api.post("/v1/judgments", json=wanted)).json()
        assert (judgment["outcome"], judgment["label"]) == ("scored", "1")
    with pytest.raises(KeyError):
        get_rubric("mine")
