import asyncio
import itertools
from typing import Any

import pytest

from judge_service.api.judgments import JudgmentRequest
from judge_service.backends.base import BackendFailure
from judge_service.backends.scripted import ScriptedBackend
from judge_service.domain.judge import Judge
from judge_service.domain.judgment import Judgment
from judge_service.domain.outcome import JudgeErrorReason
from judge_service.domain.principal import Role
from judge_service.gate.limits import Admission
from judge_service.judging.judging import Judging
from judge_service.runs.execute import Executor
from tests.judge_service.api.requests import claims, pair, paths


async def test_a_pair_is_judged_recorded_and_read_again(client):
    response = await client.post("/v1/judgments", json=pair())
    assert response.status_code == 201, response.text
    body = response.json()
    judgment = Judgment.model_validate(body)
    assert (judgment.outcome, judgment.label, judgment.score) == ("scored", "A", 1.0)
    assert judgment.rubric == "pairwise@1"
    assert judgment.judge == "longer"
    assert len(judgment.rubric_hash) == len(judgment.judge_hash) == len(judgment.case_hash) == 64
    assert {call.order for call in judgment.calls} == {"AB", "BA"}
    assert judgment.enforcement == "none"
    assert judgment.latency_ms >= 0
    assert judgment.trust.level == "uncalibrated"
    assert judgment.trust.reason
    assert response.headers["location"] == f"/v1/judgments/{judgment.id}"

    again = await client.get(response.headers["location"])
    assert again.status_code == 200
    assert again.json() == body


async def test_the_same_work_twice_is_one_judgment(client):
    first = await client.post("/v1/judgments", json=pair())
    second = await client.post("/v1/judgments", json=pair())
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()


async def test_fresh_asks_again_and_keeps_the_earlier_one_readable(client):
    first = (await client.post("/v1/judgments", json=pair())).json()
    second = await client.post("/v1/judgments", json=pair() | {"fresh": True})
    assert second.status_code == 201
    assert second.json()["id"] != first["id"]
    assert second.json()["identity"] == first["identity"]
    assert (await client.get(f"/v1/judgments/{first['id']}")).json() == first


async def test_faithfulness_is_judged(client):
    response = await client.post("/v1/judgments", json=claims())
    judgment = Judgment.model_validate(response.json())
    assert (judgment.outcome, judgment.score, judgment.label) == ("scored", 1.0, "supported")


async def test_nothing_to_judge_is_an_outcome_without_a_number(client):
    response = await client.post("/v1/judgments", json=claims(answer=""))
    assert response.status_code == 201
    body = response.json()
    assert (body["outcome"], body["reason"], body["score"], body["label"]) == (
        "not_applicable",
        "empty_answer",
        None,
        None,
    )


async def test_a_failing_judge_is_a_result_and_the_next_try_takes_its_place(client, service):
    judge = Judge(name="broken", backend="scripted", model="broken")
    backend = ScriptedBackend(["no json", "no json"])
    service.roster.add(judge)
    service.backends.put(judge, backend)
    first = await client.post("/v1/judgments", json=claims() | {"judge": "broken"})
    assert first.status_code == 201
    assert (first.json()["outcome"], first.json()["score"]) == ("judge_error", None)
    assert first.json()["reason"] == "parse_error"
    assert first.json()["calls"][0]["raw"] == "no json"


async def test_a_refused_provider_key_is_502_without_a_word_about_the_key(client, service):
    judge = Judge(name="locked", backend="scripted", model="locked")
    failure = BackendFailure(
        JudgeErrorReason.PROVIDER_ERROR, "401 from llm.example.org for sk-test-SECRET123", fatal=True
    )
    service.roster.add(judge)
    service.backends.put(judge, ScriptedBackend([failure] * 4))
    response = await client.post("/v1/judgments", json=claims() | {"judge": "locked"})
    assert response.status_code == 502
    assert response.json()["code"] == "provider_refused"
    assert "SECRET123" not in response.text


@pytest.mark.parametrize(
    ("judge", "code"),
    [
        (Judge(name="odd", backend="nowhere"), "judge_unavailable"),
        (Judge(name="odd", backend="litellm", model="openai/x", options={"no_such_option": 1}), "judge_unavailable"),
    ],
)
async def test_a_judge_that_is_configured_wrongly_is_503(client, service, judge, code):
    service.roster.add(judge)
    response = await client.post("/v1/judgments", json=pair() | {"judge": "odd"})
    assert response.status_code == 503
    assert response.json()["code"] == code
    assert "retry-after" in response.headers


async def test_a_panel_without_a_member_is_503_and_is_still_listed(connect, client, service):
    service.roster.add(Judge(name="board", backend="scripted", panel=("longer", "gone")))
    response = await client.post("/v1/judgments", json=pair() | {"judge": "board"})
    assert response.status_code == 503
    assert response.json()["code"] == "judge_unavailable"
    assert "gone" in response.json()["detail"]
    (listed,) = [judge for judge in (await client.get("/v1/judges")).json()["items"] if judge["name"] == "board"]
    assert listed["content_hash"] is None
    assert (await client.get("/v1/judges/board")).json()["trust"] is None
    checked = (await connect(Role.LEAD).get("/v1/judges/board/check")).json()["rubrics"]
    assert all(not rubric["usable"] for rubric in checked)


async def test_a_panel_judges(client, service):
    service.roster.add(Judge(name="board", backend="baseline", panel=("longer", "constant", "longer"), quorum=2))
    response = await client.post("/v1/judgments", json=pair() | {"judge": "board"})
    assert response.status_code == 201, response.text
    assert response.json()["label"] == "A"


async def test_a_judge_that_does_not_fit_the_rubric_is_422(client):
    response = await client.post("/v1/judgments", json=claims() | {"judge": "embedded-direct"})
    assert response.status_code == 422
    assert paths(response) == ["judge.elicitation"]


async def test_when_too_much_is_under_way_more_is_503(client, service):
    service.admission = Admission(1)
    with service.admission.enter():
        response = await client.post("/v1/judgments", json=pair())
    assert (response.status_code, response.json()["code"]) == (503, "unavailable")
    assert int(response.headers["retry-after"]) > 0
    assert (await client.post("/v1/judgments", json=pair())).status_code == 201


async def test_a_slash_at_the_end_is_no_redirect(client):
    response = await client.post("/v1/judgments/", json=pair(), headers={"Host": "attacker.example.org"})
    assert response.status_code == 404
    assert "location" not in response.headers


async def test_without_the_embedded_model_its_judge_says_what_to_do(client):
    response = await client.post("/v1/judgments", json=pair() | {"judge": "embedded"})
    assert response.status_code == 503
    assert response.json()["code"] == "missing_model"
    assert "models pull" in response.json()["detail"]


async def test_require_calibrated_is_409_with_the_reason_and_no_call(client, service):
    response = await client.post("/v1/judgments", json=pair() | {"require": "calibrated"})
    assert response.status_code == 409
    body = response.json()
    assert body["code"] == "not_calibrated"
    assert "uncalibrated" in body["detail"]
    assert body["trust"]["level"] == "uncalibrated"
    recorded = await client.post("/v1/judgments", json=pair())
    assert recorded.status_code == 201


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"rubric": "pairwize"}, "rubric"),
        ({"rubric": ""}, "rubric"),
        ({"rubric": "pairwise@99"}, "rubric"),
        ({"rubric": "pairwise@1@2"}, "rubric"),
        ({"rubric": "\u0000"}, "rubric"),
        ({"rubric": 7}, "rubric"),
        ({"judge": "lnoger"}, "judge"),
        ({"judge": None}, "judge"),
        ({"case": []}, "case"),
        ({"require": "trusted"}, "require"),
        ({"fresh": "yes"}, "fresh"),
        ({"unknown": 1}, "unknown"),
    ],
)
async def test_a_bad_field_is_422_with_its_path(client, change, path):
    response = await client.post("/v1/judgments", json=pair() | change)
    assert response.status_code == 422
    assert paths(response) == [path]


@pytest.mark.parametrize("field", ["rubric", "judge", "case"])
async def test_a_missing_field_is_422_with_its_path(client, field):
    request = pair()
    del request[field]
    response = await client.post("/v1/judgments", json=request)
    assert response.status_code == 422
    assert paths(response) == [field]
    assert response.json()["detail"] == f"{field} is required."


async def test_unknown_names_come_with_near_ones(client):
    response = await client.post("/v1/judgments", json=pair() | {"judge": "longr"})
    assert response.json()["suggestions"][0] == "longer"
    assert "Did you mean longer" in response.json()["detail"]
    response = await client.post("/v1/judgments", json=pair() | {"rubric": "pairwise@9"})
    assert "pairwise@1" in response.json()["suggestions"]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"answer": None}, "case.answer"),
        ({"contexts": [3]}, "case.contexts[0]"),
        ({"contexts": "text"}, "case.contexts"),
        ({"anwser": "x"}, "case.anwser"),
        ({"id": ""}, "case.id"),
        ({"id": "x" * 600}, "case.id"),
        ({"metadata": {"a": [1]}}, "case.metadata.a"),
        ({"metadata": 1}, "case.metadata"),
        ({"group": {}}, "case.group"),
    ],
)
async def test_a_bad_field_of_a_case_is_422_with_its_path(client, changes, path):
    response = await client.post("/v1/judgments", json=claims(**changes))
    assert response.status_code == 422, response.text
    assert any(found.startswith(path) for found in paths(response)), paths(response)
    assert all(error["message"].startswith(error["path"]) for error in response.json()["errors"])


async def test_the_fields_of_a_case_may_stand_under_input(client):
    flat = pair("same")
    case = dict(flat["case"])
    nested = flat | {"case": {"id": case.pop("id"), "input": case}}
    first = await client.post("/v1/judgments", json=flat)
    second = await client.post("/v1/judgments", json=nested)
    assert second.json()["id"] == first.json()["id"]


async def test_a_case_without_an_id_is_named_after_its_content(client):
    request: dict[str, Any] = pair()
    del request["case"]["id"]
    first = (await client.post("/v1/judgments", json=request)).json()
    second = (await client.post("/v1/judgments", json=request)).json()
    assert first["case_id"].startswith("case-")
    assert first["id"] == second["id"]


async def test_text_reaches_the_record_unchanged(client):
    text = "{{ 7*7 }} {% raw %} <|im_end|> \u202e ‘quotes’ \u0000 \U0001f600"
    response = await client.post("/v1/judgments", json=pair(text, response_a=text))
    assert response.status_code == 201
    assert response.json()["case_id"] == text


@pytest.mark.parametrize("identifier", ["nothing", "jdg_" + "0" * 32])
async def test_an_unknown_judgment_is_404(client, identifier):
    response = await client.get(f"/v1/judgments/{identifier}")
    assert (response.status_code, response.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("identifier", ["a b", "%00", "x" * 200, "%F0%9F%98%80"])
async def test_what_cannot_be_an_id_is_422(client, identifier):
    response = await client.get(f"/v1/judgments/{identifier}")
    assert response.status_code == 422
    assert paths(response) == ["path.judgment_id"]


async def test_an_idempotency_key_names_one_judgment(client):
    headers = {"Idempotency-Key": "k-1"}
    first = await client.post("/v1/judgments", json=pair() | {"fresh": True}, headers=headers)
    second = await client.post("/v1/judgments", json=pair() | {"fresh": True}, headers=headers)
    assert (first.status_code, second.status_code) == (201, 200)
    assert second.json() == first.json()
    assert second.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers


async def test_an_idempotency_key_with_another_body_is_409(client):
    headers = {"Idempotency-Key": "k-1"}
    await client.post("/v1/judgments", json=pair(), headers=headers)
    response = await client.post("/v1/judgments", json=pair("other"), headers=headers)
    assert (response.status_code, response.json()["code"]) == (409, "conflict")


async def test_a_refused_request_leaves_its_idempotency_key_free(client):
    headers = {"Idempotency-Key": "k-1"}
    assert (await client.post("/v1/judgments", json=pair(response_a=None), headers=headers)).status_code == 422
    assert (await client.post("/v1/judgments", json=pair(), headers=headers)).status_code == 201


async def test_idempotency_keys_of_two_callers_do_not_meet(connect):
    headers = {"Idempotency-Key": "k-1"}
    first = await connect().post("/v1/judgments", json=pair(), headers=headers)
    second = await connect().post("/v1/judgments", json=pair("other"), headers=headers)
    assert (first.status_code, second.status_code) == (201, 201)


@pytest.mark.parametrize("key", ["", "two words", "x" * 201, "é"])
async def test_an_unusable_idempotency_key_is_422(client, key):
    headers = [(b"Idempotency-Key", key.encode())]
    response = await client.post("/v1/judgments", json=pair(), headers=headers)
    assert response.status_code == 422
    assert paths(response) == ["header.Idempotency-Key"]


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k"}])
@pytest.mark.parametrize("fresh", [False, True])
async def test_twenty_posts_at_once_give_one_judgment(client, service, monkeypatch, headers, fresh):
    # No judgment begins before all are here: with one key that is the first, and the others wait for it.
    awaited, all_here = itertools.count(1 if headers else 20, -1), asyncio.Event()
    execute, judge = Executor.execute, Judging.judge

    async def counted(self, *arguments, **options):
        if next(awaited) == 1:
            all_here.set()
        return await execute(self, *arguments, **options)

    async def held(self, *arguments, **options):
        await all_here.wait()
        return await judge(self, *arguments, **options)

    monkeypatch.setattr(Executor, "execute", counted)
    monkeypatch.setattr(Judging, "judge", held)
    responses = await asyncio.gather(
        *(client.post("/v1/judgments", json=pair() | {"fresh": fresh}, headers=headers) for _ in range(20))
    )
    assert {response.status_code for response in responses} <= {200, 201}
    assert len({response.json()["id"] for response in responses}) == 1
    assert len(service.store.judgments.history(responses[0].json()["identity"])) == 1


async def test_twenty_different_bodies_under_one_key_give_one_judgment_and_conflicts(client):
    responses = await asyncio.gather(
        *(
            client.post("/v1/judgments", json=pair(f"c{number}"), headers={"Idempotency-Key": "k"})
            for number in range(20)
        )
    )
    assert sorted(response.status_code for response in responses) == [201] + [409] * 19


async def test_annotators_see_no_judgment(connect):
    made = await connect(Role.SCORE).post("/v1/judgments", json=pair())
    annotator = connect(Role.ANNOTATE)
    assert (await annotator.get(f"/v1/judgments/{made.json()['id']}")).status_code == 403
    assert (await annotator.post("/v1/judgments", json=pair())).status_code == 403


def test_the_request_model_is_strict():
    assert JudgmentRequest.model_config["strict"]
    assert JudgmentRequest.model_config["extra"] == "forbid"
