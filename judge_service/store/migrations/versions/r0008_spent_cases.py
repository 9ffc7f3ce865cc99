"""Which cases are no test any more, by their content: through copies, new versions and other sets."""

import sqlalchemy as sa
from alembic import op
from sqlmodel.sql.sqltypes import AutoString

from judge_service.domain.canonical import content_hash
from judge_service.store.types import ExactText, JsonText, UtcDateTime

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

CASES = sa.table(
    "set_cases",
    sa.column("set_id", ExactText()),
    sa.column("position", sa.BigInteger()),
    sa.column("input", JsonText()),
    sa.column("content_hash", AutoString()),
)
BATCH = 1000


def upgrade() -> None:
    op.create_table(
        "spent_cases",
        sa.Column("content_hash", AutoString(), nullable=False),
        sa.Column("why", AutoString(), nullable=False),
        sa.Column("set_id", AutoString(), nullable=False),
        sa.Column("split", AutoString(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["set_id"], ["sets.id"], name=op.f("fk_spent_cases_set_id_sets"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("content_hash", name=op.f("pk_spent_cases")),
    )
    op.add_column("set_cases", sa.Column("content_hash", AutoString(), nullable=True))
    _hash_cases()
    with op.batch_alter_table("set_cases", schema=None) as batch_op:
        batch_op.alter_column("content_hash", existing_type=AutoString(), nullable=False)
        batch_op.create_index(batch_op.f("ix_set_cases_content_hash"), ["content_hash"], unique=False)
        batch_op.create_index("ix_set_cases_set_id_group", ["set_id", "group"], unique=False)
    # What was frozen in another split, or in a release split that was tuned with or looked at, is spent already.
    for why, condition, at in (
        ("other_split", "c.split <> 'release'", "s.frozen_at"),
        ("viewed", "c.split = 'release' AND s.release_demoted_at IS NOT NULL", "s.release_demoted_at"),
    ):
        op.execute(
            "INSERT INTO spent_cases (content_hash, why, set_id, split, at) "  # noqa: S608
            f"SELECT c.content_hash, '{why}', min(s.id), min(c.split), min({at}) "
            "FROM set_cases c JOIN sets s ON s.id = c.set_id "
            f"WHERE s.status = 'frozen' AND {condition} "
            "AND c.content_hash NOT IN (SELECT content_hash FROM spent_cases) GROUP BY c.content_hash"
        )


def _hash_cases() -> None:
    connection = op.get_bind()
    place = (CASES.c.set_id == sa.bindparam("which")) & (CASES.c.position == sa.bindparam("place"))
    fill = sa.update(CASES).where(place).values(content_hash=sa.bindparam("value"))
    page = sa.select(CASES.c.set_id, CASES.c.position, CASES.c.input).where(CASES.c.content_hash.is_(None))
    while rows := connection.execute(page.limit(BATCH)).all():
        values = [{"which": row.set_id, "place": row.position, "value": content_hash(row.input)} for row in rows]
        connection.execute(fill, values)


def downgrade() -> None:
    with op.batch_alter_table("set_cases", schema=None) as batch_op:
        batch_op.drop_index("ix_set_cases_set_id_group")
        batch_op.drop_index(batch_op.f("ix_set_cases_content_hash"))
        batch_op.drop_column("content_hash")
    op.drop_table("spent_cases")
