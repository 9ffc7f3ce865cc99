"""Pages of calibration sets: the list, one version with its splits and checks, its freeze.

How files get in is `imports`'. What a set is, leaks and hashes are `sets`'.
"""

import asyncio
import json
from contextlib import nullcontext
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import TypeAdapter, ValidationError

from calibration.power import tier
from judge_service.domain.calibration_set import SetName, Split, UsePurpose
from judge_service.errors import Conflict, FieldProblem, InvalidInput, JudgeServiceError
from judge_service.gate.audit import along, audited
from judge_service.gate.route import GuardedRoute, needs, principal_of
from judge_service.security.roles import Permission
from judge_service.sets.grouping import freeze_set, propose_groups, split_set
from judge_service.sets.importing import read_rubric
from judge_service.sets.leaks import find_leaks
from judge_service.sets.summary import SplitFigures, split_figures, summarise
from judge_service.sets.versions import new_version, view_cases
from judge_service.store import Store
from judge_service.web.forms import NOTHING, Refused, refused, text_fields, whole_number
from judge_service.web.pages import render
from judge_service.web.services import services_of
from rubrics.registry import all_rubrics

router = APIRouter(include_in_schema=False, route_class=GuardedRoute)

Reference = Annotated[str, Path(min_length=1, max_length=80)]
LEAKS_SHOWN = 20
CASES_PAGE = 20
_NAME = TypeAdapter(SetName)
_PARTS = ("development", "calibration", "release", "monitoring")
_SAFE = "Nothing was changed. Your entries are kept."


def go(reference: str, part: str = "") -> RedirectResponse:
    """To the page of a version."""
    return RedirectResponse(f"/sets/{quote(reference)}{part}", status_code=303)


@router.get("/sets")
@needs(Permission.READ_SETS)
async def list_sets(request: Request) -> HTMLResponse:
    """Every version, and a form that makes the first of a new set."""
    return await _list(request)


async def _list(request: Request, problems: Refused = NOTHING, entries: dict[str, str] | None = None) -> HTMLResponse:
    versions = await asyncio.to_thread(services_of(request).store.sets.all)
    return render(
        request,
        "sets.html.j2",
        status=problems.status,
        problems=problems,
        said={"name": "", "rubric": "", "note": ""} | (entries or {}),
        sets=sorted(versions, key=lambda one: (one.name, -one.version)),
        rubrics=[rubric.id for rubric in all_rubrics()],
    )


@router.post("/sets")
@needs(Permission.MANAGE_SETS)
async def make_set(request: Request) -> Response:
    """Make an empty set."""
    store = services_of(request).store
    fields = await text_fields(request, "name", "rubric", "note")
    try:
        try:
            name = _NAME.validate_python(fields["name"].strip())
        except ValidationError:
            message = (
                "A name has 1 to 64 letters, digits, dots, underscores and hyphens; it begins with a letter or digit."
            )
            raise InvalidInput(fields=[FieldProblem("name", message)]) from None
        rubric = read_rubric(fields["rubric"] or None)
        note = fields["note"].strip()
        if len(note) > 2000:
            raise InvalidInput(fields=[FieldProblem("note", "The note must have at most 2,000 characters.")])
        made = await asyncio.to_thread(
            lambda: store.sets.create(name, None if rubric is None else rubric.id, note=note)
        )
    except JudgeServiceError as error:
        return await _list(request, refused(error, _SAFE, ("name", "rubric", "note"), "name"), fields)
    return go(made.id)


@router.get("/sets/{reference}")
@needs(Permission.READ_SETS)
async def show_set(request: Request, reference: Reference) -> HTMLResponse:
    """One version: frozen or open, its splits with what they license, leaks, hash, versions and uses."""
    return await _set(request, reference)


async def _set(
    request: Request,
    reference: str,
    *,
    problems: Refused = NOTHING,
    entries: dict[str, str] | None = None,
    told: str | None = None,
) -> HTMLResponse:
    store = services_of(request).store
    facts = await asyncio.to_thread(_facts, store, reference)
    parts = dict(zip(_PARTS, "1210", strict=True))
    return render(
        request,
        "set.html.j2",
        status=problems.status,
        problems=problems,
        said={"typed": "", "threshold": "0.8", **parts} | (entries or {}),
        told=told,
        **facts,
    )


def _facts(store: Store, reference: str) -> dict[str, Any]:
    summary = summarise(store, reference)
    version = summary.version
    figures = split_figures(store, version.id)
    released = [use for use in summary.uses if use.split is Split.RELEASE and use.purpose is not UsePurpose.EXPORTED]
    return {
        "summary_": summary,
        "version": version,
        "splits": [(split, figures.get(split, SplitFigures()), tier) for split in Split],
        "leaks": find_leaks(store, version)[:LEAKS_SHOWN] if summary.leaks else (),
        "newest": store.sets.get(version.name).id,
        "versions": [one for one in store.sets.all() if one.name == version.name],
        "n_released": len(released),
        "projects": [one for one in store.projects.all() if one.set_id == version.id],
    }


@router.post("/sets/{reference}/groups")
@needs(Permission.MANAGE_SETS)
async def find_groups(request: Request, reference: Reference) -> Response:
    """Put cases that share a source or are near-duplicates into one group each."""
    store = services_of(request).store
    fields = await text_fields(request, "threshold")
    try:
        threshold = _share(fields["threshold"])
        found = await asyncio.to_thread(lambda: propose_groups(store, reference, threshold=threshold, apply=True))
    except JudgeServiceError as error:
        return await _set(
            request, reference, problems=refused(error, _SAFE, ("threshold",), "threshold"), entries=fields
        )
    told = (
        f"{found.n_groups:,} groups; the largest has {found.largest:,} cases. {found.changed:,} cases changed theirs."
    )
    return await _set(request, reference, told=told)


def _share(text: str) -> float:
    try:
        value = float(text.strip())
    except ValueError:
        value = 0.0
    if not 0.05 <= value <= 1:
        raise InvalidInput(fields=[FieldProblem("threshold", "The likeness must be a number from 0.05 to 1.")])
    return value


@router.post("/sets/{reference}/splits")
@needs(Permission.MANAGE_SETS)
async def split_it(request: Request, reference: Reference) -> Response:
    """Put every group into one split."""
    store = services_of(request).store
    fields = await text_fields(request, *_PARTS)
    try:
        shares = {Split(name): whole_number(fields, name, 0, 1000, name.capitalize()) for name in _PARTS}
        await asyncio.to_thread(split_set, store, reference, shares)
    except JudgeServiceError as error:
        problems = refused(error, _SAFE, _PARTS, "development")
        return await _set(request, reference, problems=problems, entries=fields)
    return go(reference, "#splits")


@router.post("/sets/{reference}/version")
@needs(Permission.MANAGE_SETS)
async def next_version(request: Request, reference: Reference) -> Response:
    """An open version with everything that this one holds."""
    store = services_of(request).store
    newest = await text_fields(request, "newest")

    def make() -> str:
        name = store.sets.get(reference).name
        last = store.sets.get(name)
        # The page was older than the newest version: a second press of the button makes no second one.
        return last.id if newest["newest"] != last.id else new_version(store, reference).id

    return go(await asyncio.to_thread(make))


@router.post("/sets/{reference}/freeze")
@needs(Permission.MANAGE_SETS)
@audited("froze a set")
async def freeze(request: Request, reference: Reference) -> Response:
    """Freeze the version whose name was typed; what blocks it is listed."""
    store = services_of(request).store
    fields = await text_fields(request, "typed", "spend")
    version = await asyncio.to_thread(store.sets.get, reference)
    try:
        if fields["typed"].strip() != version.id:
            raise InvalidInput(fields=[FieldProblem("typed", f"Type {version.id} to freeze it.")])
        noting = along(request, store.audit, version.id) if version.status == "open" else nullcontext()
        with noting:
            await asyncio.to_thread(lambda: freeze_set(store, version.id, spend=fields["spend"] == "yes"))
    except JudgeServiceError as error:
        # What the refusal lists is of the set, not of an entry.
        safe = "It was not frozen. Nothing was changed."
        problems = refused(error, safe, ("typed",), "typed")
        offer = "yes" if isinstance(error, Conflict) and not error.extra.get("leaks") else ""
        return await _set(request, version.id, problems=problems, entries={"typed": fields["typed"], "offer": offer})
    return go(version.id)


@router.get("/sets/{reference}/cases")
@needs(Permission.READ_SETS)
async def look(request: Request, reference: Reference, split: Split = Split.DEVELOPMENT, page: int = 1) -> Response:
    """Cases of a split. Those of a frozen release split only after a warning: looking spends them."""
    store = services_of(request).store
    version = await asyncio.to_thread(store.sets.get, reference)
    closed = await asyncio.to_thread(lambda: next(store.sets.cases(version.id, split, closed=True), None) is not None)
    if closed:
        n = (await asyncio.to_thread(store.sets.split_counts, version.id))[split]
        return render(request, "set_closed.html.j2", version=version, split=split, n=n)
    return await _cases(request, version.id, split, max(1, page))


@router.post("/sets/{reference}/cases")
@needs(Permission.MANAGE_SETS)
@audited("looked at a split")
async def open_cases(request: Request, reference: Reference) -> Response:
    """Look at the cases of a release split, which is recorded and makes them development."""
    store, principal = services_of(request).store, principal_of(request)
    fields = await text_fields(request, "split", "typed")
    version = await asyncio.to_thread(store.sets.get, reference)
    if fields["split"] not in list(Split) or fields["typed"].strip() != version.id:
        message = f"Type {version.id} to look at its cases. Nothing was shown or recorded."
        raise InvalidInput(message, fields=[FieldProblem("typed", message)])
    split = Split(fields["split"])
    with along(request, store.audit, f"{version.id} ({split.value})"):
        await asyncio.to_thread(lambda: view_cases(store, version.id, split, who=principal.id))
    return RedirectResponse(f"/sets/{quote(version.id)}/cases?split=development", status_code=303)


def _pretty(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


async def _cases(request: Request, reference: str, split: Split, page: int) -> HTMLResponse:
    store = services_of(request).store

    def read() -> dict[str, Any]:
        counts = store.sets.split_counts(reference)
        found = []
        for place, entry in enumerate(store.sets.cases(reference, split, closed=False)):
            if place >= page * CASES_PAGE:
                break
            if place >= (page - 1) * CASES_PAGE:
                found.append((entry, store.labels.of_case(reference, entry.case.id)))
        return {"cases": found, "n": counts[split], "version": store.sets.get(reference)}

    facts = await asyncio.to_thread(read)
    pages = max(1, -(-facts["n"] // CASES_PAGE))
    return render(
        request, "set_cases.html.j2", split=split, page=page, pages=pages, every=list(Split), pretty=_pretty, **facts
    )
