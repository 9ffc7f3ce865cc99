from tests.judge_service.store.databases import database_url, postgres

__all__ = ["database_url", "postgres"]
