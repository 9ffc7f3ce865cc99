"""Cases are known by what they say, not by how it is written: null and default fields make no other case."""

import sqlalchemy as sa
from alembic import op
from sqlmodel.sql.sqltypes import AutoString

from judge_service.store.contents import content_key
from judge_service.store.types import ExactText, JsonText, UtcDateTime

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

SETS = sa.table("sets", sa.column("id", AutoString()), sa.column("rubric", AutoString()))
CASES = sa.table(
    "set_cases",
    sa.column("set_id", ExactText()),
    sa.column("position", sa.BigInteger()),
    sa.column("input", JsonText()),
    sa.column("content_hash", AutoString()),
)
SPENT = sa.table(
    "spent_cases",
    sa.column("content_hash", AutoString()),
    sa.column("why", AutoString()),
    sa.column("set_id", AutoString()),
    sa.column("split", AutoString()),
    sa.column("at", UtcDateTime()),
)
BATCH = 1000


def upgrade() -> None:
    connection = op.get_bind()
    spent = {row["content_hash"]: dict(row) for row in connection.execute(sa.select(SPENT)).mappings()}
    known = {name: dict(row) for name, row in spent.items()}
    for set_id, rubric in connection.execute(sa.select(SETS.c.id, SETS.c.rubric)).all():
        after = -1
        page = sa.select(CASES).where(CASES.c.set_id == set_id).order_by(CASES.c.position).limit(BATCH)
        while rows := connection.execute(page.where(CASES.c.position > after)).all():
            values = []
            for row in rows:
                key = content_key(row.input, rubric)
                values.append({"which": set_id, "place": row.position, "value": key})
                if row.content_hash in spent:
                    here = spent[row.content_hash] | {"content_hash": key}
                    there = known.get(key)
                    known[key] = here if there is None or here["at"] < there["at"] else there
            place = (CASES.c.set_id == sa.bindparam("which")) & (CASES.c.position == sa.bindparam("place"))
            connection.execute(sa.update(CASES).where(place).values(content_hash=sa.bindparam("value")), values)
            after = rows[-1].position
    fresh = [row for name, row in known.items() if name not in spent]
    if fresh:
        connection.execute(sa.insert(SPENT), fresh)


def downgrade() -> None:
    # Hashes of the older form are made again by the revision that adds their column.
    pass
