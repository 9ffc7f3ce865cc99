import pytest

from judge_service.domain.principal import Role
from judge_service.security.roles import PERMISSIONS, Permission, may, roles_with


def test_every_role_has_a_row_and_admin_may_do_everything():
    assert set(PERMISSIONS) == set(Role)
    assert PERMISSIONS[Role.ADMIN] == frozenset(Permission)


def test_every_permission_is_held_by_some_role():
    assert all(roles_with(permission) for permission in Permission)


@pytest.mark.parametrize(
    ("role", "permission", "allowed"),
    [
        (Role.SCORE, Permission.JUDGE, True),
        (Role.SCORE, Permission.START_RUNS, True),
        (Role.SCORE, Permission.MANAGE_KEYS, False),
        (Role.SCORE, Permission.CHECK_JUDGES, False),
        (Role.ANNOTATE, Permission.READ_CATALOG, True),
        (Role.ANNOTATE, Permission.READ_JUDGMENTS, False),
        (Role.ANNOTATE, Permission.READ_RUNS, False),
        (Role.ANNOTATE, Permission.JUDGE, False),
        (Role.SCORE, Permission.DECLARE_RUBRICS, False),
        (Role.LEAD, Permission.DECLARE_RUBRICS, True),
        (Role.LEAD, Permission.CHECK_JUDGES, True),
        (Role.LEAD, Permission.MANAGE_KEYS, False),
        (Role.ADMIN, Permission.MANAGE_KEYS, True),
    ],
)
def test_who_may_do_what(role, permission, allowed):
    assert may(role, permission) is allowed
