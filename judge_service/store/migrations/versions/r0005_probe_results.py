"""Results of planted orders per judge."""

import sqlalchemy as sa
from alembic import op
from sqlmodel.sql.sqltypes import AutoString

from judge_service.store.types import ExactText, JsonText, UtcDateTime

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "probe_results",
        sa.Column("id", AutoString(), nullable=False),
        sa.Column("judge", ExactText(), nullable=False),
        sa.Column("judge_hash", AutoString(), nullable=False),
        sa.Column("document", JsonText(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_probe_results")),
    )
    op.create_index(op.f("ix_probe_results_judge_hash"), "probe_results", ["judge_hash"])


def downgrade() -> None:
    op.drop_index(op.f("ix_probe_results_judge_hash"), table_name="probe_results")
    op.drop_table("probe_results")
