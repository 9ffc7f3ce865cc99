"""Runs revisions on the connection that `judge_service.store.migrate` opened and locked."""

from alembic import context

from judge_service.store.migrate import VERSION_TABLE
from judge_service.store.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,
    transactional_ddl=True,
    version_table=VERSION_TABLE,
)
with context.begin_transaction():
    context.run_migrations()
