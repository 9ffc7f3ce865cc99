"""People who sign in, invitations, sessions."""

import sqlalchemy as sa
from alembic import op
from sqlmodel.sql.sqltypes import AutoString

from judge_service.store.types import ExactText, UtcDateTime

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "users",
        sa.Column("id", AutoString(), nullable=False),
        sa.Column("name", ExactText(), nullable=False),
        sa.Column("name_key", ExactText(), nullable=False),
        sa.Column("role", AutoString(), nullable=False),
        sa.Column("password_hash", AutoString(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("disabled_at", UtcDateTime(), nullable=True),
        sa.Column("signed_in_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("name_key", name=op.f("uq_users_name_key")),
    )
    op.create_table(
        "invitations",
        sa.Column("id", AutoString(), nullable=False),
        sa.Column("digest", AutoString(), nullable=False),
        sa.Column("role", AutoString(), nullable=False),
        sa.Column("name", ExactText(), nullable=True),
        sa.Column("project", ExactText(), nullable=True),
        sa.Column("made_by", ExactText(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.Column("used_at", UtcDateTime(), nullable=True),
        sa.Column("used_by", AutoString(), nullable=True),
        sa.Column("revoked_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_invitations")),
        sa.UniqueConstraint("digest", name=op.f("uq_invitations_digest")),
    )
    op.create_table(
        "sessions",
        sa.Column("id", AutoString(), nullable=False),
        sa.Column("user_id", AutoString(), nullable=True),
        sa.Column("key_id", AutoString(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("seen_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_sessions_user_id_users"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["key_id"], ["api_keys.id"], name=op.f("fk_sessions_key_id_api_keys"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
    )
    for column in ("user_id", "key_id", "expires_at"):
        op.create_index(op.f(f"ix_sessions_{column}"), "sessions", [column])


def downgrade() -> None:
    op.drop_table("sessions")
    op.drop_table("invitations")
    op.drop_table("users")
