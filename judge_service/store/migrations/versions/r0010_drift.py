"""Baselines of drift and the checks against them."""

import sqlalchemy as sa
from alembic import op
from sqlmodel.sql.sqltypes import AutoString

from judge_service.store.types import ExactText, JsonText, UtcDateTime

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "drift_records",
        sa.Column("id", AutoString(), nullable=False),
        sa.Column("set_id", AutoString(), nullable=False),
        sa.Column("judge", ExactText(), nullable=False),
        sa.Column("rubric", ExactText(), nullable=False),
        sa.Column("document", JsonText(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["set_id"], ["sets.id"], name=op.f("fk_drift_records_set_id_sets"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_drift_records")),
    )
    op.create_index(op.f("ix_drift_records_set_id"), "drift_records", ["set_id"])


def downgrade() -> None:
    op.drop_index(op.f("ix_drift_records_set_id"), table_name="drift_records")
    op.drop_table("drift_records")
