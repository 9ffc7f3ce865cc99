"""Starting a calibration over HTTP: judges judge a frozen set by ordinary runs, then they are measured."""

import asyncio
from http import HTTPStatus
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from judge_service.api.documents import GUARDED, answers, problems
from judge_service.api.idempotency import KEY_PARAMETER, Stored, key_in, scope_of
from judge_service.api.services import RubricRoute, Services, judge_in, services_of
from judge_service.domain.calibration_set import SetVersion, Split
from judge_service.domain.canonical import content_hash
from judge_service.domain.judge import Judge
from judge_service.errors import Conflict, FieldProblem, InvalidInput, JudgeServiceError, NotFound
from judge_service.gate.route import needs, principal_of
from judge_service.reports.labelled_set import rubric_of, source_of
from judge_service.reports.measuring import once_on_release
from judge_service.security.roles import Permission
from judge_service.sets.calibrating import Calibrating
from rubrics.model import Rubric

router = APIRouter(prefix="/v1", tags=["statistics"], route_class=RubricRoute)

Method = Literal["logistic", "temperature", "beta", "histogram", "isotonic", "none"]


class CalibrationRequest(BaseModel):
    """Judges to measure on a frozen set."""

    model_config = ConfigDict(
        extra="forbid",
        populate_by_name=True,
        json_schema_extra={"examples": [{"set": "helpdesk@1", "judges": ["longer"], "split": "calibration"}]},
    )

    set_name: str = Field(
        alias="set", min_length=1, max_length=80, description="`name@version`, or `name` for the newest version."
    )
    judges: list[str] = Field(min_length=1, max_length=20, description="Judges to measure, by name.")
    split: Split = Field(default=Split.CALIBRATION, description="Split to measure on.")
    rubric: str | None = Field(
        default=None, max_length=200, description="Rubric whose labels count; the set's own by default."
    )
    map: Method = Field(default="logistic", description="How the confidence is recalibrated, on the calibration split.")
    retry_errors: bool = Field(default=False, description="Ask again where the recorded outcome is a judge error.")


_STATE: dict[str, Any] = {
    "id": "mea_0d9c8b7a6f5e4d3c2b1a0f9e8d7c6b5a",
    "set": "helpdesk@1",
    "split": "calibration",
    "rubric": "pairwise@1",
    "status": "judging",
    "message": None,
    "runs": [
        {
            "judge": "longer",
            "run": "run_0d9c8b7a6f5e4d3c2b1a0f9e8d7c6b5a",
            "url": "/v1/runs/run_0d9c8b7a6f5e4d3c2b1a0f9e8d7c6b5a",
        }
    ],
    "calibrations": [],
    "calibrations_url": "/v1/calibrations?set=helpdesk@1",
}


def state(found: Calibrating) -> dict[str, Any]:
    """How far it is: `judging`, `measuring`, `measured` with its calibrations, or `failed` with a message."""
    return {
        "id": found.id,
        "set": found.version.id,
        "split": found.split.value,
        "rubric": found.rubric.id,
        "status": found.status,
        "message": found.message,
        "runs": [{"judge": name, "run": run, "url": f"/v1/runs/{run}"} for name, run in found.runs.items()],
        "calibrations": [{"id": one, "url": f"/v1/calibrations/{one}"} for one in found.calibrations],
        "calibrations_url": f"/v1/calibrations?set={found.version.id}",
    }


@router.post(
    "/calibrations",
    status_code=202,
    summary="Start a calibration",
    response_class=JSONResponse,
    openapi_extra={"parameters": [KEY_PARAMETER]},
    responses={
        **answers("The judges' runs are stored and go on; they are measured when all have ended.", _STATE, status=202),
        **problems(*GUARDED, 404, 409, 422, 503),
    },
)
@needs(Permission.MANAGE_SETS)
async def start_calibration(request: Request, wanted: CalibrationRequest) -> JSONResponse:
    """Have judges judge a frozen set and keep what they are worth: later judgments carry it as trust.

    What was judged before is not asked again. A judge that was recorded elsewhere is measured on its verdicts. The
    same request with the same Idempotency-Key says how far it is; in another process or after a restart of the service
    it goes on with it, and the measurement is stored once.
    """
    services = services_of(request)
    idempotency_key = key_in(request)
    scope = scope_of(principal_of(request), "POST /v1/calibrations")
    content = wanted.model_dump(mode="json")
    keys = services.store.idempotency
    await services.stored_judges.fresh()

    async def work() -> Stored[Calibrating]:
        begun = await _begun(services, wanted, None if idempotency_key is None else [scope, idempotency_key])
        known = await accepted(begun.id)
        if not known:
            await _check(services, begun)
        if idempotency_key is not None:
            # Before a judge is asked: of several requests under one key only those for the same begin anything.
            await asyncio.to_thread(keys.claim, scope, idempotency_key, content_hash(content), begun.id)
        try:
            started = await services.calibrators.start(begun, retry_errors=wanted.retry_errors)
        except JudgeServiceError:
            if idempotency_key is not None and not known:
                await asyncio.to_thread(keys.release, scope, idempotency_key)
            raise
        return Stored(started.id, started, 202)

    async def accepted(identifier: str) -> bool:
        """True when this very measurement was begun under the key: its own look at a release split is no second one."""
        if idempotency_key is None:
            return False
        return await asyncio.to_thread(keys.find, scope, idempotency_key, content_hash(content)) == identifier

    async def load(identifier: str) -> Calibrating | None:
        return services.calibrators.get(identifier)

    stored, replayed = await services.once.make(scope, idempotency_key, content, work, load)
    headers = {"Idempotent-Replayed": "true"} if replayed else None
    return JSONResponse(state(stored.value), HTTPStatus.ACCEPTED, headers)


async def _begun(services: Services, wanted: CalibrationRequest, under: list[str] | None) -> Calibrating:
    """The calibration that is asked for, `under` a key or not. Stores and asks nothing."""

    def look() -> tuple[SetVersion, Rubric[Any], set[str]]:
        version = services.store.sets.get(wanted.set_name)
        if version.status != "frozen":
            raise Conflict(f"The set {version.id} is not frozen. Freeze it: POST /v1/sets/{version.id}/freeze.")
        labels = {label.rubric for label in services.store.labels.of(version.id)}
        if next(iter(services.store.sets.cases(version.id, wanted.split)), None) is None:
            message = f"the split {wanted.split.value} of {version.id} holds no case"
            raise InvalidInput(fields=[FieldProblem("split", message)])
        made = {run.judge.name for run in services.store.runs.of_source(source_of(version.id))}
        return version, rubric_of(version, labels, wanted.rubric), made

    version, rubric, made = await asyncio.to_thread(look)
    judges: dict[str, Judge | None] = {}
    hashes = []
    for place, name in enumerate(wanted.judges):
        judges[name] = _judge(services, name, f"judges[{place}]", made)
        hashes.append([name, _hash(services, judges[name])])
    method = None if wanted.map == "none" else wanted.map
    named = [version.id, version.content_hash, rubric.content_hash, wanted.split.value, method, hashes, under]
    identifier = f"mea_{content_hash(named)[:32]}"
    return Calibrating(identifier, version, rubric, wanted.split, method, judges, once=under is not None)


async def _check(services: Services, begun: Calibrating) -> None:
    """Raises what keeps the judges from being measured, before anything is asked or stored."""
    for name, judge in begun.judges.items():
        judge_hash = _hash(services, judge)
        await asyncio.to_thread(once_on_release, services.store, begun.version, name, judge_hash, begun.split)
        if judge is not None:
            await services.preflight.check(begun.rubric, judge)


def _hash(services: Services, judge: Judge | None) -> str | None:
    return None if judge is None else services.judging.judge_hash(judge)


def _judge(services: Services, name: str, path: str, made: set[str]) -> Judge | None:
    """The configured judge; None for one that judged the set elsewhere."""
    try:
        return services.roster.get(name)
    except NotFound:
        return None if name in made else judge_in(services, name, path=path)
