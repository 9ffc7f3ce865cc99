"""What a person does with a case: see it, keep a draft, save, skip, flag, undo. For routes and pages alike.

Owns what a person may see before the own label: the form of the case and the own draft, and nothing else. All blocks.
"""

import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from judge_service.annotation.assisted import Suggestion, suggestions
from judge_service.annotation.forms import ReadLabel, form_of, parse_draft, read_answer
from judge_service.annotation.shapes import Form
from judge_service.domain.annotation import Assignment, Progress, Project, ProjectCase, State
from judge_service.domain.calibration_set import Label, LabelCondition, claims_of
from judge_service.errors import FieldProblem, InvalidInput, NotFound
from judge_service.store import Store
from judge_service.store.assignments import Save
from judge_service.store.store import utc_now
from rubrics.model import Rubric
from rubrics.records import Order
from rubrics.registry import get_rubric

LONGEST_NOTE = 4000


class ShownCase(BaseModel):
    """A case as its person sees it. `case` is an opaque token. `number` of `of`: how far the person is.

    `saved` is the person's own last answer, `draft` what is kept and not saved. `suggestions` only when assisted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    case: str
    project: str
    project_name: str
    number: int
    of: int
    progress: Progress
    condition: LabelCondition
    state: State
    version: int
    form: Form
    draft: dict[str, Any] | None
    draft_version: int
    saved: dict[str, Any] | None
    note: str | None
    flag: str | None
    seconds: float | None
    leased_until: datetime
    suggestions: tuple[Suggestion, ...] = ()


class Saved(BaseModel):
    """What the server did: said only once it is stored. `version` goes with the next change of the case."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    case: str
    state: State
    version: int
    draft_version: int
    progress: Progress


class Labelling:
    """The labelling of one installation. `person` is always the id of the principal who asks."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def next(self, project_id: str, person: str) -> ShownCase | None:
        """The case to label now, None when none is left. The same one on reload. Raises as `Assignments.next`."""
        project = self._store.projects.get(project_id)
        rubric = get_rubric(project.rubric)

        def draw() -> Order | None:
            return secrets.choice(("AB", "BA")) if rubric.kind == "pairwise" else None

        assignment = self._store.assignments.next(project_id, person, draw)
        return None if assignment is None else self._show(project, rubric, assignment)

    def show(self, case: str, person: str) -> ShownCase:
        """A case that was offered to the person. Raises NotFound, Forbidden for another person's."""
        assignment = self._store.assignments.get(case, person)
        project = self._store.projects.get(assignment.project_id)
        return self._show(project, get_rubric(project.rubric), assignment)

    def keep_draft(
        self, case: str, person: str, draft: Mapping[str, Any], draft_version: int, seconds: float | None = None
    ) -> Saved:
        """Keep an answer with gaps. Raises InvalidInput for another shape, StaleSave when another tab was faster."""
        parse_draft(draft)
        return self._saved(self._store.assignments.keep_draft(case, person, draft, draft_version, seconds))

    def save(
        self,
        case: str,
        person: str,
        name: str,
        answer: Mapping[str, Any],
        version: int,
        *,
        note: str | None = None,
        seconds: float | None = None,
    ) -> Saved:
        """Save a label. Raises InvalidInput naming the fields with gaps, and as `Assignments.save`."""
        note = checked_text("note", note)
        assignment = self._store.assignments.get(case, person)
        project = self._store.projects.get(assignment.project_id)
        member = self._store.projects.case(project.id, assignment.case_id)
        rubric = get_rubric(project.rubric)
        fields, claims = case_of(self._store, project, member)
        read = read_answer(rubric, fields, answer, assignment.order, claims)
        label = None if member.qualification else made_label(project, member, name, read, assignment.order, note=note)
        save = Save(version=version, answer=answer, label=label, note=note, seconds=seconds)
        return self._saved(self._store.assignments.save(case, person, save))

    def skip(self, case: str, person: str, version: int, reason: str) -> Saved:
        """Give a case back, with a reason. Raises InvalidInput without one, and as `Assignments.skip`."""
        text = checked_text("reason", reason)
        if text is None:
            raise InvalidInput("Say why you skip it.", fields=[FieldProblem("reason", "Say why you skip it.")])
        return self._saved(self._store.assignments.skip(case, person, version, text))

    def flag(self, case: str, person: str, text: str | None) -> Saved:
        """Mark a case for the lead, None to take the mark off."""
        return self._saved(self._store.assignments.flag(case, person, checked_text("text", text)))

    def undo(self, project_id: str, person: str) -> ShownCase:
        """Open the person's newest save or skip again, as it was. Raises as `Assignments.undo`."""
        project = self._store.projects.get(project_id)
        assignment = self._store.assignments.undo(project_id, person)
        return self._show(project, get_rubric(project.rubric), assignment)

    def progress(self, project_id: str, person: str) -> Progress:
        """How far the person is."""
        return self._store.assignments.progress(project_id, person)

    def _show(self, project: Project, rubric: Rubric[Any], assignment: Assignment) -> ShownCase:
        member = self._store.projects.case(project.id, assignment.case_id)
        fields, claims = case_of(self._store, project, member)
        progress = self._store.assignments.progress(project.id, assignment.person)
        done = progress.done + progress.qualification_done
        left = progress.left + progress.qualification_left
        open_ = assignment.state is State.OPEN
        assisted = project.condition is LabelCondition.ASSISTED and not member.qualification
        return ShownCase(
            case=assignment.id,
            project=project.id,
            project_name=project.name,
            number=done + 1 if open_ else done,
            of=done + left,
            progress=progress,
            condition=project.condition,
            state=assignment.state,
            version=assignment.version,
            form=form_of(rubric, fields, assignment.order, claims),
            draft=assignment.draft,
            draft_version=assignment.draft_version,
            saved=assignment.answer,
            note=assignment.note,
            flag=assignment.flag,
            seconds=assignment.seconds,
            leased_until=assignment.leased_until,
            suggestions=suggestions(self._store, project, assignment.case_id, assignment.order) if assisted else (),
        )

    def _saved(self, assignment: Assignment) -> Saved:
        return Saved(
            case=assignment.id,
            state=assignment.state,
            version=assignment.version,
            draft_version=assignment.draft_version,
            progress=self._store.assignments.progress(assignment.project_id, assignment.person),
        )


def case_of(store: Store, project: Project, member: ProjectCase) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The input of a project's case, and the claims that it came with. Raises NotFound when the set lost it."""
    if member.input is not None:
        return member.input, ()
    entry = store.sets.case(project.set_id, member.case_id)
    if entry is None:
        raise NotFound("This case is no longer in the set.")
    return entry.case.input, claims_of(entry.case.metadata)


def checked_text(path: str, text: str | None) -> str | None:
    """The text without white space around it, None when nothing is left. Raises InvalidInput when it is too long."""
    stripped = (text or "").strip()
    if len(stripped) > LONGEST_NOTE:
        message = f"{path} must have at most {LONGEST_NOTE} characters."
        raise InvalidInput(message, fields=[FieldProblem(path, message)])
    return stripped or None


def made_label(
    project: Project,
    member: ProjectCase,
    name: str,
    read: ReadLabel,
    order: Order | None,
    *,
    note: str | None = None,
    adjudicated: bool = False,
) -> Label:
    """The label of the set that an answer gives."""
    return Label(
        set_id=project.set_id,
        case_id=member.case_id,
        rubric=project.rubric,
        annotator=name,
        label=read.label,
        detail=read.detail,
        condition=project.condition,
        order_shown=order,
        note=note,
        adjudicated=adjudicated,
        items=read.items,
        probability=member.probability,
        created_at=utc_now(),
    )
