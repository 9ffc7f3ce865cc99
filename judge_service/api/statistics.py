"""What is measured: statistics of judges on a set, stored calibrations, the numbers of runs, two runs compared.

Everything is computed on threads, a few at a time. Owns no figure.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Path, Query, Request

from judge_service.api.documents import GUARDED, answers, problems
from judge_service.api.run_documents import RunId
from judge_service.api.services import RubricRoute, services_of
from judge_service.domain.calibration_set import Split
from judge_service.errors import NotFound, Unavailable
from judge_service.gate.route import needs
from judge_service.security.roles import Permission

router = APIRouter(prefix="/v1", tags=["statistics"], route_class=RubricRoute)
T = TypeVar("T")

AT_ONCE = 2
"""Computations under way at once; more are answered 503, so that judging keeps its threads."""
_turns = threading.BoundedSemaphore(AT_ONCE)

SetReference = Annotated[
    str, Path(min_length=1, max_length=80, description="`name@version`, or `name` for the newest version.")
]
SliceKey = Annotated[
    str | None, Query(alias="slice", max_length=200, description="Metadata key (or `group`) to slice by.")
]
Mix = Annotated[
    bool, Query(description="Average over different enforcement or rubric versions all the same; the answer says so.")
]
_ESTIMATE: dict[str, Any] = {
    "value": 0.81,
    "low": 0.74,
    "high": 0.87,
    "n": 120,
    "method": "wilson",
    "undefined_reason": None,
    "numerator": 97.0,
    "denominator": 120.0,
    "level": 0.95,
}
_CALIBRATION: dict[str, Any] = {
    "id": "cal_0d9c8b7a6f5e4d3c2b1a0f9e8d7c6b5a",
    "rubric": "pairwise@1",
    "rubric_hash": "9d2e" * 16,
    "judge": "longer",
    "judge_hash": "41b7" * 16,
    "models": ["longer"],
    "set_id": "helpdesk@1",
    "set_hash": "c0de" * 16,
    "split": "calibration",
    "runs": ["run_0d9c8b7a6f5e4d3c2b1a0f9e8d7c6b5a"],
    "n": 120,
    "groups": 118,
    "shortcoming": None,
    "agreement": 0.81,
    "agreement_low": 0.74,
    "agreement_high": 0.87,
    "kappa": 0.62,
    "position_consistency": 1.0,
    "ece": None,
    "created_at": "2026-01-15T09:30:00Z",
}


async def computed(work: Callable[[], T]) -> T:
    """`work` on a thread. Raises Unavailable when enough of it is under way."""
    if not _turns.acquire(blocking=False):
        raise Unavailable("Other statistics are being computed right now. Try again in a moment.")
    try:
        return await asyncio.to_thread(work)
    finally:
        _turns.release()


@router.get(
    "/sets/{reference}/statistics",
    summary="Measure judges on a set",
    responses={
        **answers(
            "Every figure of every judge, each with value, interval, n, method and, where it is null, the reason.",
            {
                "set": {"id": "helpdesk@1", "status": "frozen", "splits": ["calibration"]},
                "format": "set-statistics/1",
                "rubric": "pairwise@1",
                "n_labelled": 120,
                "humans": {"annotators": 3},
                "judges": [{"judge": "longer", "n": 120, "agreement": {"raw_agreement": _ESTIMATE}}],
                "comparisons": {"metric": "raw_agreement", "correction": "Holm over 0 pairs", "pairs": []},
                "selection": None,
                "slices": {},
            },
        ),
        **problems(*GUARDED, 404, 409, 422, 503),
    },
)
@needs(Permission.READ_STATISTICS)
async def read_statistics(
    request: Request,
    reference: SetReference,
    judge: Annotated[list[str] | None, Query(description="Judges to show; all that judged the set by default.")] = None,
    rubric: Annotated[str | None, Query(max_length=200, description="Rubric whose labels count.")] = None,
    split: Annotated[Split | None, Query(description="Cases of this split only.")] = None,
    where: Annotated[str | None, Query(max_length=400, description="`key=value`: cases with this metadata.")] = None,
    by: Annotated[list[str] | None, Query(description="Metadata keys to show slices by.")] = None,
    shares: Annotated[
        list[str] | None,
        Query(description="What to count over all cases: `label`, `label:ANNOTATOR`, or metadata keys."),
    ] = None,
    leave_out: Annotated[
        list[str] | None,
        Query(description="Values in no denominator of `shares`; `missing`: cases without one."),
    ] = None,
    failures: Annotated[
        Literal["wrong", "tie", "left_out"], Query(description="How a case without a verdict counts.")
    ] = "wrong",
    inconsistent: Annotated[
        Literal["not_agree", "tie"], Query(description="How a pair whose orders disagree counts.")
    ] = "not_agree",
    positive: Annotated[str | None, Query(max_length=200, description="Label that thresholds decide about.")] = None,
    threshold_from: Annotated[
        str | None, Query(max_length=400, description="`key=value`: cases on which the best threshold is chosen.")
    ] = None,
    target: Annotated[float, Query(gt=0, lt=1, description="Agreement that a usable threshold must reach.")] = 0.9,
    family: Annotated[
        list[str] | None, Query(description="`part=family`: the model family of names that hold this part.")
    ] = None,
    again: Annotated[
        bool, Query(description="Look at a release split a second time: recorded as tuning, it becomes development.")
    ] = False,
    resamples: Annotated[int, Query(ge=100, le=10_000, description="Resamples of a bootstrap.")] = 10_000,
) -> dict[str, Any]:
    """Agreement with people, position, confidence, length, thresholds and failures of the judges of a set.

    Names and definitions are in docs/statistics. The rules on which sources differ (`failures`, `inconsistent`,
    `positive`, `threshold_from`) change the headline; under `rules` the values of the others stand beside it.
    """
    from judge_service.reports.measuring import store_statistics
    from judge_service.reports.statistics import Rules

    store = services_of(request).store
    rules = Rules(
        failures=failures,
        inconsistent=inconsistent,
        positive=positive,
        threshold_from=threshold_from,
        target=target,
        families=tuple(family or ()),
        resamples=resamples,
    )

    def work() -> dict[str, Any]:
        return store_statistics(
            store,
            reference,
            rules,
            rubric=rubric,
            judges=judge or (),
            split=split,
            by=by or (),
            where=where,
            shares=shares or (),
            leave_out=leave_out or (),
            again=again,
        )

    return await computed(work)


@router.get(
    "/calibrations",
    summary="List calibrations",
    responses={**answers("What was measured, newest first.", {"items": [_CALIBRATION]}), **problems(*GUARDED, 422)},
)
@needs(Permission.READ_JUDGMENTS)
async def list_calibrations(
    request: Request,
    judge: Annotated[str | None, Query(max_length=64, description="Of this judge only.")] = None,
    rubric: Annotated[str | None, Query(max_length=200, description="Under this rubric `name@version` only.")] = None,
    set_id: Annotated[str | None, Query(alias="set", max_length=80, description="On this set `name@version`.")] = None,
) -> dict[str, Any]:
    """Every measurement of a judge on a frozen set that `judge-service calibrate` stored."""
    store = services_of(request).store
    found = await asyncio.to_thread(store.calibrations.all, judge=judge, rubric=rubric, set_id=set_id)
    return {"items": [calibration.model_dump(mode="json") for calibration in found]}


@router.get(
    "/calibrations/{calibration_id}",
    summary="Read a calibration",
    responses={
        **answers(
            "The measurement with all its figures and its map of confidences.",
            {**_CALIBRATION, "statistics": {"judge": {"agreement": {"raw_agreement": _ESTIMATE}}}, "map": None},
        ),
        **problems(*GUARDED, 404, 422),
    },
)
@needs(Permission.READ_JUDGMENTS)
async def read_calibration(
    request: Request,
    calibration_id: Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")],
) -> dict[str, Any]:
    """One measurement: what trust is read from, as it was computed then."""
    store = services_of(request).store

    def work() -> dict[str, Any]:
        calibration = store.calibrations.get(calibration_id)
        statistics = store.calibrations.statistics(calibration_id)
        if calibration is None or statistics is None:
            raise NotFound(f"There is no calibration {calibration_id!r}.")
        # The pairs are what corrected shares are computed from; they are labels of single cases.
        shown = {name: value for name, value in statistics.items() if name != "pairs"}
        return {**calibration.model_dump(mode="json"), "statistics": shown, "map": shown.pop("map", None)}

    return await asyncio.to_thread(work)


@router.get(
    "/runs/{run_id}/aggregate",
    summary="Read a run's numbers",
    responses={
        **answers(
            "Coverage, mean with interval and bounds, shares of labels, corrected shares, slices.",
            {
                "run": "run_0d9c8b7a6f5e4d3c2b1a0f9e8d7c6b5a",
                "rubric": "faithfulness@1",
                "n_total": 120,
                "n_scored": 118,
                "coverage": {**_ESTIMATE, "value": 0.983},
                "mean_score": {**_ESTIMATE, "method": "t"},
                "bounds": {"low": 0.79, "high": 0.82, "n": 120},
                "self_consistency": {**_ESTIMATE, "value": 0.96, "low": 0.94, "high": 0.98, "method": "t"},
                "unstable": {**_ESTIMATE, "value": 0.1, "low": 0.06, "high": 0.17, "method": "wilson"},
                "corrected": None,
            },
        ),
        **problems(*GUARDED, 404, 422, 503),
    },
)
@needs(Permission.READ_RUNS)
async def read_aggregate(request: Request, run_id: RunId, by: SliceKey = None, mix: Mix = False) -> dict[str, Any]:
    """The numbers of a run with intervals, and of each slice; where the judge is calibrated, corrected ones too.

    Verdicts that were made under different enforcement are not averaged unless `mix` is set.
    """
    from judge_service.reports.aggregates import run_aggregate

    store = services_of(request).store
    return await computed(lambda: run_aggregate(store, run_id, by=by, mix=mix))


@router.get(
    "/comparisons",
    summary="Compare two runs",
    responses={
        **answers(
            "Run b minus run a on the cases that both scored, with the interval of the difference.",
            {
                "a": {"run": "run_a", "n_total": 120, "n_scored": 118},
                "b": {"run": "run_b", "n_total": 120, "n_scored": 120},
                "n_common": 120,
                "n_paired": 118,
                "difference": {"mean": {**_ESTIMATE, "value": 0.04}, "wins": 9, "losses": 4, "ties": 105},
                "verdict": "not separated",
            },
        ),
        **problems(*GUARDED, 404, 409, 422, 503),
    },
)
@needs(Permission.READ_RUNS)
async def compare(
    request: Request,
    a: Annotated[str, Query(min_length=1, max_length=64, description="The run to compare with.")],
    b: Annotated[str, Query(min_length=1, max_length=64, description="The run whose gain over `a` is shown.")],
    by: SliceKey = None,
    mix: Mix = False,
) -> dict[str, Any]:
    """The paired difference of two runs on their common cases, by case id; slices with Holm's correction.

    Runs under different rubric contents or enforcement answer 409 unless `mix` is set.
    """
    from judge_service.reports.comparison import compare_runs

    store = services_of(request).store
    return await computed(lambda: compare_runs(store, a, b, by=by, mix=mix))
