"""The one table of who may do what.

Owns permissions and their assignment to roles. A route names a permission, never a role.
"""

from collections.abc import Mapping
from enum import StrEnum

from judge_service.domain.principal import Role


class Permission(StrEnum):
    """One thing a caller may be allowed to do."""

    READ_CATALOG = "catalog:read"
    """Read rubrics and judges."""
    DECLARE_RUBRICS = "rubrics:declare"
    """Add a declared rubric version."""
    JUDGE = "judgments:create"
    """Have a case judged: spends tokens."""
    READ_JUDGMENTS = "judgments:read"
    START_RUNS = "runs:create"
    READ_RUNS = "runs:read"
    CANCEL_RUNS = "runs:cancel"
    DELETE_RUNS = "runs:delete"
    """Delete ended runs with their judgments."""
    READ_STATISTICS = "statistics:read"
    """Measure judges on calibration sets."""
    CHECK_DRIFT = "drift:check"
    """Judge the anchors of a set again: spends tokens."""
    READ_SETS = "sets:read"
    """See calibration sets with their cases: the release split too, which is recorded."""
    MANAGE_SETS = "sets:manage"
    """Make, fill, split, freeze and export calibration sets."""
    CHECK_JUDGES = "judges:check"
    """Compile every rubric on a judge."""
    MANAGE_JUDGES = "judges:manage"
    """Set and remove judges."""
    LABEL = "labels:create"
    """Label the cases one is offered in the projects one belongs to, and see one's own labels."""
    MANAGE_PROJECTS = "projects:manage"
    """Open labelling projects, see their labels and their quality, adjudicate."""
    MANAGE_USERS = "users:manage"
    """Invite, disable and enable people up to one's own role."""
    MANAGE_KEYS = "keys:manage"
    """Make, list and revoke API keys."""


_CATALOG = frozenset({Permission.READ_CATALOG})
_SCORE = _CATALOG | {
    Permission.JUDGE,
    Permission.READ_JUDGMENTS,
    Permission.START_RUNS,
    Permission.READ_RUNS,
    Permission.CANCEL_RUNS,
}
_LEAD = _SCORE | {
    Permission.DELETE_RUNS,
    Permission.DECLARE_RUBRICS,
    Permission.CHECK_JUDGES,
    Permission.READ_STATISTICS,
    Permission.CHECK_DRIFT,
    Permission.READ_SETS,
    Permission.MANAGE_SETS,
    Permission.LABEL,
    Permission.MANAGE_PROJECTS,
    Permission.MANAGE_USERS,
}

PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    Role.SCORE: _SCORE,
    # An annotator sees no verdict of a judge before the own label: reading judgments would unblind.
    Role.ANNOTATE: _CATALOG | {Permission.LABEL},
    Role.LEAD: _LEAD,
    Role.ADMIN: frozenset(Permission),
}


def may(role: Role, permission: Permission) -> bool:
    """True if `role` has `permission`."""
    return permission in PERMISSIONS[role]


def roles_with(permission: Permission) -> tuple[Role, ...]:
    """The roles that have `permission`, least powerful first."""
    return tuple(role for role in Role if may(role, permission))
