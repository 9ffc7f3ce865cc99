"""Calibration sets: versions, their cases and labels, and what their splits were used for."""

import sqlalchemy as sa
from alembic import op
from sqlmodel.sql.sqltypes import AutoString

from judge_service.store.types import ExactText, JsonText, UtcDateTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sets",
        sa.Column("id", AutoString(), nullable=False),
        sa.Column("name", AutoString(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("rubric", AutoString(), nullable=True),
        sa.Column("status", AutoString(), nullable=False),
        sa.Column("content_hash", AutoString(), nullable=True),
        sa.Column("n_cases", sa.BigInteger(), nullable=False),
        sa.Column("n_labels", sa.BigInteger(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("frozen_at", UtcDateTime(), nullable=True),
        sa.Column("parent", AutoString(), nullable=True),
        sa.Column("note", ExactText(), nullable=False),
        sa.Column("release_demoted_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["parent"], ["sets.id"], name=op.f("fk_sets_parent_sets")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sets")),
        sa.UniqueConstraint("name", "version", name=op.f("uq_sets_name_version")),
    )
    op.create_table(
        "set_cases",
        sa.Column("set_id", AutoString(), nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("case_id", ExactText(), nullable=False),
        sa.Column("imported_hash", AutoString(), nullable=False),
        sa.Column("split", AutoString(), nullable=False),
        sa.Column("source_line", sa.BigInteger(), nullable=True),
        sa.Column("group", ExactText(), nullable=True),
        sa.Column("input", JsonText(), nullable=False),
        sa.Column("metadata", JsonText(), nullable=False),
        sa.ForeignKeyConstraint(["set_id"], ["sets.id"], name=op.f("fk_set_cases_set_id_sets"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("set_id", "position", name=op.f("pk_set_cases")),
        sa.UniqueConstraint("set_id", "case_id", name=op.f("uq_set_cases_set_id_case_id")),
    )
    op.create_table(
        "set_uses",
        sa.Column("id", AutoString(), nullable=False),
        sa.Column("set_id", AutoString(), nullable=False),
        sa.Column("split", AutoString(), nullable=False),
        sa.Column("purpose", AutoString(), nullable=False),
        sa.Column("judge_hash", AutoString(), nullable=True),
        sa.Column("judge", ExactText(), nullable=True),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("note", ExactText(), nullable=False),
        sa.ForeignKeyConstraint(["set_id"], ["sets.id"], name=op.f("fk_set_uses_set_id_sets"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_set_uses")),
    )
    with op.batch_alter_table("set_uses", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_set_uses_set_id"), ["set_id"], unique=False)

    op.create_table(
        "labels",
        sa.Column("id", AutoString(), nullable=False),
        sa.Column("set_id", AutoString(), nullable=False),
        sa.Column("case_id", ExactText(), nullable=False),
        sa.Column("rubric", ExactText(), nullable=False),
        sa.Column("annotator", ExactText(), nullable=False),
        sa.Column("condition", AutoString(), nullable=False),
        sa.Column("kind", AutoString(), nullable=False),
        sa.Column("adjudicated", sa.Boolean(), nullable=False),
        sa.Column("label", ExactText(), nullable=True),
        sa.Column("detail", JsonText(), nullable=False),
        sa.Column("order_shown", AutoString(), nullable=True),
        sa.Column("seconds", sa.Double(), nullable=True),
        sa.Column("note", ExactText(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["set_id", "case_id"],
            ["set_cases.set_id", "set_cases.case_id"],
            name=op.f("fk_labels_set_id_case_id_set_cases"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_labels")),
        sa.UniqueConstraint(
            "set_id", "case_id", "rubric", "annotator", "condition", "kind", "adjudicated", name="uq_labels_slot"
        ),
    )


def downgrade() -> None:
    op.drop_table("labels")
    with op.batch_alter_table("set_uses", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_set_uses_set_id"))

    op.drop_table("set_uses")
    op.drop_table("set_cases")
    op.drop_table("sets")
