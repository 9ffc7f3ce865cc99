"""Labelling projects, assignments with their history, adjudications; items and probabilities of labels."""

import sqlalchemy as sa
from alembic import op
from sqlmodel.sql.sqltypes import AutoString

from judge_service.store.types import ExactText, JsonText, UtcDateTime

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("labels", sa.Column("items", JsonText(), nullable=True))
    op.add_column("labels", sa.Column("probability", sa.Double(), nullable=True))
    op.create_index(op.f("ix_judgments_case_hash"), "judgments", ["case_hash"])
    op.create_table(
        "projects",
        sa.Column("id", AutoString(), nullable=False),
        sa.Column("name", ExactText(), nullable=False),
        sa.Column("set_id", AutoString(), nullable=False),
        sa.Column("rubric", ExactText(), nullable=False),
        sa.Column("rubric_hash", AutoString(), nullable=False),
        sa.Column("labels_wanted", sa.Integer(), nullable=False),
        sa.Column("overlap", sa.Double(), nullable=False),
        sa.Column("condition", AutoString(), nullable=False),
        sa.Column("splits", JsonText(), nullable=False),
        sa.Column("lease_minutes", sa.Double(), nullable=False),
        sa.Column("selection", AutoString(), nullable=False),
        sa.Column("due_at", UtcDateTime(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", ExactText(), nullable=False),
        sa.Column("closed_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["set_id"], ["sets.id"], name=op.f("fk_projects_set_id_sets")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_projects")),
    )
    op.create_index(op.f("ix_projects_set_id"), "projects", ["set_id"])
    op.create_table(
        "project_guidelines",
        _project("project_guidelines"),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("text", ExactText(), nullable=False),
        sa.Column("note", ExactText(), nullable=False),
        sa.Column("by", ExactText(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "version", name=op.f("pk_project_guidelines")),
    )
    op.create_table(
        "project_members",
        _project("project_members"),
        sa.Column("person", AutoString(), nullable=False),
        sa.Column("name", ExactText(), nullable=False),
        sa.Column("joined_at", UtcDateTime(), nullable=False),
        sa.Column("left_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("project_id", "person", name=op.f("pk_project_members")),
        sa.UniqueConstraint("project_id", "name", name=op.f("uq_project_members_project_id_name")),
    )
    op.create_table(
        "project_cases",
        _project("project_cases"),
        sa.Column("case_id", ExactText(), nullable=False),
        sa.Column("wanted", sa.Integer(), nullable=False),
        sa.Column("probability", sa.Double(), nullable=True),
        sa.Column("qualification", sa.Boolean(), nullable=False),
        sa.Column("input", JsonText(), nullable=True),
        sa.Column("answer", JsonText(), nullable=True),
        sa.PrimaryKeyConstraint("project_id", "case_id", name=op.f("pk_project_cases")),
    )
    op.create_table(
        "project_orders",
        _project("project_orders"),
        sa.Column("person", AutoString(), nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("case_id", ExactText(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "person", "position", name=op.f("pk_project_orders")),
    )
    op.create_table(
        "assignments",
        sa.Column("id", AutoString(), nullable=False),
        _project("assignments"),
        sa.Column("case_id", ExactText(), nullable=False),
        sa.Column("person", AutoString(), nullable=False),
        sa.Column("state", AutoString(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=True),
        sa.Column("order", AutoString(), nullable=True),
        sa.Column("offered_at", UtcDateTime(), nullable=False),
        sa.Column("leased_until", UtcDateTime(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("draft", JsonText(), nullable=True),
        sa.Column("draft_version", sa.Integer(), nullable=False),
        sa.Column("answer", JsonText(), nullable=True),
        sa.Column("note", ExactText(), nullable=True),
        sa.Column("seconds", sa.Double(), nullable=True),
        sa.Column("flag", ExactText(), nullable=True),
        sa.Column("skip_reason", ExactText(), nullable=True),
        sa.Column("changed_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assignments")),
        sa.UniqueConstraint("project_id", "case_id", "person", name=op.f("uq_assignments_project_id_case_id_person")),
        sa.UniqueConstraint("project_id", "case_id", "place", name=op.f("uq_assignments_project_id_case_id_place")),
    )
    op.create_index("ix_assignments_of_person", "assignments", ["project_id", "person", "state"])
    op.create_table(
        "label_events",
        sa.Column("assignment_id", AutoString(), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("action", AutoString(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("document", JsonText(), nullable=False),
        sa.ForeignKeyConstraint(
            ["assignment_id"],
            ["assignments.id"],
            name=op.f("fk_label_events_assignment_id_assignments"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("assignment_id", "number", name=op.f("pk_label_events")),
    )
    op.create_table(
        "adjudications",
        sa.Column("id", AutoString(), nullable=False),
        _project("adjudications"),
        sa.Column("case_id", ExactText(), nullable=False),
        sa.Column("by", AutoString(), nullable=False),
        sa.Column("name", ExactText(), nullable=False),
        sa.Column("label", ExactText(), nullable=True),
        sa.Column("answer", JsonText(), nullable=False),
        sa.Column("reason", ExactText(), nullable=False),
        sa.Column("seen", JsonText(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_adjudications")),
    )
    op.create_index(op.f("ix_adjudications_project_id"), "adjudications", ["project_id"])


def _project(table: str) -> sa.Column[str]:
    key = sa.ForeignKey("projects.id", name=op.f(f"fk_{table}_project_id_projects"), ondelete="CASCADE")
    return sa.Column("project_id", AutoString(), key, nullable=False)


def downgrade() -> None:
    for name in (
        "adjudications",
        "label_events",
        "assignments",
        "project_orders",
        "project_cases",
        "project_members",
        "project_guidelines",
        "projects",
    ):
        op.drop_table(name)
    op.drop_index(op.f("ix_judgments_case_hash"), "judgments")
    with op.batch_alter_table("labels") as batch:
        batch.drop_column("probability")
        batch.drop_column("items")
