"""Checks of drift that are under way, known to every process."""

import sqlalchemy as sa
from alembic import op
from sqlmodel.sql.sqltypes import AutoString

from judge_service.store.types import ExactText, JsonText, UtcDateTime

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "drift_tasks",
        sa.Column("id", AutoString(), nullable=False),
        sa.Column("set_id", AutoString(), nullable=False),
        sa.Column("judge", ExactText(), nullable=False),
        sa.Column("asked", JsonText(), nullable=False),
        sa.Column("state", AutoString(), nullable=False),
        sa.Column("message", ExactText(), nullable=True),
        sa.Column("record_id", AutoString(), nullable=True),
        sa.Column("worker", ExactText(), nullable=False),
        sa.Column("heartbeat_at", UtcDateTime(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["set_id"], ["sets.id"], name=op.f("fk_drift_tasks_set_id_sets"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["record_id"],
            ["drift_records.id"],
            name=op.f("fk_drift_tasks_record_id_drift_records"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_drift_tasks")),
    )
    op.create_index(
        "uq_drift_tasks_running",
        "drift_tasks",
        ["set_id", "judge"],
        unique=True,
        sqlite_where=sa.text("state = 'running'"),
        postgresql_where=sa.text("state = 'running'"),
    )


def downgrade() -> None:
    op.drop_index("uq_drift_tasks_running", table_name="drift_tasks")
    op.drop_table("drift_tasks")
