"""Pages of judge-selection reports: the sets that have one, the report itself, and its files.

Owns which report is meant by an address and when it must be made anew. What a report says is `reports`'.
"""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from markupsafe import Markup

from judge_service.domain.calibration_set import SetVersion, Split
from judge_service.gate.route import GuardedRoute, needs
from judge_service.security.roles import Permission
from judge_service.web.pages import render
from judge_service.web.services import services_of
from judge_service.web.shelf import Shelf

router = APIRouter(include_in_schema=False, route_class=GuardedRoute)

PATIENCE_S = 1.0
"""How long a page is waited for before it says that the report is being made."""
LONGEST_S = 25.0
"""How long a script or a download may wait for a report."""
SHOWN = 200
"""Set versions in the list: the newest."""

Reference = Annotated[str, Path(max_length=200)]
Rubric = Annotated[str | None, Query(max_length=200)]
Part = Annotated[Literal["calibration", "development", "monitoring"] | None, Query()]
"""Never release: reading a report over it is its one use, and is asked for over the command line or the API."""


@dataclass(frozen=True, slots=True)
class Made:
    """A report as object and as the content of a page; `scripts` draw charts where pictures are missing."""

    report: dict[str, Any]
    body: Markup
    scripts: tuple[str, ...]


@router.get("/reports")
@needs(Permission.READ_STATISTICS)
async def list_reports(request: Request) -> Response:
    """The calibration sets, newest first, with how many judges a report would compare."""
    store = services_of(request).store

    def work() -> list[dict[str, Any]]:
        from judge_service.reports.labelled_set import source_of

        versions = sorted(store.sets.all(), key=lambda version: version.created_at, reverse=True)[:SHOWN]
        return [
            {"version": version, "judges": len({run.judge.name for run in store.runs.of_source(source_of(version.id))})}
            for version in versions
        ]

    return render(request, "reports.html.j2", sets=await asyncio.to_thread(work))


@router.get("/reports/{reference}")
@needs(Permission.READ_STATISTICS)
async def show_report(
    request: Request, reference: Reference, rubric: Rubric = None, split: Part = None, wait: bool = False
) -> Response:
    """The report of a set; while it is being made, a page that says so."""
    version = await asyncio.to_thread(services_of(request).store.sets.get, reference)
    made = await _made(request, version, rubric, split, LONGEST_S if wait else PATIENCE_S)
    chosen = {key: value for key, value in (("rubric", rubric), ("split", split)) if value is not None}
    if made is None:
        headers = {"X-Report": "being-made", "Retry-After": "2"}
        return render(request, "report_waiting.html.j2", status=202, headers=headers, version=version, chosen=chosen)
    return render(request, "report.html.j2", headers={"X-Report": "ready"}, version=version, chosen=chosen, made=made)


@router.get("/reports/{reference}/report.{form}")
@needs(Permission.READ_STATISTICS)
async def report_file(
    request: Request,
    reference: Reference,
    form: Literal["html", "json", "md", "csv"],
    rubric: Rubric = None,
    split: Part = None,
) -> Response:
    """The same report as a file to keep: one page, JSON, Markdown, or the tables as CSV in a ZIP file."""
    from judge_service.errors import Unavailable
    from judge_service.reports.selection_forms import MEDIA
    from judge_service.reports.selection_forms import render as written

    version = await asyncio.to_thread(services_of(request).store.sets.get, reference)
    made = await _made(request, version, rubric, split, LONGEST_S)
    if made is None:
        raise Unavailable("The report is still being made. Open its page and download it from there.")
    content = await asyncio.to_thread(written, made.report, form)
    name = f"{version.id.replace('@', '-')}-report.{'zip' if form == 'csv' else form}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=MEDIA[form], headers=headers)


async def _made(
    request: Request, version: SetVersion, rubric: str | None, split: str | None, patience_s: float
) -> Made | None:
    services = services_of(request)
    shelf: Shelf[Made] = request.app.state.reports

    def basis() -> tuple[object, ...]:
        """What the report rests on: a run, a label or a probe more, and it is made anew."""
        from judge_service.reports.labelled_set import source_of

        runs = tuple((run.id, run.status.value) for run in services.store.runs.of_source(source_of(version.id)))
        probes = len(services.store.probes.all())
        return (version.model_dump_json(), rubric, split, runs, probes)

    def make() -> Made:
        from judge_service.reports.page import Page
        from judge_service.reports.reading import set_report
        from judge_service.reports.render import SCRIPTS, body

        chosen = None if split is None else Split(split)
        report = set_report(services.store, services.settings, version.id, rubric=rubric, split=chosen)
        page = Page(report)
        return Made(report, body(page), SCRIPTS if page.needs_script else ())

    return await shelf.get(await asyncio.to_thread(basis), make, patience_s=patience_s)
