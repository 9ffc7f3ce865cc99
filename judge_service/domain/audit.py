"""The audit log: who did what to which thing, when, and how it names things. Never a secret, never a case's text."""

from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from judge_service.domain.annotation import Member, Project
from judge_service.domain.principal import ApiKey
from judge_service.domain.user import Invitation, User


class AuditEntry(BaseModel):
    """One thing that was done. `who` is the name of the principal, `by` its id; `object` names what it was done to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: int = Field(ge=1)
    at: datetime
    by: str = Field(max_length=200)
    who: str = Field(max_length=200)
    what: str = Field(min_length=1, max_length=200)
    object: str = Field(max_length=500)


def told_key(key: ApiKey) -> str:
    """A key by its public id, name and role."""
    return f"{key.id} ({key.name}, {key.role})"


def told_user(user: User) -> str:
    """A user by id and name."""
    return f"{user.id} ({user.name})"


def told_invitation(invitation: Invitation) -> str:
    """An invitation by its id: for whom, as what, and into which project."""
    into = "" if invitation.project is None else f" into project {invitation.project}"
    return f"{invitation.id} ({invitation.name or 'somebody'} as {invitation.role}{into})"


def told_project(project: Project) -> str:
    """A project by id and name."""
    return f"{project.id} ({project.name})"


def told_members(project_id: str, people: Sequence[Member]) -> str:
    """People of a project by their names."""
    return f"{project_id} ({', '.join(one.name for one in people)})"
