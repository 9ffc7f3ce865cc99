"""Reports of runs, and of two runs compared, in every form. Computes nothing: that is `reports.run_report`'s."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from judge_service.api.documents import GUARDED, answers, problems
from judge_service.api.run_documents import RunId
from judge_service.api.services import RubricRoute, services_of
from judge_service.api.statistics import Mix, SliceKey, computed
from judge_service.gate.route import needs
from judge_service.security.roles import Permission

router = APIRouter(prefix="/v1", tags=["runs"], route_class=RubricRoute)

_MEAN: dict[str, Any] = {
    "value": 0.84,
    "low": 0.80,
    "high": 0.87,
    "n": 118,
    "method": "t",
    "undefined_reason": None,
    "level": 0.95,
}
_REPORT: dict[str, Any] = {
    "kind": "run_report",
    "run": {"id": "run_0d9c8b7a6f5e4d3c2b1a0f9e8d7c6b5a", "rubric": "faithfulness@1", "judge": "embedded"},
    "numbers": {"n_total": 120, "n_scored": 118, "mean_score": _MEAN, "bounds": {"low": 0.82, "high": 0.85, "n": 120}},
    "failures": [{"outcome": "judge_error", "reason": "timeout", "n": 2, "fix": "Raise `limits.timeout_s`."}],
    "usage": {"calls": 240, "cost_usd": 0.031, "latency_ms": {"p50": {"value": 812.0, "n": 120}}},
    "slices": [],
    "comparison": None,
}


@router.get(
    "/runs/{run_id}/report",
    summary="Read a run's report",
    response_class=Response,
    responses={
        200: {
            "description": "The report: as JSON every number with interval, n, method and reason.",
            "content": {
                "application/json": {"example": _REPORT},
                "text/html": {"example": "<!doctype html>..."},
                "text/markdown": {"example": "### Mean score 0.840 (0.801 to 0.872, n = 118)"},
                "text/csv": {"example": "figure,value,low,high,n,method,undefined_reason,interval_reason\n"},
            },
        },
        **problems(*GUARDED, 404, 409, 422, 503),
    },
)
@needs(Permission.READ_RUNS)
async def read_report(
    request: Request,
    run_id: RunId,
    form: Annotated[Literal["json", "html", "md", "csv"], Query(description="Shape of the answer.")] = "json",
    by: Annotated[list[str] | None, Query(max_length=20, description="Metadata keys (or `group`) to slice by.")] = None,
    compare: Annotated[
        str | None, Query(min_length=1, max_length=64, description="Also say what changed since this run.")
    ] = None,
    mix: Mix = False,
) -> Response:
    """Outcomes, score with interval and bounds, verdicts raw and corrected, slices, cost and time of a run.

    With `compare` also the run minus that one; where the two must not be compared, `comparison` says why and holds no
    number. `html` is one file that needs no network.
    """
    from judge_service.reports.run_forms import FORMS, render
    from judge_service.reports.run_report import run_report

    store = services_of(request).store
    text = await computed(lambda: render(run_report(store, run_id, by=by or (), compare=compare, mix=mix), form))
    headers = {} if form == "json" else {"Content-Disposition": f'attachment; filename="{run_id}.{form}"'}
    return Response(text, media_type=FORMS[form], headers=headers)


@router.get(
    "/runs/{run_id}/comparison",
    summary="Compare a run with another",
    responses={
        **answers(
            "The run minus the other, on the cases that both scored.",
            {
                "comparable": True,
                "a": {
                    "run": "run_before",
                    "left_out": {"not_in_the_other": 2, "not_scored": {"judge_error:timeout": 1}},
                },
                "b": {"run": "run_0d9c8b7a6f5e4d3c2b1a0f9e8d7c6b5a", "left_out": {"not_in_the_other": 0}},
                "n_paired": 117,
                "difference": {"mean": {**_MEAN, "value": 0.04}, "wins": 9, "losses": 4, "ties": 104},
                "verdict": "not separated",
                "examples": {"wins": [{"case_id": "kettle-7", "delta": 1.0}]},
            },
        ),
        **problems(*GUARDED, 404, 409, 422, 503),
    },
)
@needs(Permission.READ_RUNS)
async def read_comparison(
    request: Request,
    run_id: RunId,
    other: Annotated[str, Query(alias="with", min_length=1, max_length=64, description="The run to compare with.")],
    by: SliceKey = None,
    mix: Mix = False,
) -> dict[str, Any]:
    """The paired difference with its interval, who won where, what was left out on each side, and cases to read.

    Runs under different rubric contents or enforcement answer 409 with `differences`, unless `mix` is set.
    """
    from judge_service.reports.comparison import compare_runs

    store = services_of(request).store
    return await computed(lambda: compare_runs(store, other, run_id, by=by, mix=mix))
