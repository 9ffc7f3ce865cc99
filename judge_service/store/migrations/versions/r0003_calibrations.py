"""Calibrations: what was measured about a judge on a frozen set, and its maps of confidences."""

import sqlalchemy as sa
from alembic import op
from sqlmodel.sql.sqltypes import AutoString

from judge_service.store.types import ExactText, JsonText, UtcDateTime

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "calibrations",
        sa.Column("id", AutoString(), nullable=False),
        sa.Column("rubric", AutoString(), nullable=False),
        sa.Column("rubric_hash", AutoString(), nullable=False),
        sa.Column("judge", ExactText(), nullable=False),
        sa.Column("judge_hash", AutoString(), nullable=False),
        sa.Column("set_id", AutoString(), nullable=False),
        sa.Column("summary", JsonText(), nullable=False),
        sa.Column("statistics", JsonText(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["set_id"], ["sets.id"], name=op.f("fk_calibrations_set_id_sets"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_calibrations")),
    )
    with op.batch_alter_table("calibrations", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_calibrations_created_at"), ["created_at"], unique=False)
        batch_op.create_index(batch_op.f("ix_calibrations_judge_hash"), ["judge_hash"], unique=False)
        batch_op.create_index(batch_op.f("ix_calibrations_set_id"), ["set_id"], unique=False)

    op.create_table(
        "confidence_maps",
        sa.Column("id", AutoString(), nullable=False),
        sa.Column("calibration_id", AutoString(), nullable=False),
        sa.Column("document", JsonText(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["calibration_id"],
            ["calibrations.id"],
            name=op.f("fk_confidence_maps_calibration_id_calibrations"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_confidence_maps")),
    )
    with op.batch_alter_table("confidence_maps", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_confidence_maps_calibration_id"), ["calibration_id"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("confidence_maps", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_confidence_maps_calibration_id"))

    op.drop_table("confidence_maps")
    with op.batch_alter_table("calibrations", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_calibrations_set_id"))
        batch_op.drop_index(batch_op.f("ix_calibrations_judge_hash"))
        batch_op.drop_index(batch_op.f("ix_calibrations_created_at"))

    op.drop_table("calibrations")
