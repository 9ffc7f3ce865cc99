"""Who may invite and disable whom: nobody manages a role above their own."""

from datetime import UTC, datetime, timedelta

from judge_service.domain.principal import Principal, Role
from judge_service.domain.user import Invitation, User
from judge_service.errors import Forbidden, NotFound
from judge_service.security.sessions import may_grant, new_invitation
from judge_service.store.users import Users


def invite(
    users: Users, principal: Principal, *, role: Role, name: str | None, project: str | None, days: int
) -> tuple[Invitation, str]:
    """Store an invitation; it and the path of its link. Raises Forbidden for a role above one's own. Blocks."""
    if not may_grant(principal.role, role):
        raise Forbidden(f"The role `{principal.role}` cannot invite somebody as `{role}`.")
    invitation, token = new_invitation(
        role=role, made_by=principal.id, now=datetime.now(UTC), name=name, project=project, life=timedelta(days=days)
    )
    users.invite(invitation)
    return invitation, f"/invitations/{token}"


def change_user(users: Users, principal: Principal, user_id: str, *, disable: bool) -> User:
    """Disable or enable a user. Raises NotFound, Forbidden for a role above one's own and for oneself. Blocks."""
    user = users.get(user_id)
    if user is None:
        raise NotFound(f"There is no user with the id {user_id!r}.")
    if not may_grant(principal.role, user.role):
        raise Forbidden(f"The role `{principal.role}` cannot change a user with the role `{user.role}`.")
    if disable and principal.user_id == user_id:
        raise Forbidden("Nobody disables themselves: ask another lead.")
    return users.disable(user_id) if disable else users.enable(user_id)
