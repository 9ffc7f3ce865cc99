"""Projects as leads open them: a set version, its cases with the labels they want, people, guidelines.

Owns the draws (overlap, order of presentation) and what is checked before anybody labels. All blocks.
"""

import random
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from judge_service.annotation.forms import form_of
from judge_service.annotation.sampling import Drawn, draw_cases
from judge_service.domain.annotation import Guidelines, Member, Project, ProjectCase, ProjectName
from judge_service.domain.calibration_set import LabelCondition, SetCase, Split, drawn_with
from judge_service.domain.principal import Principal, Role
from judge_service.errors import FieldProblem, InvalidInput, NotFound
from judge_service.security.roles import Permission, may
from judge_service.security.sessions import new_id
from judge_service.store import Store
from judge_service.store.store import utc_now
from judge_service.visible import visible
from rubrics.model import Rubric
from rubrics.registry import UnknownRubric, get_rubric

MOST_QUALIFICATION = 100


class QualificationCase(BaseModel):
    """A case with a known answer: every person of the project labels it first. `label` is in the caller's frame."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: dict[str, Any]
    label: str = Field(min_length=1, max_length=256)


class Selection(BaseModel):
    """Which cases are labelled: `n` of them, drawn with stored probabilities.

    `random`: all with the same. `uncertain`: cases with low confidence, orders that disagree or judges that disagree
    have a higher one; every case has some, so that estimates stay possible.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    n: int = Field(ge=1, le=1_000_000)
    by: str = Field(default="random", pattern="^(random|uncertain)$")


class ProjectRequest(BaseModel):
    """A project to open. `annotators` are names of users, or ids of API keys."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"name": "Helpdesk pairs", "set": "helpdesk-pairs@3", "annotators": ["Ann Example"], "labels_wanted": 2}
            ]
        },
    )

    name: ProjectName = Field(description="What people read.")
    set: str = Field(max_length=100, description="An open set version.")
    rubric: str | None = Field(default=None, max_length=200, description="Default: the set's.")
    annotators: tuple[str, ...] = Field(default=(), max_length=200, description="Names of users, or ids of API keys.")
    labels_wanted: int = Field(default=2, ge=1, le=20, description="Labels of different people per case.")
    overlap: float = Field(
        default=1.0, ge=0, le=1, description="Share of the cases that want so many; the others want one."
    )
    condition: LabelCondition = Field(
        default=LabelCondition.BLIND, description="`assisted` shows verdicts; such labels enter no headline number."
    )
    splits: tuple[Split, ...] = Field(default=(), description="Default: all.")
    guidelines: str = Field(default="", max_length=200_000, description="Markdown.")
    qualification: tuple[QualificationCase, ...] = Field(default=(), max_length=MOST_QUALIFICATION)
    selection: Selection | None = Field(default=None, description="Default: every case.")
    lease_minutes: float = Field(default=60.0, gt=0, le=10_080, description="How long an offered case is held.")
    due_at: datetime | None = Field(default=None, description="With a time zone.")


def open_project(
    store: Store, request: ProjectRequest, by: Principal, *, seed: int | None = None, identifier: str | None = None
) -> Project:
    """Open a set version for labelling. Raises InvalidInput naming the field, NotFound, Conflict for a frozen set.

    `seed` repeats the draws; without one they are not predictable. `identifier` is the project's id, new by default.
    """
    drawn = random.Random(seed) if seed is not None else random.SystemRandom()
    version = store.sets.get(request.set)
    rubric = _rubric(request.rubric or version.rubric)
    if version.rubric is not None and rubric.id != version.rubric:
        _refuse("rubric", f"the set {version.id} is labelled under {version.rubric}")
    if request.due_at is not None and request.due_at.tzinfo is None:
        _refuse("due_at", "needs a time zone")
    entries = [entry for entry in store.sets.cases(version.id) if not request.splits or entry.split in request.splits]
    if not entries:
        _refuse("set", f"{version.id} has no case" + (" in these splits" if request.splits else ""))
    _check_cases(rubric, entries)
    people = [_person(store, name, place) for place, name in enumerate(request.annotators)]
    chosen = _chosen(store, rubric, entries, request.selection, drawn)
    several = _several(len(chosen), request.overlap, drawn)
    cases = [
        ProjectCase(
            case_id=one.case_id, wanted=request.labels_wanted if place in several else 1, probability=one.probability
        )
        for place, one in enumerate(chosen)
    ]
    cases += _qualification(rubric, request.qualification)
    now = utc_now()
    project = Project(
        id=identifier or new_id(),
        name=request.name,
        set_id=version.id,
        rubric=rubric.id,
        rubric_hash=rubric.content_hash,
        labels_wanted=request.labels_wanted,
        overlap=request.overlap,
        condition=request.condition,
        splits=request.splits,
        lease_minutes=request.lease_minutes,
        selection="sampled" if request.selection is not None and request.selection.by == "uncertain" else "random",
        drawn_from=None if request.selection is None else len(entries),
        due_at=request.due_at,
        created_at=now,
        created_by=by.name,
    )
    guidelines = Guidelines(version=1, text=request.guidelines, note="First version.", by=by.name, at=now)
    return store.projects.create(project, cases, guidelines, [(person, _order(cases, drawn)) for person in people])


def join(store: Store, project_id: str, people: Sequence[Member]) -> list[Member]:
    """Add people, all or none, each with an own random order of the cases. Raises NotFound, Conflict."""
    cases, drawn = store.projects.cases(project_id), random.SystemRandom()
    return store.projects.join(project_id, [(person, _order(cases, drawn)) for person in people])


def _order(cases: Sequence[ProjectCase], drawn: random.Random) -> list[str]:
    """A drawn order of the cases: those of the qualification first."""
    first = [case.case_id for case in cases if case.qualification]
    others = [case.case_id for case in cases if not case.qualification]
    drawn.shuffle(first)
    drawn.shuffle(others)
    return first + others


def add_annotators(store: Store, project_id: str, names: Sequence[str]) -> list[Member]:
    """Add people by name, all or none. Raises InvalidInput for one who may not label, NotFound, Conflict."""
    store.projects.get(project_id)
    return join(store, project_id, [_person(store, name, place) for place, name in enumerate(names)])


def member_of(principal: Principal) -> Member:
    """A principal as a person of a project."""
    return Member(person=principal.id, name=principal.name, joined_at=utc_now())


def _person(store: Store, name: str, place: int) -> Member:
    path = f"annotators[{place}]"
    user = store.users.named(name) if name.strip() else None
    if user is not None:
        if not user.live:
            _refuse(path, f"{user.name!r} is disabled")
        return _may_label(path, f"user:{user.id}", user.name, user.role)
    key = store.keys.get(name)
    if key is not None and key.live:
        return _may_label(path, f"key:{key.id}", key.name, key.role)
    raise InvalidInput(
        f"There is nobody named {name[:120]!a}. Invite the person first.",
        fields=[FieldProblem(path, f"{path}: there is nobody named {name[:120]!a}.")],
    )


def _may_label(path: str, person: str, name: str, role: Role) -> Member:
    if not may(role, Permission.LABEL):
        _refuse(path, f"the role `{role}` may not label")
    return Member(person=person, name=name, joined_at=utc_now())


def _rubric(reference: str | None) -> Rubric[Any]:
    if reference is None:
        _refuse("rubric", "is needed: the set names none")
    try:
        return get_rubric(str(reference))
    except UnknownRubric as error:
        raise InvalidInput(str(error), fields=[FieldProblem("rubric", str(error))]) from None


def _check_cases(rubric: Rubric[Any], entries: Sequence[SetCase]) -> None:
    """Every case must have a form, before anybody meets one that has none."""
    problems: list[FieldProblem] = []
    for entry in entries:
        try:
            form_of(rubric, entry.case.input, "AB")
        except InvalidInput as error:
            what = "; ".join(problem.message for problem in error.fields[:3]) or error.message
            problems.append(FieldProblem(f"set: {entry.case.id}", what))
            if len(problems) == 20:
                break
    if problems:
        raise InvalidInput(f"Not every case of the set fits {rubric.id}.", fields=problems)


def _chosen(
    store: Store, rubric: Rubric[Any], entries: Sequence[SetCase], selection: Selection | None, drawn: random.Random
) -> list[Drawn]:
    before = {entry.case.id: drawn_with(entry.case.metadata) for entry in entries}
    if selection is None:
        return [Drawn(case_id, each) for case_id, each in before.items()]
    if selection.n > len(entries):
        _refuse("selection.n", f"there are {len(entries)} cases")
    chosen = draw_cases(store, rubric, entries, selection.n, uncertain=selection.by == "uncertain", drawn=drawn)
    # A case that was drawn before has the probability of both draws.
    return [Drawn(one.case_id, (one.probability or 1.0) * (before[one.case_id] or 1.0)) for one in chosen]


def _several(n: int, overlap: float, drawn: random.Random) -> set[int]:
    """Which cases want several labels: the share `overlap`, rounded up so that a positive share is never none."""
    return set(drawn.sample(range(n), min(n, -int(-(n * overlap) // 1))))


def _qualification(rubric: Rubric[Any], given: Sequence[QualificationCase]) -> list[ProjectCase]:
    made = []
    for place, one in enumerate(given):
        path = f"qualification[{place}]"
        if one.label not in rubric.scale.names:
            _refuse(f"{path}.label", f"is none of {', '.join(rubric.scale.names)}")
        try:
            form_of(rubric, one.input, "AB")
        except InvalidInput as error:
            problems = [FieldProblem(f"{path}.{problem.path}", problem.message) for problem in error.fields]
            raise InvalidInput(f"{path} does not fit {rubric.id}.", fields=problems) from None
        made.append(
            ProjectCase(
                # No id of a set starts so: both kinds live in one table.
                case_id=f"\x1fqualification {place + 1}",
                # As many places as people.
                wanted=1_000_000,
                qualification=True,
                input=one.input,
                answer={"label": one.label},
            )
        )
    return made


def _refuse(path: str, message: str) -> None:
    raise InvalidInput(f"{path}: {message}.", fields=[FieldProblem(path, f"{path}: {message}.")])


def project_for(store: Store, project_id: str, principal: Principal) -> Project:
    """A project that the principal may see: a lead any, another person their own. Raises NotFound for both."""
    project = store.projects.get(project_id)
    if not may(principal.role, Permission.MANAGE_PROJECTS):
        mine = {one.person for one in store.projects.members(project_id) if one.left_at is None}
        if principal.id not in mine:
            raise NotFound("There is no such project.")
    return project


def rendered_guidelines(text: str) -> str:
    """Guidelines as HTML: CommonMark with tables, no HTML or image, links that run nothing, controls written out."""
    from markdown_it import MarkdownIt

    # An image would be asked from another host by everyone who reads the page.
    markdown = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table").disable("image")
    return visible(markdown.render(text))


def shown_project(project: Project, principal: Principal, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A project as a principal sees it: people who label see no number of labels and no selection."""
    document = project.model_dump(mode="json")
    if not may(principal.role, Permission.MANAGE_PROJECTS):
        names = ("id", "name", "rubric", "condition", "due_at", "closed_at")
        document = {name: document[name] for name in names}
    return document | dict(extra or {})
