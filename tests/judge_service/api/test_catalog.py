import hashlib
from datetime import UTC, datetime

import jsonschema
import pytest

from judge_service.domain.judge import Judge
from judge_service.domain.planted import ProbeCounts, ProbeResult
from judge_service.domain.principal import Role
from rubrics.registry import all_rubrics, get_rubric


async def test_rubrics_are_listed(client):
    items = (await client.get("/v1/rubrics")).json()["items"]
    assert {item["id"] for item in items} == {rubric.id for rubric in all_rubrics()}
    assert {"faithfulness@1", "pairwise@1"} <= {item["id"] for item in items}
    for item in items:
        assert item["content_hash"] == get_rubric(item["id"]).content_hash
        assert len(item["labels"]) >= 2


@pytest.mark.parametrize("rubric", all_rubrics(), ids=lambda rubric: rubric.id)
async def test_a_rubric_is_readable_in_full(client, rubric):
    response = await client.get(f"/v1/rubrics/{rubric.id}")
    assert response.status_code == 200
    body = response.json()
    assert body["content_hash"] == rubric.content_hash
    assert body["steps"] == dict(rubric.steps)
    assert [label["name"] for label in body["scale"]["labels"]] == list(rubric.scale.names)
    assert all(label["description"] for label in body["scale"]["labels"])
    assert body["scale"]["higher_is_better"] is rubric.scale.higher_is_better
    assert body["rules"]["score"]
    assert body["rules"]["length_policy"]
    assert body["rules"]["nothing_to_judge"]
    assert body["prompt_templates"]
    assert all(text.strip() for text in body["prompt_templates"].values())
    for name in ("case", "record", "label"):
        jsonschema.Draft202012Validator.check_schema(body["schemas"][name])
    assert body["schemas"]["decoding_samples"].keys() == rubric.sample_constraints().keys()
    for sample in body["schemas"]["decoding_samples"].values():
        if sample["type"] == "json_schema":
            jsonschema.Draft202012Validator.check_schema(sample["schema"])
        else:
            assert len(sample["choices"]) >= 2


async def test_a_plain_name_is_the_newest_version(client):
    assert (await client.get("/v1/rubrics/pairwise")).json()["id"] == get_rubric("pairwise").id


@pytest.mark.parametrize("name", ["pairwse", "pairwise@99", "@", "%00", "x" * 5000])
async def test_an_unknown_rubric_is_404_with_near_names(client, name):
    response = await client.get(f"/v1/rubrics/{name}")
    assert response.status_code == 404
    assert response.json()["code"] == "not_found"
    if name.startswith("pair"):
        assert any(suggestion.startswith("pairwise") for suggestion in response.json()["suggestions"])


async def test_judges_are_listed_with_their_hash(client, service):
    items = (await client.get("/v1/judges")).json()["items"]
    assert [item["name"] for item in items] == [judge.name for judge in service.roster.all()]
    assert {"constant", "longer", "overlap", "embedded"} <= {item["name"] for item in items}
    for item in items:
        assert item["content_hash"] == service.judging.judge_hash(service.roster.get(item["name"]))


async def test_a_judge_says_what_is_known_about_it(client):
    body = (await client.get("/v1/judges/longer")).json()
    assert body["order_policy"] == "both_orders"
    assert body["trust"]["pairwise@1"]["level"] == "uncalibrated"
    assert body["trust"]["pairwise@1"]["reason"]


async def test_options_are_for_those_who_run_judges_and_hold_no_secret(connect, service):
    options = {"base_url": "https://user:hunter2hunter2@llm.example.org/v1", "header": "Bearer sk-test-SECRET123"}
    service.roster.add(Judge(name="hosted", backend="litellm", model="m", options=options))
    assert "options" not in (await connect(Role.SCORE).get("/v1/judges/hosted")).json()
    shown = (await connect(Role.LEAD).get("/v1/judges/hosted")).json()["options"]
    assert shown["base_url"] == "https://llm.example.org/v1"
    assert "SECRET123" not in str(shown)
    assert "hunter2" not in str(shown)
    listed = await connect(Role.ADMIN).get("/v1/judges")
    assert "SECRET123" not in listed.text
    assert "hunter2" not in listed.text


@pytest.mark.parametrize("path", ["/v1/judges/longr", "/v1/judges/longr/check"])
async def test_an_unknown_judge_is_404_with_near_names(connect, path):
    response = await connect(Role.LEAD).get(path)
    assert response.status_code == 404
    assert response.json()["suggestions"][0] == "longer"


async def test_a_check_says_per_rubric_what_is_enforced(connect):
    lead = connect(Role.LEAD)
    body = (await lead.get("/v1/judges/overlap/check")).json()
    found = {rubric["rubric"]: rubric for rubric in body["rubrics"]}
    assert found["faithfulness@1"]["usable"] is True
    steps = [step["step"] for step in found["faithfulness@1"]["steps"]]
    assert steps == list(get_rubric("faithfulness@1").sample_constraints())
    assert all(step["enforcement"] == "none" for step in found["faithfulness@1"]["steps"])
    missing = (await lead.get("/v1/judges/embedded/check")).json()["rubrics"]
    assert all(rubric["usable"] is False for rubric in missing)
    assert missing[0]["problem"]["code"] == "missing_model"


async def test_a_check_with_a_call_says_what_the_model_answered(connect):
    lead = connect(Role.LEAD)
    body = (await lead.post("/v1/judges/overlap/check")).json()
    assert body["rubrics"] == (await lead.get("/v1/judges/overlap/check")).json()["rubrics"]
    assert body["call"] == {
        "ready": True,
        "constraint_honoured": None,
        "logprobs": False,
        "model": "baseline/overlap",
        "message": "No model to reach.",
    }
    missing = (await lead.post("/v1/judges/embedded/check")).json()["call"]
    assert missing["ready"] is False
    assert "judge-service models pull" in missing["message"]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_only_leads_and_admins_check_judges(connect, method):
    assert (await connect(Role.SCORE).request(method, "/v1/judges/overlap/check")).status_code == 403


async def test_a_key_is_made_shown_once_used_listed_and_revoked(connect, service):
    admin = connect(Role.ADMIN)
    made = await admin.post("/v1/keys", json={"name": "nightly", "role": "score"})
    assert made.status_code == 201
    body = made.json()
    assert body["key"].startswith(f"jk_{body['id']}_")
    assert body["last_four"] == body["key"][-4:]
    user = connect(None)
    user.headers["Authorization"] = f"Bearer {body['key']}"
    assert (await user.get("/v1/rubrics")).status_code == 200

    listed = await admin.get("/v1/keys")
    secret = body["key"].split("_")[2]
    assert secret not in listed.text
    (mine,) = [key for key in listed.json()["items"] if key["id"] == body["id"]]
    assert set(mine) == {"id", "name", "role", "last_four", "created_at", "last_used_at", "revoked_at"}

    revoked = await admin.post(f"/v1/keys/{body['id']}/revoke")
    assert revoked.json()["revoked_at"]
    assert (await user.get("/v1/rubrics")).status_code == 401
    again = await admin.post(f"/v1/keys/{body['id']}/revoke")
    assert again.json()["revoked_at"] == revoked.json()["revoked_at"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"name": "x"}, "role"),
        ({"name": "x", "role": "root"}, "role"),
        ({"name": "", "role": "score"}, "name"),
        ({"name": "a\nb", "role": "score"}, "name"),
        ({"name": "x", "role": "score", "key": "jk_mine"}, "key"),
    ],
)
async def test_a_bad_key_request_is_422(connect, body, path):
    response = await connect(Role.ADMIN).post("/v1/keys", json=body)
    assert response.status_code == 422
    assert response.json()["errors"][0]["path"] == path


async def test_an_unknown_key_is_404_and_no_key_id_422(connect):
    admin = connect(Role.ADMIN)
    assert (await admin.post("/v1/keys/aaaaaaaaaaaa/revoke")).status_code == 404
    assert (await admin.post("/v1/keys/nothing/revoke")).status_code == 422


async def test_the_digest_of_a_key_is_not_its_plain_hash(service):
    for key in service.store.keys.all():
        assert len(key.digest) == 64
        assert key.digest != hashlib.sha256(key.id.encode()).hexdigest()


async def test_probe_results_are_shown_with_intervals_and_whether_they_are_current(client, service):
    assert (await client.get("/v1/judges/overlap/probes")).json() == {"items": []}
    counts = ProbeCounts(probes=12, moved=3, held=6, broke=1, already=2)
    nothing = ProbeCounts(probes=2, already=2)
    judge_hash = service.judging.judge_hash(service.roster.get("overlap"))
    for number, known in enumerate(("0" * 64, judge_hash)):
        service.store.probes.add(
            ProbeResult(
                id=f"prb_{number}",
                judge="overlap",
                judge_hash=known,
                models=("overlap",),
                probe_set="d" * 64,
                total=counts,
                by_rubric={"faithfulness@1": counts, "refusal@1": nothing},
                by_kind={},
                by_place={},
                by_language={},
                created_at=datetime(2026, 1, 1 + number, tzinfo=UTC),
            )
        )
    items = (await client.get("/v1/judges/overlap/probes")).json()["items"]
    assert [(item["id"], item["current"]) for item in items] == [("prb_1", True), ("prb_0", False)]
    whole = items[0]["all"]
    assert (whole["moved"], whole["eligible"], whole["rate"]) == (3, 10, 0.3)
    # Wilson at 95% for 3 of 10.
    assert (round(whole["rate_low"], 4), round(whole["rate_high"], 4)) == (0.1078, 0.6032)
    none = items[0]["by_rubric"]["refusal@1"]
    assert (none["rate"], none["rate_low"], none["undefined_reason"]) == (
        None,
        None,
        "no clean verdict differed from what the planted text asks for",
    )
    assert items[0]["created_at"] == "2026-01-02T00:00:00+00:00"
    assert (await client.get("/v1/judges/nobody/probes")).status_code == 404
