"""Counts of labelling, kept with each step; how many cases a project's draw chose from."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("projects", sa.Column("drawn_from", sa.Integer(), nullable=True))
    op.add_column("project_cases", sa.Column("saved", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("project_orders", sa.Column("offered", sa.Boolean(), nullable=False, server_default=sa.false()))
    for name in ("done", "skipped", "offered_open"):
        op.add_column("project_members", sa.Column(name, sa.Integer(), nullable=False, server_default="0"))
    op.create_index(
        "ix_project_cases_open",
        "project_cases",
        ["project_id", "qualification", "case_id"],
        sqlite_where=sa.text("saved < wanted"),
        postgresql_where=sa.text("saved < wanted"),
    )
    op.create_index("ix_project_orders_case", "project_orders", ["project_id", "case_id", "person"])
    op.create_index("ix_project_orders_offered", "project_orders", ["project_id", "person", "offered", "position"])
    op.create_index(
        "ix_assignments_leased",
        "assignments",
        ["project_id", "leased_until"],
        sqlite_where=sa.text("state = 'open' AND place IS NOT NULL"),
        postgresql_where=sa.text("state = 'open' AND place IS NOT NULL"),
    )
    op.create_index("ix_assignments_changed", "assignments", ["project_id", "person", "changed_at"])
    _count()


def _count() -> None:
    """What was done before, from the assignments themselves."""
    run = op.get_bind().execute
    run(
        sa.text(
            "UPDATE project_cases SET saved = (SELECT count(*) FROM assignments a WHERE a.project_id ="
            " project_cases.project_id AND a.case_id = project_cases.case_id AND a.state = 'saved')"
        )
    )
    run(
        sa.text(
            "UPDATE project_orders SET offered = true WHERE EXISTS (SELECT 1 FROM assignments a WHERE a.project_id ="
            " project_orders.project_id AND a.case_id = project_orders.case_id AND a.person = project_orders.person)"
        )
    )
    counted = {"done": "a.state = 'saved'", "skipped": "a.state = 'skipped'", "offered_open": "c.saved < c.wanted"}
    for name, which in counted.items():
        run(
            sa.text(
                f"UPDATE project_members SET {name} = (SELECT count(*) FROM assignments a JOIN project_cases c ON"  # noqa: S608
                " c.project_id = a.project_id AND c.case_id = a.case_id WHERE a.project_id ="
                " project_members.project_id AND a.person = project_members.person AND NOT c.qualification"
                f" AND {which})"
            )
        )


def downgrade() -> None:
    op.drop_index("ix_assignments_changed", "assignments")
    op.drop_index("ix_assignments_leased", "assignments")
    op.drop_index("ix_project_orders_offered", "project_orders")
    op.drop_index("ix_project_orders_case", "project_orders")
    op.drop_index("ix_project_cases_open", "project_cases")
    for table, names in (
        ("project_members", ("offered_open", "skipped", "done")),
        ("project_orders", ("offered",)),
        ("project_cases", ("saved",)),
        ("projects", ("drawn_from",)),
    ):
        with op.batch_alter_table(table) as batch:
            for name in names:
                batch.drop_column(name)
