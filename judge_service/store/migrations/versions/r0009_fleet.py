"""Chunks of runs, and the limits of a provider that many processes share."""

import sqlalchemy as sa
from alembic import op
from sqlmodel.sql.sqltypes import AutoString

from judge_service.store.types import UtcDateTime

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "run_chunks",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("round", AutoString(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("retry_errors", sa.Boolean(), nullable=False),
        sa.Column("done_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_chunks_run_id_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "number", name=op.f("pk_run_chunks")),
    )
    op.create_table(
        "provider_gates",
        sa.Column("key", AutoString(), nullable=False),
        sa.Column("held_until", UtcDateTime(), nullable=True),
        sa.Column("next_start", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_provider_gates")),
    )
    op.create_table(
        "provider_shares",
        sa.Column("key", AutoString(), nullable=False),
        sa.Column("member", AutoString(), nullable=False),
        sa.Column("slots", sa.BigInteger(), nullable=False),
        sa.Column("joined_at", UtcDateTime(), nullable=False),
        sa.Column("beat_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("key", "member", name=op.f("pk_provider_shares")),
    )
    op.create_table(
        "provider_tokens",
        sa.Column("key", AutoString(), nullable=False),
        sa.Column("second", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", "second", name=op.f("pk_provider_tokens")),
    )


def downgrade() -> None:
    for name in ("provider_tokens", "provider_shares", "provider_gates", "run_chunks"):
        op.drop_table(name)
