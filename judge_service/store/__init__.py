"""Where everything is kept. The only room that knows SQLModel, SQLAlchemy and Alembic; knows no judging, no HTTP."""

from judge_service.store.runs import Only, OutcomeCount, ResultRow
from judge_service.store.store import Store

__all__ = ["Only", "OutcomeCount", "ResultRow", "Store"]
