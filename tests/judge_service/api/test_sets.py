"""Calibration sets over HTTP: the way from files to a frozen version, and every refusal on it."""

import json
from typing import Any

import pytest

from judge_service.domain.principal import Role

CASES = [
    {
        "id": f"p{n}",
        "prompt": f"Question {n}?",
        "response_a": f"yes {n}",
        "response_b": "no",
        "human_label": "AB"[n % 2],
    }
    for n in range(6)
]


def lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
def lead(connect):
    return connect(Role.LEAD)


async def test_from_files_to_a_frozen_version_and_back(lead):
    made = await lead.post("/v1/sets", json={"name": "pairs", "rubric": "pairwise"})
    assert (made.status_code, made.headers["location"]) == (201, "/v1/sets/pairs@1")
    assert made.json()["rubric"] == "pairwise@1"
    files = {"file": ("cases.jsonl", lines(CASES), "application/octet-stream")}
    done = await lead.post("/v1/sets/pairs/cases", files=files, data={"split": "release"})
    assert done.status_code == 200
    assert done.json()["cases"] == {"added": 6, "unchanged": 0, "unjoined": []}
    again = await lead.post("/v1/sets/pairs/cases", content=lines(CASES), headers=NDJSON)
    assert again.json()["labels"] == {"added": 0, "unchanged": 6, "unjoined": []}
    table = b"case_id;label;annotator\r\np0;A;ada\r\nnobody;B;ada\r\n"
    labels = await lead.post("/v1/sets/pairs/labels", content=table, headers={"Content-Type": "text/csv"})
    assert labels.json()["labels"] == {"added": 1, "unchanged": 0, "unjoined": ["nobody"]}
    groups = await lead.post("/v1/sets/pairs/groups", json={"threshold": 0.9, "apply": True})
    assert (groups.json()["n_groups"], groups.json()["applied"]) == (6, True)
    split = await lead.post("/v1/sets/pairs/splits", json={"development": 0, "calibration": 1, "release": 1})
    assert sum(split.json()["cases"].values()) == 6
    frozen = await lead.post("/v1/sets/pairs/freeze")
    assert frozen.status_code == 200
    digest = frozen.json()["content_hash"]
    for kind, media in (("jsonl", "application/x-ndjson"), ("csv", "text/csv")):
        exported = await lead.get("/v1/sets/pairs@1/export", params={"kind": kind})
        assert exported.headers["content-disposition"] == f'attachment; filename="pairs-1.{kind}"'
        await lead.post("/v1/sets", json={"name": kind})
        await lead.post(f"/v1/sets/{kind}/cases", content=exported.content, headers={"Content-Type": media})
        copied = await lead.post(f"/v1/sets/{kind}/freeze")
        assert copied.json()["content_hash"] == digest
    verdicts = [
        {"case_id": "p0", "judge": "GPT-4", "order": order, "verdict": slot}
        for order, slot in (("AB", "first"), ("BA", "second"))
    ]
    judged = await lead.post("/v1/sets/pairs/verdicts", content=lines(verdicts), headers=NDJSON)
    (judge,) = judged.json()["judges"]
    assert (judge["judge"], judge["outcomes"], judge["not_judged"]) == ("GPT-4", {"scored": 1}, 5)
    results = await lead.get(f"/v1/runs/{judge['run_id']}/results")
    assert results.status_code == 200
    await lead.post("/v1/sets", json={"name": "pairs", "from": "pairs@1"})
    difference = await lead.get("/v1/sets/pairs@1/differences", params={"to": "pairs@2"})
    assert difference.json()["same"] is True
    listed = await lead.get("/v1/sets")
    assert [version["id"] for version in listed.json()["items"]] == ["csv@1", "jsonl@1", "pairs@1", "pairs@2"]
    seen = await lead.get("/v1/sets/pairs@1")
    assert seen.json()["labels"]["blind"] == 7
    assert {use["purpose"] for use in seen.json()["uses"]} <= {"exported"}


async def test_refusals_name_what_is_wrong(lead):
    await lead.post("/v1/sets", json={"name": "s", "rubric": "pairwise@1"})
    await lead.post("/v1/sets/s/cases", content=lines(CASES), headers=NDJSON)
    changed = await lead.post("/v1/sets/s/cases", content=lines([CASES[0] | {"response_a": "other"}]), headers=NDJSON)
    assert changed.status_code == 409
    assert changed.json()["differences"][0]["field"] == "response_a"
    doubled = await lead.post("/v1/sets/s/cases", content=lines([CASES[1], CASES[1]]), headers=NDJSON)
    assert doubled.status_code == 422
    assert doubled.json()["errors"][0]["path"] == "line 2: id"
    for path, options, field in (
        ("cases", {"split": "testing"}, "split"),
        ("cases", {"format": "excel"}, "format"),
        ("cases", {"map": "nothing"}, "map"),
        ("cases", {"colour": "red"}, "query.colour"),
        ("labels", {"rubric": "nonsense"}, "rubric"),
        ("verdicts", {"threshold": "2"}, "threshold"),
        ("verdicts", {"threshold": "NaN"}, "threshold"),
    ):
        refused = await lead.post(f"/v1/sets/s/{path}", content=lines(CASES), headers=NDJSON, params=options)
        assert refused.status_code == 422, refused.text
        assert refused.json()["errors"][0]["path"] == field
    assert (await lead.post("/v1/sets/s/cases", content=b"", headers=NDJSON)).status_code == 422
    assert (await lead.post("/v1/sets/s/cases", json={"cases": []})).status_code == 415
    broken = await lead.post("/v1/sets/s/cases", content=b"PAR1", headers={"Content-Type": "application/x-parquet"})
    assert broken.status_code == 422
    assert (await lead.post("/v1/sets", json={"name": "s"})).status_code == 409
    assert (await lead.post("/v1/sets", json={"name": "two words"})).status_code == 422
    assert (await lead.post("/v1/sets", json={"name": "t", "rubric": "nonsense"})).status_code == 422
    assert (await lead.post("/v1/sets", json={"name": "t", "from": "s@1"})).status_code == 422
    assert (await lead.get("/v1/sets/nothing")).status_code == 404
    assert (await lead.get("/v1/sets/a b")).status_code == 422


async def test_what_leaks_blocks_the_freeze(lead):
    await lead.post("/v1/sets", json={"name": "s", "rubric": "pairwise@1"})
    rows = [CASES[0] | {"group": "g", "split": "release"}, CASES[1] | {"group": "g", "split": "calibration"}]
    await lead.post("/v1/sets/s/cases", content=lines(rows), headers=NDJSON)
    frozen = await lead.post("/v1/sets/s/freeze")
    assert frozen.status_code == 409
    assert frozen.json()["leaks"] == [{"kind": "group", "what": "g", "case_ids": ["p0", "p1"]}]


async def test_looking_at_the_release_split_is_recorded(lead):
    await lead.post("/v1/sets", json={"name": "s", "rubric": "pairwise@1"})
    rows = [CASES[0] | {"split": "release"}, CASES[1]]
    await lead.post("/v1/sets/s/cases", content=lines(rows), headers=NDJSON)
    await lead.post("/v1/sets/s/freeze")

    def ids(response):
        return [json.loads(line)["case"]["id"] for line in response.text.splitlines()]

    assert ids(await lead.get("/v1/sets/s/cases")) == ["p1"]
    assert (await lead.get("/v1/sets/s")).json()["uses"] == []
    assert ids(await lead.get("/v1/sets/s/cases", params={"split": "release"})) == ["p0"]
    seen = (await lead.get("/v1/sets/s")).json()
    assert [use["purpose"] for use in seen["uses"]] == ["viewed"]
    assert seen["splits"] == {"development": 1, "calibration": 1, "release": 0, "monitoring": 0}


async def test_a_request_sent_twice_makes_one_version(lead):
    await lead.post("/v1/sets", json={"name": "s", "rubric": "pairwise@1"})
    answers = [
        await lead.post("/v1/sets", json={"name": "s", "from": "s@1"}, headers={"Idempotency-Key": "once"})
        for _ in range(2)
    ]
    assert [answer.json()["id"] for answer in answers] == ["s@2", "s@2"]
    assert answers[1].headers["idempotent-replayed"] == "true"
    assert len((await lead.get("/v1/sets")).json()["items"]) == 2


@pytest.mark.parametrize("role", [Role.SCORE, Role.ANNOTATE])
async def test_sets_are_for_leads(connect, role):
    for method, path in (("GET", "/v1/sets"), ("GET", "/v1/sets/s/cases"), ("POST", "/v1/sets/s/cases")):
        assert (await connect(role).request(method, path)).status_code == 403
