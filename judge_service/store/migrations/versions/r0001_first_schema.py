"""The first schema: keys, judges, runs with their planned cases, judgments with their raw calls."""

import sqlalchemy as sa
from alembic import op
from sqlmodel.sql.sqltypes import AutoString

from judge_service.store.types import ExactText, JsonText, UtcDateTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", AutoString(), nullable=False),
        sa.Column("name", ExactText(), nullable=False),
        sa.Column("role", AutoString(), nullable=False),
        sa.Column("salt", AutoString(), nullable=False),
        sa.Column("digest", AutoString(), nullable=False),
        sa.Column("last_four", AutoString(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("last_used_at", UtcDateTime(), nullable=True),
        sa.Column("revoked_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
    )
    op.create_table(
        "call_cache",
        sa.Column("key", AutoString(), nullable=False),
        sa.Column("document", JsonText(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_call_cache")),
    )
    with op.batch_alter_table("call_cache", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_call_cache_created_at"), ["created_at"], unique=False)

    op.create_table(
        "facts",
        sa.Column("name", AutoString(), nullable=False),
        sa.Column("value", ExactText(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_facts")),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("scope", ExactText(), nullable=False),
        sa.Column("key", ExactText(), nullable=False),
        sa.Column("request_hash", AutoString(), nullable=False),
        sa.Column("object_id", ExactText(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "key", name=op.f("pk_idempotency_keys")),
    )
    with op.batch_alter_table("idempotency_keys", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_idempotency_keys_created_at"), ["created_at"], unique=False)

    op.create_table(
        "judges",
        sa.Column("name", AutoString(), nullable=False),
        sa.Column("content_hash", AutoString(), nullable=False),
        sa.Column("document", JsonText(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_judges")),
    )
    op.create_table(
        "runs",
        sa.Column("id", AutoString(), nullable=False),
        sa.Column("rubric", AutoString(), nullable=False),
        sa.Column("rubric_hash", AutoString(), nullable=False),
        sa.Column("judge", JsonText(), nullable=False),
        sa.Column("status", AutoString(), nullable=False),
        sa.Column("message", ExactText(), nullable=True),
        sa.Column("source", ExactText(), nullable=True),
        sa.Column("n_planned", sa.BigInteger(), nullable=False),
        sa.Column("planned", sa.Boolean(), nullable=False),
        sa.Column("worker", ExactText(), nullable=True),
        sa.Column("heartbeat_at", UtcDateTime(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("finished_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
    )
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_runs_created_at"), ["created_at"], unique=False)
        batch_op.create_index(batch_op.f("ix_runs_status"), ["status"], unique=False)

    op.create_table(
        "judgments",
        sa.Column("id", AutoString(), nullable=False),
        sa.Column("identity", AutoString(), nullable=False),
        sa.Column("superseded_at", UtcDateTime(), nullable=True),
        sa.Column("run_id", AutoString(), nullable=True),
        sa.Column("rubric", AutoString(), nullable=False),
        sa.Column("rubric_hash", AutoString(), nullable=False),
        sa.Column("judge", AutoString(), nullable=False),
        sa.Column("judge_hash", AutoString(), nullable=False),
        sa.Column("model", ExactText(), nullable=False),
        sa.Column("case_id", ExactText(), nullable=False),
        sa.Column("case_hash", AutoString(), nullable=False),
        sa.Column("group", ExactText(), nullable=True),
        sa.Column("metadata", JsonText(), nullable=False),
        sa.Column("outcome", AutoString(), nullable=False),
        sa.Column("reason", AutoString(), nullable=True),
        sa.Column("detail", ExactText(), nullable=True),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("label", ExactText(), nullable=True),
        sa.Column("confidence", JsonText(), nullable=True),
        sa.Column("votes", JsonText(), nullable=True),
        sa.Column("flags", JsonText(), nullable=False),
        sa.Column("record", JsonText(), nullable=True),
        sa.Column("enforcement", AutoString(), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=True),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cost_usd", sa.Double(), nullable=True),
        sa.Column("latency_ms", sa.Double(), nullable=False),
        sa.Column("trust", JsonText(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_judgments_run_id_runs"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_judgments")),
    )
    with op.batch_alter_table("judgments", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_judgments_identity"), ["identity"], unique=False)
        batch_op.create_index(batch_op.f("ix_judgments_run_id"), ["run_id"], unique=False)
        batch_op.create_index(
            "uq_judgments_current_identity",
            ["identity"],
            unique=True,
            sqlite_where=sa.text("superseded_at IS NULL"),
            postgresql_where=sa.text("superseded_at IS NULL"),
        )

    op.create_table(
        "run_cases",
        sa.Column("run_id", AutoString(), nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("identity", AutoString(), nullable=False),
        sa.Column("case", JsonText(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_cases_run_id_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "position", name=op.f("pk_run_cases")),
        sa.UniqueConstraint("run_id", "identity", name=op.f("uq_run_cases_run_id_identity")),
    )
    op.create_table(
        "calls",
        sa.Column("judgment_id", AutoString(), nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("step", ExactText(), nullable=False),
        sa.Column("order", AutoString(), nullable=True),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("judge", ExactText(), nullable=False),
        sa.Column("model", ExactText(), nullable=False),
        sa.Column("prompt_hash", AutoString(), nullable=False),
        sa.Column("raw", ExactText(), nullable=True),
        sa.Column("raw_cut", sa.Boolean(), nullable=False),
        sa.Column("finish_reason", ExactText(), nullable=True),
        sa.Column("enforcement", AutoString(), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=True),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cost_usd", sa.Double(), nullable=True),
        sa.Column("latency_ms", sa.Double(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("parameters_sent", JsonText(), nullable=False),
        sa.Column("parameters_dropped", JsonText(), nullable=False),
        sa.Column("engine", JsonText(), nullable=False),
        sa.Column("probabilities", JsonText(), nullable=True),
        sa.Column("label_mass", JsonText(), nullable=True),
        sa.Column("read_as", AutoString(), nullable=True),
        sa.Column("cached", sa.Boolean(), nullable=False),
        sa.Column("error", JsonText(), nullable=True),
        sa.ForeignKeyConstraint(
            ["judgment_id"], ["judgments.id"], name=op.f("fk_calls_judgment_id_judgments"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("judgment_id", "position", name=op.f("pk_calls")),
    )


def downgrade() -> None:
    op.drop_table("calls")
    op.drop_table("run_cases")
    with op.batch_alter_table("judgments", schema=None) as batch_op:
        batch_op.drop_index(
            "uq_judgments_current_identity",
            sqlite_where=sa.text("superseded_at IS NULL"),
            postgresql_where=sa.text("superseded_at IS NULL"),
        )
        batch_op.drop_index(batch_op.f("ix_judgments_run_id"))
        batch_op.drop_index(batch_op.f("ix_judgments_identity"))

    op.drop_table("judgments")
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_runs_status"))
        batch_op.drop_index(batch_op.f("ix_runs_created_at"))

    op.drop_table("runs")
    op.drop_table("judges")
    with op.batch_alter_table("idempotency_keys", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_idempotency_keys_created_at"))

    op.drop_table("idempotency_keys")
    op.drop_table("facts")
    with op.batch_alter_table("call_cache", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_call_cache_created_at"))

    op.drop_table("call_cache")
    op.drop_table("api_keys")
