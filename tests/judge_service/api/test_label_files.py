"""Labels over HTTP as files: out, in again, and the same; and what is refused."""

import json

import pytest

from judge_service.domain.principal import Role
from tests.judge_service.api.test_sets import NDJSON, lines
from tests.judge_service.sets.labels import KINDS, LABELS, cases

MEDIA = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "label-studio": "application/json",
}


@pytest.fixture
async def lead(connect):
    """A lead, and a set `pairs` with every kind of label; `copy` holds its cases only."""
    client = connect(Role.LEAD)
    for name in ("pairs", "copy"):
        await client.post("/v1/sets", json={"name": name, "rubric": "pairwise@1"})
        await client.post(f"/v1/sets/{name}/cases", content=lines(cases(3)), headers=NDJSON)
    given = await client.post("/v1/sets/pairs/labels", content=lines(LABELS), headers=NDJSON)
    assert given.json()["labels"]["added"] == len(LABELS)
    return client


async def written(lead, name: str, kind: str = "jsonl"):
    response = await lead.get(f"/v1/sets/{name}/export", params={"kind": kind, "labels": True})
    assert response.status_code == 200
    return response


@pytest.mark.parametrize("way", ["body", "form"])
@pytest.mark.parametrize("kind", KINDS)
async def test_labels_come_back_exactly(lead, kind: str, way: str) -> None:
    out = await written(lead, "pairs", kind)
    ending = "json" if kind == "label-studio" else kind
    assert out.headers["content-disposition"] == f'attachment; filename="pairs-1-labels.{ending}"'
    assert out.headers["content-type"].partition(";")[0] == MEDIA[kind]
    for added, unchanged in ((len(LABELS), 0), (0, len(LABELS))):
        if way == "body":
            done = await lead.post("/v1/sets/copy/labels", content=out.content, headers={"Content-Type": MEDIA[kind]})
        else:
            files = {"file": (f"labels.{ending}", out.content, "application/octet-stream")}
            done = await lead.post("/v1/sets/copy/labels", files=files, data={"kind": kind})
        assert done.status_code == 200, done.text
        assert done.json()["labels"] == {"added": added, "unchanged": unchanged, "unjoined": []}
    for each in KINDS:
        if each != "parquet":
            assert (await written(lead, "copy", each)).content == (await written(lead, "pairs", each)).content
    digests = [(await lead.post(f"/v1/sets/{name}/freeze")).json()["content_hash"] for name in ("pairs", "copy")]
    assert digests[0] == digests[1]


async def test_a_whole_set_comes_back_from_parquet(lead) -> None:
    out = await lead.get("/v1/sets/pairs/export", params={"kind": "parquet"})
    assert out.headers["content-disposition"] == 'attachment; filename="pairs-1.parquet"'
    await lead.post("/v1/sets", json={"name": "again"})
    done = await lead.post("/v1/sets/again/cases", content=out.content, headers={"Content-Type": MEDIA["parquet"]})
    assert (done.json()["cases"]["added"], done.json()["labels"]["added"]) == (3, len(LABELS))
    assert (await written(lead, "again")).content == (await written(lead, "pairs")).content


@pytest.mark.parametrize(
    ("content", "media", "status", "path"),
    [
        (b"{", "application/json", 422, "file"),
        (b"[]", "application/json", 422, "file"),
        (b'[{"data": {}, "annotations": [{}]}]', "application/json", 422, "[0].annotations[0]"),
        (b"PAR1 no such file", "application/vnd.apache.parquet", 422, "file"),
        (b"case_id,label\r\nmodel-x/0,purple\r\n", "text/csv", 422, "record 2: label"),
        (b"x", "image/png", 415, None),
    ],
)
async def test_a_file_that_cannot_be_read_is_refused_as_a_whole(lead, content, media, status, path) -> None:
    before = (await written(lead, "pairs")).content
    refused = await lead.post("/v1/sets/pairs/labels", content=content, headers={"Content-Type": media})
    assert refused.status_code == status
    assert path is None or path in [problem["path"] for problem in refused.json()["errors"]]
    assert (await written(lead, "pairs")).content == before


async def test_only_labels_are_read_from_tasks(lead) -> None:
    tasks = (await written(lead, "pairs", "label-studio")).content
    json.loads(tasks)
    cases_ = await lead.post("/v1/sets/copy/cases", content=tasks, headers={"Content-Type": "application/json"})
    assert cases_.status_code == 415
    verdicts = await lead.post("/v1/sets/copy/verdicts", content=b"{}", params={"kind": "label-studio"}, headers=NDJSON)
    assert (verdicts.status_code, verdicts.json()["errors"][0]["path"]) == (422, "kind")


async def test_nobody_without_the_right_takes_labels_out(connect, lead) -> None:
    for kind in KINDS:
        refused = await connect(Role.ANNOTATE).get("/v1/sets/pairs/export", params={"kind": kind, "labels": True})
        assert refused.status_code == 403
