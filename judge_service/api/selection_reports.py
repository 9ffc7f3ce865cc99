"""Judge-selection reports of calibration sets, in every form. Computes nothing: that is `reports.selection`'s."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from judge_service.api.documents import GUARDED, problems
from judge_service.api.services import RubricRoute, services_of
from judge_service.api.statistics import SetReference, computed
from judge_service.domain.calibration_set import Split
from judge_service.gate.route import needs
from judge_service.security.roles import Permission

router = APIRouter(prefix="/v1", tags=["statistics"], route_class=RubricRoute)

_REPORT: dict[str, Any] = {
    "format": "judge-selection-report/2",
    "title": "Which judge for pairwise@1?",
    "decision": {
        "pattern": "select",
        "mark": "✓",
        "sentence": "Select large for pairwise@1, judging both orders. At confidence above 0.70 it may decide alone.",
        "judge": "large",
        "policy": "both_orders",
        "threshold": 0.7,
        "missing": None,
        "reasons": ["large agrees with people on 84.0% (80.1 to 87.2, n = 412)."],
    },
    "facts": {"set": "helpdesk@3", "splits": ["calibration"], "cases": 412, "labelled": 412, "groups": 171},
    "sections": [{"id": "judges", "title": "Judges side by side", "data": {"n": 412, "judges": []}}],
}


@router.get(
    "/sets/{reference}/report",
    summary="Read a set's judge-selection report",
    response_class=Response,
    responses={
        200: {
            "description": "Decision, facts and sections; as `csv` a ZIP file with one CSV file for each table.",
            "content": {
                "application/json": {"example": _REPORT},
                "text/html": {"example": "<!doctype html>..."},
                "text/markdown": {"example": "### Which judge for pairwise@1?"},
                "application/zip": {
                    "schema": {"type": "string", "format": "binary"},
                    "example": "judges.csv, agreement.csv, order.csv and the other tables",
                },
            },
        },
        **problems(*GUARDED, 404, 409, 422, 503),
    },
)
@needs(Permission.READ_STATISTICS)
async def read_selection_report(
    request: Request,
    reference: SetReference,
    judge: Annotated[
        list[str] | None, Query(max_length=100, description="Judges to compare; all that judged the split by default.")
    ] = None,
    rubric: Annotated[str | None, Query(max_length=200, description="Rubric whose labels count.")] = None,
    split: Annotated[
        Split | None, Query(description="Cases of this split; calibration, development or monitoring by default.")
    ] = None,
    floor: Annotated[
        float | None, Query(gt=0, lt=1, description="Agreement that a judge's lower bound must reach.")
    ] = None,
    margin: Annotated[float, Query(gt=0, lt=1, description="Difference below which judges are as good.")] = 0.02,
    target: Annotated[float, Query(gt=0, lt=1, description="Agreement that a usable threshold must reach.")] = 0.9,
    by: Annotated[list[str] | None, Query(max_length=20, description="Metadata keys to slice by.")] = None,
    family: Annotated[
        list[str] | None,
        Query(max_length=50, description="`part=family`: the model family of names that hold this part."),
    ] = None,
    again: Annotated[
        bool, Query(description="Look at a release split a second time: recorded as tuning, it becomes development.")
    ] = False,
    resamples: Annotated[int, Query(ge=100, le=10_000, description="Resamples of a bootstrap.")] = 10_000,
    form: Annotated[Literal["json", "html", "md", "csv"], Query(description="Shape of the answer.")] = "json",
) -> Response:
    """Which judge to use for the set's rubric, or which evidence is missing, with everything that this rests on.

    A report over the release split counts as its one use for each judge, and shows none of its cases.
    """
    from judge_service.reports.reading import families_of, set_report
    from judge_service.reports.selection_forms import MEDIA, render
    from judge_service.reports.study import Choices

    services = services_of(request)
    choices = Choices(
        floor=floor,
        margin=margin,
        target=target,
        by=tuple(by or ()),
        families=families_of(family or ()),
        resamples=resamples,
    )

    def work() -> bytes:
        report = set_report(
            services.store,
            services.settings,
            reference,
            rubric=rubric,
            judges=judge or (),
            split=split,
            choices=choices,
            again=again,
        )
        return render(report, form)

    content = await computed(work)
    ending = "zip" if form == "csv" else form
    name = reference.replace("@", "-")
    headers = {} if form == "json" else {"Content-Disposition": f'attachment; filename="{name}-report.{ending}"'}
    return Response(content, media_type=MEDIA[form], headers=headers)
