"""Judgments: one case judged now, or read again.

A judge's failure is a result (`outcome: judge_error`) and answers 200 or 201; only what keeps the service from
judging at all is an error.
"""

import asyncio
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Path, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from judge_service.api.cases import case_in
from judge_service.api.documents import GUARDED, answers, problems
from judge_service.api.examples import JUDGMENT, JUDGMENT_REQUESTS
from judge_service.api.idempotency import KEY_PARAMETER, Stored, key_in, scope_of
from judge_service.api.preflight import demand_calibrated, unavailable
from judge_service.api.services import RubricRoute, named_in, services_of
from judge_service.domain.judgment import Judgment
from judge_service.errors import ConfigurationError, NotFound, ProviderRefused
from judge_service.gate.route import needs, principal_of
from judge_service.judging.judging import FatalJudgeError
from judge_service.security.roles import Permission

router = APIRouter(prefix="/v1", tags=["judgments"], route_class=RubricRoute)

ResultId = Annotated[str, Path(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9_-]+$")]


class JudgmentRequest(BaseModel):
    """One case to judge."""

    model_config = ConfigDict(extra="forbid", strict=True)

    rubric: str = Field(min_length=1, max_length=200, description="`name@version`, or `name` for the newest.")
    judge: str = Field(min_length=1, max_length=64, description="Name of a configured judge.")
    case: dict[str, Any] = Field(
        description="`id`, optional `group` and `metadata`, and the fields of the rubric's case model "
        "(flat, or under `input`). Without an id the case is named after its content."
    )
    require: Literal["calibrated"] | None = Field(
        default=None, description="Answer 409 instead of a judgment unless the judge is calibrated for this rubric."
    )
    fresh: bool = Field(default=False, description="Ask the judge again although this case is already judged.")


def _respond(judgment: Judgment, status: int, replayed: bool = False) -> Response:
    headers = {"Content-Location": f"/v1/judgments/{judgment.id}"}
    if status == HTTPStatus.CREATED:
        headers["Location"] = headers["Content-Location"]
    if replayed:
        headers["Idempotent-Replayed"] = "true"
    return Response(judgment.model_dump_json(), status_code=status, media_type="application/json", headers=headers)


@router.post(
    "/judgments",
    summary="Judge one case",
    response_class=Response,
    openapi_extra={"parameters": [KEY_PARAMETER]},
    responses={
        **answers("The judgment that was recorded before for exactly this work.", JUDGMENT, model=Judgment),
        **answers("A new judgment.", JUDGMENT, status=201, model=Judgment),
        **problems(*GUARDED, 400, 409, 413, 415, 422, 502, 503),
    },
)
@needs(Permission.JUDGE)
async def create_judgment(
    request: Request,
    body: Annotated[JudgmentRequest, Body(openapi_examples=JUDGMENT_REQUESTS)],
) -> Response:
    """Judge one case by a rubric with a judge, and record the judgment.

    The same case, rubric and judge again give the recorded judgment without a call, unless it was a
    `judge_error` or `fresh` is set. The outcome is `scored`, `not_applicable`, `inconsistent` or `judge_error`;
    only `scored` has a score.
    """
    services = services_of(request)
    idempotency_key = key_in(request)
    await services.stored_judges.fresh()
    rubric, judge = await named_in(services, body.rubric, body.judge)
    case = case_in(body.case, rubric)
    preflight = services.preflight
    if body.require is not None:
        demand_calibrated(preflight.trust(rubric, judge), judge, rubric)
    await preflight.check(rubric, judge)

    async def work() -> Stored[Judgment]:
        started = datetime.now(UTC)
        try:
            judgment = await services.executor.execute(case, rubric, judge, fresh=body.fresh)
        except FatalJudgeError as error:
            raise ProviderRefused from error
        except ConfigurationError as error:
            raise unavailable(judge, error) from error
        if judgment.created_at < started:
            judgment = services.judging.as_of_now(judgment, judge)
        if body.require is not None:
            demand_calibrated(judgment.trust, judge, rubric)
        return Stored(judgment.id, judgment, 201 if judgment.created_at >= started else 200)

    async def load(identifier: str) -> Judgment | None:
        return await asyncio.to_thread(services.store.judgments.get, identifier)

    scope = scope_of(principal_of(request), "POST /v1/judgments")
    content = None if idempotency_key is None else body.model_dump(mode="json")
    with services.admission.enter():
        stored, replayed = await services.once.make(scope, idempotency_key, content, work, load)
    return _respond(stored.value, HTTPStatus.OK if replayed else stored.status, replayed)


@router.get(
    "/judgments/{judgment_id}",
    summary="Read a judgment",
    response_class=Response,
    responses={**answers("The judgment with its calls.", JUDGMENT, model=Judgment), **problems(*GUARDED, 404, 422)},
)
@needs(Permission.READ_JUDGMENTS)
async def read_judgment(request: Request, judgment_id: ResultId) -> Response:
    """One judgment with its record, calls, usage and trust, also when a later one has taken its place."""
    judgment = await asyncio.to_thread(services_of(request).store.judgments.get, judgment_id)
    if judgment is None:
        raise NotFound(f"There is no judgment {judgment_id}.")
    return _respond(services_of(request).judging.as_of_now(judgment), 200)
