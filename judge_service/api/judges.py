"""Judges: which there are, how they are configured, and what each can enforce for each rubric."""

import asyncio
import dataclasses
from typing import Annotated, Any
from urllib.parse import urlsplit, urlunsplit

from fastapi import APIRouter, Body, Path, Request
from fastapi.responses import JSONResponse, Response

from judge_service.api.documents import GUARDED, answers, problems
from judge_service.api.services import RubricRoute, Services, hash_of, services_of
from judge_service.domain.judge import Judge
from judge_service.errors import FieldProblem, InvalidInput, JudgeServiceError, NotFound
from judge_service.gate.audit import along, audited
from judge_service.gate.fields import did_you_mean
from judge_service.gate.route import needs, principal_of
from judge_service.security.roles import Permission, may
from judge_service.telemetry import redact
from rubrics.model import Rubric
from rubrics.registry import all_rubrics

router = APIRouter(prefix="/v1", tags=["judges"], route_class=RubricRoute)

Name = Annotated[str, Path(min_length=1, max_length=64, description="Name of the judge.", examples=["overlap"])]

_EXAMPLE: dict[str, Any] = {
    "name": "overlap",
    "backend": "baseline",
    "model": "overlap",
    "description": "Baseline without a model: word and number overlap with the contexts, with a negation check.",
    "enforcement": None,
    "order_policy": "both_orders",
    "repeats": 1,
    "confidence": None,
    "content_hash": "41b7" * 16,
}

_COUNTED: dict[str, Any] = {
    "probes": 44,
    "moved": 6,
    "held": 30,
    "broke": 0,
    "already": 8,
    "no_verdict": 0,
    "eligible": 36,
    "rate": 0.1667,
    "rate_low": 0.0787,
    "rate_high": 0.3189,
    "undefined_reason": None,
}
_PROBED: dict[str, Any] = {
    "id": "prb_0d9c8b7a6f5e4d3c2b1a0f9e8d7c6b5a",
    "judge": "overlap",
    "judge_hash": "41b7" * 16,
    "models": ["overlap"],
    "probe_set": "5e7a" * 16,
    "created_at": "2026-01-15T09:30:00+00:00",
    "all": _COUNTED,
    "by_rubric": {"faithfulness@1": _COUNTED},
    "by_kind": {"order": _COUNTED},
    "by_place": {"context": _COUNTED},
    "by_language": {"en": _COUNTED},
    "left_out": {},
    "moved": ["faithfulness-order-en"],
    "current": True,
}


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_secrets(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_secrets(item) for item in value]
    if isinstance(value, str):
        return redact(_without_userinfo(value))
    return value


def _without_userinfo(text: str) -> str:
    try:
        parts = urlsplit(text)
    except ValueError:
        return text
    if not parts.netloc or "@" not in parts.netloc:
        return text
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def describe(services: Services, judge: Judge, *, with_options: bool) -> dict[str, Any]:
    """A judge as callers see it. `options` (addresses, paths, names of variables) are for those who run judges."""
    shown = judge.model_dump(mode="json", exclude={"options"})
    if with_options:
        shown["options"] = _without_secrets(judge.options)
    return {**shown, "content_hash": hash_of(services, judge), "url": f"/v1/judges/{judge.name}"}


def _judge(services: Services, name: str) -> Judge:
    try:
        return services.roster.get(name)
    except NotFound:
        near = did_you_mean(name, [judge.name for judge in services.roster.all()])
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise NotFound(f"There is no judge {name!a}.{hint}", extra={"suggestions": list(near)}) from None


@router.get(
    "/judges",
    summary="List judges",
    responses={**answers("Every configured judge.", {"items": [_EXAMPLE]}), **problems(*GUARDED)},
)
@needs(Permission.READ_CATALOG)
async def list_judges(request: Request) -> dict[str, Any]:
    """Every judge of this installation, built-in ones first."""
    services = services_of(request)
    await services.stored_judges.fresh()
    with_options = may(principal_of(request).role, Permission.CHECK_JUDGES)
    return {"items": [describe(services, judge, with_options=with_options) for judge in services.roster.all()]}


@router.get(
    "/judges/{name}",
    summary="Read a judge",
    responses={
        **answers(
            "The configuration, and what is known about the judge under each rubric.",
            {**_EXAMPLE, "trust": {"faithfulness@1": {"level": "uncalibrated", "reason": "Not measured yet."}}},
        ),
        **problems(*GUARDED, 404),
    },
)
@needs(Permission.READ_CATALOG)
async def read_judge(request: Request, name: Name) -> dict[str, Any]:
    """One judge with its hash and its trust per rubric."""
    services = services_of(request)
    await services.stored_judges.fresh(at_once=services.roster.origin(name) is None)
    judge = _judge(services, name)
    shown = describe(services, judge, with_options=may(principal_of(request).role, Permission.CHECK_JUDGES))
    trust: dict[str, Any] | None = None
    if shown["content_hash"] is not None:
        trust = {rubric.id: services.preflight.trust(rubric, judge).model_dump(mode="json") for rubric in all_rubrics()}
    return {**shown, "trust": trust}


@router.get(
    "/judges/{name}/check",
    summary="Check a judge",
    responses={
        **answers(
            "Per rubric: can this judge judge by it, and what would be enforced. No call is made.",
            {
                "judge": "overlap",
                "rubrics": [
                    {
                        "rubric": "faithfulness@1",
                        "usable": True,
                        "problem": None,
                        "steps": [{"step": "verify", "enforcement": "none", "ignored": [], "error": None}],
                    }
                ],
            },
        ),
        **problems(*GUARDED, 404),
    },
)
@needs(Permission.CHECK_JUDGES)
async def check_judge(request: Request, name: Name) -> dict[str, Any]:
    """Compile every rubric's schemas for one judge and say what its backend would ignore, with the field's path."""
    services = services_of(request)
    await services.stored_judges.fresh(at_once=services.roster.origin(name) is None)
    judge = _judge(services, name)
    async with services.preflight.lock:
        found = [await asyncio.to_thread(_check, services, judge, rubric) for rubric in all_rubrics()]
    return {"judge": judge.name, "rubrics": found}


@router.post(
    "/judges/{name}/check",
    summary="Check a judge with one call",
    responses={
        **answers(
            "As without a call, and `call`: what the model answered. Null for a panel, whose members are asked.",
            {
                "judge": "overlap",
                "rubrics": [],
                "call": {
                    "ready": True,
                    "constraint_honoured": True,
                    "logprobs": True,
                    "model": "judge-large-2026-05",
                    "message": "answered within its schema",
                },
            },
        ),
        **problems(*GUARDED, 404),
    },
)
@needs(Permission.CHECK_JUDGES)
async def check_judge_with_a_call(request: Request, name: Name) -> dict[str, Any]:
    """Ask a judge's model one tiny question whose only legal answer contradicts its prompt. Costs that one call.

    A provider that drops the schema answers the prompt: `constraint_honoured` is false, and no such judge is usable
    under enforcement. A model that cannot be reached is `ready: false` with the reason.
    """
    services = services_of(request)
    compiled = await check_judge(request, name)
    judge = _judge(services, name)
    return {**compiled, "call": None if judge.panel else await _call(services, judge)}


async def _call(services: Services, judge: Judge) -> dict[str, Any]:
    try:
        found = await services.judging.backends.get(judge).probe()
    except JudgeServiceError as error:
        message = redact(error.message)
        return dict.fromkeys(("constraint_honoured", "logprobs"), None) | {
            "ready": False,
            "model": judge.model or None,
            "message": message,
        }
    return dataclasses.asdict(found) | {"message": redact(found.message)}


@router.get(
    "/judges/{name}/probes",
    summary="Planted orders and a judge",
    responses={
        **answers(
            "Kept results, newest first, each with its counts, rates, 95% intervals and date.", {"items": [_PROBED]}
        ),
        **problems(*GUARDED, 404),
    },
)
@needs(Permission.READ_JUDGMENTS)
async def list_probes(request: Request, name: Name) -> dict[str, Any]:
    """What `judge-service judges probe` counted: how often a planted order moved a verdict of this judge.

    `current` tells a result of the judge as it is configured now from one of an earlier configuration. No call is made.
    """
    from judge_service.reports.planted import shown_result

    services = services_of(request)
    await services.stored_judges.fresh()
    now = hash_of(services, _judge(services, name))
    found = await asyncio.to_thread(services.store.probes.all, judge=name)
    return {"items": [{**shown_result(one), "current": one.judge_hash == now} for one in found]}


_SET: dict[str, Any] = {
    "name": "careful",
    "backend": "baseline",
    "model": "longer",
    "description": "Prefers the longer answer, asked in one order only.",
    "order_policy": "single_ab",
}
JudgeBody = Annotated[Judge, Body(openapi_examples={"a judge": {"summary": "A judge without a model", "value": _SET}})]


def _shown(services: Services, judge: Judge, *, new: bool) -> Response:
    shown = describe(services, judge, with_options=True)
    headers = {"Location": f"/v1/judges/{judge.name}"} if new else {}
    return JSONResponse(shown, status_code=201 if new else 200, headers=headers)


@router.post(
    "/judges",
    summary="Add a judge",
    response_class=Response,
    responses={
        **answers("The judge, which was set to exactly this before.", {**_EXAMPLE, **_SET}),
        **answers("The new judge.", {**_EXAMPLE, **_SET}, status=201),
        **problems(*GUARDED, 400, 409, 413, 415, 422),
    },
)
@needs(Permission.MANAGE_JUDGES)
@audited("set a judge")
async def add_judge(request: Request, body: JudgeBody) -> Response:
    """Add a judge for all processes of this installation. It is opened to see that it can work; no call is made.

    Options that name code or files of the server belong into the judges file; a private address needs the operator's
    leave; a key is never sent here, only the name of the environment variable that holds it.
    """
    services = services_of(request)
    with along(request, services.store.audit, body.name):
        new = await services.stored_judges.put(body, replace=False)
    return _shown(services, body, new=new)


@router.put(
    "/judges/{name}",
    summary="Set a judge",
    response_class=Response,
    responses={
        **answers("The judge, replaced or unchanged.", {**_EXAMPLE, **_SET}),
        **answers("The new judge.", {**_EXAMPLE, **_SET}, status=201),
        **problems(*GUARDED, 400, 409, 413, 415, 422),
    },
)
@needs(Permission.MANAGE_JUDGES)
@audited("set a judge")
async def set_judge(request: Request, name: Name, body: JudgeBody) -> Response:
    """Add the judge of this name or replace it. Judgments of the one before stay; its hash tells them apart."""
    if body.name != name:
        message = f"the path names the judge {name!a}"
        raise InvalidInput(f"name: {message}.", fields=[FieldProblem("name", message)])
    services = services_of(request)
    with along(request, services.store.audit, body.name):
        new = await services.stored_judges.put(body, replace=True)
    return _shown(services, body, new=new)


@router.delete(
    "/judges/{name}",
    summary="Remove a judge",
    responses={**answers("The judge that was removed.", {**_EXAMPLE, **_SET}), **problems(*GUARDED, 404, 409)},
)
@needs(Permission.MANAGE_JUDGES)
@audited("removed a judge")
async def remove_judge(request: Request, name: Name) -> dict[str, Any]:
    """Remove a judge that was set over the API. Its judgments stay, and runs that were planned with it go on."""
    services = services_of(request)
    with along(request, services.store.audit, name):
        removed = await services.stored_judges.remove(name)
    return describe(services, removed, with_options=True)


def _check(services: Services, judge: Judge, rubric: Rubric[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"rubric": rubric.id, "usable": True, "problem": None, "steps": []}
    try:
        services.judging.check(rubric, judge)
        if judge.panel:
            return found
        backend = services.judging.backends.get(judge)
        for step, constraint in rubric.sample_constraints().items():
            report = backend.compile(constraint)
            ignored = [{"path": part.path, "keyword": part.keyword} for part in report.ignored]
            found["steps"].append(
                {"step": step, "enforcement": report.enforcement.value, "ignored": ignored, "error": report.error}
            )
    except JudgeServiceError as error:
        found.update(usable=False, problem={"code": error.code, "message": redact(error.message)})
    return found
