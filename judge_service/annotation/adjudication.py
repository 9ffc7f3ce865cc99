"""Disagreements and their end: a person who sees all labels, without names, says the final word with a reason.

Owns what the adjudicator may see before saving: labels and notes as Person 1 to k, shuffled; no names, no verdict.
"""

import hashlib
import random
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from judge_service.annotation.assisted import in_frame
from judge_service.annotation.forms import form_of, read_answer
from judge_service.annotation.labelling import case_of, checked_text, made_label
from judge_service.annotation.shapes import Form
from judge_service.domain.annotation import Adjudication, Project
from judge_service.domain.calibration_set import Label
from judge_service.domain.principal import Principal
from judge_service.errors import FieldProblem, InvalidInput, NotFound
from judge_service.security.sessions import new_id
from judge_service.store import Store
from judge_service.store.store import utc_now
from rubrics.records import Order
from rubrics.registry import get_rubric


class Waiting(BaseModel):
    """A case that people disagree on. `spread`: how often each label was given, most frequent first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    case_id: str
    n: int
    spread: tuple[int, ...]
    since: datetime
    flags: tuple[str, ...] = ()


class Opinion(BaseModel):
    """One label as the adjudicator sees it. `value` is in the frame of the form; null: it could not be said."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    person: str
    value: str | None
    items: dict[str, Any] | None
    note: str | None


class ToAdjudicate(BaseModel):
    """A case with all labels on it. Persons are shuffled, in the same way on every reload of the same adjudicator."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    project: str
    case_id: str
    form: Form
    opinions: tuple[Opinion, ...]


class Decided(BaseModel):
    """The final word as stored, with the names that were hidden before."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    adjudication: Adjudication
    waiting: int


def waiting(store: Store, project_id: str, *, limit: int | None = None, offset: int = 0) -> list[Waiting]:
    """Cases with labels that differ and no final word, oldest first. A note never makes one. Raises NotFound."""
    found = store.projects.waiting(project_id, limit, offset)
    flags = store.projects.flags(project_id, [one.case_id for one in found])
    return [
        Waiting(
            case_id=one.case_id, n=one.n, spread=one.spread, since=one.since, flags=tuple(flags.get(one.case_id, ()))
        )
        for one in found
    ]


def to_adjudicate(store: Store, project_id: str, case_id: str, by: Principal) -> ToAdjudicate:
    """A case as its adjudicator sees it. Raises NotFound for a case without labels."""
    project = store.projects.get(project_id)
    labels = _labels(store, project, case_id)
    if not labels:
        raise NotFound("Nobody has labelled this case yet.")
    drawn = _drawn(project, case_id, by)
    order = _order(project, drawn)
    shuffled = sorted(labels, key=lambda label: label.annotator)
    drawn.shuffle(shuffled)
    opinions = tuple(
        Opinion(
            person=f"Person {place}",
            value=None if label.label is None else in_frame(label.label, order),
            items=label.items,
            note=label.note,
        )
        for place, label in enumerate(shuffled, start=1)
    )
    fields, claims = case_of(store, project, store.projects.case(project_id, case_id))
    form = form_of(get_rubric(project.rubric), fields, order, claims)
    return ToAdjudicate(project=project.id, case_id=case_id, form=form, opinions=opinions)


def adjudicate(
    store: Store, project_id: str, case_id: str, by: Principal, answer: Mapping[str, Any], reason: str
) -> Decided:
    """Say the final word. All other labels stay beside it. "Cannot be said" is a final word too.

    Raises InvalidInput for an answer with gaps and without a reason, NotFound, Conflict for a frozen set.
    """
    text = checked_text("reason", reason)
    if text is None:
        raise InvalidInput("Say why.", fields=[FieldProblem("reason", "reason is required: say why.")])
    project = store.projects.get(project_id)
    labels = _labels(store, project, case_id)
    if not labels:
        raise NotFound("Nobody has labelled this case yet.")
    order = _order(project, _drawn(project, case_id, by))
    case = store.projects.case(project_id, case_id)
    fields, claims = case_of(store, project, case)
    read = read_answer(get_rubric(project.rubric), fields, answer, order, claims)
    label = made_label(project, case, by.name, read, order, note=text, adjudicated=True)
    kept = Adjudication(
        id=new_id(),
        project_id=project_id,
        case_id=case_id,
        by=by.id,
        name=by.name,
        label=read.label,
        answer=dict(answer),
        reason=text,
        seen=tuple(
            {"annotator": one.annotator, "label": one.label, "detail": one.detail, "items": one.items, "note": one.note}
            for one in labels
        ),
        at=utc_now(),
    )
    kept = store.projects.adjudicate(kept, label)
    return Decided(adjudication=kept, waiting=store.projects.count_waiting(project_id))


def _labels(store: Store, project: Project, case_id: str) -> list[Label]:
    """People's labels of one case of the project that count in it."""
    ours = store.projects.case(project.id, case_id)
    return [
        label
        for label in store.labels.of_case(project.set_id, ours.case_id)
        if label.rubric == project.rubric
        and label.kind == "human"
        and not label.adjudicated
        and label.condition is project.condition
    ]


def _drawn(project: Project, case_id: str, by: Principal) -> random.Random:
    """A draw that is the same on every reload, another one for another adjudicator."""
    parts = f"{project.id}\x1f{case_id}\x1f{by.id}"
    return random.Random(hashlib.sha256(parts.encode("utf-8", "surrogatepass")).digest())


def _order(project: Project, drawn: random.Random) -> Order | None:
    order: Order = drawn.choice(("AB", "BA"))
    return order if get_rubric(project.rubric).kind == "pairwise" else None
