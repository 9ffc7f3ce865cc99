"""Chunks name the failed judgments that they ask again, so that one that is taken over asks none of them twice."""

import json

import sqlalchemy as sa
from alembic import op

from judge_service.store.types import JsonText

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

FAILED = (
    "SELECT r.run_id, r.number, j.id FROM run_chunks r JOIN run_cases c ON c.run_id = r.run_id AND c.position BETWEEN"
    " r.first AND r.last JOIN judgments j ON j.identity = c.identity AND j.superseded_at IS NULL WHERE r.retry_errors"
    " AND r.done_at IS NULL AND j.outcome = 'judge_error' ORDER BY r.run_id, c.position"
)


def upgrade() -> None:
    op.add_column("run_chunks", sa.Column("retry", JsonText(), nullable=False, server_default="[]"))
    run = op.get_bind().execute
    failed: dict[tuple[str, int], list[str]] = {}
    for run_id, number, judgment_id in run(sa.text(FAILED)):
        failed.setdefault((run_id, number), []).append(judgment_id)
    for (run_id, number), ids in failed.items():
        statement = sa.text("UPDATE run_chunks SET retry = :retry WHERE run_id = :run AND number = :number")
        run(statement, {"retry": json.dumps(ids), "run": run_id, "number": number})
    with op.batch_alter_table("run_chunks") as batch:
        batch.drop_column("retry_errors")


def downgrade() -> None:
    op.add_column("run_chunks", sa.Column("retry_errors", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.execute("UPDATE run_chunks SET retry_errors = true WHERE retry <> '[]'")
    with op.batch_alter_table("run_chunks") as batch:
        batch.drop_column("retry")
