from collections.abc import Iterator

import pytest

from judge_service.store import Store

from .databases import database_url, no_tables_url, postgres

__all__ = ["database_url", "no_tables_url", "postgres", "store"]


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with Store.open(database_url) as opened:
        yield opened
