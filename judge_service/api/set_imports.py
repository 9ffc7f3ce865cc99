"""Files into a calibration set over HTTP: cases, labels, recorded verdicts. They are read on threads."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from judge_service.api.answering import answer, on_thread
from judge_service.api.documents import GUARDED, answers, problems
from judge_service.api.services import RubricRoute, services_of
from judge_service.api.set_documents import IMPORTED, Reference
from judge_service.api.uploads import (
    STUDIO,
    CaseOptions,
    LabelFileOptions,
    VerdictFileOptions,
    pairs,
    read_upload,
    upload,
)
from judge_service.gate.route import needs
from judge_service.security.roles import Permission
from judge_service.sets.importing import Imported, ImportOptions, import_cases, import_labels
from judge_service.sets.label_studio import label_studio_source
from judge_service.sets.recorded import VerdictOptions, import_verdicts

router = APIRouter(prefix="/v1", tags=["calibration sets"], route_class=RubricRoute)


@router.post(
    "/sets/{reference}/cases",
    summary="Import cases",
    response_class=Response,
    openapi_extra=upload(CaseOptions, extra=("answers",)),
    responses={
        **answers("What was new and what was there already.", IMPORTED),
        **problems(*GUARDED, 400, 404, 409, 413, 415, 422),
    },
)
@needs(Permission.MANAGE_SETS)
async def add_cases(request: Request, reference: Reference) -> Response:
    """Import a file of cases with the labels in their rows. Refused as a whole; the same file again changes nothing."""
    store = services_of(request).store
    options, files = await read_upload(request, CaseOptions, ("answers",))
    wanted = ImportOptions(
        shape=options.format,
        rubric=options.rubric,
        names=pairs("map", options.map),
        labels=pairs("label", options.label),
        split=options.split,
        annotator=options.annotator,
        condition=options.condition,
        kind=options.label_kind,
        answers=files.get("answers"),
    )
    return answer(await on_thread(lambda: import_cases(store, reference, files["file"], wanted)))


@router.post(
    "/sets/{reference}/labels",
    summary="Import labels",
    response_class=Response,
    openapi_extra=upload(LabelFileOptions),
    responses={
        **answers("What was new; ids of no case are listed under `labels.unjoined`.", IMPORTED),
        **problems(*GUARDED, 400, 404, 409, 413, 415, 422),
    },
)
@needs(Permission.MANAGE_SETS)
async def add_labels(request: Request, reference: Reference) -> Response:
    """Import labels: a table, or Label Studio's tasks. Another answer of an annotator who answered is refused."""
    store = services_of(request).store
    options, files = await read_upload(request, LabelFileOptions)
    wanted = ImportOptions(
        rubric=options.rubric,
        names=pairs("map", options.map),
        labels=pairs("label", options.label),
        annotator=options.annotator,
        condition=options.condition,
        kind=options.label_kind,
    )
    file = files["file"]

    def work() -> Imported:
        if options.kind != STUDIO:
            return import_labels(store, reference, file, wanted)
        with file.open() as opened:
            return import_labels(store, reference, label_studio_source(file.name, opened.read()), wanted)

    return answer(await on_thread(work))


@router.post(
    "/sets/{reference}/verdicts",
    summary="Import recorded verdicts",
    response_class=Response,
    openapi_extra=upload(VerdictFileOptions),
    responses={
        **answers(
            "The recorded judges with their runs; ids of no case are listed under `unjoined`.",
            {
                "set_id": "pairs@1",
                "file": "verdicts.jsonl",
                "rubric": "pairwise@1",
                "lines": 4,
                "judges": [
                    {
                        "judge": "GPT-4--Swap",
                        "model": "GPT-4",
                        "strategy": "Swap",
                        "run_id": "run_0d9c8b7a6f5e4d3c2b1a0f9e8d7c6b5a",
                        "orders": "both_orders",
                        "lines": 4,
                        "judgments": 2,
                        "added": 2,
                        "not_judged": 0,
                        "outcomes": {"inconsistent": 1, "scored": 1},
                        "n_unjoined": 0,
                        "unjoined": [],
                    }
                ],
                "unjoined": [],
                "n_unjoined": 0,
            },
        ),
        **problems(*GUARDED, 400, 404, 409, 413, 415, 422),
    },
)
@needs(Permission.MANAGE_SETS)
async def add_verdicts(request: Request, reference: Reference) -> Response:
    """Import verdicts of judges that were run elsewhere, as judgments of recorded judges."""
    store = services_of(request).store
    options, files = await read_upload(request, VerdictFileOptions)
    wanted = VerdictOptions(
        rubric=options.rubric,
        names=pairs("map", options.map),
        labels=pairs("label", options.label),
        threshold=options.threshold,
        positive=options.positive,
        negative=options.negative,
        version=options.version,
    )
    taken = {judge.name for judge in services_of(request).roster.all()}
    return answer(await on_thread(lambda: import_verdicts(store, reference, files["file"], wanted, taken=taken)))
