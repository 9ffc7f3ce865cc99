"""A set of pairs and people who label it."""

from typing import Any

from judge_service.annotation.labelling import Labelling, ShownCase
from judge_service.annotation.projects import ProjectRequest, open_project
from judge_service.domain.annotation import Project
from judge_service.domain.calibration_set import SetCase
from judge_service.domain.case import Case
from judge_service.domain.principal import Principal, Role
from judge_service.domain.user import User
from judge_service.security.sessions import new_id
from judge_service.store import Store
from judge_service.store.store import utc_now

LEAD = Principal(user_id="l" * 12, name="Lea", role=Role.LEAD)


def pair(number: int) -> SetCase:
    fields = {"prompt": f"Prompt {number}", "response_a": f"Teal {number}.", "response_b": f"Ochre {number}."}
    return SetCase(case=Case(id=f"model-x/{number}", input=fields, metadata={"system": "model-x"}))


def a_set(store: Store, n: int, name: str = "pairs") -> str:
    version = store.sets.create(name, "pairwise@1")
    store.sets.add_cases(version.id, [pair(number) for number in range(n)])
    return version.id


def a_person(store: Store, name: str, role: Role = Role.ANNOTATE) -> str:
    user = User(id=new_id(), name=name, role=role, created_at=utc_now())
    store.users.add(user)
    return f"user:{user.id}"


def a_project(store: Store, reference: str, people: tuple[str, ...], **more: Any) -> Project:
    fields: dict[str, Any] = {"name": "Pairs", "set": reference, "annotators": people, "labels_wanted": 2} | more
    return open_project(store, ProjectRequest.model_validate(fields), LEAD, seed=7)


def say(labelling: Labelling, shown: ShownCase, person: str, name: str, value: str = "first", **more: Any) -> Any:
    version = more.pop("version", shown.version)
    return labelling.save(shown.case, person, name, {"answers": {"label": value}}, version, **more)


def label_all(labelling: Labelling, project: Project, person: str, name: str, value: str = "first") -> int:
    """Label until nothing is left; how many."""
    done = 0
    while (shown := labelling.next(project.id, person)) is not None:
        say(labelling, shown, person, name, value)
        done += 1
    return done
