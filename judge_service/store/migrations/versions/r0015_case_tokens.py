"""What stands for a case of a project in addresses, found by an index."""

import hashlib

import sqlalchemy as sa
from alembic import op

from judge_service.store.types import ExactText

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

CASES = sa.table(
    "project_cases",
    sa.column("project_id", sa.String()),
    sa.column("case_id", ExactText()),
    sa.column("token", sa.String()),
)
CHUNK = 1000


def upgrade() -> None:
    op.add_column("project_cases", sa.Column("token", sa.String(), nullable=False, server_default=""))
    connection = op.get_bind()
    rows = connection.execute(sa.select(CASES.c.project_id, CASES.c.case_id)).all()
    one = (CASES.c.project_id == sa.bindparam("of")) & (CASES.c.case_id == sa.bindparam("case"))
    change = sa.update(CASES).where(one).values(token=sa.bindparam("said"))
    for first in range(0, len(rows), CHUNK):
        changes = [{"of": of, "case": case, "said": _token(of, case)} for of, case in rows[first : first + CHUNK]]
        connection.execute(change, changes)
    op.create_index("ix_project_cases_token", "project_cases", ["project_id", "token"])


def _token(project: str, case: str) -> str:
    # As it was computed before it was kept: addresses stay what they are.
    return hashlib.sha256(f"{project}\x1f{case}".encode("utf-8", "surrogatepass")).hexdigest()[:20]


def downgrade() -> None:
    op.drop_index("ix_project_cases_token", "project_cases")
    with op.batch_alter_table("project_cases") as batch:
        batch.drop_column("token")
