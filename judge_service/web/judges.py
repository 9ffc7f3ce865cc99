"""Pages of judges: each with its trust per rubric, and one with its settings, hash and measurements.

How trust is decided is `reports.trust`'s. Options of a backend (addresses, paths, names of variables) are not shown.
"""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse

from judge_service.domain.calibration import Calibration
from judge_service.domain.judge import Judge
from judge_service.domain.judgment import Trust, TrustLevel
from judge_service.errors import NotFound
from judge_service.gate.route import GuardedRoute, needs
from judge_service.security.roles import Permission
from judge_service.web.pages import render
from judge_service.web.services import Services, services_of
from rubrics.registry import all_rubrics

router = APIRouter(include_in_schema=False, route_class=GuardedRoute)

MARKS = {
    TrustLevel.CALIBRATED: "✓ Calibrated",
    TrustLevel.INSUFFICIENT: "◔ Insufficient",
    TrustLevel.STALE: "↻ Stale",
    TrustLevel.UNCALIBRATED: "? Uncalibrated",
}


@dataclass(frozen=True, slots=True)
class Rated:
    """A judge with its hash, None for a panel whose members are not all there, and its trust by rubric."""

    judge: Judge
    hash: str | None
    trust: tuple[tuple[str, Trust], ...]

    @property
    def known(self) -> tuple[tuple[str, Trust], ...]:
        """Rubrics under which something was measured."""
        return tuple((rubric, one) for rubric, one in self.trust if one.level is not TrustLevel.UNCALIBRATED)


def _rated(services: Services, judge: Judge) -> Rated:
    try:
        digest = services.judging.judge_hash(judge)
    except NotFound:
        return Rated(judge, None, ())
    source = services.judging.trust
    trust = tuple(
        (rubric.id, source.trust(rubric.id, rubric.content_hash, judge, digest, None)) for rubric in all_rubrics()
    )
    return Rated(judge, digest, trust)


@router.get("/judges")
@needs(Permission.CHECK_JUDGES)
async def list_judges(request: Request) -> HTMLResponse:
    """Every judge with what is known about it."""
    services = services_of(request)
    await services.stored_judges.fresh()

    def read() -> list[Rated]:
        found = [_rated(services, judge) for judge in services.roster.all()]
        # What was measured first: there is something to read about it.
        return sorted(found, key=lambda one: (not one.known, one.judge.name.casefold()))

    return render(request, "judges.html.j2", judges=await asyncio.to_thread(read), marks=MARKS)


@router.get("/judges/{name}")
@needs(Permission.CHECK_JUDGES)
async def show_judge(request: Request, name: Annotated[str, Path(min_length=1, max_length=64)]) -> HTMLResponse:
    """One judge: trust per rubric with its reason, settings, hash, the models that answered."""
    services = services_of(request)
    await services.stored_judges.fresh()

    def read() -> dict[str, Any]:
        judge = services.roster.get(name)
        rated = _rated(services, judge)
        measured = [
            one for one in services.store.calibrations.all() if one.judge_hash == rated.hash or one.judge == judge.name
        ]
        measured.sort(key=lambda one: one.created_at, reverse=True)
        return {"rated": rated, "judge": judge, "measured": measured, "models": _models(measured, rated.hash)}

    return render(request, "judge.html.j2", marks=MARKS, report=_report, **await asyncio.to_thread(read))


def _models(measured: list[Calibration], digest: str | None) -> list[str]:
    """The models that answered for this configuration, newest first."""
    return list(dict.fromkeys(model for one in measured if one.judge_hash == digest for model in one.models))


def _report(reference: str, rubric: str) -> str:
    return f"/reports/{quote(reference)}?rubric={quote(rubric)}"
